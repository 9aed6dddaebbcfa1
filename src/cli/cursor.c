#include "cli/cursor.h"

#include <ctype.h>
#include <string.h>

bool cursor_is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The end of a long bracket that opens at i, "[[" or "[==["; i if none opens there, n if it
 * stays open. */
static size_t skip_long(const char *s, size_t i, size_t n) {
  size_t level = 0, j = i + 1;
  while (j < n && s[j] == '=') level++, j++;
  if (j >= n || s[j] != '[') return i;
  for (j++; j < n; j++) {
    if (s[j] != ']') continue;
    size_t k = j + 1;
    while (k < n && s[k] == '=') k++;
    if (k < n && s[k] == ']' && k - j - 1 == level) return k + 1;
  }
  return n;
}

static size_t skip_comment(Cursor *p, const char *s, size_t i, size_t n) {
  size_t end = i + 2 < n && s[i + 2] == '[' ? skip_long(s, i + 2, n) : i + 2;
  if (end == i + 2) {
    const char *newline = memchr(s + i, '\n', n - i);
    end = newline ? (size_t)(newline - s) : n;
  }
  p->comment = end == n;
  return end;
}

static size_t skip_string(Cursor *p, const char *s, size_t i, size_t n) {
  for (size_t j = i + 1; j < n; j++) {
    if (s[j] == '\\') j++;
    else if (s[j] == s[i] || s[j] == '\n') return j + 1;
  }
  p->string = true;
  p->start = i + 1;
  return n;
}

static void track_bracket(Cursor *p, char c, size_t i) {
  if (strchr("({[", c)) {
    if (p->depth < BRACKETS) p->open[p->depth] = i;
    p->depth++;
  } else if (strchr(")}]", c) && p->depth > 0) {
    p->depth--;
  }
}

Cursor cursor_find(const char *s, size_t n) {
  Cursor p = {0};
  for (size_t i = 0; i < n;) {
    size_t next = i + 1;
    if (s[i] == '"' || s[i] == '\'') {
      next = skip_string(&p, s, i, n);
    } else if (s[i] == '-' && i + 1 < n && s[i + 1] == '-') {
      next = skip_comment(&p, s, i, n);
    } else if (s[i] == '[' && skip_long(s, i, n) != i) {
      next = skip_long(s, i, n);
      p.comment = next == n;
    } else if (s[i]) {
      track_bracket(&p, s[i], i);
    }
    i = next;
  }
  return p;
}

size_t cursor_path_begin(const char *s, size_t end) {
  size_t i = end;
  for (;;) {
    size_t segment = i;
    if (i > 0 && s[i - 1] == ']') {
      size_t j = i - 1;
      while (j > 0 && isdigit((unsigned char)s[j - 1])) j--;
      if (j == i - 1 || j == 0 || s[j - 1] != '[') return end;
      i = j - 1;
      continue;
    }
    while (i > 0 && cursor_is_name(s[i - 1])) i--;
    if (i == segment) return end;
    if (i > 1 && (s[i - 1] == '.' || s[i - 1] == ':') && s[i - 2] != '.' && s[i - 2] != ':') i--;
    else return i;
  }
}

size_t cursor_callee_end(const Cursor *p, const char *s, size_t brace) {
  size_t i = brace;
  while (i > 0 && isspace((unsigned char)s[i - 1])) i--;
  if (i > 0 && (s[i - 1] == ',' || s[i - 1] == '(')) {
    if (p->depth < 2 || s[p->open[p->depth - 2]] != '(') return 0;
    i = p->open[p->depth - 2];
    while (i > 0 && isspace((unsigned char)s[i - 1])) i--;
  }
  return i;
}
