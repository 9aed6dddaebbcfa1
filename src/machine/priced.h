/* A priced program is a list of priced steps in program order: ops, moves between IPUs, to and from
 * the host, sums over replicas. Loops and branches are steps that others name as their parent.
 * Memory is a list of allocations, each live from one step to another; positions are step
 * numbers. */
#ifndef IPULUA_MACHINE_PRICED_H
#define IPULUA_MACHINE_PRICED_H
#include "graph/offload.h"
#include "program/program.h"
#include "program/timetable.h"
#include "target/cost.h"
#include "target/pod.h"

enum { MACHINE_STAGES = 256 };

/* Moves that may be joined: sums over replicas, reduce-scatters, all-gathers, copies between
 * IPUs. */
typedef enum MergeKind {
  MERGE_SUMS,
  MERGE_SCATTERS,
  MERGE_GATHERS,
  MERGE_COPIES,
  MERGE_COUNT
} MergeKind;

/* The machine to price for. Zeroed fields are the defaults, pod apart. */
typedef struct Machine {
  Pod pod;
  bool lean_schedule; /* a pipeline has the leaner schedule that its own one names, if it does */
  /* backward stages compute forward passes again; only stage inputs are kept */
  bool recompute;
  Offload offload; /* in addition to the program's own loads and stores */
  /* of one replica, joined up to that size; 0: each is on its own */
  double merge_bytes[MERGE_COUNT];
  bool dependencies; /* pipelines: a pass begins once its operands are there, not at the end of a
                      * time step */
  bool no_outlining; /* equal operations have code of their own each */
  bool half_products, half_convolutions; /* every one sums in float16 */
  bool synthetic_infeed, synthetic_outfeed, synthetic_variables;
  bool no_prefetch;  /* each infeed element waits for the host */
  bool split_infeed; /* each tensor of an infeed's element is a copy of its own */
  int io_tiles;      /* of each IPU, beside pod's */
  /* part of their memory for the moves of infeeds and outfeeds beside computing; 0: no I/O tiles */
  double io_proportion;
  /* of the host, for each run: 1, less when several runs share one; -1: none */
  double calls;
  /* values of integer scalars among the program's arguments, INT64_MIN where unknown; NULL: all
   * unknown */
  const int64_t *argument;
} Machine;

/* Where bytes of a tile go. The middle ones are target/cost.h's. */
/* clang-format off */
#define PRICE_CATEGORIES(X)                                                                      \
  X(VARIABLE, "variable", true, "weights, optimizer state, counters")                            \
  X(CONSTANT, "constant", true, "constants")                                                     \
  X(STASH, "stash", true, "activations kept for the backward stages of later time steps")        \
  X(VALUE, "activation", false, "values between operations")                                     \
  X(MESSAGE, "message", false, "exchange buffers")                                               \
  X(REARRANGEMENT, "rearrangement", false, "copies in another layout")                           \
  X(PARTIALS, "partials", false, "sums not yet complete")                                        \
  X(TEMPORARY, "temporary", false, "other values inside an operation")                           \
  X(VERTEX_CODE, "vertexCode", true, "programs of the workers")                                  \
  X(VERTEX_STATE, "vertexInstanceState", true, "fields of the vertices")                         \
  X(EXCHANGE_CODE, "internalExchangeCode", true, "send and receive sequences")                   \
  X(CONTROL_CODE, "controlCode", true, "the program itself")                                     \
  X(STACK, "stack", true, "of the supervisor and the workers")                                   \
  X(HOST_HEADER, "hostExchangePacketHeader", true, "4 bytes for 128 moved to or from the host")  \
  X(GLOBAL_HEADER, "globalExchangePacketHeader", true, "the same between IPUs")
/* clang-format on */
#define X(id, name, always, summary) BYTES_##id,
typedef enum PriceCategory { PRICE_CATEGORIES(X) BYTES_COUNT } PriceCategory;
#undef X

/* clang-format off */
#define PRICED_KINDS(X)                                                                          \
  X(OP, "op") X(LINK, "link") X(HOST_IN, "host in") X(HOST_OUT, "host out")                   \
  X(STREAMING, "streaming memory") X(COLLECTIVE, "collective") X(LOOP, "loop")                \
  X(PIPELINE, "pipeline") X(BRANCH, "branch") X(CALL, "call")
/* clang-format on */
#define X(id, name) PRICED_##id,
typedef enum PricedKind { PRICED_KINDS(X) PRICED_KIND_COUNT } PricedKind;
#undef X
const char *priced_kind_name(PricedKind k);
static inline bool priced_is_block(PricedKind k) { return k >= PRICED_LOOP; }

typedef struct PricedStep {
  PricedKind kind;
  const Node *node;    /* NULL: none in particular */
  int parent;          /* the block it is in; -1: none */
  int end;             /* blocks: one past the last step inside */
  int middle;          /* BRANCH: the first step of the other branch */
  int ipu, from_ipu;   /* from_ipu: LINK */
  const Graph *region; /* whose node it is of; NULL: none's */
  int moved;           /* COLLECTIVE: the allocation that is combined; -1 */
  int arrived;         /* LINK: the allocation on the IPU that it leads to; -1 */
  /* LINK: the step that makes the copied value, or an earlier one before which it is there */
  int ready;
  int stage; /* -1: none */
  bool backward;
  /* STREAMING: others of its pass came before it, it is begun while they move; HOST_IN: others
   * of its element did */
  bool follows;
  double times;       /* in one run; 0: in a branch that is not taken */
  double repeats;     /* LOOP, PIPELINE: of the body, each time; micro-batches */
  PipelinePlan *plan; /* PIPELINE */
  const Cost *cost;   /* of one execution; NULL for blocks */
  double bytes;       /* moved over links, to or from the host or streaming memory */
  double elapsed;     /* PIPELINE: cycles of one run */
} PricedStep;

typedef struct Allocation {
  PriceCategory category;
  const Node *node;         /* the node that made it; NULL: an argument or a variable */
  const Variable *variable; /* NULL: none */
  double bytes;
  int ipu, first, last; /* steps; always live: 0 … the last step */
  int alias;            /* whose bytes these are; -1: its own */
  bool written;         /* a variable that the program changes */
  double writes;        /* how often in a run */
  /* how often its bytes were written during the walk; a copy: which of them it has */
  int version;
  const Graph *region; /* a copy: where it was made; else whose nodes until counts */
  int until;           /* the position in that region's sequence of the last one that reads it */
  bool offloaded;      /* in streaming memory, never on the tiles */
} Allocation;

typedef struct IpuPrice {
  double cycles[PHASE_COUNT]; /* of a run; waiting for others counts as sync */
  double bytes[BYTES_COUNT];  /* all tiles together, at the peak */
  double always, temporary;   /* the same in two parts */
  double gaps;                /* lost to alignment and fragmentation, beside them */
  int peak;                   /* the step at which most is live */
  double *tile;               /* [tiles] bytes at the peak, without gaps */
  double min, mean, max;      /* of tile */
  double code;                /* of a tile: bytes that must lie below the interleaved region */
  double streaming;           /* bytes in streaming memory */
  uint32_t vertices;
  int tiles_over;  /* that hold more than they can, gaps included */
  double io_bytes; /* of infeeds and outfeeds at once, on the I/O tiles */
  bool fits;
} IpuPrice;

typedef struct StagePrice {
  int ipu, rows;
  double forward, backward; /* cycles for one micro-batch, recomputation included */
  double stash_bytes;       /* on all its tiles */
  int stash_depth;
} StagePrice;

/* A priced timetable entry: the work of one stage on one micro-batch. */
typedef struct PricedEntry {
  int step, ipu, stage, micro_batch;
  bool backward;
  double begin, cycles; /* within one run of the pipeline */
} PricedEntry;

typedef struct Price {
  Arena *arena;
  Machine machine;
  const Program *program;
  /* the program's with more transfers, where the machine asks for them; NULL: its own */
  Graph *graph;
  const char *name;
  int shards, replicas;
  PricedStep *step;
  int step_count, step_capacity;
  Allocation *allocation;
  int allocation_count, allocation_capacity;
  IpuPrice *ipu; /* [shards] */
  StagePrice *stage;
  int stage_count;
  PipelinePlan *plan; /* of the first pipeline; NULL: there is none */
  bool trains;        /* that pipeline has backward stages */
  PricedEntry *entry;
  int entry_count, entry_capacity;
  int pipeline_step; /* its block; -1: there is none */
  int time_steps;
  double cycles[PHASE_COUNT], total, seconds;
  double elements; /* infeed elements that a run takes, of one replica */
  int64_t batch;   /* extent of the first axis of such an element; 0: none */
  int op_count;    /* ops that run on IPUs */
  int unpriced;    /* of them: without a price */
  double flops, moved_bytes, streamed_bytes;
  bool fits;
  int worst;       /* the IPU whose fullest tile is fullest */
  const char *why; /* a plan that does not fit: the reason; NULL */
  const Node *why_node;
} Price;

/* Cycles of one execution. */
static inline double priced_cycles(const PricedStep *r) {
  return r->cost ? cost_cycles(r->cost) : 0;
}
const char *priced_name(const PricedStep *r);   /* "matmul", "host in" */
const char *priced_source(const PricedStep *r); /* "train.lua:12" or "" */
/* The IPU of a step; the first one for a step without an IPU. */
static inline int price_ipu_of(const Price *p, const PricedStep *r) {
  return r->ipu < p->shards ? r->ipu : 0;
}
static inline int price_ipu_of_stage(const Price *p, int stage) {
  return p->plan && stage < p->plan->stages ? p->plan->ipu_of[stage] : stage;
}
static inline bool price_has_io(const Price *p) {
  return p->machine.io_tiles && p->machine.io_proportion > 0;
}
const char *allocation_name(const Allocation *h); /* "dense/kernel", "matmul" */
/* The same for reading: of a value that only its scope names, the op too: "dense/" →
 * "dense/matmul". */
const char *allocation_label(const Allocation *h, char room[256]);
const char *allocation_source(const Allocation *h); /* "train.lua:12" or "" */
#endif
