/* Reading lines from a person: libedit on a terminal when it was compiled in, plain reading
 * otherwise. The history outlives the process, in $XDG_STATE_HOME/ipulua/history. */
#ifndef IPULUA_CLI_EDIT_H
#define IPULUA_CLI_EDIT_H
#include <lua.h>
#include <stdbool.h>

typedef struct Editor Editor;
typedef enum Reading { READ_LINE, READ_END, READ_INTERRUPTED } Reading;

/* Pushes a userdata that owns the editor and closes it when collected. May raise. */
Editor *editor_push(lua_State *L);
/* Reads one line, without its newline, and pushes it when the result is READ_LINE. pending is
 * what came before in the same chunk ("" at its start), for completion. May raise when out of
 * memory. */
Reading editor_read(Editor *e, const char *prompt, const char *pending);
/* Adds a chunk, of one or several lines, to the history. */
void editor_remember(Editor *e, const char *chunk);
/* What edits lines: "libedit"; "none"; "none; …", which names the package that brings it. */
const char *editor_library(void);
/* The width of the terminal's window; 80 where it is none. */
int terminal_columns(int descriptor);
/* Whether people want colours on this terminal: it is one, and NO_COLOR and TERM don't object. */
bool terminal_has_colours(int descriptor);
#endif
