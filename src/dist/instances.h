/* The instances of one training: processes that run the same script. A meeting is a point where all
 * exchange something; instances come to the same meetings in the same order, and whoever comes to
 * another one is told. How values combine is the caller's: what moves here is bytes.
 *
 * Once an instance has failed, every meeting fails on all of them, with the same words. */
#ifndef IPULUA_DIST_INSTANCES_H
#define IPULUA_DIST_INSTANCES_H
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct Instances Instances;

/* What meetings at one point of a program have cost an instance. */
typedef struct MeetingTotals {
  int64_t bytes;          /* sent and received */
  double seconds, waited; /* in them; of these, without anything to do */
} MeetingTotals;

/* What an instance comes to. Meetings with another kind or detail don't meet. */
typedef struct Meeting {
  uint32_t kind, detail;
  MeetingTotals so_far; /* which the others are told */
  bool varying;         /* each instance may bring another number of bytes */
  /* What messages call it: "allreduce 'SUM' of float32[3] (train.lua:20)". */
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
  double seconds, waited; /* in meetings; of these, without anything to do */
} Statistics;

/* Opens a plug-in and joins the others. launcher: who started this process, for messages; rank and
 * size are what it said. One for the process, which never ends before instances_end. */
Status instances_begin(Error *e, const char *plugin, const char *launcher, int rank, int size,
                       Instances **out);
int instances_rank(const Instances *t);
int instances_count(const Instances *t);
const char *instances_library(const Instances *t);
const char *instances_host(const Instances *t, int instance);
Statistics instances_statistics(const Instances *t);
/* What another one said at the newest meeting that it had been cost by those before at that point;
 * of instances that a chain doesn't lead to it is what they said last. */
MeetingTotals instances_told(const Instances *t, int instance);

/* Whether the last meetings were told that somebody wants to stop: the same everywhere. */
bool instances_asked_to_stop(const Instances *t);
void instances_forget_stop(Instances *t);

/* What this instance computes has failed: all are told. e becomes what every meeting fails with. */
void instances_fail(Instances *t, Error *e);
/* What others have said meanwhile: fails when one of them has failed. Cheap enough for each
 * iteration. */
Status instances_look(Instances *t, Error *e);
/* The script has ended with a status, and words if it failed. Waits for the others, leaves the
 * library and gives the status that the process ends with. Words and output must have been written
 * before. */
int instances_end(Instances *t, int status, const char *words);
#endif
