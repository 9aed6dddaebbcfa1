/* Values, nodes and the builder. A Graph owns its nodes in one arena. Nodes are in trace order,
 * which is an execution order. After the first failure, builders do nothing and return NULL. */
#ifndef IPULUA_GRAPH_GRAPH_H
#define IPULUA_GRAPH_GRAPH_H
#include "base/arena.h"
#include "graph/op.h"

struct Value {
  Type type;
  Node *node;
  int index; /* its position among node's outputs */
};

/* A node's placement. A gradient node inherits the placement of the node it differentiates. */
typedef struct Placement {
  /* An IPU's number, DEVICE_HOST for the CPU, or DEVICE_ANY for the device of the rest of its
   * program. */
  int device;
  int shard; /* -1: none */
  int stage; /* pipeline stage; -1: none */
  bool backward;
  int8_t stochastic_rounding; /* -1: as configured */
  /* whether float16 products and convolutions are summed in float16; -1: as configured */
  int8_t half_products, half_convolutions;
  /* the share of a tile's memory that they may use for temporaries, in millionths; -1: as
   * configured */
  int32_t product_share, convolution_share;
} Placement;
enum { DEVICE_HOST = -1, DEVICE_ANY = -2 };

/* Outside of all scopes. */
#define PLACEMENT_NONE                    \
  ((Placement){.device = DEVICE_ANY,      \
               .shard = -1,               \
               .stage = -1,               \
               .stochastic_rounding = -1, \
               .half_products = -1,       \
               .half_convolutions = -1,   \
               .product_share = -1,       \
               .convolution_share = -1})

struct Node {
  const OpDef *op;
  int id; /* its position in the graph's node list when it was made; ascending */
  /* the random stream of its rounding: unique among all graphs of a trace, or equal to the repeated
   * node's */
  int stream;
  int in_count, out_count;
  Value **in;
  Value *out;             /* [out_count] */
  Attr *attr;             /* as op->attrs */
  Arena *arena;           /* for lists made by infer; the graph's, or a call's */
  const char *name;       /* scope/op; unique only when the user made it so */
  const char *source;     /* "train.lua:12" */
  const char *attributes; /* of frontend_attribute scopes, as JSON; NULL: none */
  Placement place;
  bool recorded; /* whatever part of a trace is differentiated, it belongs to that */
};

/* The fields that a new node inherits. */
typedef struct Scope {
  Placement place;
  const char *source; /* the script's line, set by the binding before each op */
  const char *prefix; /* name scope */
  const char *attributes;
} Scope;

struct Graph {
  Arena *arena;
  Error error;
  Node **node;
  int node_count, node_capacity, next_id, next_stream;
  Value **input; /* outputs of input nodes, in order */
  int input_count, input_capacity;
  Value **output;
  int output_count, output_capacity;
  Tensor **held; /* constants, released with the graph */
  int held_count, held_capacity;
  Object **object; /* objects of attributes, released with the graph */
  int object_count, object_capacity;
  Graph **region; /* graphs of attributes, freed with this one */
  int region_count, region_capacity;
  Scope scope;
  /* while it is differentiated by a variable: the variable's serial number (the row of
   * `reading`) */
  int64_t apart;
};

Graph *graph_new(void); /* NULL when memory is out */
/* A new graph that will be a copy or a region of another one. It has the other's scope, and
 * continues its stream numbers. */
Graph *graph_beside(const Graph *other);
void graph_free(Graph *g);

/* Rewinding to a mark removes the nodes, constants and regions added since, to which there may be
 * no references. */
typedef struct GraphMark {
  ArenaMark arena;
  Scope scope;
  int nodes, next_id, inputs, outputs, held, objects, regions;
} GraphMark;
GraphMark graph_mark(const Graph *g);
void graph_rewind(Graph *g, const GraphMark *m);

Value *graph_input(Graph *g, const Type *type, const char *name);
Value *graph_constant(Graph *g, Tensor *t); /* retains t */
/* Takes t over. NULL gives NULL. */
Value *graph_take_constant(Graph *g, Tensor *t);
/* Replaces n by the constant t, which is dense and of its output's type. It retains t. */
void graph_make_constant(Graph *g, Node *n, Tensor *t);
/* A rank-0 constant (or filled one) of that dtype. */
Value *graph_number(Graph *g, Dtype d, double value);
void graph_output(Graph *g, Value *v);

/* Append a node; attrs has the op's count of attributes (NULL: all defaults). Returns NULL after
 * a failure, with g->error filled: "matmul: inner extents 3 and 4 differ: [2, 3] times [4, 5]". */
Node *graph_node(Graph *g, const OpDef *op, Value *const *in, int in_count, const Attr *attrs);
/* its output 0 */
Value *graph_apply(Graph *g, const OpDef *op, Value *const *in, int in_count, const Attr *attrs);
/* Nodes that g makes from now on have streams after `stream`, the last one of an existing graph. */
void graph_pass_stream(Graph *g, int stream);
/* Nodes that g makes from now on have the placement, line and names of `like`, a node of any
 * graph. */
void graph_stand_at(Graph *g, const Node *like);
/* g owns the region from now on. */
void graph_adopt(Graph *g, Graph *region);
Status graph_error(const Graph *g);

/* Attributes for C callers: {ATTR_…, .i = …}. Absent ones take the row's default. */
Attr attr_int(int64_t i);
Attr attr_float(double f);
Attr attr_bool(bool b);
Attr attr_string(const char *s);
Attr attr_dtype(Dtype d);
Attr attr_ints(const int64_t *v, int n); /* copied by graph_node */
/* Parse the row's default (lists and texts in the arena); false: out of memory. */
bool attr_fallback(Arena *a, const AttrDef *def, Attr *out);
int op_attr_count(const OpDef *op);
int op_input_count(const OpDef *op, int *required);

/* Room for count outputs (loops, splits): sets n->out_count. For infer and for builders of such
 * nodes. */
bool node_outputs(Arena *a, Node *n, int count);
bool node_is_input(const Node *n);
bool node_is_constant(const Node *n); /* its tensor is attr[0].tensor */
bool node_is_made(const Node *n);     /* neither an input nor a constant */
bool placement_equal(const Placement *p, const Placement *q);
bool node_same_place(const Node *a, const Node *b);

/* Runs infer for one node without a graph, for shapes and eager calls. The caller fills n's
 * arrays. */
Status node_infer(Error *e, Node *n);
#endif
