/* Data that is made up instead of crossing between host and device (IPULUA_FLAGS,
 * --use_synthetic_data). */
#ifndef IPULUA_ENGINE_SYNTHETIC_H
#define IPULUA_ENGINE_SYNTHETIC_H
#include "base/rng.h"
#include "graph/variable.h"

typedef enum SyntheticKind { SYNTHETIC_NUMBER, SYNTHETIC_UNIFORM, SYNTHETIC_NORMAL } SyntheticKind;

typedef struct Synthetic {
  bool infeed, outfeed; /* which queues have no host side */
  bool parameters;      /* trainable variables begin with such values, too */
  int64_t serial;       /* of this setting: a variable is made up once */
  SyntheticKind kind;   /* values of infeeds: the number, [0, 1), or mean 0 and deviation 1 */
  double number;
  uint64_t elements; /* made so far: the random ones differ */
} Synthetic;

/* Fill a dense buffer of a type; component: which of an element it is. */
void synthetic_fill(const Synthetic *s, uint64_t seed, int component, const Type *type, void *data);
/* Of count variables, gives the trainable ones with a value a made-up one, the first time. */
Status synthetic_parameters(Error *e, Synthetic *s, uint64_t seed, Variable **list, int count);
#endif
