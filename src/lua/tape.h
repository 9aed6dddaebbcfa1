/* Eager gradient tapes. A recording tape notes the ops that run, in a graph of its own whose values
 * have tensors. The graph is freed after a call for gradients, unless the tape is persistent, or
 * when the tape is collected. */
#ifndef IPULUA_LUA_TAPE_H
#define IPULUA_LUA_TAPE_H
#include "graph/tensor_map.h"
#include "lua/bind.h"

/* The tensor of a value of the graph; notes are in the order of nodes. */
typedef struct Note {
  const Value *value;
  Tensor *tensor;
} Note;

typedef struct TapeReading {
  Variable *variable; /* retained */
  Value *value;
} TapeReading;

typedef struct Tape Tape;
struct Tape {
  State *state;
  Graph *graph; /* NULL: nothing was recorded, or the record was freed */
  Note *note;
  int count, capacity;
  TensorMap known; /* maps a tensor to its newest value */
  TapeReading *reading;
  int reading_count, reading_capacity;
  /* calls of programs whose replicas compute together: only one of them is recorded */
  const Node **together;
  int together_count, together_capacity;
  size_t told; /* bytes reported to the collector */
  bool records;
  int depth; /* nesting depth of the callback that it began in */
  /* the thread that it began in, its user value; it records ops there, and in coroutines resumed
   * there */
  lua_State *thread;
  Tape *next; /* in the list of recording tapes */
};

/* Whether a tape records what runs now. A tape of a coroutine that has yielded doesn't, nor does a
 * tape around a callback. */
bool tape_is_recording(const State *s);
/* Records an op that has just run on all recording tapes. Its operands are at index[]; a variable's
 * tensor is its own. Its results are at stack positions first … first + out_count - 1. */
void tape_record(lua_State *L, const OpDef *op, const int *index, Tensor *const *in, int count,
                 const Attr *attrs, int first, int out_count);
/* Records an op that ran while a function was traced on a tape beside that trace (known.c). */
void tape_record_on(lua_State *L, Tape *t, const OpDef *op, Tensor *const *in, int count,
                    const Attr *attrs, Tensor *const *out, int out_count);
/* The tensor on top of the stack is a reading of v: another tensor than the variable's. */
void tape_record_reading(lua_State *L, Variable *v);
/* A run of a program is recorded as a call, with the arguments before it and the results after it.
 * arguments is the stack index of a list; tape_begin_call pushes a value. The results are a list on
 * top of the stack. NULL: no tape records. */
typedef struct TapeCall TapeCall;
TapeCall *tape_begin_call(lua_State *L, Program *p, int arguments);
/* answers: the results of host callbacks */
void tape_end_call(lua_State *L, Program *p, TapeCall *call, const struct HostResults *answers);
void tape_clear(Tape *t);
/* Whether a tape that records, or has recorded, has noted the tensor. */
bool tape_any_holds(lua_State *L, const Tensor *tensor);

/* ---- within the tape's own files ---- */
bool tape_note(Tape *t, const Value *v,
               Tensor *tensor); /* of a value that the graph has just got */
Tensor *tape_noted(const Tape *t, const Value *v);
/* The value of the tensor or variable at index; NULL for anything else. Raises for a symbolic
 * tensor. */
Value *tape_value_at(lua_State *L, Tape *t, int index);
/* Records n, which has run for another tape or graph, on all recording tapes except `but`. */
void tape_record_node(State *s, const Tape *but, const Node *n, Tensor *const *in,
                      Tensor *const *out, Error *e);
Tape *tape_check(lua_State *L, int index);
int tape_gradients(lua_State *L); /* (tape, ys, xs, dys | nil) → list of tensors or false */
#endif
