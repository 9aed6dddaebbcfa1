/* Functions that a dataset carries: traced programs, with a variant for each shape of element,
 * and functions that only the script's thread may call. */
#ifndef IPULUA_DATA_FUNCTION_H
#define IPULUA_DATA_FUNCTION_H
#include <pthread.h>

#include "data/stage.h"

typedef struct Variant {
  Type *in; /* [in_count] */
  MapFunction function;
  int users;     /* elements that need it */
  uint64_t used; /* when it was last found */
} Variant;

typedef struct Function {
  MapFunction function;
  pthread_mutex_t mutex; /* of the members below */
  int count, capacity;
  uint64_t finds; /* so far */
  Variant **variant;
  uint64_t busy[MAP_WORKERS / 64]; /* a bit per worker number in use */
} Function;

void function_init(Function *f, MapFunction function); /* takes it over */
void function_clear(Function *f);
/* Is f made for elements of in? An error otherwise. */
Status function_check(const Function *f, Error *e, const char *name, const char *source,
                      const Dataset *in);
/* The function for elements of these tensors, until function_leave; NULL on failure. s: the stage
 * that asks. Of many variants the one that was found longest ago goes. */
Status function_find(Function *f, Stage *s, Tensor *const *in, const MapFunction **out, Error *e);
void function_leave(Function *f, const MapFunction *found); /* may be NULL */
/* A worker number that is free, until it is returned; -1 when there is none. */
int function_take_worker(Function *f);
void function_return_worker(Function *f, int worker);

/* Call f on the script's thread, whichever thread this is. Of s's dataset, which the call keeps
 * alive. number: of the element. */
Status script_function_call(const ScriptFunction *f, Stage *s, uint64_t number, Tensor *const *in,
                            int in_count, Tensor **out, int out_count, Dataset **dataset, Error *e);
#endif
