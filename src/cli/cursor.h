/* The context of the cursor in a chunk of Lua that ends at it, found from the text alone. */
#ifndef IPULUA_CLI_CURSOR_H
#define IPULUA_CLI_CURSOR_H
#include <stdbool.h>
#include <stddef.h>

enum { BRACKETS = 64 };

typedef struct Cursor {
  bool comment; /* in a comment or a long string */
  bool string;  /* in a quoted string, which begins at start */
  size_t start;
  size_t open[BRACKETS]; /* positions of the first BRACKETS open brackets */
  int depth;             /* how many are open */
} Cursor;

Cursor cursor_find(const char *s, size_t n);
bool cursor_is_name(char c); /* may it stand in a name? */
/* The begin of the expression like a.b[1]:c that ends at s[end). */
size_t cursor_path_begin(const char *s, size_t end);
/* The end of the function's name, if the table constructor at brace holds a function's options;
 * else 0. */
size_t cursor_callee_end(const Cursor *p, const char *s, size_t brace);
#endif
