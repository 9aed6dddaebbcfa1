/* Eager gradient tapes: while one records, what runs is also written down, in a graph of the tape's
 * own whose values have tensors. A tape that is asked (unless it is persistent) or that nobody
 * holds any more lets go of all that. */
#ifndef IPULUA_LUA_TAPE_H
#define IPULUA_LUA_TAPE_H
#include "graph/tensor_map.h"
#include "lua/bind.h"

/* What a value of the graph holds; in the order of nodes. */
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
  Graph *graph; /* NULL: nothing was recorded, or it is gone */
  Note *note;
  int count, capacity;
  TensorMap known; /* the notes, by tensor: the newest value of each */
  TapeReading *reading;
  int reading_count, reading_capacity;
  size_t told; /* bytes that the collector knows of */
  bool records;
  int depth; /* of the callback that it began in */
  /* that it began in, its user value: it records what runs there, and in coroutines resumed
   * there */
  lua_State *thread;
  Tape *next; /* of those that record */
};

/* Note an op that has just run on all tapes that record: operands (tensors, those of variables
 * their own) at index[], all its results at stack positions first … first + out_count - 1. */
void tape_record(lua_State *L, const OpDef *op, const int *index, Tensor *const *in, int count,
                 const Attr *attrs, int first, int out_count);
/* An op that ran while a function was traced, on a tape beside that trace (known.c). */
void tape_record_on(lua_State *L, Tape *t, const OpDef *op, Tensor *const *in, int count,
                    const Attr *attrs, Tensor *const *out, int out_count);
/* The tensor on top of the stack is a reading of v: another tensor than the variable's. */
void tape_record_reading(lua_State *L, Variable *v);
/* A run of a program is noted as a call: before it, what it is given (arguments: the stack index of
 * a list; pushes a value), and after it, its results (a list on top of the stack). NULL: no tape
 * records. */
typedef struct TapeCall TapeCall;
TapeCall *tape_begin_call(lua_State *L, Program *p, int arguments);
/* answers: what host callbacks gave */
void tape_end_call(lua_State *L, Program *p, TapeCall *call, const struct HostResults *answers);
void tape_clear(Tape *t);
/* Whether any tape, that records or may still be asked, has noted the tensor. */
bool tape_any_holds(lua_State *L, const Tensor *tensor);

/* ---- within the tape's own files ---- */
bool tape_note(Tape *t, const Value *v,
               Tensor *tensor); /* of a value that the graph has just got */
Tensor *tape_noted(const Tape *t, const Value *v);
/* The value of the tensor or variable at index; NULL for anything else. Raises for a symbolic
 * tensor. */
Value *tape_value_at(lua_State *L, Tape *t, int index);
/* n has run, on another tape or in another graph: the tapes that record, but for `but`, note the
 * same. */
void tape_record_node(State *s, const Tape *but, const Node *n, Tensor *const *in,
                      Tensor *const *out, Error *e);
Tape *tape_check(lua_State *L, int index);
int tape_gradients(lua_State *L); /* (tape, ys, xs, dys | nil) → list of tensors or false */
#endif
