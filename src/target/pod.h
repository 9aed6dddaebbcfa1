/* Several IPUs: their links, numbers and host connections, and the costs of data moves between
 * them. */
#ifndef IPULUA_TARGET_POD_H
#define IPULUA_TARGET_POD_H
#include "target/cost.h"

/* MESH: a ladder with two IPUs on each rung. TORUS: a ladder with its ends joined. LINE: cards in a
 * line. */
typedef enum Topology { TOPOLOGY_MESH, TOPOLOGY_TORUS, TOPOLOGY_LINE } Topology;

enum { POD_IPUS_MAX = 1024 };

typedef struct Pod {
  Target target;
  int ipus;
  int instances; /* host processes that drive them, each on machines of its own; at least 1 */
  Topology topology;
  /* host transfers as the IPU Model charges them: no latency, no shared network card */
  bool model_host;
  /* the position of shard i < order_count is order[i]; a later shard's is its number */
  int order_count;
  uint16_t order[POD_IPUS_MAX];
} Pod;

/* "mesh" (the default of one board and more), "torus" or "line". */
Status pod_make(Error *e, const Target *t, int ipus, const char *topology, Pod *out);
static inline int pod_hosts(const Pod *p) { return p->instances > 1 ? p->instances : 1; }
/* Cycles to synchronise so many neighbouring IPUs: one hop inside a board, and one for each pair of
 * boards. */
double pod_sync_cycles(const Pod *p, int ipus);

/* One message between two IPUs (shards), alone on the links. */
Cost cost_link(const Pod *p, int from, int to, double bytes);
/* Several messages at once. Each channel carries the bytes of its routes, and the busiest one
 * decides. */
typedef struct Transfer {
  int from, to;
  double bytes;
} Transfer;
Cost cost_links(const Pod *p, const Transfer *list, int count);

/* Replicas of some IPUs each, side by side. bytes is the size on one replica. */
Cost cost_all_reduce(const Pod *p, int replicas, int ipus_per_replica, double bytes);
/* or all-gather */
Cost cost_reduce_scatter(const Pod *p, int replicas, int ipus_per_replica, double bytes);

/* Host to device or back, while `sharing` IPUs of the board do the same. */
Cost cost_host(const Pod *p, double bytes, int sharing);
Cost cost_streaming(const Pod *p, double bytes); /* streaming memory, either way */
double pod_run_cycles(const Pod *p);             /* added by each call from the host */
#endif
