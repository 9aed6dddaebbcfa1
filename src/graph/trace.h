/* What a function being traced has seen so far: its graph, and what it took from outside. A value
 * of an enclosing trace and a variable both become inputs of the graph ("extras", after the
 * arguments); a variable that was assigned has a current value, which the graph gives back when the
 * trace ends.
 *
 * A deferred trace is the graph of sessions: it never ends, and nothing in it happens by itself.
 * Reads and assignments of variables are effects at positions in the order of nodes; a copy of
 * what a session fetches (transform/fetch.h) replays those that it needs, in that order. */
#ifndef IPULUA_GRAPH_TRACE_H
#define IPULUA_GRAPH_TRACE_H
#include "graph/graph.h"
#include "graph/offload.h"
#include "graph/tensor_map.h"
#include "graph/variable.h"

typedef struct Extra {
  Value *outer;       /* in the enclosing graph; NULL in a root trace */
  Variable *variable; /* NULL: a captured value */
  Value *inner;       /* the input */
  Value *current;     /* the variable's value now; another one than inner where it was assigned */
  int effects;        /* deferred: how many effects there were when this was read */
} Extra;

/* A variable changes when trigger is computed; stands before the node at position. */
typedef struct Effect {
  Variable *variable;
  Value *value;
  const Node *trigger;
  int position;
} Effect;

/* A call of autodiff made the nodes first … end-1. Copies differentiate again, since gradients
 * know the shapes. */
typedef struct Derivation {
  Value **ys, **dys, **xs, **dx; /* in the graph's arena; dys may hold NULL */
  int y_count, x_count, first, end;
} Derivation;

/* An input that a session feeds; -1 in declared where an extent is unknown. */
typedef struct Placeholder {
  Value *value;
  Type declared;
} Placeholder;

typedef struct Trace Trace;
struct Trace {
  Graph *graph; /* the trace's own until trace_take_graph */
  Trace *parent;
  int argument_count;
  Extra *extra;
  int extra_count, extra_capacity;
  Node **observer; /* nodes of the graph that see what its variables hold there (observe.h) */
  int observer_count, observer_capacity;
  TensorMap constant; /* tensors that are known while tracing: each is one value */
  bool deferred, has_unknown;
  Offload offload; /* of a root trace's program */
  int replicas;    /* of it, as far as is known */
  /* comes after its parent, a loop's body: its variables are those of the parent's parent */
  bool follows;
  bool is_gradient; /* computed when somebody differentiates */
  Effect *effect;
  int effect_count, effect_capacity;
  Derivation *derivation;
  int derivation_count, derivation_capacity;
  Placeholder *placeholder;
  int placeholder_count, placeholder_capacity;
};

Trace *trace_new(Trace *parent); /* NULL when memory is out */
void trace_free(Trace *t);       /* with its graph, unless taken */
Graph *trace_take_graph(Trace *t);
/* The graph's inputs begin with the arguments, whenever they are made. */
Value *trace_argument(Trace *t, const Type *type, const char *name);
/* v as seen from t: itself, or captured from an enclosing trace. NULL with the graph's error set
 * when it is from none. */
Value *trace_import(Trace *t, Value *v);
bool trace_owns(const Trace *t, const Value *v);
Value *trace_read(Trace *t, Variable *v);
Value *trace_first(Trace *t, Variable *v);       /* what it held when the trace began */
Value *trace_constant(Trace *t, Tensor *tensor); /* the same value each time */
/* From now on reading v gives value: a "reading" (ops/unary.c) of what is assigned, or what a
 * loop or branch gave. */
void trace_assign(Trace *t, Variable *v, Value *value);

/* The call n, the graph's newest node, is to see what the script has assigned before it. */
void trace_observe(Trace *t, Node *n);
bool trace_writes(const Trace *t); /* has it assigned a variable? */
/* What the input v came to t with; NULL: v is none, or an argument. */
const Extra *trace_extra_of(const Trace *t, const Value *v);

/* ---- deferred traces ---- */
/* Unknown extents are built with a stand-in that has many divisors; copies have the fed ones. */
enum { UNKNOWN_EXTENT = 5040 };
Trace *trace_new_deferred(void);
Value *trace_placeholder(Trace *t, const Type *declared, const char *name);
/* v becomes value whenever trigger is computed. */
void trace_add_effect(Trace *t, Variable *v, Value *value, const Node *trigger);
void trace_note_derivation(Trace *t, const Derivation *d); /* copies the lists */
const Placeholder *trace_find_placeholder(const Trace *t, const Value *v);

/* End a region and put its control node into the enclosing trace. results are values of the
 * region's trace; out receives the node's explicit results. All free the region's trace. count
 * is an int32 scalar of the parent; plan makes a loop a pipeline (program/timetable.h), NULL: it
 * is none. */
Status trace_end_repeat(Trace *body, Value *count, Value *const *carried, int carried_count,
                        Value *const *results, Object *plan, Value **out);
Status trace_end_while(Trace *cond, Value *test, Trace *body, Value *limit, Value *const *carried,
                       int carried_count, Value *const *results, Value **out);
Status trace_end_cond(Value *test, Trace *yes, Value *const *yes_results, Trace *no,
                      Value *const *no_results, int count, Value **out);
Status trace_end_call(Trace *body, Value *const *arguments, Value *const *results, int count,
                      Value **out);
/* The same with a gradient of its own: a region inside of body whose arguments are the upstream
 * gradients of the results that upstream lists, and whose results are those of the arguments
 * that given lists. */
typedef struct CustomGradient {
  Trace *trace;
  Value *const *results;
  const int64_t *upstream, *given;
  int upstream_count, given_count;
} CustomGradient;
Status trace_end_custom(Trace *body, Value *const *arguments, Value *const *results, int count,
                        const CustomGradient *gradient, Value **out);
/* End of a root trace: results, then the assigned variables, become the graph's outputs.
 * written[i] says which extra output result_count + i belongs to. */
int trace_end_root(Trace *t, Value *const *results, int count, int *written);
#endif
