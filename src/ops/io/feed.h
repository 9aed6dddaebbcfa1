/* The interfaces of infeeds, outfeeds and host functions. The engine's queues and the binding's
 * callbacks implement them, and nodes hold them as objects. */
#ifndef IPULUA_OPS_IO_FEED_H
#define IPULUA_OPS_IO_FEED_H
#include "graph/graph.h"

typedef struct Feed Feed;
struct Feed {
  Object object;
  int count; /* components of an element */
  const Type *type;
  /* Writes the next element. The end of data is an error (ERR_OUT_OF_RANGE). aside: called on
   * another thread, while the program's thread works. */
  Status (*next)(Feed *f, bool aside, void *const *into, Error *e);
  /* Whether another thread may read the next element now. NULL: never. */
  bool (*may_read_aside)(const Feed *f);
  /* Returns an unused element, or the failure in its place. It will be the next one again. */
  void (*put_back)(Feed *f, Status s, const Error *failure, void *const *element);
  /* Skips the elements of a step that failed. */
  void (*leave_out)(Feed *f, int64_t count);
};

typedef struct Outlet Outlet;
struct Outlet {
  Object object;
  /* One value of count components from each replica: data[replica * count + component]. form: the
   * argument of outlet_enqueue. */
  Status (*put)(Outlet *o, int form, int replicas, int count, const Type *const *type,
                const void *const *data, Error *e);
};

/* A function on the host, called in the middle of a program. */
typedef struct HostOp HostOp;
struct HostOp {
  Object object;
  int out_count;
  const Type *out_type;
  Status (*call)(HostOp *f, const Call *c);
};

/* Append the node; the infeed's outputs are its components. */
Node *feed_dequeue(Graph *g, Feed *f);
/* form: a number for the nesting of components, whose meaning the queue's reader knows. */
Node *outlet_enqueue(Graph *g, Outlet *o, int form, Value *const *in, int count);
/* Puts a value of each replica into the node's queue. */
Status outlet_put(const Node *n, int replicas, const Type *const *type, const void *const *data,
                  Error *e);
int outlet_form(const Node *n);
Node *host_op(Graph *g, HostOp *f, Value *const *in, int count);
extern const OpDef ops_feed[];
bool node_is_dequeue(const Node *n);
bool node_is_enqueue(const Node *n);
bool node_is_host(const Node *n); /* its first attribute is the HostOp */
#endif
