#include "ops/library_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { LITERAL_INTS = 16 }; /* of a list */

static const char *skip_blanks(const char *s) { return s + strspn(s, " "); }

/* Behind an integer that int64 holds; NULL: there is none. */
static const char *behind_integer(const char *s) {
  char *end;
  errno = 0;
  strtoll(s, &end, 10);
  return end == s || errno ? NULL : skip_blanks(end);
}

static bool is_list(const char *s) {
  s = skip_blanks(s + 1);
  for (int n = 0; *s != '}'; n++) {
    s = n < LITERAL_INTS ? behind_integer(s) : NULL;
    if (!s || (*s != ',' && *s != '}')) return false;
    if (*s == ',') s = skip_blanks(s + 1);
  }
  return !s[1];
}

static bool is_dtype(const char *quoted, size_t size) {
  char name[16] = "";
  Dtype d;
  if (size >= sizeof name) return false;
  memcpy(name, quoted + 1, size - 2);
  return dtype_find(name, &d);
}

bool library_is_literal(AttrKind kind, const char *s) {
  size_t size = strlen(s);
  const char *end = behind_integer(s);
  char *behind;
  bool quoted = size >= 2 && (*s == '\'' || *s == '"') && s[size - 1] == *s;
  if (!strcmp(s, "nil")) return true;
  if (kind == ATTR_INT || (kind == ATTR_INTS && *s != '{')) return end && !*end;
  if (kind == ATTR_INTS) return is_list(s);
  if (kind == ATTR_BOOL) return !strcmp(s, "true") || !strcmp(s, "false");
  if (kind == ATTR_FLOAT) return text_number(s, &behind), behind != s && !*behind;
  return quoted && (kind == ATTR_STRING || (kind == ATTR_DTYPE && is_dtype(s, size)));
}

/* The end of a value: a comma or a brace outside of braces and quotes. */
static const char *value_end(const char *s) {
  int depth = 0;
  for (char quote = 0; *s && (depth > 0 || quote || (*s != ',' && *s != '}')); s++) {
    if (quote) quote = *s == quote ? 0 : quote;
    else if (*s == '\'' || *s == '"') quote = *s;
    else depth += (*s == '{') - (*s == '}');
  }
  return s;
}

static Status read_argument(Graph *g, const OpDef *op, const char *name, size_t length,
                            const char *value, size_t size, Attr *attrs) {
  int i = 0;
  while (i < op_attr_count(op) &&
         (strlen(op->attrs[i].name) != length || strncmp(op->attrs[i].name, name, length)))
    i++;
  if (i == op_attr_count(op))
    return fail(&g->error, ERR_VALUE, "%s has no argument '%.*s'", op->name, (int)length, name);
  AttrDef def = op->attrs[i];
  char *text = arena_copy(g->arena, value, size + 1);
  if (!text) return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory");
  text[size] = 0;
  if (!library_is_literal(def.kind, text))
    return fail(&g->error, ERR_VALUE, "%s: '%s' can't be %s", op->name, def.name, text);
  def.fallback = text;
  if (!attr_fallback(g->arena, &def, &attrs[i]))
    return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory");
  return OK;
}

Status library_read(Graph *g, const OpDef *op, const char *text, Attr *attrs) {
  const char *s = skip_blanks(text);
  bool good = *s == '{';
  if (!*s) return OK;
  for (s = skip_blanks(s + 1); good && *s && *s != '}';) {
    const char *name = s, *value = skip_blanks(s + strcspn(s, " =,{}"));
    good = *value == '=';
    if (!good) break;
    value = skip_blanks(value + 1);
    const char *end = value_end(value), *last = end;
    while (last > value && last[-1] == ' ') last--;
    if (read_argument(g, op, name, strcspn(name, " ="), value, (size_t)(last - value), attrs) != OK)
      return g->error.status;
    s = skip_blanks(*end == ',' ? end + 1 : end);
  }
  if (good && *s == '}' && !*skip_blanks(s + 1)) return OK;
  return fail(&g->error, ERR_VALUE, "%s: these are no arguments: %.100s", op->name, text);
}
