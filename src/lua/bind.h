/* Declarations shared by all binding files: the state, checks, pushes and errors. Calls of Lua can
 * raise, so memory of C is held by userdata across them. */
#ifndef IPULUA_LUA_BIND_H
#define IPULUA_LUA_BIND_H
#include <lauxlib.h>
#include <lua.h>

#include "data/host_call.h"
#include "engine/engine.h"
#include "graph/trace.h"
#include "tensor/print.h"

/* A reference to an open trace, for the symbolic tensors made in it. trace becomes NULL when the
 * trace ends. */
typedef struct TraceRef {
  int references;
  Trace *trace;
  struct TraceRef *parent; /* the enclosing one on the stack, retained; NULL for a root */
  struct TraceRef *below;  /* the former current one, retained */
  lua_State *thread;       /* the thread that began it */
  bool is_region;          /* of a loop or branch */
  bool is_gradient;        /* the region is the gradient of the one around it */
  /* of a root: it takes a value of the sessions' graph, or reads a variable of sessions that was
   * made before it began */
  bool meets_graph;
  int64_t variables_before; /* of a root: the newest variable when it began */
  /* of a root: ops computed eagerly while it is traced (known.h); NULL: none yet */
  struct Tape *known;
} TraceRef;

/* The counter of a random op's executions in programs. */
typedef struct Counter {
  Variable *variable; /* retained */
  int64_t number;     /* in order of making, from 1 */
  bool fixed;         /* it has a seed of its own, and is unaffected by new seeds */
} Counter;

/* One per Lua state, in its registry. */
typedef struct State {
  Engine *engine;
  TraceRef *trace;    /* the current one; NULL: eager */
  struct Tape *tapes; /* tapes that record, the newest first */
  int many_tapes;     /* the number of recording tapes from which the collector is called */
  /* callbacks that the script is inside of, whose ops outer tapes don't record */
  int unrecorded;
  /* the graph of sessions: placeholders and values computed from them; NULL: none yet */
  TraceRef *graph;
  char *library;           /* source prefix of the library's own Lua files: "@…/ipulua/" */
  char where[300];         /* the script's line, of the last call to bind_where */
  bool estimating;         /* programs are outlines; variables need no values and read as zeros */
  Scope scope;             /* inherited by new nodes */
  char *prefix;            /* of their names; NULL: none */
  char *attributes;        /* of frontend_attribute scopes, as JSON; NULL: none */
  int64_t stream;          /* random ops traced so far */
  uint64_t device_seed;    /* of random numbers in programs */
  bool identical_replicas; /* all replicas draw the same numbers */
  int replicas;            /* of the program being traced, as far as known */
  int replicas_asked;      /* the number on which the first collective's shape was based */
  Counter *counter;
  int counter_count, counter_capacity;
  int64_t counters_made;
  PrintOptions print;
  int64_t element_number; /* that a dataset's function is called for */
  bool seeded_stay;       /* draws with a seed of their own are the same in each run */
  int64_t run_number; /* 1 + the number of the program run that eager draws belong to; 0: none */
  HostCalls *host;    /* requests of other threads for this state's own */
  struct Job *job;    /* the job that runs on a thread; NULL: none */
  /* host callbacks that the script's thread is inside of, for which the program waits */
  int in_callback;
  /* where callbacks' results are noted for tapes; NULL: nowhere */
  struct HostResults *host_results;
  lua_State *callbacks; /* a coroutine of its own, on which C calls Lua functions */
  lua_State *calling;   /* the thread that is in such a call; NULL: none */
  /* the script's thread, and the thread of the fields for scopes and traces (context.h) */
  lua_State *main, *thread;
} State;

/* The state of L, switched to L's scopes and traces. */
State *bind_state(lua_State *L);
const State *bind_known_state(lua_State *L); /* NULL: there is none yet, or no more */

/* "script.lua:12" of the user's frame, in the state's buffer; NULL when there is none. */
const char *bind_where(lua_State *L);
int bind_raise(lua_State *L, const Error *e); /* never returns */
int bind_fail(lua_State *L, Status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The value at index for messages: its type, and its value if it is short. Pushes the memory of the
 * text. */
const char *bind_describe(lua_State *L, int index);
/* Lets the collector work in proportion to `bytes`. It doesn't see the memory that C holds for
 * small userdata. */
void bind_tell_collector(lua_State *L, size_t bytes);
static inline void bind_check(lua_State *L, const Error *e) {
  if (e->status != OK) bind_raise(L, e);
}

/* Pushes a new metatable; Lua's own messages call its values `word`: "attempt to call a tensor
 * value". */
void bind_new_metatable(lua_State *L, const char *name, const char *word);
/* Makes the metatable of userdata with methods (NULL: none) and no other fields. */
void bind_type(lua_State *L, const char *name, lua_CFunction collect, const luaL_Reg *methods);

/* ---- tensors (tensor.c) ---- */
#define TENSOR_NAME "ipulua.Tensor"
#define VARIABLE_NAME "ipulua.Variable"

typedef struct LuaTensor {
  Tensor *tensor;  /* NULL: symbolic only */
  Value *value;    /* NULL: concrete only */
  TraceRef *trace; /* of value */
} LuaTensor;

/* For __index: raises for the name at 2, which a "tensor" or "variable" lacks, and names the
 * probable one. Upvalue 1 is the table of methods. */
int bind_refuse_field(lua_State *L, const char *kind);
void bind_push_transposed(lua_State *L, int index);
/* For (tensor, name): pushes the method of the variable whose value the tensor is. False: there is
 * none. */
bool bind_field_behind(lua_State *L);

LuaTensor *bind_new_tensor(lua_State *L);                     /* pushes an empty one */
void bind_push_tensor(lua_State *L, Tensor *t);               /* takes t over */
void bind_push_freed(lua_State *L, char *data, size_t bytes); /* a string; frees data */
/* The same, with a link to the tensor that it is a part of (elements.c). */
void bind_push_linked(lua_State *L, Tensor *t);
void bind_push_value(lua_State *L, Value *v, TraceRef *trace);
/* The reason why a value of an ended trace can't be used. */
const char *bind_stale_words(const LuaTensor *t);
LuaTensor *bind_test_tensor(lua_State *L, int index); /* NULL when it is something else */
LuaTensor *bind_check_tensor(lua_State *L, int index, const char *what);
Variable *bind_test_variable(lua_State *L, int index);
/* The first argument; raises where it is none. */
Variable *bind_check_variable(lua_State *L);
void bind_push_variable(lua_State *L, Variable *v); /* takes v over */
/* Initialises variables whose values were deferred, while programs were only priced: the one at
 * index, or all of p's. */
void bind_initialise(lua_State *L, int index);
void bind_initialise_all(lua_State *L, const Program *p);
/* The type of a tensor or variable at index; false for anything else. */
bool bind_type_at(lua_State *L, int index, Type *out);
/* raises where an int doesn't hold it */
int bind_check_int(lua_State *L, int index, const char *what);
Dtype bind_check_dtype(lua_State *L, int index);
/* Messages begin with `who`. */
Dtype bind_check_dtype_of(lua_State *L, int index, const char *who);
Dtype bind_opt_dtype(lua_State *L, int index, Dtype fallback);
/* A list of integers, or one; returns how many. */
int bind_check_shape(lua_State *L, int index, const char *what, int64_t shape[MAX_RANK]);
/* Pushes a tensor made of a number, boolean, nested list, tensor or variable. dtype DTYPE_COUNT:
 * its own (float32 for numbers). Raises (literal.c). */
void bind_literal(lua_State *L, int index, Dtype dtype, const char *what);
/* The concrete tensor at index; reads variables. For symbolic tensors it raises with advice. The
 * result is borrowed from the value at index or from a pushed one. Pushes exactly one value. */
Tensor *bind_concrete(lua_State *L, int index, const char *what);
/* Pushes a copy of the current value of the variable at index, also while a function is traced. */
void bind_push_held(lua_State *L, int index, const char *what);
/* Pushes the value of the variable at index as a tensor for the script, which tapes record as a
 * reading. It is symbolic in a traced function. */
void bind_push_reading(lua_State *L, int index, const char *what);
void bind_push_shape(lua_State *L, const Type *t);
void bind_push_type(lua_State *L, const Type *t); /* {dtype, shape} */
void bind_set_type(lua_State *L, const Type *t);  /* these fields, of the table on top */

/* ---- traces (trace.c) ---- */
TraceRef *trace_ref_new(lua_State *L, Trace *t);
TraceRef *trace_ref_retain(TraceRef *r);
void trace_ref_release(TraceRef *r);
/* The first open one among r and the ones below it. */
TraceRef *trace_ref_open(TraceRef *r);
/* Discards the traces that `thread` began, among r and the ones below it, up to `below`. all false:
 * only the ones inside of an ended trace. */
void trace_ref_end(TraceRef *r, const TraceRef *below, const lua_State *thread, bool all);
/* The value at index in the current trace. It imports values, reads variables, and makes constants
 * of concrete tensors. Raises. */
Value *bind_value(lua_State *L, int index, const char *what);
/* The same for a trace that need not be the current one. */
Value *bind_value_in(lua_State *L, TraceRef *ref, int index, const char *what);
/* Set the line that new nodes carry. */
void bind_mark_line(lua_State *L, Graph *g);
/* the same without a call of Lua's */
void bind_mark_at(const State *s, Graph *g, const char *where);

/* ---- random numbers (random.c) ---- */
/* Pushes a new counter, with its first or restored value. */
Variable *bind_push_counter(lua_State *L, bool fixed);
/* The value that the next counter would have in the program run that eager draws belong to. */
int64_t bind_counter_value(lua_State *L, bool fixed);

/* ---- programs (program.c) ---- */
/* Compiles a root trace, pushes the program and frees the trace. An outline can only be priced.
 * Raises. */
void bind_push_program(lua_State *L, Trace *t, Value *const *results, int count, const char *name,
                       bool outline);

#define PROGRAM_NAME "ipulua.Program"
Program *bind_check_program(lua_State *L, int index);
/* {state, weights, activations, accumulators, shard_state, shard_weights, least}; other values than
 * tables are ignored. */
void bind_read_offload(lua_State *L, int index, Offload *o);
int bind_program_nodes(lua_State *L); /* (program) → list of tables (listing.c) */
int bind_trace_records(lua_State *L); /* records.c */
/* A list of tensors as a program's arguments, dense and of its types. Room for its results follows
 * at [argument_count + 1]. Pushes two values, which own them. */
Tensor **bind_arguments(lua_State *L, int index, const Program *p);
void bind_push_results(lua_State *L, Tensor **out, int count); /* a list; takes them over */

/* ---- jobs (job.c) ---- */
/* Waits for the running job, if it uses v (NULL: for any job). Inside of the job's callbacks it
 * doesn't wait. */
void bind_settle(lua_State *L, const Variable *v);
/* Waits for a program that runs in the background with this queue. A function that feeds a program
 * waits for none: there the queue holds what it held when it was asked. */
void bind_settle_queue(lua_State *L, const Object *queue);
/* Raises inside of a callback of a running program. */
void bind_refuse_inside(lua_State *L, const char *what);
/* Raises if a running job may change v. */
void bind_check_steady(lua_State *L, const Variable *v);
bool bind_job_uses(lua_State *L, const Object *o); /* is a job running with this queue? */

/* ---- the graph of sessions (graph.c) ---- */
TraceRef *bind_graph(lua_State *L); /* made at first use */
/* A symbolic tensor of the graph, or a variable that sessions read. */
bool bind_is_deferred(lua_State *L, int index);

/* ---- pipelines (pipeline.c) ---- */
Object *bind_opt_plan(lua_State *L, int index); /* NULL: none is there */

/* ---- ops (ops.c) ---- */
void bind_open_ops(lua_State *L); /* pushes a table name → function */
/* Applies an op to the values at the given stack indices. Pushes the visible results and returns
 * their number. */
int bind_apply(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs);
const OpDef *bind_op(lua_State *L, const char *name);

/* One function for each file. It fills the core table at the top of the stack, and pushes
 * nothing. */
void bind_open_tensor(lua_State *L);
void bind_open_tensor_bytes(lua_State *L);
void bind_open_elements(lua_State *L);
void bind_open_literal(lua_State *L);
void bind_open_variable(lua_State *L);
void bind_open_variable_replicas(lua_State *L);
void bind_open_trace(lua_State *L);
void bind_open_gradients(lua_State *L);
void bind_open_region(lua_State *L);
void bind_open_program(lua_State *L);
void bind_open_settings(lua_State *L);
void bind_open_entry(lua_State *L);
void bind_open_random(lua_State *L);
void bind_open_tape(lua_State *L);
void bind_open_graph(lua_State *L);
void bind_open_context(lua_State *L);
void bind_open_price(lua_State *L);
void bind_open_host(lua_State *L);
void bind_open_host_results(lua_State *L);
void bind_open_behind(lua_State *L);
void bind_open_job(lua_State *L);
void bind_open_instances(lua_State *L);
void bind_open_queue(lua_State *L);
void bind_open_dataset(lua_State *L);
void bind_open_files(lua_State *L);
void bind_open_pipeline(lua_State *L);
void bind_open_plain(lua_State *L);
void bind_open_json(lua_State *L);
void bind_set_functions(lua_State *L, const luaL_Reg *functions);
void bind_push_texts(lua_State *L, char *const *text, int count); /* a list */
/* Set fields of the table on top of the stack. */
void bind_set_text(lua_State *L, const char *key, const char *text); /* NULL: nil */
void bind_set_flag(lua_State *L, const char *key, bool on);
void bind_set_integer(lua_State *L, const char *key, int64_t value);
void bind_set_number(lua_State *L, const char *key, double value);
#endif
