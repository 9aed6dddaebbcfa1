#include "cli/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arith.h"
#include "target/target.h"

/* The kind of value that a long option takes. */
typedef enum Kind { FLAG, COUNT, IPUS, NATURAL, FOLDER, CHIP, HELP, VERSION } Kind;

static const struct LongOption {
  const char *name;
  Kind kind;
} long_options[] = {
    {"threads", COUNT},   {"seed", NATURAL}, {"profile", FOLDER},  {"estimate", FLAG},
    {"target", CHIP},     {"ipus", IPUS},    {"replicas", COUNT},  {"ipus-per-replica", COUNT},
    {"instances", COUNT}, {"help", HELP},    {"version", VERSION},
};
typedef struct LongOption LongOption;

/* One million threads is a typing mistake; the largest system has 1024 IPUs. */
enum { COUNT_LIMIT = 1000000, MAX_IPUS = 1024 };

static const LongOption *find_option(const char *argument) {
  const char *name = argument + 2;
  size_t length = strcspn(name, "=");
  for (size_t i = 0; i < sizeof long_options / sizeof *long_options; i++)
    if (strlen(long_options[i].name) == length && !strncmp(long_options[i].name, name, length))
      return &long_options[i];
  return NULL;
}

/* The option that an unknown word begins, or is the beginning of; NULL when there is none. */
static const char *similar_option(const char *argument) {
  const char *name = argument + 2;
  size_t length = strcspn(name, "=");
  for (size_t i = 0; length >= 3 && i < sizeof long_options / sizeof *long_options; i++) {
    size_t known = strlen(long_options[i].name);
    if (!strncmp(long_options[i].name, name, size_min(length, known))) return long_options[i].name;
  }
  return NULL;
}

static bool takes_value(Kind kind) { return kind != FLAG && kind != HELP && kind != VERSION; }

static bool is_long(const char *argument) {
  return argument[0] == '-' && argument[1] == '-' && argument[2];
}

int options_width(char *const argv[], int index) {
  const char *a = argv[index];
  if (is_long(a)) {
    const LongOption *option = find_option(a);
    return option && takes_value(option->kind) && !strchr(a, '=') ? 2 : 1;
  }
  return (a[1] == 'e' || a[1] == 'l') && a[2] == '\0' ? 2 : 1;
}

/* The value of a long option; NULL when there is none. */
static const char *option_value(char *const argv[], int index) {
  const char *equals = strchr(argv[index], '=');
  return equals ? equals + 1 : argv[index + 1];
}

static bool read_integer(const char *text, long long minimum, long long maximum, long long *value) {
  char *end;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return end != text && !*end && !errno && *value >= minimum && *value <= maximum &&
         strspn(text, "0123456789") == strlen(text);
}

/* Used for a folder's value, too: a file in its place is a script, and the value is missing. */
static bool is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

static bool is_chip(const char *value) {
  size_t n = strlen(value);
  return target_find(value) || (n > 5 && !strcmp(value + n - 5, ".json") && is_file(value));
}

static bool read_option(const LongOption *option, const char *value, long long *number) {
  if (option->kind == COUNT) return read_integer(value, 1, COUNT_LIMIT, number);
  if (option->kind == IPUS)
    return read_integer(value, 1, MAX_IPUS, number) && !(*number & (*number - 1));
  if (option->kind == FOLDER) return *value && !is_file(value);
  if (option->kind == NATURAL) return read_integer(value, 0, LLONG_MAX, number);
  if (option->kind == CHIP) return is_chip(value);
  return *value != '\0';
}

static void check_long(CommandLine *line, int index) {
  const char *argument = line->argv[index];
  const LongOption *option = find_option(argument);
  size_t size = sizeof line->problem;
  if (!option) {
    const char *similar = similar_option(argument);
    snprintf(line->problem, size, "unrecognized option '%.80s'%s%s%s", argument,
             similar ? "; did you mean '--" : "", similar ? similar : "", similar ? "'?" : "");
  } else if (!takes_value(option->kind)) {
    if (strchr(argument, '=')) snprintf(line->problem, size, "'--%s' takes no value", option->name);
    if (option->kind == HELP) line->action = SHOW_HELP;
    if (option->kind == VERSION && line->action == RUN) line->action = SHOW_VERSION;
  } else {
    const char *value = option_value(line->argv, index);
    long long number;
    if (!value) {
      snprintf(line->problem, size, "'--%s' needs a value", option->name);
    } else if (!read_option(option, value, &number)) {
      char names[TARGET_NAMES], chips[TARGET_NAMES + 64];
      snprintf(chips, sizeof chips, "one of %s, or a .json file that there is",
               target_names(names, true));
      const char *wanted = option->kind == COUNT  ? "an integer of at least 1"
                           : option->kind == IPUS ? "a power of two of at least 1 and at most 1024"
                           : option->kind == NATURAL ? "an integer of at least 0"
                           : option->kind == CHIP    ? chips
                           : *value ? "the name of a folder, and there is a file of that name"
                                    : "the name of a folder";
      snprintf(line->problem, size, "'--%s' needs %s, got '%.60s'", option->name, wanted, value);
    }
  }
}

static void check_short(CommandLine *line, int index) {
  const char *argument = line->argv[index];
  switch (argument[1]) {
    case 'e':
    case 'l':
      if (argument[1] == 'e') line->statement = true;
      if (!argument[2] && (!line->argv[index + 1] || line->argv[index + 1][0] == '-'))
        snprintf(line->problem, sizeof line->problem, "'%s' needs argument", argument);
      return;
    case 'i':
      line->interactive = line->version = true;
      break;
    case 'v':
      line->version = true;
      break;
    case 'E':
      line->no_environment = true;
      break;
    case 'W':
      break; /* acted on in its turn, between the -e and -l */
    default:
      snprintf(line->problem, sizeof line->problem, "unrecognized option '%.80s'", argument);
      return;
  }
  if (argument[2])
    snprintf(line->problem, sizeof line->problem, "unrecognized option '%.80s'", argument);
}

CommandLine options_parse(int argc, char **argv) {
  CommandLine line = {.argc = argc, .argv = argv, .script = argc};
  for (int i = 1; i < argc && !line.problem[0]; i += options_width(argv, i)) {
    const char *argument = argv[i];
    if (argument[0] != '-' || argument[1] == '\0') { /* a script, or "-" for standard input */
      line.script = i;
      return line;
    }
    if (!strcmp(argument, "--")) {
      line.script = i + 1;
      return line;
    }
    if (is_long(argument)) check_long(&line, i);
    else check_short(&line, i);
  }
  return line;
}

static void store_option(lua_State *L, const CommandLine *line, int index) {
  const LongOption *option = find_option(line->argv[index]);
  const char *value = option_value(line->argv, index);
  long long number = 0;
  if (option->kind == HELP || option->kind == VERSION) return;
  if (option->kind == FLAG) lua_pushboolean(L, true);
  else if (option->kind == FOLDER || option->kind == CHIP) lua_pushstring(L, value);
  else if (read_option(option, value, &number)) lua_pushinteger(L, (lua_Integer)number);
  lua_setfield(L, -2, option->name);
}

void options_store(lua_State *L, const CommandLine *line) {
  lua_newtable(L);
  for (int i = 1; i < line->script; i += options_width(line->argv, i))
    if (is_long(line->argv[i])) store_option(L, line, i);
  if (line->no_environment) {
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "noenv");
  }
  lua_setfield(L, LUA_REGISTRYINDEX, OPTIONS_KEY);
}
