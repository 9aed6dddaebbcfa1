#include "dist/launch.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Launchers and the variables that they set. The first one found counts. */
static const struct Launcher {
  const char *name, *library, *size, *rank, *local_size, *local_rank;
  int min; /* with fewer instances it is ignored */
} launchers[] = {
    {"Open MPI's mpirun", "openmpi", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", 1},
    {"MPICH's mpirun", "mpich", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", 1},
    {"srun", NULL, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "SLURM_LOCALID", 2},
};

static bool read_number(const char *name, int *out) {
  const char *text = name ? getenv(name) : NULL;
  char *end;
  if (!text || !*text) return false;
  long n = strtol(text, &end, 10);
  if (*end || n < 0 || n > 1 << 20) return false;
  *out = (int)n;
  return true;
}

Launch launch_read(void) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    Launch l = {.launcher = launchers[i].name, .library = launchers[i].library};
    if (!read_number(launchers[i].size, &l.size) || !read_number(launchers[i].rank, &l.rank))
      continue;
    if (l.size < launchers[i].min || l.rank >= l.size) continue;
    read_number(launchers[i].local_size, &l.local_size);
    read_number(launchers[i].local_rank, &l.local_rank);
    return l;
  }
  return (Launch){.size = 1};
}

int launch_threads(void) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  Launch l = launch_read();
  if (l.size <= 1 || processors <= 1) return processors > 1 ? (int)processors : 1;
  cpu_set_t set;
  int bound = !sched_getaffinity(0, sizeof set, &set) ? CPU_COUNT(&set) : (int)processors;
  if (bound < processors) return bound > 0 ? bound : 1;
  int share = (int)processors / (l.local_size > 0 ? l.local_size : 1);
  return share > 0 ? share : 1;
}
