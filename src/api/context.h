/* The context, which the files of the C interface share. It is counted: builders, functions and
 * models hold theirs. */
#ifndef IPULUA_API_CONTEXT_H
#define IPULUA_API_CONTEXT_H
#include "api/bridge.h"
#include "engine/engine.h"
#include "graph/variable.h"
#include "ipulua.h"

struct ipu_context {
  _Atomic int references;
  Engine *engine;
  Error error;
  /* the last text that was returned; valid until the next call has ended, which may take it as an
   * argument */
  char *text;
  char *text_before;  /* the text that the present call may have been given */
  int64_t stream;     /* random ops traced so far */
  Variable **counter; /* of random ops in functions, without ops that have a seed of their own */
  int counter_count, counter_capacity;
  const Bridge *bridge; /* NULL until the first model */
  void *lua;            /* the models' Lua state, as the bridge knows it */
};

ipu_context *context_retain(ipu_context *c);
/* Starts v with the seed's value, now and each time another seed is set. */
Status context_keep_counter(ipu_context *c, Variable *v);
/* Each call begins here: the last message is cleared. */
Error *context_begin(ipu_context *c);
/* … and ends here, with the status as callers see it. */
int context_end(const ipu_context *c);
/* A message about an argument. what: "ipu_tensor_new: shape". */
int context_fail(ipu_context *c, Status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Are the required arguments of a function there? Otherwise false, and ipu_last_error() names the
 * one that is NULL. The list ends with {0}. */
typedef struct Given {
  const char *name;
  const void *pointer;
} Given;
bool context_given(ipu_context *c, const char *function, const Given *given);
/* Hand out text; takes it over. NULL counts as out of memory. */
int context_text(ipu_context *c, char *text, const char **out);
/* The text may be absent; counts must not be negative, lists not NULL unless empty. */
Status context_check_list(Error *e, const char *what, const void *list, int count);
Status context_read_type(Error *e, const char *what, const char *dtype, int rank,
                         const int64_t *shape, Type *out);

/* Tensors and variables are the library's own, under another name. */
static inline Tensor *tensor_of(const ipu_tensor *t) { return (Tensor *)(uintptr_t)t; }
static inline ipu_tensor *handle_of(Tensor *t) { return (ipu_tensor *)t; }
static inline Variable *variable_of(const ipu_variable *v) { return (Variable *)(uintptr_t)v; }
#endif
