/* The long options, handed to the library through the registry.
 *
 * registry["ipulua.options"] is always a table in the command; absent in another host (stock
 * lua5.4). Fields are there only when the option was given, and win over the environment:
 *
 *   threads   integer >= 1      --threads N    bounds all that computes
 *   seed      integer >= 0      --seed N       the global seed
 *   profile   string            --profile DIR  write a profile of every program there
 *   estimate  true              --estimate     price everything, execute nothing
 *   target    string            --target NAME  the chip: one that target.h knows, or a .json file
 *   ipus      integer >= 1      --ipus N       how many IPUs the machine has
 *   replicas  integer >= 1      --replicas N   replicas of all instances together
 *   ipus-per-replica  integer >= 1  --ipus-per-replica N
 *   instances integer >= 1      --instances N  how many instances to price
 *   noenv     true              -E             ignore environment variables, IPULUA_* included */
#ifndef IPULUA_CLI_OPTIONS_H
#define IPULUA_CLI_OPTIONS_H
#include <stdbool.h>

#include <lua.h>

#define OPTIONS_KEY "ipulua.options"

typedef enum Action { RUN, SHOW_HELP, SHOW_VERSION } Action;

/* A parsed command line. argv[1 … script-1] are options, and argv[script] is the script. script is
 * argc if there is none. */
typedef struct CommandLine {
  int argc;
  char **argv;
  int script;
  Action action;
  bool interactive, version, statement, no_environment;
  char problem[480]; /* "" when the line is well formed */
} CommandLine;

CommandLine options_parse(int argc, char **argv);
/* The number of arguments that an option and its value take: 2 for "-e stat", 1 for "-estat" and
 * "--seed=1". */
int options_width(char *const argv[], int index);
/* Sets registry["ipulua.options"]. The line must be well formed. */
void options_store(lua_State *L, const CommandLine *line);
#endif
