/* Interactive input of lines. libedit is used on a terminal if it was compiled in, otherwise plain
 * reading. The history is kept in $XDG_STATE_HOME/ipulua/history. */
#ifndef IPULUA_CLI_EDIT_H
#define IPULUA_CLI_EDIT_H
#include <lua.h>
#include <stdbool.h>

typedef struct Editor Editor;
typedef enum Reading { READ_LINE, READ_END, READ_INTERRUPTED } Reading;

/* Pushes a userdata that owns the editor and closes it when collected. May raise. */
Editor *editor_push(lua_State *L);
/* Reads one line, without its newline, and pushes it when the result is READ_LINE. pending is the
 * text before it in the same chunk ("" at its start), for completion. May raise when out of
 * memory. */
Reading editor_read(Editor *e, const char *prompt, const char *pending);
/* Adds a chunk, of one or several lines, to the history. */
void editor_remember(Editor *e, const char *chunk);
/* The name of the library that edits lines: "libedit" or "none". A missing library's package is named
 * after "none; ". */
const char *editor_library(void);
/* The width of the terminal's window; 80 if descriptor is no terminal. */
int terminal_columns(int descriptor);
/* Whether to use colours: descriptor is a terminal, and NO_COLOR and TERM allow it. */
bool terminal_has_colours(int descriptor);
#endif
