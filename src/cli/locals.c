#include "cli/locals.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

/* The text after "[==[", and in *level the number of "="; NULL if s doesn't begin so. */
static const char *after_bracket(const char *s, size_t *level) {
  if (*s != '[') return NULL;
  *level = strspn(s + 1, "=");
  return s[1 + *level] == '[' ? s + *level + 2 : NULL;
}

/* The text after the comment that begins at s. */
static const char *skip_comment(const char *s) {
  size_t level;
  const char *at = after_bracket(s + 2, &level);
  if (!at) return s + strcspn(s, "\n");
  while ((at = strchr(at, ']'))) {
    size_t n = strspn(at + 1, "=");
    if (n == level && at[1 + n] == ']') return at + n + 2;
    at += 1 + n;
  }
  return s + strlen(s);
}

static const char *skip_space(const char *s) {
  for (;;) {
    s += strspn(s, " \t\r\n");
    if (strncmp(s, "--", 2) != 0) return s;
    s = skip_comment(s);
  }
}

static const char *skip_name(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_') return s;
  while (isalnum((unsigned char)*s) || *s == '_') s++;
  return s;
}

/* The end of a word that must stand at s; NULL if another does. */
static const char *after_word(const char *s, const char *word) {
  const char *end = skip_name(s);
  return (size_t)(end - s) == strlen(word) && !strncmp(s, word, strlen(word)) ? end : NULL;
}

/* Past an attribute such as <const> at *s; false: it is <close>. */
static bool skip_attribute(const char **s) {
  const char *at = skip_space(*s);
  if (*at != '<') return true;
  const char *name = skip_space(at + 1), *end = skip_space(skip_name(name));
  if (*end == '>') *s = end + 1;
  return after_word(name, "close") == NULL;
}

Locals locals_push(lua_State *L, int index) {
  const char *s = after_word(skip_space(lua_tostring(L, index)), "local");
  if (!s) return LOCALS_NONE;
  s = skip_space(s);
  if (after_word(s, "function")) return lua_pushstring(L, s), LOCALS_KEPT;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  Locals found = LOCALS_KEPT;
  for (bool more = true; more;) {
    const char *end = skip_name(s);
    if (end == s) found = LOCALS_NONE; /* not Lua: its error is reported unchanged */
    luaL_addlstring(&b, s, (size_t)(end - s));
    s = end;
    if (found == LOCALS_KEPT && !skip_attribute(&s)) found = LOCALS_CLOSE;
    const char *next = skip_space(s);
    more = *next == ',' && found == LOCALS_KEPT;
    if (!more) break;
    luaL_addstring(&b, ", ");
    s = skip_space(next + 1);
  }
  if (*skip_space(s) != '=') luaL_addstring(&b, " = nil");
  luaL_addstring(&b, s);
  luaL_pushresult(&b);
  if (found != LOCALS_KEPT) lua_pop(L, 1);
  return found;
}
