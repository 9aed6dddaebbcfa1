#include "cli/prompt.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/complete.h"
#include "cli/edit.h"
#include "cli/locals.h"
#include "lua/show.h"

static const char greeting[] =
    "help(x) or ?x explains x, ?? shows the last error's traceback, Ctrl-D leaves.\n";

static const char general_help[] =
    "Type an expression to see its value, a statement to run it; an incomplete one continues on the next "
    "line.\n"
    "  help(x), ?x    what x is\n"
    "  ??             the traceback of the last error\n"
    "  _ _1 _2        the last three results, newest first\n"
    "  Tab            completes globals, fields, methods, options and file names\n"
    "  local x = 1    stays for the next lines, so that scripts can be typed and pasted\n"
    "  Up, Ctrl-R     earlier lines\n"
    "  Ctrl-C         stops what runs; Ctrl-D on an empty line leaves\n"
    "The globals ipu and keras are loaded when first used.\n";

/* ---- globals that load themselves ---- */

/* __index of _G: upvalue 1 is the __index that was there before, or nil. */
static int index_global(lua_State *L) {
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  for (const LazyGlobal *lazy = lazy_globals; lazy->name; lazy++) {
    if (strcmp(lazy->name, name)) continue;
    lua_getglobal(L, "require");
    lua_pushstring(L, lazy->module);
    lua_call(L, 1, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  if (lua_isnil(L, -1)) return 1;
  bool callable = lua_isfunction(L, -1);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  if (callable) {
    lua_call(L, 2, 1);
  } else {
    lua_remove(L, -2);
    lua_gettable(L, -2);
  }
  return 1;
}

static void install_lazy_globals(lua_State *L) {
  lua_pushglobaltable(L);
  if (!lua_getmetatable(L, -1)) lua_newtable(L);
  lua_pushliteral(L, "__index");
  lua_pushliteral(L, "__index");
  lua_rawget(L, -3);
  lua_pushcclosure(L, index_global, 1);
  lua_rawset(L, -3);
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

/* ---- help ---- */

/* Describes a value without the library's help module. */
static void describe(lua_State *L, int index, const char *text) {
  const char *name = text ? text : "value";
  lua_Debug f;
  if (lua_isfunction(L, index) && !lua_iscfunction(L, index)) {
    lua_pushvalue(L, index);
    lua_getinfo(L, ">Su", &f);
    printf("%s: a function with %d parameter%s%s, %s:%d\n", name, f.nparams,
           f.nparams == 1 ? "" : "s", f.isvararg ? " or more" : "", f.short_src, f.linedefined);
  } else if (lua_isnil(L, index)) {
    printf("%s: nil; nothing by that name\n", name);
  } else {
    show_push(L, index, terminal_columns(STDOUT_FILENO));
    const char *shown = lua_tostring(L, -1);
    printf("%s: a %s%s%s\n", name, luaL_typename(L, index), strchr(shown, '\n') ? "\n" : ", ",
           shown);
    lua_pop(L, 1);
  }
}

/* help(value, text): require("ipulua.tools.help").show(value, text) where that exists and doesn't
 * return false; text is the expression as it was typed, or nil. */
static int help(lua_State *L) {
  lua_settop(L, lua_gettop(L) ? 2 : 0);
  if (!lua_gettop(L)) {
    fputs(general_help, stdout);
    return 0;
  }
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.tools.help");
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1) &&
      lua_getfield(L, -1, "show") == LUA_TFUNCTION) {
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    if (!lua_isboolean(L, -1) || lua_toboolean(L, -1)) return fflush(stdout), 0;
  }
  describe(L, 1, lua_tostring(L, 2));
  fflush(stdout);
  return 0;
}

static void install_help(lua_State *L) {
  lua_pushglobaltable(L);
  lua_pushliteral(L, "help");
  lua_rawget(L, -2);
  if (lua_isnil(L, -1)) {
    lua_pushcfunction(L, help);
    lua_setfield(L, -3, "help");
  }
  lua_pop(L, 2);
}

/* ---- messages and results ---- */

/* Prints and pops the message on top. */
static void print_error(lua_State *L) {
  bool colours = terminal_has_colours(STDERR_FILENO);
  const char *message = lua_tostring(L, -1);
  fflush(stdout);
  fprintf(stderr, colours ? "\033[31m%s\033[0m\n" : "%s\n",
          message ? message : "(error message is not a string)");
  fflush(stderr);
  lua_pop(L, 1);
}

/* Calls the function on top with its arguments; prints the message if it fails. */
static bool call(lua_State *L, int arguments, int results) {
  if (call_with(L, message_alone, arguments, results) == LUA_OK) return true;
  print_error(L);
  return false;
}

/* Pushes the text of the value at index. A function of the library is shown by its name:
 * require("ipulua.tools.help").title(f). */
static void push_shown(lua_State *L, int index) {
  int top = lua_gettop(L);
  if (lua_isfunction(L, index) &&
      lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE &&
      lua_getfield(L, -1, "ipulua") == LUA_TTABLE && lua_getglobal(L, "require") == LUA_TFUNCTION) {
    lua_pushliteral(L, "ipulua.tools.help");
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1) &&
        lua_getfield(L, -1, "title") == LUA_TFUNCTION) {
      lua_pushvalue(L, index);
      lua_call(L, 1, 1);
      if (lua_isstring(L, -1)) {
        lua_replace(L, top + 1);
        lua_settop(L, top + 1);
        return;
      }
    }
  }
  lua_settop(L, top);
  show_push(L, index, terminal_columns(STDOUT_FILENO));
}

/* Prints its arguments: side by side, or each on its own lines when one has several. */
static int print_values(lua_State *L) {
  int n = lua_gettop(L);
  bool lines = false;
  for (int i = 1; i <= n; i++) {
    push_shown(L, i);
    lua_replace(L, i);
    if (strchr(lua_tostring(L, i), '\n')) lines = true;
  }
  for (int i = 1; i <= n; i++) {
    size_t length;
    const char *text = lua_tolstring(L, i, &length);
    fwrite(text, 1, length, stdout);
    putchar(i == n || lines ? '\n' : '\t');
  }
  fflush(stdout);
  return 0;
}

/* Sets _ to the value at index, after moving _1 to _2 and _ to _1. */
static void remember_result(lua_State *L, int index) {
  static const char *const names[] = {"_2", "_1", "_"};
  index = lua_absindex(L, index);
  lua_pushglobaltable(L);
  for (int i = 0; i < 2; i++) {
    lua_pushstring(L, names[i]);
    lua_pushstring(L, names[i + 1]);
    lua_rawget(L, -3);
    lua_rawset(L, -3);
  }
  lua_pushliteral(L, "_");
  lua_pushvalue(L, index);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Runs the function on top and prints its results. */
static void evaluate(lua_State *L) {
  int base = lua_gettop(L);
  if (!call(L, 0, LUA_MULTRET)) return;
  int n = lua_gettop(L) - base + 1;
  if (n == 0) return;
  if (!lua_isnil(L, base)) remember_result(L, base);
  if (lua_checkstack(L, 10)) {
    lua_pushcfunction(L, print_values);
    lua_insert(L, base);
    call(L, n, 0);
  }
  lua_settop(L, base - 1);
}

/* ---- reading ---- */

/* registry[ENVIRONMENT_KEY]: the _ENV of lines, if it is not the global table. */
#define ENVIRONMENT_KEY "ipulua.prompt"

/* luaL_loadbufferx of a line. */
static int load_line(lua_State *L, const char *text, size_t length) {
  int status = luaL_loadbufferx(L, text, length, "=stdin", "t");
  if (status != LUA_OK) return status;
  if (lua_getfield(L, LUA_REGISTRYINDEX, ENVIRONMENT_KEY) != LUA_TTABLE) lua_pop(L, 1);
  else if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  return status;
}

/* Loads the chunk at index as an expression, else as statements. LUA_OK: pushes the function. An
 * error: pushes its message. An expression gets a variable to be closed, so that its call is no
 * tail call and its error has a line. *incomplete: more lines could make it right. */
static int load_chunk(lua_State *L, int index, bool *incomplete) {
  static const char end[] = "<eof>", expression[] = "local _prompt <close> = nil return ";
  size_t length;
  const char *text = lua_tolstring(L, index, &length);
  *incomplete = false;
  for (int attempt = 0;; attempt++) {
    lua_pushstring(L, attempt == 0 ? expression : "");
    lua_pushlstring(L, text, length);
    lua_concat(L, 2);
    size_t n, ending = sizeof end - 1;
    const char *chunk = lua_tolstring(L, -1, &n);
    int status = load_line(L, chunk, n);
    lua_remove(L, -2);
    if (status == LUA_OK) {
      *incomplete = false;
      return status;
    }
    const char *message = lua_tolstring(L, -1, &n);
    if (status == LUA_ERRSYNTAX && n >= ending && !strcmp(message + n - ending, end))
      *incomplete = true;
    if (attempt == 1) return status;
    lua_pop(L, 1);
  }
}

/* The prompt: the global _PROMPT or _PROMPT2 if there is one, as in lua. It stays on the stack. */
static const char *push_prompt(lua_State *L, bool first) {
  lua_pushglobaltable(L);
  lua_pushstring(L, first ? "_PROMPT" : "_PROMPT2");
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (!lua_tostring(L, -1)) {
    lua_pop(L, 1);
    lua_pushstring(L, first ? "> " : ">> ");
  }
  return lua_tostring(L, -1);
}

/* Reads one line; pushes it on READ_LINE. */
static Reading read_line(lua_State *L, Editor *e, const char *pending) {
  const char *prompt = push_prompt(L, !*pending);
  Reading reading = editor_read(e, prompt, pending);
  lua_remove(L, reading == READ_LINE ? -2 : -1);
  return reading;
}

static bool is_blank(const char *s) { return s[strspn(s, " \t\n\r")] == '\0'; }

/* ?x, ? and ??; text follows the first question mark. */
static void explain(lua_State *L, const char *text) {
  while (isspace((unsigned char)*text)) text++;
  if (*text == '?') {
    if (lua_getfield(L, LUA_REGISTRYINDEX, TRACEBACK_KEY) != LUA_TSTRING) {
      lua_pop(L, 1);
      lua_pushliteral(L, "no error so far");
    }
    print_error(L);
    return;
  }
  lua_pushcfunction(L, help);
  if (is_blank(text)) {
    call(L, 0, 0);
    return;
  }
  /* object:method is a name, too */
  const char *colon = strrchr(text, ':');
  bool method =
      colon && (isalpha((unsigned char)colon[1]) || colon[1] == '_') && !strpbrk(colon, "({\"'[");
  if (method)
    lua_pushfstring(L, "return %s.%s", lua_pushlstring(L, text, (size_t)(colon - text)), colon + 1),
        lua_remove(L, -2);
  else lua_pushfstring(L, "return %s", text);
  int status = load_line(L, lua_tostring(L, -1), lua_rawlen(L, -1));
  /* run it: its error may name the value that was meant */
  if (status == LUA_OK && call_with(L, message_alone, 0, 1) != LUA_OK) {
    print_error(L);
    lua_pop(L, 1);
    return;
  }
  if (status != LUA_OK) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
  lua_remove(L, -2);
  lua_pushstring(L, text);
  call(L, 2, 0);
}

/* Appends a line to the text on top of the stack; READ_LINE if there was one. */
static Reading append_line(lua_State *L, Editor *e) {
  lua_pushliteral(L, "\n");
  lua_concat(L, 2);
  Reading reading = read_line(L, e, lua_tostring(L, -1));
  if (reading == READ_LINE) lua_concat(L, 2);
  return reading;
}

/* Replaces the function on top, of the chunk at index, by one whose leading locals stay for the
 * next lines. */
static void keep_locals(lua_State *L, int index) {
  static const char hint[] =
      "what is <close> ends with its line here; put all that is meant between do and end\n";
  bool incomplete;
  Locals locals = locals_push(L, index);
  if (locals == LOCALS_CLOSE) fputs(hint, stderr);
  if (locals != LOCALS_KEPT) return;
  if (load_chunk(L, lua_gettop(L), &incomplete) == LUA_OK) {
    lua_replace(L, -3);
    lua_pop(L, 1);
  } else {
    lua_pop(L, 2);
  }
}

/* Runs the chunk whose first line is on top of the stack; reads more lines while it is incomplete.
 * If the input ends before that, the error of the incomplete chunk is reported. */
static Reading run_chunk(lua_State *L, Editor *e) {
  int text = lua_gettop(L);
  bool incomplete;
  Reading reading = READ_LINE;
  if (lua_tostring(L, text)[0] == '=') { /* as in lua, an old form of asking for a value */
    lua_pushfstring(L, "return %s", lua_tostring(L, text) + 1);
    lua_replace(L, text);
  }
  int status = load_chunk(L, text, &incomplete);
  while (incomplete && reading == READ_LINE) {
    lua_settop(L, text);
    reading = append_line(L, e);
    if (reading == READ_INTERRUPTED) return reading;
    status = load_chunk(L, text, &incomplete);
  }
  if (!is_blank(lua_tostring(L, text))) editor_remember(e, lua_tostring(L, text));
  if (status == LUA_OK) {
    keep_locals(L, text);
    evaluate(L);
  } else {
    print_error(L);
  }
  return reading;
}

/* The commands of other prompts: help, quit and exit, unless a script has defined them. */
static bool answer_habit(lua_State *L, const char *line) {
  char word[8];
  int end = 0;
  if (sscanf(line, " %7[a-z] %n", word, &end) != 1) return false;
  bool leaving = !strcmp(word, "quit") || !strcmp(word, "exit");
  if (leaving && !strncmp(line + end, "()", 2)) end += 2;
  if (!is_blank(line + end)) return false;
  lua_pushglobaltable(L);
  lua_pushstring(L, word);
  lua_rawget(L, -2);
  const char *answer = NULL;
  if (lua_tocfunction(L, -1) == help) answer = general_help;
  if (leaving && lua_isnil(L, -1)) answer = "Ctrl-D leaves, and so does os.exit().\n";
  lua_pop(L, 2);
  if (answer) fputs(answer, stdout), fflush(stdout);
  return answer != NULL;
}

static Reading read_and_run(lua_State *L, Editor *e) {
  int base = lua_gettop(L);
  Reading reading = read_line(L, e, "");
  if (reading != READ_LINE) return reading;
  if (lua_tostring(L, -1)[0] == '?') {
    editor_remember(e, lua_tostring(L, -1));
    explain(L, lua_tostring(L, -1) + 1);
  } else if (answer_habit(L, lua_tostring(L, -1))) {
    editor_remember(e, lua_tostring(L, -1));
  } else {
    reading = run_chunk(L, e);
  }
  lua_settop(L, base);
  return reading;
}

static void read_all(lua_State *L, bool greets) {
  int base = lua_gettop(L);
  Editor *e = editor_push(L);
  install_help(L);
  if (greets && isatty(STDIN_FILENO)) fputs(greeting, stdout);
  while (read_and_run(L, e) != READ_END) continue;
  if (!isatty(STDIN_FILENO)) putchar('\n');
  fflush(stdout);
  lua_settop(L, base);
}

void prompt_run(lua_State *L) {
  install_lazy_globals(L);
  read_all(L, true);
}

static int run_inside(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_getfield(L, LUA_REGISTRYINDEX, ENVIRONMENT_KEY);
  lua_pushvalue(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, ENVIRONMENT_KEY);
  read_all(L, false);
  if (isatty(STDIN_FILENO)) putchar('\n'), fflush(stdout);
  lua_setfield(L, LUA_REGISTRYINDEX, ENVIRONMENT_KEY);
  return 0;
}

int prompt_open(lua_State *L) {
  lua_pushcfunction(L, run_inside);
  return 1;
}
