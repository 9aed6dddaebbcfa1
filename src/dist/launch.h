/* The launcher's variables in the environment. Reading them opens no library. */
#ifndef IPULUA_DIST_LAUNCH_H
#define IPULUA_DIST_LAUNCH_H

typedef struct Launch {
  const char *launcher;       /* for messages; NULL: the process was not launched */
  const char *library;        /* "openmpi", "mpich"; NULL: the launcher doesn't name it */
  int size, rank;             /* 1 and 0 without a launcher */
  int local_size, local_rank; /* on this host; local_size 0: unknown */
} Launch;

Launch launch_read(void);
/* The default number of threads: the processors that this process may use, divided among the
 * instances of its host. */
int launch_threads(void);
#endif
