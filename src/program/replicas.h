/* Replicas of a program: instances of one graph, each with memory of its own. Lowering is
 * deterministic, so step i of one instance corresponds to step i of every other. Phases are runs of
 * steps: local ones, which each replica runs by itself, and collective ones. */
#ifndef IPULUA_PROGRAM_REPLICAS_H
#define IPULUA_PROGRAM_REPLICAS_H
#include "program/program.h"

typedef struct Phase Phase;
typedef struct Phases {
  Phase *phase;
  int count, capacity;
} Phases;

/* A step's pointer to the operand of a sum, and the operand's offset in its bucket. */
typedef struct BucketLink {
  void **where;
  size_t at;
} BucketLink;

/* Sums of one list of phases that are exchanged in one message, or read by other instances in
 * place. In shared memory a bucket has two buffers, which are written in turn, because others may
 * still read the previous one. */
typedef struct Bucket {
  int count;
  const int *member; /* their positions in the list */
  size_t bytes;      /* of all, of one replica */
  size_t
      lines; /* of all replicas of this instance in shared memory, each value on lines of its own */
  bool tried, shown; /* shared buffers were requested; its current values are read there */
  struct Instances *instances;
  char *buffer[2]; /* NULL: values are sent */
  int now;         /* the buffer that is written to */
  BucketLink *link;
  int link_count, link_capacity;
  struct Bucket *next; /* of the same program */
} Bucket;

/* The cost of a collective phase for each instance. */
typedef struct CollectiveCost {
  int64_t count;
  const char *way; /* "gather", "chain" or "shared" */
  struct MeetingTotals
      *of; /* [instances]: [instances] for others, up to the previous run; NULL before the first */
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
  int place;      /* its position in the bucket; the first one exchanges all */
  size_t ahead;   /* bytes of a replica before its own in the bucket */
  size_t line;    /* offset in shared memory of its first replica's bytes */
  /* COLLECTIVE: the next step is a chain that alone reads the sum, in this slot, element by
   * element (readers.h); -1: there is none */
  int reader_slot;
  CollectiveCost cost;
  uint32_t detail; /* COLLECTIVE of instances: a checksum that must agree; 0: not known yet */
  bool heavy;      /* LOCAL: worth a hand-off to other threads */
  Step **step;     /* [replicas]: the first one in each instance */
  Phases *nested;  /* CONTROL: of each of the step's blocks */
};

/* The state of replicas, made at the first run in which they may differ. */
typedef struct Replication {
  int count;
  Program **instance; /* [count]: the program itself first */
  Phases main;
  char **spare;   /* [count]: where the results of replicas other than the first go */
  int max_values; /* of an element that is enqueued */
  Bucket *bucket; /* of all phases */
} Replication;

/* Make p run as so many replicas; once. With instances they are the replicas first, first + 1, … of
 * `all`. That holds for a single instance, too. all 0: the program belongs to this process
 * alone. */
Status program_replicate(Error *e, Program *p, int replicas, int first, int all, int threads);
bool program_has_collectives(const Program *p); /* has collectives */
/* Whether its replicas may hold different values, so that all must run; else the first one stands
 * for all. It makes their instances. */
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
