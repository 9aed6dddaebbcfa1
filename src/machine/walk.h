/* The pricing context: the state that the files of the pricing pass share. */
#ifndef IPULUA_MACHINE_WALK_H
#define IPULUA_MACHINE_WALK_H
#include "graph/control.h"
#include "machine/costs.h"
#include "machine/place.h"
#include "program/region.h"

typedef struct PricedRegion PricedRegion; /* a region being priced */
struct PricedRegion {
  const Graph *graph;
  Region region;
  const Homes *homes;
  int *allocation; /* by value; -1: none yet */
  PricedRegion *outer;
  /* the node of outer that holds the region, and how its operands are the region's inputs */
  const Node *control;
  ControlRegions regions;
  int first_allocation; /* the region's own allocations begin here */
};

typedef struct PricingContext {
  Error *error;
  Price *price;
  const Program *program;
  CostTable costs;
  Placer placer;
  double times;
  int parent;
  const Graph *region; /* of the node being priced */
  int stage;           /* of it */
  bool backward;
  bool failed; /* memory is out */
} PricingContext;

enum {
  ON_HOST = -2
}; /* in place of an IPU: values that scopes outside of compilation compute and
                        * read */

/* The steps of a region, and the allocations of its outputs (outputs may be NULL). */
void walk_region(PricingContext *w, PricedRegion *in, const int *inputs, const int *targets,
                 int *outputs);
/* Priced steps and allocations. */
Status walk_program(Error *e, Price *p, const Program *program);
#endif
