/* The instances of one training: processes that run the same script. A meeting is a point where all
 * exchange bytes. Instances must come to the same meetings in the same order; a difference is an
 * error that names both. The caller combines the values.
 *
 * Once an instance has failed, every meeting fails on all of them, with the same words. */
#ifndef IPULUA_DIST_INSTANCES_H
#define IPULUA_DIST_INSTANCES_H
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct Instances Instances;

/* The cost to an instance of its meetings at one point of a program. */
typedef struct MeetingTotals {
  int64_t bytes;          /* sent and received */
  double seconds, waited; /* inside meetings; the idle part of it */
} MeetingTotals;

/* Identifies a meeting. Meetings of different kind or detail don't match. */
typedef struct Meeting {
  uint32_t kind, detail;
  MeetingTotals so_far; /* sent to the others */
  bool varying;         /* the number of bytes may differ between instances */
  /* Its name in messages: "allreduce 'SUM' of float32[3] (train.lua:20)". */
  void (*describe)(const void *context, char *text, size_t n);
  const void *context;
} Meeting;

/* A meeting of replicas that are spread over instances. */
typedef struct FarMeeting {
  Instances *instances;
  Meeting meeting;
} FarMeeting;

typedef struct Statistics {
  int64_t meetings, bytes_sent, bytes_received;
  double seconds, waited; /* inside meetings; the idle part of it */
} Statistics;

/* Opens a plug-in and joins the others. launcher names the program that started this process, for
 * messages. rank and size come from the launcher. There is one Instances for a process; it lives
 * until instances_end. */
Status instances_begin(Error *e, const char *plugin, const char *launcher, int rank, int size,
                       Instances **out);
int instances_rank(const Instances *t);
int instances_count(const Instances *t);
const char *instances_library(const Instances *t);
const char *instances_host(const Instances *t, int instance);
Statistics instances_statistics(const Instances *t);
/* The totals that another instance sent with its newest header, which cover the meetings before
 * that one. A chain carries headers between neighbours only, so totals of other instances may be
 * older. */
MeetingTotals instances_told(const Instances *t, int instance);

/* Whether an instance has asked to stop at one of the last meetings. All instances get the same
 * answer. */
bool instances_asked_to_stop(const Instances *t);
void instances_forget_stop(Instances *t);

/* Tells all instances that this one has failed. e becomes the error of every later meeting. */
void instances_fail(Instances *t, Error *e);
/* Reads the notices of other instances, and fails if one of them has failed. It is cheap enough to
 * be called in each iteration. */
Status instances_look(Instances *t, Error *e);
/* Ends the job for a script that has ended with a status, and with a message if it failed. It waits
 * for the others, closes the plug-in and returns the exit status of the process. All output must
 * have been written before. */
int instances_end(Instances *t, int status, const char *words);
#endif
