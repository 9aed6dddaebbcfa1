/* The ipulua command: the command line of the standard lua interpreter, with more long options, and
 * with the library ready to be required. main_protected has the order of events. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/bundle.h"
#include "cli/call.h"
#include "cli/info.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/prompt.h"
#include "dist/launch.h"
#include "lua/module.h"
#include "target/target.h"

enum { EXIT_USAGE = 2 };

static const char usage[] =
    "usage: %s [options] [script [args]]\n"
    "Available options are:\n"
    "  -e stat         execute string 'stat'\n"
    "  -i              enter the prompt after executing 'script'\n"
    "  -l mod          require library 'mod' into global 'mod'\n"
    "  -l g=mod        require library 'mod' into global 'g'\n"
    "  -v              show version information\n"
    "  -E              ignore environment variables\n"
    "  -W              turn warnings on\n"
    "  --              stop handling options\n"
    "  -               stop handling options and execute stdin\n"
    "  --threads N     compute with N threads at most\n"
    "  --seed N        set the global seed\n"
    "  --profile DIR   write a profile of every program into DIR\n"
    "  --estimate      price every program, execute none\n"
    "  --target NAME   the chip to price for: %s or a JSON file\n"
    "  --ipus N        the machine's IPUs: 16 unless given\n"
    "  --replicas N    replicas of all instances together\n"
    "  --ipus-per-replica N  IPUs of each replica\n"
    "  --instances N   with --estimate: how many instances to price\n"
    "  --help          show this text\n"
    "  --version       show the version\n"
    "Sub-command:\n"
    "  info            show version, features and CPU kernels (unless a file 'info' exists)\n";

#define FAILURE_KEY "ipulua.failure" /* in the registry: the words that the script ended with */

static void print_usage(FILE *f, const char *program) {
  char chips[TARGET_NAMES];
  fprintf(f, usage, program, target_names(chips, true));
}

static const char *program_name(char *const argv[]) {
  return argv[0] && argv[0][0] ? argv[0] : "ipulua";
}

static void print_version(void) {
  printf("%s\nipulua %s\n", LUA_COPYRIGHT, IPULUA_VERSION);
  fflush(stdout);
}

/* Print the message on top of the stack, if status says that there is one. */
static bool succeeded(lua_State *L, const CommandLine *line, int status) {
  if (status == LUA_OK) return true;
  const char *message = lua_tostring(L, -1);
  int instance = module_instance(L);
  if (!message) message = "(error message is not a string)";
  fflush(stdout);
  if (instance >= 0) fprintf(stderr, "[instance %d] ", instance);
  fprintf(stderr, "%s: %s\n", program_name(line->argv), message);
  fflush(stderr);
  lua_pushlstring(L, message, strcspn(message, "\n"));
  lua_setfield(L, LUA_REGISTRYINDEX, FAILURE_KEY);
  lua_pop(L, 1);
  return false;
}

static bool run_chunk(lua_State *L, const CommandLine *line, int loaded) {
  return succeeded(L, line, loaded == LUA_OK ? call_with(L, message_with_traceback, 0, 0) : loaded);
}

static bool run_string(lua_State *L, const CommandLine *line, const char *text, const char *name) {
  return run_chunk(L, line, luaL_loadbuffer(L, text, strlen(text), name));
}

/* "mod" or "g=mod"; without a name of its own the global is mod up to its version suffix, "-v2". */
static bool run_library(lua_State *L, const CommandLine *line, const char *argument) {
  const char *equals = strchr(argument, '=');
  const char *module = equals ? equals + 1 : argument;
  size_t length = equals ? (size_t)(equals - argument) : strcspn(argument, "-");
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  int status = call_with(L, message_with_traceback, 1, 1);
  if (status == LUA_OK) {
    lua_pushglobaltable(L);
    lua_pushlstring(L, argument, length);
    lua_pushvalue(L, -3);
    lua_settable(L, -3);
    lua_pop(L, 2);
  }
  return succeeded(L, line, status);
}

static bool run_environment(lua_State *L, const CommandLine *line) {
  static const char versioned[] = "=LUA_INIT_" LUA_VERSION_MAJOR "_" LUA_VERSION_MINOR;
  const char *name = versioned;
  const char *init = getenv(name + 1);
  if (!init) init = getenv((name = "=LUA_INIT") + 1);
  if (!init) return true;
  if (init[0] == '@') return run_chunk(L, line, luaL_loadfile(L, init + 1));
  return run_string(L, line, init, name);
}

/* -e, -l and -W, in the order given. */
static bool run_options(lua_State *L, const CommandLine *line) {
  for (int i = 1; i < line->script && i < line->argc; i += options_width(line->argv, i)) {
    const char *argument = line->argv[i];
    if (argument[1] == 'W') lua_warning(L, "@on", 0);
    if (argument[1] != 'e' && argument[1] != 'l') continue;
    const char *value = argument[2] ? argument + 2 : line->argv[i + 1];
    bool good = argument[1] == 'e' ? run_string(L, line, value, "=(command line)")
                                   : run_library(L, line, value);
    if (!good) return false;
  }
  return true;
}

/* arg: the script at 0, its arguments from 1, and the words before it at negative indices. */
static void create_arg(lua_State *L, const CommandLine *line) {
  int zero = line->script == line->argc ? 0 : line->script;
  lua_createtable(L, line->argc - zero, zero);
  for (int i = 0; i < line->argc; i++) {
    lua_pushstring(L, line->argv[i]);
    lua_rawseti(L, -2, i - zero);
  }
  lua_setglobal(L, "arg");
}

/* The script's arguments as "...": the current content of arg. */
static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) return luaL_error(L, "'arg' is not a table");
  int n = (int)luaL_len(L, -1);
  luaL_checkstack(L, n + 3, "too many arguments to script");
  for (int i = 1; i <= n; i++) lua_rawgeti(L, -i, i);
  lua_remove(L, -n - 1);
  return n;
}

static bool run_script(lua_State *L, const CommandLine *line) {
  const char *name = line->argv[line->script];
  if (!strcmp(name, "-") && strcmp(line->argv[line->script - 1], "--")) name = NULL;
  int status = luaL_loadfile(L, name);
  if (status == LUA_OK) {
    int n = push_arguments(L);
    status = call_with(L, message_with_traceback, n, LUA_MULTRET);
  }
  return succeeded(L, line, status);
}

static bool is_info(const CommandLine *line) {
  return line->script < line->argc && !strcmp(line->argv[line->script], "info") &&
         access("info", F_OK);
}

/* Several prompts can't share a keyboard. */
static bool refuse_prompt(const CommandLine *line) {
  fprintf(stderr, "%s: the prompt is for one process alone; several instances run a script\n",
          program_name(line->argv));
  return false;
}

static bool run_main(lua_State *L, const CommandLine *line) {
  bool has_script = line->script < line->argc;
  if (has_script && !run_script(L, line)) return false;
  bool silent = has_script || line->statement || (line->version && !line->interactive);
  if (line->interactive || (!silent && isatty(STDIN_FILENO))) {
    if (launch_read().size > 1) return refuse_prompt(line);
    if (!line->version) print_version();
    prompt_run(L);
  } else if (!silent) {
    return run_chunk(L, line, luaL_loadfile(L, NULL));
  }
  return true;
}

static void open_libraries(lua_State *L, const CommandLine *line) {
  if (line->no_environment) {
    lua_pushboolean(L, true);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  call_open_coroutines(L);
  if (!paths_add(L)) bundle_add(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_ipulua_core);
  lua_setfield(L, -2, "ipulua.core");
  lua_pushcfunction(L, prompt_open);
  lua_setfield(L, -2, "ipulua.prompt");
  lua_pop(L, 1);
  options_store(L, line);
  create_arg(L, line);
}

/* Everything between the creation and the end of the state; returns whether it went well. The
 * collector stays incremental: a full collection of the young for each step of tensor memory would
 * cost more than it finds. */
static int main_protected(lua_State *L) {
  const CommandLine *line = lua_touserdata(L, 1);
  luaL_checkversion(L);
  if (line->version) print_version();
  lua_gc(L, LUA_GCSTOP);
  open_libraries(L, line);
  lua_gc(L, LUA_GCRESTART);
  bool good = true;
  if (is_info(line)) info_print(L, !line->no_environment);
  else
    good = (line->no_environment || run_environment(L, line)) && run_options(L, line) &&
           run_main(L, line);
  lua_pushboolean(L, good);
  return 1;
}

/* All output must have been written before: after the others know that this instance has ended, its
 * launcher may kill it. */
static int end_instances(lua_State *L, int status) {
  fflush(stdout);
  fflush(stderr);
  lua_getfield(L, LUA_REGISTRYINDEX, FAILURE_KEY);
  status = module_finish(L, status, status ? lua_tostring(L, -1) : NULL);
  lua_pop(L, 1);
  return status;
}

/* A closed one of the descriptors 0 to 2 would be the next opened file's, and what is printed would
 * be written into that file. */
static void open_standard_files(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
}

static const char *exiting; /* the program's name */

/* Text that was not written, as on a full disk, is a failure even if the script succeeded. The
 * other open files are flushed, since _exit leaves them as they are. */
static void check_output(void) {
  errno = 0;
  int flushed = fflush(stdout), reason = errno;
  if (flushed == 0 && !ferror(stdout)) return;
  fprintf(stderr, "%s: cannot write standard output%s%s\n", exiting, reason ? ": " : "",
          reason ? strerror(reason) : "");
  fflush(NULL);
  _exit(EXIT_FAILURE);
}

static int run(const CommandLine *line) {
  lua_State *L = luaL_newstate();
  if (!L) {
    fprintf(stderr, "%s: cannot create state: not enough memory\n", program_name(line->argv));
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, main_protected);
  lua_pushlightuserdata(L, (void *)(uintptr_t)line);
  bool good = succeeded(L, line, lua_pcall(L, 1, 1, 0)) && lua_toboolean(L, -1);
  int status = end_instances(L, good ? EXIT_SUCCESS : EXIT_FAILURE);
  lua_close(L);
  return status;
}

int main(int argc, char **argv) {
  open_standard_files();
  exiting = program_name(argv);
  atexit(check_output);
  CommandLine line = options_parse(argc, argv);
  if (line.problem[0]) {
    fprintf(stderr, "%s: %s\n", program_name(argv), line.problem);
    print_usage(stderr, program_name(argv));
    return EXIT_USAGE;
  }
  if (line.action == SHOW_HELP) {
    print_usage(stdout, program_name(argv));
    return EXIT_SUCCESS;
  }
  if (line.action == SHOW_VERSION) {
    printf("ipulua %s (%s)\n", IPULUA_VERSION, LUA_RELEASE);
    return EXIT_SUCCESS;
  }
  return run(&line);
}
