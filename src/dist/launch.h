/* What a launcher left in the environment: for which nothing is opened. */
#ifndef IPULUA_DIST_LAUNCH_H
#define IPULUA_DIST_LAUNCH_H

typedef struct Launch {
  const char *launcher;       /* for messages; NULL: nobody launched this process */
  const char *library;        /* "openmpi", "mpich"; NULL: the launcher doesn't tell */
  int size, rank;             /* 1 and 0 without a launcher */
  int local_size, local_rank; /* on this host; local_size 0: not told */
} Launch;

Launch launch_read(void);
/* Threads that a process computes with where nobody says: the processors that it may use, shared
 * with the instances beside it. */
int launch_threads(void);
#endif
