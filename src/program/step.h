/* The kinds of a program's steps. A program is a tree of steps over buffers, whose addresses were
 * decided when it was compiled. Running it allocates nothing. */
#ifndef IPULUA_PROGRAM_STEP_H
#define IPULUA_PROGRAM_STEP_H
#include "base/pool.h"
#include "graph/trace.h"
#include "ops/io/feed.h"
#include "program/timetable.h"

typedef struct Step Step;
typedef struct Pass Pass;
typedef struct Block {
  Step *step;
  int count, capacity;
} Block;

/* A block inside of a step. Blocks are in the order in which they run. A loop has its test, then
 * its body. A branch has yes, no. A pipeline has the dequeues and the body of each pass. */
typedef struct Nested {
  Block *block;
  bool tests;       /* its value says whether the loop goes on */
  bool repeats;     /* a loop's */
  const Pass *pass; /* of a pipeline: whose; NULL: of none */
} Nested;

typedef enum StepKind {
  STEP_OP,    /* one op's eval */
  STEP_CHAIN, /* fused elementwise ops */
  STEP_GEMM,  /* a matrix product, with a chain run on each finished block of it */
  STEP_COPY,
  /* from streaming memory to the tiles, and back; without operands if both are the same memory */
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

/* The work of one stage on one micro-batch in one direction. */
struct Pass {
  int program, lane;
  Block dequeues; /* run before the others, by the thread that runs the program */
  Block body;
  bool on_main;   /* calls the host, which only the thread that runs the program may do */
  int32_t *index; /* the micro-batch */
  StashLink *stash;
  int stash_count, stash_capacity;
};

/* The passes on one IPU, and their status while a row runs. */
typedef struct Lane {
  bool active;
  Status status;
  Error error;
} Lane;

typedef struct PipelineStep {
  const PipelinePlan *plan;
  /* [pass_count], forward passes in the order of stages, then backward ones in reverse */
  Pass *pass;
  int *first; /* [programs + 1]: the passes of program k are first[k] … first[k + 1] - 1 */
  int pass_count, lanes;
  Lane *lane;           /* [lanes] */
  int *active;          /* [lanes] the lanes with entries in the running row */
  Timetable *timetable; /* of the last run */
} PipelineStep;

/* A loop's dequeue that may read the next element while the current one is processed. Elements use
 * two buffers in turn. */
typedef struct ReadAhead {
  Feed *feed;
  void **buffer[2]; /* [components], in memory of their own */
  char *memory;
  int *links;   /* [2 * components]: the links of each component, from and to */
  int now;      /* the buffer of the element that is worked on */
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
  bool changes;     /* it changes a variable, a queue or an op's state (engine/cancel.h) */
  /* REPEAT, WHILE: a later step in the iteration around it changes something */
  bool changes_follow;
  Nested *nested; /* [nested_count]; none: it holds no steps */
  int nested_count;
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
  };
};
/* TEST: int32 count, or bool. LIMIT: int32, -1 for none. INDEX: int32. */
enum { CELL_TEST, CELL_LIMIT, CELL_INDEX };

/* Whether s has one block, which is repeated until the loop ends. */
static inline bool step_repeats_alone(const Step *s) {
  return s->nested_count == 1 && s->nested[0].repeats;
}
/* Whether a test chooses one of two blocks of s. */
static inline bool step_chooses(const Step *s) {
  return s->nested_count == 2 && !s->nested[0].repeats;
}
/* The block of s that texts show as its i-th: no before yes. */
static inline int nested_shown(const Step *s, int i) { return step_chooses(s) ? 1 - i : i; }
/* The first step for which `is` holds, among the steps of b and the steps inside of them, in
 * preorder. NULL: none. */
typedef bool StepTest(Step *s, void *context);
Step *block_find(const Block *b, StepTest *is, void *context);
const char *step_kind_name(StepKind kind);
#endif
