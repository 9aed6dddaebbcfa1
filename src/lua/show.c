#include "lua/show.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lua/bind.h"
#include "lua/plain.h"

enum {
  LIST_LIMIT = 100,  /* entries of a table shown: positions … */
  FIELD_LIMIT = 60,  /* … and other keys */
  STRING_LIMIT = 60, /* bytes of a string, or of an object's text, inside a table … */
  TENSOR_LIMIT = 76, /* … or of a tensor's numbers: a short row fits on a line */
  INNER_LIMIT = 8,   /* positions of a list, or fields of a record, inside a table */
  INNER_DEPTH = 2,   /* levels of lists and tables inside a table */
};

/* A byte that is printed as it is: printable ASCII, or part of a UTF-8 character. */
static bool is_plain(unsigned char c) { return c >= 0x80 || (c >= ' ' && c < 0x7f); }

static void add_escaped(luaL_Buffer *b, unsigned char c) {
  static const char letters[] = "abtnvfr"; /* codes 7 to 13 */
  char code[8];
  if (c == '"' || c == '\\') snprintf(code, sizeof code, "\\%c", c);
  else if (c >= 7 && c <= 13) snprintf(code, sizeof code, "\\%c", letters[c - 7]);
  else snprintf(code, sizeof code, is_plain(c) ? "%c" : "\\x%02X", c);
  luaL_addstring(b, code);
}

/* The largest cut of at most limit bytes that splits no UTF-8 character. */
static size_t cut(const char *s, size_t n, size_t limit) {
  if (n <= limit) return n;
  for (n = limit; n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80;) n--;
  return n;
}

static void push_quoted(lua_State *L, int index) {
  size_t n;
  const char *s = lua_tolstring(L, index, &n);
  size_t shown = cut(s, n, STRING_LIMIT);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '"');
  for (size_t i = 0; i < shown; i++) add_escaped(&b, (unsigned char)s[i]);
  luaL_addstring(&b, shown < n ? "...\"" : "\"");
  luaL_pushresult(&b);
}

/* Pushes the result of the metafield __repr or __tostring. False, with nothing pushed, if there is
 * neither, and for plain tables. */
static bool push_own_text(lua_State *L, int index) {
  if (plain_is(L, index)) return false;
  if (luaL_callmeta(L, index, "__repr")) {
    if (lua_type(L, -1) == LUA_TSTRING) return true;
    lua_pop(L, 1);
  }
  if (luaL_getmetafield(L, index, "__tostring") == LUA_TNIL) return false;
  lua_pop(L, 1);
  luaL_tolstring(L, index, NULL);
  return true;
}

/* Replaces the text on top of the stack by the same text on one line: an indented line break
 * becomes one space. */
static void join_lines(lua_State *L) {
  luaL_Buffer b;
  int text = lua_gettop(L);
  const char *s = lua_tostring(L, text);
  luaL_buffinit(L, &b);
  while (*s) {
    size_t n = strcspn(s, "\n");
    luaL_addlstring(&b, s, n);
    s += n;
    if (!*s) break;
    luaL_addchar(&b, ' ');
    s += strspn(s, "\n ");
  }
  luaL_pushresult(&b);
  lua_replace(L, text);
  lua_settop(L, text);
}

/* Pushes the name that the metatable gives to the type; an empty string when it gives none. */
static void push_type_name(lua_State *L, int index) {
  if (!plain_is(L, index) && luaL_getmetafield(L, index, "__name") == LUA_TSTRING) {
    lua_pushstring(L, lua_tostring(L, -1));
    lua_remove(L, -2);
  } else {
    lua_pushliteral(L, "");
  }
}

static void push_inner(lua_State *L, int index, int depth);

/* The elements of a plain list inside a table: its first positions, on the same line. False, with
 * nothing pushed, for other tables, which are shown as "{...}", and below the last level. */
static bool push_inner_list(lua_State *L, int index, int depth) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, index), count = 0;
  if (!plain_is(L, index)) return false;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) count++;
  if (depth >= INNER_DEPTH || n == 0 || count != n) return false;
  lua_pushliteral(L, "{");
  for (lua_Integer i = 1; i <= n && i <= INNER_LIMIT; i++) {
    if (i > 1) lua_pushliteral(L, ", ");
    lua_rawgeti(L, index, i);
    push_inner(L, -1, depth + 1);
    lua_remove(L, -2);
    lua_concat(L, i > 1 ? 3 : 2);
  }
  if (n > INNER_LIMIT) lua_pushfstring(L, ", ... %I more}", (LUAI_UACINT)(n - INNER_LIMIT));
  else lua_pushliteral(L, "}");
  lua_concat(L, 2);
  return true;
}

static bool is_identifier(const char *s) {
  static const char first[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return *s && strchr(first, *s) &&
         strspn(s, "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == strlen(s);
}

/* "key = value", from key and value on top of the stack, which stay; depth: of the value. */
static void push_field(lua_State *L, int depth) {
  int key = lua_gettop(L) - 1;
  if (lua_type(L, key) == LUA_TSTRING && is_identifier(lua_tostring(L, key)) &&
      strlen(lua_tostring(L, key)) == lua_rawlen(L, key)) {
    lua_pushvalue(L, key);
  } else {
    push_inner(L, key, 0);
    lua_pushfstring(L, "[%s]", lua_tostring(L, -1));
    lua_remove(L, -2);
  }
  push_inner(L, key + 1, depth);
  lua_pushfstring(L, "%s = %s", lua_tostring(L, -2), lua_tostring(L, -1));
  lua_replace(L, key + 2);
  lua_settop(L, key + 2);
}

/* Sorts the list of strings on top of the stack. */
static void sort_texts(lua_State *L) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_pushvalue(L, -1); /* keeps the strings alive while the copy is filled */
  const char **texts = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *texts, 0);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -3, i);
    texts[i - 1] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  qsort(texts, (size_t)n, sizeof *texts, text_order);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_pushstring(L, texts[i - 1]);
    lua_rawseti(L, -2, i);
  }
  lua_replace(L, -4);
  lua_pop(L, 2);
}

/* Whether the table at index is a record: few fields, all with names, at least one. */
static bool is_small_record(lua_State *L, int index) {
  int count = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING && ++count <= INNER_LIMIT) continue;
    lua_pop(L, 2);
    return false;
  }
  return count > 0;
}

/* The same for a plain table of a few fields with names. */
static bool push_inner_record(lua_State *L, int index, int depth) {
  if (depth >= INNER_DEPTH || !plain_is(L, index) || !is_small_record(L, index)) return false;
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_Integer count = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_settop(L, list + 1)) {
    push_field(L, depth + 1);
    lua_rawseti(L, list, ++count);
  }
  sort_texts(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (lua_Integer i = 1; i <= count; i++) {
    luaL_addstring(&b, i > 1 ? ", " : "{");
    lua_rawgeti(L, list, i);
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, '}');
  luaL_pushresult(&b);
  lua_remove(L, list);
  return true;
}

/* The short form of a tensor or variable whose numbers do not fit: its type, and a variable's name.
 * False for other values. */
static bool push_tensor_type(lua_State *L, int index) {
  Type type;
  char text[TYPE_TEXT];
  LuaTensor *t = bind_test_tensor(L, index);
  if (t && !t->tensor) return false; /* symbolic: its text is a type */
  if (!t && !bind_test_variable(L, index)) return false;
  bind_type_at(L, index, &type);
  type_text(&type, text);
  if (t) lua_pushfstring(L, "tensor(%s)", text);
  else lua_pushfstring(L, "variable(%s, name='%s')", text, bind_test_variable(L, index)->name);
  return true;
}

/* Lua's text, but for a NaN: its sign bit means nothing, and tensors and progress bars don't
 * show it either. */
static void push_plain_text(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TNUMBER && isnan(lua_tonumber(L, index))) lua_pushliteral(L, "nan");
  else luaL_tolstring(L, index, NULL);
}

/* A value inside a table, on one line. depth: how many tables it is in, the outermost aside. */
static void push_inner(lua_State *L, int index, int depth) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 10, "too much to show");
  if (lua_type(L, index) == LUA_TSTRING) {
    push_quoted(L, index);
  } else if (push_own_text(L, index)) {
    join_lines(L);
    size_t n;
    const char *text = lua_tolstring(L, -1, &n);
    bool is_tensor = bind_test_tensor(L, index) || bind_test_variable(L, index);
    size_t shown = cut(text, n, is_tensor ? TENSOR_LIMIT : STRING_LIMIT);
    if (shown == n) return;
    if (push_tensor_type(L, index)) {
      lua_remove(L, -2);
      return;
    }
    lua_pushlstring(L, text, shown);
    lua_pushliteral(L, "...");
    lua_concat(L, 2);
    lua_remove(L, -2);
  } else if (lua_istable(L, index)) {
    if (push_inner_list(L, index, depth) || push_inner_record(L, index, depth)) return;
    lua_pushnil(L);
    bool empty = !lua_next(L, index);
    if (!empty) lua_pop(L, 2);
    push_type_name(L, index);
    lua_pushstring(L, empty ? "{}" : "{...}");
    lua_concat(L, 2);
  } else {
    push_plain_text(L, index);
  }
}

/* Pushes a list of the texts of positions 1 … n, shortened. */
static void push_positions(lua_State *L, int table, lua_Integer n) {
  lua_newtable(L);
  for (lua_Integer i = 1; i <= n && i <= LIST_LIMIT; i++) {
    lua_rawgeti(L, table, i);
    push_inner(L, -1, 0);
    lua_rawseti(L, -3, i);
    lua_pop(L, 1);
  }
  if (n <= LIST_LIMIT) return;
  lua_pushfstring(L, "... %I more", (LUAI_UACINT)(n - LIST_LIMIT));
  lua_rawseti(L, -2, LIST_LIMIT + 1);
}

/* Pushes a sorted list of "key = value" for all keys but positions 1 … n, shortened. */
static void push_fields(lua_State *L, int table, lua_Integer n) {
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_Integer count = 0, more = 0;
  for (lua_pushnil(L); lua_next(L, table); lua_settop(L, list + 1)) {
    bool position = lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= n;
    if (position) continue;
    if (count == 10 * FIELD_LIMIT) {
      more++;
      continue;
    }
    push_field(L, 0);
    lua_rawseti(L, list, ++count);
  }
  sort_texts(L);
  if (count <= FIELD_LIMIT && !more) return;
  for (lua_Integer i = FIELD_LIMIT + 1; i <= count; i++) {
    lua_pushnil(L);
    lua_rawseti(L, list, i);
  }
  lua_pushfstring(L, "... %I more", (LUAI_UACINT)(count - FIELD_LIMIT + more));
  lua_rawseti(L, list, FIELD_LIMIT + 1);
}

/* Characters, not bytes. */
static size_t text_width(const char *s) {
  size_t n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

static size_t list_width(lua_State *L, int list) {
  size_t width = 0;
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, list); i <= n; i++) {
    lua_rawgeti(L, list, i);
    width += text_width(lua_tostring(L, -1)) + 2;
    lua_pop(L, 1);
  }
  return width;
}

/* Adds the texts of a list, all on this line, or, if broken, on lines of their own. packed: a line
 * takes as many as fit into the room, in columns. first: nothing was added before. */
static bool add_texts(lua_State *L, luaL_Buffer *b, int list, size_t room, bool broken, bool packed,
                      bool first) {
  size_t column = room;
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, list); i <= n; i++) {
    lua_rawgeti(L, list, i);
    size_t width = text_width(lua_tostring(L, -1)) + 2;
    bool newline = broken && (!packed || column + width > room);
    lua_pop(L, 1); /* the list holds it */
    if (!first) luaL_addstring(b, newline ? "," : ", ");
    if (newline) luaL_addstring(b, "\n  ");
    column = newline ? 2 + width : column + width;
    lua_rawgeti(L, list, i);
    luaL_addvalue(b);
    first = false;
  }
  return first;
}

static void push_table(lua_State *L, int table, size_t room) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, table);
  push_type_name(L, table);
  push_positions(L, table, n);
  push_fields(L, table, n);
  int fields = lua_gettop(L), positions = fields - 1;
  bool broken = list_width(L, positions) + list_width(L, fields) > room;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  lua_pushvalue(L, positions - 1);
  luaL_addvalue(&b);
  luaL_addchar(&b, '{');
  bool first = add_texts(L, &b, positions, room, broken, true, true);
  add_texts(L, &b, fields, room, broken, false, first);
  luaL_addstring(&b, broken ? "\n}" : "}");
  luaL_pushresult(&b);
  lua_replace(L, positions - 1);
  lua_settop(L, positions - 1);
}

/* A module of the library is shown by its name. Its content is long, and partly loaded on
 * demand. */
static bool push_module(lua_State *L, int index) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strncmp(name, "ipulua.", 7) || !lua_rawequal(L, -1, index)) continue;
    lua_pushfstring(L, "<module %s; help shows its names>", name);
    lua_replace(L, -4);
    lua_pop(L, 2);
    return true;
  }
  lua_pop(L, 1);
  return false;
}

void show_push(lua_State *L, int index, int columns) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 20, "too much to show");
  if (push_own_text(L, index)) return;
  if (lua_istable(L, index) && push_module(L, index)) return;
  if (lua_istable(L, index)) push_table(L, index, (size_t)columns - 2);
  else push_plain_text(L, index);
}
