/* Replicas of a program: instances of one graph, each with memory of its own. Lowering is
 * deterministic, so step i of one corresponds to step i of every other; phases say which steps
 * each replica runs by itself, and which collectively. */
#ifndef IPULUA_PROGRAM_REPLICAS_H
#define IPULUA_PROGRAM_REPLICAS_H
#include "program/program.h"

typedef struct Phase Phase;
typedef struct Phases {
  Phase *phase;
  int count, capacity;
} Phases;

/* A pointer of a step to what a sum reads, and how far into its bucket's memory that lies. */
typedef struct BucketLink {
  void **where;
  size_t at;
} BucketLink;

/* Sums that are exchanged with other instances in one message, or that these read where they lie:
 * phases of one list. In shared memory a bucket has two buffers, of which the steps that make its
 * values write to one and then to the other: others may still read the former. */
typedef struct Bucket {
  int count;
  const int *member; /* their positions in the list */
  size_t bytes;      /* of all, of one replica */
  size_t
      lines; /* of all replicas of this instance in shared memory, each value on lines of its own */
  bool tried, shown; /* buffers were asked for; what it holds now is read in them */
  struct Instances *instances;
  char *buffer[2]; /* NULL: values are sent */
  int now;         /* the buffer that is written to */
  BucketLink *link;
  int link_count, link_capacity;
  struct Bucket *next; /* of the same program */
} Bucket;

/* What a collective phase has cost each instance. */
typedef struct CollectiveCost {
  int64_t count;
  const char *way; /* "gather", "chain" or "shared" */
  struct MeetingTotals
      *of; /* [instances]: of others, until the one before; NULL before the first */
} CollectiveCost;

typedef enum PhaseKind {
  PHASE_LOCAL,      /* `count` steps that concern one replica alone */
  PHASE_COLLECTIVE, /* a step that all do together: a collective, a queue, a call of the host */
  PHASE_CONTROL,    /* a control step with a collective inside */
} PhaseKind;

struct Phase {
  PhaseKind kind;
  int count;
  Bucket *bucket; /* COLLECTIVE: whose message it is exchanged with; NULL: one of its own */
  int place;      /* among those of the bucket; the first one exchanges all */
  size_t ahead;   /* bytes of a replica in front of its own */
  size_t line;    /* of shared memory, where its first replica's begin */
  CollectiveCost cost;
  uint32_t detail; /* COLLECTIVE of instances: what must be alike; 0: not known yet */
  bool heavy;      /* LOCAL: worth a hand-off to other threads */
  Step **step;     /* [replicas]: the first one in each instance */
  Phases *nested;  /* CONTROL: of each of the step's blocks */
};

/* What replicas are made of, from the first run in which they may differ. */
typedef struct Replication {
  int count;
  Program **instance; /* [count]: the program itself first */
  Phases main;
  char **spare;   /* [count]: where the results of replicas other than the first go */
  int max_values; /* of an element that is enqueued */
  Bucket *bucket; /* of all phases */
} Replication;

/* Make p run as so many replicas; once. With others: they are replicas first, first + 1, … of
 * `all`, which several instances have (one, too: then nobody else takes part, but they are numbered
 * so). all 0: the program is of this process alone. */
Status program_replicate(Error *e, Program *p, int replicas, int first, int all, int threads);
bool program_has_collectives(const Program *p); /* has collectives */
/* Its replicas may hold different values now, so all must run; else the first one speaks for
 * all. Makes their instances. */
bool program_diverges(const Program *p);
Status program_make_instances(Error *e, Program *p, int threads);
void replication_free(Replication *r); /* NULL is fine */
/* The IPU devices that p's ops name, in all its regions. */
typedef struct ProgramDevices {
  int device, other;                 /* the first one and the first other one; DEVICE_ANY: none */
  const char *source, *other_source; /* lines that name them */
  bool is_placed, on_ipu;            /* there are ops; not all of them are the host's */
} ProgramDevices;
ProgramDevices program_devices(const Program *p);
/* IPUs that one replica takes: its largest shard and one, rounded up to a power of two. */
int program_shards(const Program *p);
#endif
