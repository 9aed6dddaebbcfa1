/* OpDef: the row that an op is. Everything that computes is an op, and an op is one row in one
 * file of src/ops. */
#ifndef IPULUA_GRAPH_OP_H
#define IPULUA_GRAPH_OP_H
#include "base/pool.h"
#include "base/rng.h"
#include "graph/object.h"
#include "kernels/chain.h"
#include "kernels/kernels.h"
#include "kernels/numerics.h"
#include "target/band.h"
#include "target/vector.h"
#include "tensor/tensor.h"

typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Value Value;
typedef struct OpDef OpDef;
struct Target;
struct Cost;
struct FarMeeting;

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 8, MAX_ATTRS = 12 };

/* ---- attributes: what an op takes besides tensors ---- */
typedef enum AttrKind {
  ATTR_NONE,
  ATTR_INT,
  ATTR_FLOAT,
  ATTR_BOOL,
  ATTR_STRING, /* one of AttrDef.choices when those are given; letter case is free in Lua */
  /* a list; a single integer is taken as a list of one, nested lists are flattened, false is
   * INT64_MIN */
  ATTR_INTS,
  ATTR_DTYPE,
  ATTR_TENSOR, /* a constant */
  ATTR_GRAPH,  /* a region: the body of a loop, a branch */
  ATTR_OBJECT, /* a counted object that the op serves: a queue, a host function */
} AttrKind;

typedef struct Attr {
  AttrKind kind; /* ATTR_NONE: not given, and no default */
  union {
    int64_t i; /* ATTR_INT, ATTR_BOOL, ATTR_DTYPE */
    double f;
    const char *s;
    struct {
      const int64_t *v;
      int n;
    } ints;
    Tensor *tensor;
    Graph *graph;
    Object *object;
  };
} Attr;

typedef struct AttrDef {
  const char *name;
  AttrKind kind;
  /* The default as a Lua literal: "-1", "false", "'VALID'", "nil" (optional); NULL: required. */
  const char *fallback;
  const char *choices; /* ATTR_STRING: "VALID SAME CAUSAL" */
  const char *summary;
} AttrDef;

/* ---- evaluation ---- */

/* One evaluation. Buffers are dense and row-major; an output may share the buffer of input k
 * only where the row says IN_PLACE(k). Nothing in eval allocates: scratch is what OpDef.scratch
 * asked for. */
typedef struct Call {
  const void *const *in; /* [in_count] */
  void *const *out;      /* [out_count] */
  const Type *const *in_type, *const *out_type;
  const Node *node;
  const Attr *attr; /* node->attr */
  int in_count, out_count;
  int replica; /* whose call it is; 0 outside of replicated programs */
  const Kernels *kernels;
  Pool *pool; /* parallel loops with chunks fixed by shapes; NULL: none */
  const Numerics *numerics;
  void *scratch; /* 64-byte aligned */
  RngKey rng;    /* for rounding and for ops with the RANDOM trait */
  Error *error;
  const char *source;
} Call;

/* ---- traits ---- */
enum {
  ELEMENTWISE = 1 << 0, /* has strip: fuses into chains; operands broadcast */
  COMMUTATIVE = 1 << 1,
  STATEFUL = 1 << 2,    /* has an effect: kept, in trace order, never merged */
  RANDOM = 1 << 3,      /* the last input is its int64 step counter, a rank-0 tensor */
  VIEW = 1 << 4,        /* output 0 is input 0's bytes under another shape: costs nothing */
  VARIADIC = 1 << 5,    /* in Lua the first argument is a list of tensors; inputs[0] names it */
  INTERNAL = 1 << 6,    /* not a function of the Lua interface */
  CONTROL = 1 << 7,     /* holds regions, of which the row's `control` tells (control.h) */
  NO_GRADIENT = 1 << 8, /* gradients stop here, by nature (comparisons, argmax) */
  METHOD_ONLY = 1 << 9,
  /* replicas may get different values, or make them together: never computed while tracing */
  PER_REPLICA = 1 << 10,
  /* input 0 is a condition: Lua values given for it are bool, and numbers for the others don't
   * take after it */
  SELECTS = 1 << 11,
  /* of use to gradients only: programs read what simplify says, wherever that is */
  MARKER = 1 << 13,
  ACROSS = 1 << 15, /* it is a collective of the replicas of all instances (dist/instances.h) */
  HALF_OF_BYTES = 1 << 12, /* bytes become float16: so do Lua numbers beside them */
  OBSERVES = 1 << 14,      /* may read variables besides its operands (observe.h) */
};
#define IN_PLACE(k) (1 << (16 + (k))) /* k < 8: output 0 may be written over input k */
#define INDICES(k) \
  (1 << (24 +      \
         (k))) /* k < 7: input k holds positions or counts; Lua numbers given for it are int32 */
#define INDEX_INPUTS 7

/* What others than the op itself have to know of it. */
typedef enum Collective { /* what replicas do together */
                          COLLECTIVE_NONE,
                          COLLECTIVE_SUM, /* of all, or of groups where attribute 0 is given; so the
                                             mean */
                          COLLECTIVE_MEAN,
                          COLLECTIVE_GATHER, /* all get the values of all */
                          COLLECTIVE_SCATTER,
                          COLLECTIVE_EXCHANGE,
} Collective;
typedef enum Traffic { /* between tiles and what is beside them */
                       TRAFFIC_NONE,
                       TRAFFIC_DEQUEUE,
                       TRAFFIC_ENQUEUE,
                       TRAFFIC_HOST, /* a function of the host: there and back */
                       TRAFFIC_LOAD, /* streaming memory */
                       TRAFFIC_STORE,
} Traffic;
typedef enum Layout { /* where elements lie on the tiles */
                      LAYOUT_KEPT,
                      LAYOUT_SPREAD, /* input 0, repeated: whoever reads it may read input 0 */
                      LAYOUT_ORDER,  /* input 0, its axes in another order */
                      LAYOUT_CHOSEN, /* operands are brought into layouts of its own, whatever those
                                        they come in */
                      LAYOUT_PRODUCT, /* of matrices, turned as attributes 0 and 1 say: runs with
                                         what follows it */
} Layout;
/* The number that all elements of a result are. */
typedef enum Filling { FILL_NONE, FILL_ZEROS, FILL_ONES } Filling;

struct OpDef {
  const char *name;               /* "add", "nn.relu": its name under ipu */
  const char *method;             /* what tensors call it besides: x:sum(); NULL: nothing */
  const char *summary;            /* a sentence, for reference and help() */
  const char *shapes;             /* "[m, k], [k, n] → [m, n]" for the reference */
  const char *source;             /* where the formula comes from, when it needs saying */
  const char *inputs[MAX_INPUTS]; /* names; a trailing '?' marks an optional one; "mask?" is bool */
  AttrDef attrs[MAX_ATTRS];
  int traits;
  int outputs;         /* 0 means 1; -1: as many as infer sets */
  int visible_outputs; /* how many Lua sees; 0: all */

  /* Input types → n->out[i].type (and n->out_count when outputs is -1). May normalise n->attr
   * (axes). Messages are in the user's terms, without the op's name: graph_apply puts it in
   * front. */
  Status (*infer)(Error *e, Node *n);
  Status (*eval)(const Call *c);
  /* What replicas do together: the calls of all of them in order (eval: the only one's). NULL:
   * each does it by itself. */
  Status (*eval_collective)(const Call *const *replica, int count);
  /* ACROSS: replicas of other instances have no memory for results (out[i] is NULL): only what they
   * bring is known. eval_collective_far, where it is there, does without that: `count` replicas of
   * this instance, of which there are `all` (eval_collective, for large ones). */
  Status (*eval_collective_far)(const Call *const *replica, int count, int all,
                                const struct FarMeeting *far);
  size_t (*scratch)(const Node *n); /* bytes; NULL: none */
  /* Elementwise: which kernel, with which parameters. */
  void (*strip)(const Node *n, Elementwise *kernel, double p[4]);
  /* A value that output 0 equals, bit for bit whatever the operands hold, or NULL. It may also
   * read what an operand was made of instead of that operand, and make n another op, where that
   * is equal and stands in n's place. NULL: nothing is known. */
  Value *(*simplify)(Node *n);
  /* Build dx[i] = gradient of input i from dy[j] (NULL where output j has none). Leave dx[i]
   * NULL for no gradient. */
  void (*grad)(Graph *g, const Node *n, Value *const *dy, Value **dx);
  /* A fused op's outputs again, built of ops that all have gradients: autodiff differentiates
   * these where there is no grad, and where a gradient comes to an output that Lua doesn't see.
   * NULL: none. */
  void (*compose)(Graph *g, const Node *n, Value **out);
  /* Whether it is a value of the variable that the gradients are by: tapes that began later have
   * it, too. NULL: it never is. */
  bool (*is_source)(const Graph *g, const Node *n);
  void (*cost)(const struct Target *t, const Node *n, struct Cost *cost);
  VectorCycles cycles; /* of one pass: every ELEMENTWISE row has them */
  CostFamily family;   /* of rows that were published, for how sure a price is */
  Collective collective;
  Traffic traffic;
  bool by_slot; /* of a LOAD or STORE: one slot of a tensor of several */
  Layout layout;
  Filling fill;
  int form;       /* which of the rows of its files; they alone know the numbers */
  bool keeps;     /* its result is kept where a pipeline stage is computed again */
  int value_from; /* the operand whose value it has, if that was computed from input 0; 0: none */
  const struct ControlRule *control; /* CONTROL: what its regions take and give */
  /* Cases for the sweeps: "F[2,3] F[3,4] {transpose_b = true} | F[3] ..." Letters: F any float,
   * P positive float, U float in (-0.9, 0.9), D distinct floats, M symmetric positive definite
   * matrices, W others with a dominant diagonal, I<k> integers below k, S<k> sorted ones, B bool, H
   * float32 whatever the others are; attributes in Lua syntax. The counter of RANDOM rows is not
   * written. */
  const char *sample;
};

/* One-node evaluation outside of programs: types are n's, data is dense. */
Status op_eval(const OpDef *op, const Call *c);
#endif
