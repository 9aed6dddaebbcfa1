/* The state of a function being traced: its graph, and the values it has taken from outside. A
 * value of an enclosing trace and a variable both become inputs of the graph, after the arguments;
 * they are called extras. An assigned variable has a current value, which becomes an output when
 * the trace ends.
 *
 * A deferred trace is the graph of sessions. It never ends, and is never run as a whole. Reads and
 * assignments of variables are effects at positions in the order of nodes. A session's copy
 * (transform/fetch.h) replays the effects that it needs, in that order. */
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
  Value *current;     /* the variable's value now; differs from inner after an assignment */
  int effects;        /* deferred: the number of effects when it was read */
} Extra;

/* A change of a variable, when trigger is computed. Its place is before the node at position. */
typedef struct Effect {
  Variable *variable;
  Value *value;
  const Node *trigger;
  int position;
} Effect;

/* The nodes first … end-1, made by a call of autodiff. Copies differentiate again, since gradients
 * depend on shapes. */
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
  Node **observer; /* nodes of the graph that see the values of its variables (observe.h) */
  int observer_count, observer_capacity;
  TensorMap constant; /* the values of tensors that are known while tracing */
  bool deferred, has_unknown;
  Offload offload; /* of a root trace's program */
  int replicas;    /* of it, as far as is known */
  /* inlined after its parent, a loop's body, so it has the variables of the parent's parent */
  bool follows;
  bool is_gradient; /* a gradient, computed only when it is asked for */
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
Value *trace_first(Trace *t, Variable *v);       /* its value when the trace began */
Value *trace_constant(Trace *t, Tensor *tensor); /* the same value each time */
/* From now on value is the value of v. It is a "reading" (ops/unary.c) of the assigned value, or an
 * output of a loop or branch. */
void trace_assign(Trace *t, Variable *v, Value *value);

/* Lets the call n, the graph's newest node, see the values that the script has assigned before
 * it. */
void trace_observe(Trace *t, Node *n);
bool trace_writes(const Trace *t); /* has it assigned a variable? */
/* The extra of t whose input is v; NULL: v is no input, or an argument. */
const Extra *trace_extra_of(const Trace *t, const Value *v);

/* ---- deferred traces ---- */
/* The extent that stands for unknown ones, chosen for its many divisors. Copies have the fed
 * extents. */
enum { UNKNOWN_EXTENT = 5040 };
Trace *trace_new_deferred(void);
Value *trace_placeholder(Trace *t, const Type *declared, const char *name);
/* Assignments from effect `first` on also happen when a node is computed that came later than node
 * `since`. An older one has nothing to do with them. */
void trace_assign_with(Trace *t, int first, int since, const Node *trigger);
/* Adds an effect: v becomes value whenever trigger is computed. */
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
/* The same for a call with a custom gradient, which is a region inside of body. Its arguments are
 * the gradients of the results listed in `upstream`. Its results are the gradients of the arguments
 * listed in `given`. */
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
