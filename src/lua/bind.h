/* What all binding files share: the state, checks, pushes, raising. Nothing that C owns is held
 * across a call that can raise: userdata hold it. */
#ifndef IPULUA_LUA_BIND_H
#define IPULUA_LUA_BIND_H
#include <lauxlib.h>
#include <lua.h>

#include "data/host_call.h"
#include "engine/engine.h"
#include "graph/trace.h"
#include "tensor/print.h"

/* A trace that is open, as the symbolic tensors made in it know it: closed (trace NULL) when the
 * trace ends. */
typedef struct TraceRef {
  int references;
  Trace *trace;
  struct TraceRef *parent; /* the enclosing one on the stack, retained; NULL for a root */
  struct TraceRef *below;  /* the one that was current before, retained */
  lua_State *thread;       /* that began it */
  bool is_region;          /* of a loop or branch */
  bool is_gradient;        /* that region is the gradient of the one around it */
  /* of a root: what was computed at once while it was traced (known.h); NULL: nothing yet */
  struct Tape *known;
} TraceRef;

/* What a random op in programs counts its executions with. */
typedef struct Counter {
  Variable *variable; /* retained */
  int64_t number;     /* in order of making, from 1 */
  bool fixed;         /* a seed of its own: a new one elsewhere leaves it alone */
} Counter;

/* One per Lua state, in its registry. */
typedef struct State {
  Engine *engine;
  TraceRef *trace;    /* the current one; NULL: eager */
  struct Tape *tapes; /* that record what runs, the newest first */
  int many_tapes;     /* before so many record the collector is called */
  /* callbacks that the script is inside of: tapes from outside don't see what they compute */
  int unrecorded;
  /* what sessions run: placeholders and what is computed from them; NULL: nothing yet */
  TraceRef *graph;
  char *library;           /* source prefix of the library's own Lua files: "@…/ipulua/" */
  char where[300];         /* the script's line, of the last call to bind_where */
  bool estimating;         /* programs are outlines; variables need no values and read as zeros */
  Scope scope;             /* what new nodes inherit */
  char *prefix;            /* of their names; NULL: none */
  char *attributes;        /* of frontend_attribute scopes, as JSON; NULL: none */
  int64_t stream;          /* random ops traced so far */
  uint64_t device_seed;    /* of what programs draw */
  bool identical_replicas; /* which then draw the same */
  int replicas;            /* that the program being traced will have, as far as is known */
  int replicas_asked;      /* what the first collective whose shape depends on it was told */
  Counter *counter;
  int counter_count, counter_capacity;
  int64_t counters_made;
  PrintOptions print;
  int64_t run_number; /* 1 + that of the program run that eager draws stand for; 0: of none */
  HostCalls *host;    /* requests of other threads for this state's own */
  struct Job *job;    /* that runs on a thread; NULL: none */
  /* host callbacks that the script's thread is inside of: whoever runs the program waits for
   * them */
  int in_callback;
  struct HostResults *host_results; /* where they are noted, for tapes; NULL: nowhere */
  lua_State *callbacks;             /* a coroutine of its own, on which C calls Lua functions */
  lua_State *calling;               /* the thread that does so; NULL: none */
  /* the script's, and the one that the fields of scopes and traces are of (context.h) */
  lua_State *main, *thread;
} State;

/* Its scopes and traces are those of L from now on. */
State *bind_state(lua_State *L);
const State *bind_known_state(lua_State *L); /* NULL: there is none yet, or no more */

/* "script.lua:12" of the user's frame, in the state's buffer; NULL when there is none. */
const char *bind_where(lua_State *L);
int bind_raise(lua_State *L, const Error *e); /* never returns */
int bind_fail(lua_State *L, Status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The value at index as messages show it: its type, of short things the value too. Pushes what
 * it points into. */
const char *bind_describe(lua_State *L, int index);
/* The collector sees userdata of a few bytes; let it work as much as what C holds for them is
 * worth. */
void bind_tell_collector(lua_State *L, size_t bytes);
static inline void bind_check(lua_State *L, const Error *e) {
  if (e->status != OK) bind_raise(L, e);
}

/* Pushes a new metatable; Lua's own messages call its values `word`: "attempt to call a tensor
 * value". */
void bind_new_metatable(lua_State *L, const char *name, const char *word);
/* The metatable of userdata that scripts know by methods alone; methods NULL: there are none. */
void bind_type(lua_State *L, const char *name, lua_CFunction collect, const luaL_Reg *methods);

/* ---- tensors (tensor.c) ---- */
#define TENSOR_NAME "ipulua.Tensor"
#define VARIABLE_NAME "ipulua.Variable"

typedef struct LuaTensor {
  Tensor *tensor;  /* NULL: symbolic only */
  Value *value;    /* NULL: concrete only */
  TraceRef *trace; /* of value */
} LuaTensor;

/* In __index, for the name at 2 that a "tensor" or "variable" lacks: raises with the one that
 * was meant. Upvalue 1 is the table of methods. */
int bind_refuse_field(lua_State *L, const char *kind);
void bind_push_transposed(lua_State *L, int index);
/* Of (tensor, name): pushes the method of the variable that the tensor is a value of (behind.c);
 * false: there is none. */
bool bind_field_behind(lua_State *L);

LuaTensor *bind_new_tensor(lua_State *L);       /* pushes an empty one */
void bind_push_tensor(lua_State *L, Tensor *t); /* takes t over */
/* The same, with room for what it was taken from (elements.c). */
void bind_push_linked(lua_State *L, Tensor *t);
void bind_push_value(lua_State *L, Value *v, TraceRef *trace);
/* why the value of a trace that has ended can't be used */
const char *bind_stale_words(const LuaTensor *t);
LuaTensor *bind_test_tensor(lua_State *L, int index); /* NULL when it is something else */
LuaTensor *bind_check_tensor(lua_State *L, int index, const char *what);
Variable *bind_test_variable(lua_State *L, int index);
/* The first argument; raises where it is none. */
Variable *bind_check_variable(lua_State *L);
void bind_push_variable(lua_State *L, Variable *v); /* takes v over */
/* A variable whose value was put off, while programs were only priced, gets it now: the one at
 * index, or all of p's. */
void bind_initialise(lua_State *L, int index);
void bind_initialise_all(lua_State *L, const Program *p);
/* The type of a tensor or variable at index; false for anything else. */
bool bind_type_at(lua_State *L, int index, Type *out);
/* raises where an int doesn't hold it */
int bind_check_int(lua_State *L, int index, const char *what);
Dtype bind_check_dtype(lua_State *L, int index);
/* who: what a message begins with */
Dtype bind_check_dtype_of(lua_State *L, int index, const char *who);
Dtype bind_opt_dtype(lua_State *L, int index, Dtype fallback);
/* A list of integers, or one; returns how many. */
int bind_check_shape(lua_State *L, int index, const char *what, int64_t shape[MAX_RANK]);
/* A tensor from a number, boolean, nested list, tensor or variable; dtype DTYPE_COUNT: as it
 * comes (numbers float32). The result is pushed. Raises (literal.c). */
void bind_literal(lua_State *L, int index, Dtype dtype, const char *what);
/* A concrete tensor at index (reads variables); raises for symbolic ones, saying what to do
 * instead. Borrowed: kept alive by the value at index, or by one that is pushed. Pushes exactly
 * one value. */
Tensor *bind_concrete(lua_State *L, int index, const char *what);
/* Pushes what the variable at index holds now, whatever is traced, as a tensor of its own. */
void bind_push_held(lua_State *L, int index, const char *what);
/* Pushes what the variable at index holds as a tensor of the script's, which tapes know for a
 * reading; symbolic in a traced function. */
void bind_push_reading(lua_State *L, int index, const char *what);
void bind_push_shape(lua_State *L, const Type *t);

/* ---- traces (trace.c) ---- */
TraceRef *trace_ref_new(lua_State *L, Trace *t);
TraceRef *trace_ref_retain(TraceRef *r);
void trace_ref_release(TraceRef *r);
/* The first that is open of r and those below it. */
TraceRef *trace_ref_open(TraceRef *r);
/* Gives up those that `thread` began of r and those below it, up to `below`: all, or those
 * inside of one that has ended. */
void trace_ref_end(TraceRef *r, const TraceRef *below, const lua_State *thread, bool all);
/* The value at index for the current trace: imports, reads variables, makes constants of
 * concrete tensors. Raises. */
Value *bind_value(lua_State *L, int index, const char *what);
/* The same for a trace that need not be the current one. */
Value *bind_value_in(lua_State *L, TraceRef *ref, int index, const char *what);
/* Set the line that new nodes carry. */
void bind_mark_line(lua_State *L, Graph *g);
/* the same without a call of Lua's */
void bind_mark_at(const State *s, Graph *g, const char *where);

/* ---- random numbers (random.c) ---- */
/* a new one, at its first or restored value */
Variable *bind_push_counter(lua_State *L, bool fixed);
/* What the next counter would hold in the program run that eager draws stand for. */
int64_t bind_counter_value(lua_State *L, bool fixed);

/* ---- programs (program.c) ---- */
/* Compile a root trace and push the program; frees the trace. An outline can only be priced.
 * Raises. */
void bind_push_program(lua_State *L, Trace *t, Value *const *results, int count, const char *name,
                       bool outline);

#define PROGRAM_NAME "ipulua.Program"
Program *bind_check_program(lua_State *L, int index);
/* {state, weights, activations, accumulators, shard_state, shard_weights, least}; anything but a
 * table: nothing. */
void bind_read_offload(lua_State *L, int index, Offload *o);
int bind_program_nodes(lua_State *L); /* (program) → list of tables (listing.c) */
int bind_trace_records(lua_State *L); /* records.c */
/* A list of tensors as a program's arguments, dense and of its types; room for its results
 * follows at [argument_count + 1]. Pushes what owns it (two values). */
Tensor **bind_arguments(lua_State *L, int index, const Program *p);
void bind_push_results(lua_State *L, Tensor **out, int count); /* a list; takes them over */

/* ---- jobs (job.c) ---- */
/* Wait for the job that runs, if it uses v (NULL: for any); but not inside of what is called by
 * it, which it waits for. */
void bind_settle(lua_State *L, const Variable *v);
/* Raises where a program is running, which it therefore was called from. */
void bind_refuse_inside(lua_State *L, const char *what);
/* Raises where v is being changed by a job that goes on meanwhile. */
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
/* Apply an op to values at the given stack indices; pushes the visible results and returns their
 * number. */
int bind_apply(lua_State *L, const OpDef *op, const int *index, int count, const Attr *attrs);
const OpDef *bind_op(lua_State *L, const char *name);

/* One function a file: pushes nothing, fills the core table at the top of the stack. */
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
/* Fields of the table on the top. */
void bind_set_integer(lua_State *L, const char *key, int64_t value);
void bind_set_number(lua_State *L, const char *key, double value);
#endif
