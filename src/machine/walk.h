/* What the files that walk over a program's graph share (walk.c, walk_ops.c, walk_control.c). */
#ifndef IPULUA_MACHINE_WALK_H
#define IPULUA_MACHINE_WALK_H
#include "graph/control.h"
#include "machine/rows.h"
#include "program/region.h"

typedef struct Inside Inside; /* a region being walked */
struct Inside {
  const Graph *graph;
  Region region;
  const Homes *homes;
  int *held; /* by value; -1: none yet */
  Inside *outer;
  /* the node of outer that holds the region, and how its operands are the region's inputs */
  const Node *control;
  ControlRegions regions;
  int first_held; /* what the region holds itself begins here */
};

typedef struct Walk {
  Error *error;
  Price *price;
  const Program *program;
  CostTable costs;
  Placer placer;
  double times;
  int parent;
  const Graph *region; /* of the node being walked */
  int stage;           /* of it */
  bool backward;
  bool failed; /* memory is out */
} Walk;

enum { ON_HOST = -2 }; /* in place of an IPU: what scopes outside of compilation compute and read */

/* walk_ops.c. Rows and what takes memory, of which the last row is noted that needs it. */
Row *walk_add_row(Walk *w, RowKind kind, const Node *n, int ipu); /* NULL: memory is out */
/* -1: memory is out */
int walk_add_held(Walk *w, PriceCategory category, const Node *n, double bytes, int ipu);
void walk_touch(Walk *w, int held, int row);
int *walk_new_list(Walk *w, int count); /* of -1 */
int walk_ipu_of(const Walk *w, const Home *h);
bool walk_is_on_host(const Walk *w, int held);
int *walk_slot_of(Inside *in, const Value *v);
/* v is what that Held holds from now on. */
void walk_set_slot(Walk *w, Inside *in, const Value *v, int held);
void walk_written(Walk *w, int held); /* copies of it are of an older value */
/* What the loop n only reads is brought to the IPUs that read it inside, once. */
void walk_send_ahead(Walk *w, Inside *in, Node *n, const bool *changes);
/* The Held of v, brought to that IPU; the one that an operand of a control node is, without
 * moving it. */
int walk_local(Walk *w, Inside *in, Value *v, int ipu, const Node *reader);
int walk_held_operand(Walk *w, Inside *in, Value *v);
bool walk_is_free(const Node *n);
void walk_op(Walk *w, Inside *in, Node *n);
void walk_transfer(Walk *w, Inside *in, Node *n);
void walk_broadcast(Walk *w, Inside *in, Node *n);
void walk_dequeue(Walk *w, Inside *in, Node *n);
void walk_enqueue(Walk *w, Inside *in, Node *n);
void walk_host(Walk *w, Inside *in, Node *n);

/* walk_control.c */
void walk_control(Walk *w, Inside *in, Node *n);

/* walk.c */
void walk_region(Walk *w, Inside *in, const int *inputs, const int *targets, int *outputs);
#endif
