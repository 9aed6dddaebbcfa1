/* Several IPUs: how they are linked, numbered and fed, and what it costs to move data between
 * them. */
#ifndef IPULUA_TARGET_POD_H
#define IPULUA_TARGET_POD_H
#include "target/cost.h"

/* Rungs of two IPUs in a ladder; a torus closes the ladder's ends; cards stand in a line. */
typedef enum Topology { TOPOLOGY_MESH, TOPOLOGY_TORUS, TOPOLOGY_LINE } Topology;

enum { POD_IPUS_MAX = 1024 };

typedef struct Pod {
  Target target;
  int ipus;
  int instances; /* host processes that drive them, each on machines of its own; at least 1 */
  Topology topology;
  /* host transfers as the IPU Model charges them: no latency, no shared network card */
  bool model_host;
  /* shard i < order_count stands at position order[i], a later one at its own number */
  int order_count;
  uint16_t order[POD_IPUS_MAX];
} Pod;

/* "mesh" (the default of one board and more), "torus" or "line". */
Status pod_make(Error *e, const Target *t, int ipus, const char *topology, Pod *out);
static inline int pod_hosts(const Pod *p) { return p->instances > 1 ? p->instances : 1; }
/* Cycles in which so many neighbouring IPUs agree: one hop inside a board, one more for each pair
 * of boards. */
double pod_sync_cycles(const Pod *p, int ipus);

/* One message between two IPUs (shards), alone on the links. */
Cost cost_link(const Pod *p, int from, int to, double bytes);
/* Several at once: each channel carries what its routes put on it, the busiest one decides. */
typedef struct Transfer {
  int from, to;
  double bytes;
} Transfer;
Cost cost_links(const Pod *p, const Transfer *list, int count);

/* Replicas of some IPUs each, side by side; bytes are those of one replica. */
Cost cost_all_reduce(const Pod *p, int replicas, int ipus_per_replica, double bytes);
/* or all-gather */
Cost cost_reduce_scatter(const Pod *p, int replicas, int ipus_per_replica, double bytes);

/* Host to device or back, while `sharing` IPUs of the board do the same. */
Cost cost_host(const Pod *p, double bytes, int sharing);
Cost cost_streaming(const Pod *p, double bytes); /* streaming memory, either way */
double pod_run_cycles(const Pod *p);             /* what one call from the host adds */
#endif
