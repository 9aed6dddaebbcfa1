/* A program's whole vocabulary: a tree of steps over buffers whose places were decided when it
 * was compiled. Running it allocates nothing. */
#ifndef IPULUA_PROGRAM_STEP_H
#define IPULUA_PROGRAM_STEP_H
#include "base/pool.h"
#include "graph/trace.h"
#include "ops/io/feed.h"
#include "program/timetable.h"
#include "transform/lift.h"

typedef struct Step Step;
typedef struct Block {
  Step *step;
  int count, capacity;
} Block;

typedef enum StepKind {
  STEP_OP,    /* one op's eval */
  STEP_CHAIN, /* fused elementwise ops */
  STEP_GEMM,  /* a matrix product, with a chain run on each finished block of it */
  STEP_COPY,
  /* from streaming memory to the tiles, and back; without operands where both are one place */
  STEP_LOAD,
  STEP_STORE,
  STEP_DEQUEUE,
  STEP_ENQUEUE,
  STEP_REPEAT,
  STEP_WHILE,
  STEP_COND,
  STEP_CALL,
  STEP_PIPELINE, /* a repeat whose iterations overlap as a timetable says */
} StepKind;

typedef struct GemmStep {
  Gemm gemm;
  GemmPlan plan;
  Dtype dtype;
  Chain *epilogue; /* NULL: none */
} GemmStep;

/* A pointer into a stash: micro-batch m uses copy m modulo copies. */
typedef struct StashLink {
  void **where;
  char *base;
  size_t stride; /* bytes */
  int copies;
} StashLink;

/* The part of a micro-batch that one stage does in one direction. */
typedef struct Pass {
  int program, lane;
  Block dequeues; /* run before the others, by the thread that runs the program */
  Block body;
  bool on_main;   /* calls the host: only the thread that runs the program may */
  int32_t *index; /* the micro-batch */
  StashLink *stash;
  int stash_count, stash_capacity;
} Pass;

/* What runs on one IPU; while a row runs, how it went. */
typedef struct Lane {
  bool active;
  Status status;
  Error error;
} Lane;

typedef struct PipelineStep {
  const PipelinePlan *plan;
  /* [pass_count], forward passes in the order of stages, then backward ones in reverse */
  Pass *pass;
  int *first; /* [programs + 1]: those of program k are first[k] … first[k + 1] - 1 */
  int pass_count, lanes;
  Lane *lane;           /* [lanes] */
  int *active;          /* [lanes] those with something to do in the row that runs */
  Timetable *timetable; /* of the last run */
} PipelineStep;

/* A loop's dequeue that may read the next element while the one before is worked on: elements
 * lie in two places, in turn. */
typedef struct ReadAhead {
  Feed *feed;
  void **place[2]; /* [components], in memory of their own */
  char *memory;
  int *links;   /* [2 * components]: the links of each component, from and to */
  int now;      /* the place of the element that is worked on */
  bool offered; /* the next one is being read, or was */
  PoolErrand errand;
  Status status; /* of the next one */
  Error error;
} ReadAhead;

struct Step {
  StepKind kind;
  const Node *node; /* the op, or the last one of a fused group: names the line */
  int position;     /* in the program's linear order; liveness is counted in these */
  bool parallel;    /* worth a hand-off to the pool */
  bool changes;     /* a variable, a queue, what an op keeps (engine/drop.h) */
  /* REPEAT, WHILE: behind it, in an iteration around it, something is changed */
  bool changes_follow;
  ReadAhead *ahead; /* DEQUEUE; NULL: elements are read when they are asked for */
  /* COPY: from, to. REPEAT, WHILE, COND: test, limit, index. OP: scratch. Set when memory is
   * placed or bound */
  void **cell;
  union {
    Call call; /* OP, LOAD, STORE, DEQUEUE, ENQUEUE */
    Chain *chain;
    GemmStep *gemm;
    size_t copy_bytes;
    PipelineStep *pipeline;
    struct {
      Block *body, *other; /* repeat, call: body; while: body, condition; cond: yes, no */
    } control;             /* test: int32 count, or bool; limit: int32, -1 for none; index: int32 */
  };
};
enum { CELL_TEST, CELL_LIMIT, CELL_INDEX };

typedef enum BufferKind {
  BUFFER_ARENA,    /* at offset in the program's memory, or in its streaming memory */
  BUFFER_CONSTANT, /* a tensor's data */
  BUFFER_ARGUMENT, /* bound for each run: an argument, a variable, a result */
} BufferKind;

typedef struct Buffer {
  BufferKind kind;
  size_t bytes;
  int first, last;  /* steps at which it is live; -1: never touched */
  int64_t offset;   /* ARENA */
  void *data;       /* CONSTANT; else where it is bound now */
  int argument;     /* ARGUMENT: its number */
  const Node *node; /* who made it, for reports */
  int lane;         /* ARENA: only this lane's, while others run beside it; -1: everybody's */
  /* ARENA: as many as micro-batches may need at once, bytes being that of all */
  int copies;
  bool remote; /* its home is streaming memory */
} Buffer;

/* A pointer inside a step that has to be set when its buffer is bound. */
typedef struct Link {
  int buffer;
  void **where;
  Pass *pass; /* of a pipeline that the step belongs to; NULL: none */
} Link;

typedef struct Binding {
  int buffer;
  void *bound; /* what the links hold now */
} Binding;

typedef struct Program {
  Arena *arena;       /* of steps, chains, links */
  Graph *graph;       /* what it was lowered from; its nodes are named by steps */
  bool borrows_graph; /* a copy's: not freed with it */
  /* As it was traced, for tapes: what is simplified bit for bit has another derivative. NULL: of
   * a copy, or of an outline. */
  Graph *traced;
  /* traced takes the tensors that it held as inputs, behind the others (program_lift) */
  bool is_lifted;
  TensorList lifted; /* those, held by the graph */
  bool outline;      /* without steps: it can't run */
  Block main;
  Buffer *buffer;
  int buffer_count, buffer_capacity;
  Link *link;
  int link_count, link_capacity;
  int step_count;
  /* Arguments in the order: the function's arguments, variables, results. */
  int argument_count, variable_count, result_count;
  Variable **variable; /* [variable_count], retained */
  bool *writes;        /* [variable_count]: the program changes it */
  bool *shared;        /* [variable_count]: replicas have a share each of one value */
  /* replicas were to share these out, but don't agree on them */
  bool unshared_state, unshared_weights;
  Type *result_type;   /* [result_count] */
  Binding *binding;    /* [argument_count + variable_count + result_count] */
  int *link_begin;     /* [binding count + 1]: links sorted by argument */
  size_t memory_bytes; /* of the planned memory */
  size_t remote_bytes; /* of the planned streaming memory; variables have memory of their own */
  size_t slot_bytes;   /* scratch for each thread of the team */
  char *memory, *remote, *slots;
  int slot_count, lanes;   /* the widest pipeline's */
  PipelineStep **pipeline; /* [pipeline_count] */
  int pipeline_count, pipeline_capacity;
  ReadAhead **ahead; /* [ahead_count] */
  int ahead_count, ahead_capacity;
  const Kernels *kernels;
  Numerics numerics;
  int64_t executions;
  int64_t rounding_epoch; /* of the engine's seed, when stochastic rounding last began */
  /* which part of the engine's numbers it rounds by; 0: the whole, which all programs share */
  uint64_t rounding_part;
  uint64_t rounding_seed; /* of that part */
  bool changes_found;     /* which steps do is known */
  /* its memory is in use: not even a callback of its own may run it again */
  _Atomic bool running;
  _Atomic bool cancelled; /* loops stop after the iteration they are in */
  char *name;
  int replicas, replica;           /* how many there are; whose instance this is */
  int all_replicas, first_replica; /* of all instances; 0: it is of this process alone */
  bool meets;                      /* its replicas meet those of other instances */
  size_t window_bytes;             /* of memory that each instance shares with all others */
  bool agreed;                     /* the others run the same program */
  bool uniform;                    /* nothing in it tells replicas apart */
  struct Replication *replication; /* owned; NULL: none yet (replicas.h) */
} Program;

/* Compile a finished root trace (trace_end_root has been called; takes its graph). threads: the
 * team that will run it. NULL with e filled on failure. The trace is still the caller's to free. */
Program *program_compile(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         int threads, const char *name);
/* Another one of the same graph, to run beside p on another thread; p must outlive it. */
Program *program_copy(Error *e, const Program *p, int threads);
/* The same as the instance of a replica. */
Program *program_instance(Error *e, const Program *p, int threads, int replica);
/* Only to be priced: the graph and the variables, no steps and no memory, so that its size
 * doesn't matter. Running it fails. */
Program *program_outline(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         const char *name);
/* For a team that has grown since p was compiled: scratch, and second places for elements that
 * are read ahead. */
Status program_fit_team(Error *e, Program *p, int threads);
void program_free(Program *p);
/* What tapes differentiate: p->traced with its floating-point constants as inputs, those of
 * p->lifted. */
Status program_lift(Error *e, Program *p);
/* Text of the steps, one a line; for Graphviz. free() it. */
char *program_text(const Program *p);
char *program_dot(const Program *p);
const char *step_kind_name(StepKind kind);

/* verify.c */
Status program_verify(Error *e, const Program *p);

/* memory.c: whether two buffers may be live at once. */
bool buffers_meet(const Buffer *a, const Buffer *b);
/* memory.c: offsets for ARENA buffers of the one home or the other; returns the bytes in all. */
size_t plan_memory(Buffer *buffers, int count, bool remote);
/* The most bytes of ARENA buffers, streaming memory apart, that are live at one step: no plan
 * can need less. */
size_t most_live_bytes(Buffer *buffers, int count);
#endif
