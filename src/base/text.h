/* A growing text. If memory runs out, the text stays failed, so one check at the end is enough. */
#ifndef IPULUA_BASE_TEXT_H
#define IPULUA_BASE_TEXT_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct Text {
  char *data; /* used bytes and a final zero; NULL while empty */
  size_t used, capacity;
  bool failed;
} Text; /* = {0} to begin with */

void text_add(Text *t, const char *s);
void text_add_bytes(Text *t, const char *bytes, size_t count);
void text_fill(Text *t, char c, size_t count);
void text_print(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The bytes of the UTF-8 character that text begins with, 0 when it is none (RFC 3629: no
 * surrogates, no overlong forms). */
int text_utf8_length(const char *text);
/* Compares strings by their bytes, for qsort of a list of strings. */
int text_order(const void *a, const void *b);
/* A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD, as JSON has no other
 * text. */
void text_add_json(Text *t, const char *s);
/* Drop the spaces at the end, but nothing before byte from. */
void text_trim_end(Text *t, size_t from);
/* strtod with a decimal point in every locale. *end (end may be NULL) is the end of the number. */
double text_number(const char *s, char **end);
/* A number that printf wrote, with a point where the locale has another sign. */
void text_use_point(char *number);
char *text_take(Text *t); /* the caller frees it, and t is empty again; NULL after a failure */
void text_free(Text *t);
#endif
