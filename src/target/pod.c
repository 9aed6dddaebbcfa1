#include "target/pod.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "target/plan.h"

Status pod_make(Error *e, const Target *t, int ipus, const char *topology, Pod *out) {
  Topology kind = TOPOLOGY_MESH;
  if (ipus < 1 || ipus > POD_IPUS_MAX)
    return fail(e, ERR_VALUE, "the number of IPUs must be from 1 to %d, got %d", POD_IPUS_MAX,
                ipus);
  if (topology && !strcmp(topology, "torus")) kind = TOPOLOGY_TORUS;
  else if (topology && !strcmp(topology, "line")) kind = TOPOLOGY_LINE;
  else if (topology && strcmp(topology, "mesh"))
    return fail(e, ERR_VALUE, "topology must be 'mesh', 'torus' or 'line', got '%s'", topology);
  *out = (Pod){.target = *t, .ipus = ipus, .topology = kind};
  return OK;
}

/* Machines or cards. */
static int board_count(const Pod *p) { return (int)ceil_div(p->ipus, p->target.ipus_per_board); }

/* Rungs between two IPUs along the rails, signed: down is negative. A torus takes the shorter
 * way round. */
static int rail_distance(const Pod *p, int from, int to) {
  int rungs = (p->ipus + 1) / 2, apart = to / 2 - from / 2;
  if (p->topology != TOPOLOGY_TORUS || rungs < 3) return apart;
  if (apart > rungs / 2) return apart - rungs;
  return apart < -(rungs / 2) ? apart + rungs : apart;
}

/* Links passed on the way, 0 to itself. */
static int hops_between(const Pod *p, int from, int to) {
  if (from == to) return 0;
  if (p->topology == TOPOLOGY_LINE) return abs(to - from);
  return abs(rail_distance(p, from, to)) + (from % 2 != to % 2);
}

double pod_sync_cycles(const Pod *p, int ipus) {
  if (ipus < 2) return (double)p->target.sync_cycles;
  double hops = 1 + floor((double)ipus / 4), ns = (double)p->target.global_sync_ns_per_hop;
  return ceil(ns * 1e-9 * (double)p->target.clock_hz * hops * 2);
}

/* Channels of the ladder, each owned by the IPU that sends: across its rung, up and down its
 * rail. */
enum { CHANNEL_PAIR, CHANNEL_UP, CHANNEL_DOWN, CHANNEL_COUNT };

static double channel_rate(const Pod *p, int channel) {
  double link = (double)p->target.link_bytes_per_second / (double)p->target.clock_hz;
  if (channel != CHANNEL_PAIR) return 2 * link;
  return (double)p->target.pair_links * link;
}

/* Across the rung first, then along the rail. */
static void add_route(const Pod *p, const Transfer *x, double *load) {
  int at = x->from, rungs = (p->ipus + 1) / 2;
  if (p->topology == TOPOLOGY_LINE) {
    for (int step = x->to > at ? 1 : -1; at != x->to; at += step)
      load[at * CHANNEL_COUNT + (step > 0 ? CHANNEL_UP : CHANNEL_DOWN)] += x->bytes;
    return;
  }
  if (at % 2 != x->to % 2) load[at * CHANNEL_COUNT + CHANNEL_PAIR] += x->bytes, at ^= 1;
  int left = rail_distance(p, at, x->to), step = left > 0 ? 1 : -1;
  for (; left; left -= step) {
    if (at >= 0 && at < p->ipus)
      load[at * CHANNEL_COUNT + (step > 0 ? CHANNEL_UP : CHANNEL_DOWN)] += x->bytes;
    at = ((at / 2 + step + rungs) % rungs) * 2 + at % 2;
  }
}

static int position_of(const Pod *p, int shard) {
  return shard >= 0 && shard < p->order_count ? p->order[shard] : shard;
}

static bool is_inside(const Pod *p, const Transfer *x) {
  return x->from >= 0 && x->from < p->ipus && x->to >= 0 && x->to < p->ipus && x->from != x->to;
}

Cost cost_links(const Pod *p, const Transfer *list, int count) {
  Cost c = cost_free();
  double load[POD_IPUS_MAX * CHANNEL_COUNT];
  memset(load, 0, sizeof load);
  double worst = 0, bytes = 0;
  int hops = 0;
  for (int i = 0; i < count; i++) {
    Transfer x = {position_of(p, list[i].from), position_of(p, list[i].to), list[i].bytes};
    if (!is_inside(p, &x)) continue;
    int far = hops_between(p, x.from, x.to);
    hops = far > hops ? far : hops;
    bytes = fmax(bytes, x.bytes);
    add_route(p, &x, load);
  }
  if (!hops) return c;
  for (int i = 0; i < p->ipus * CHANNEL_COUNT; i++)
    worst = fmax(worst, load[i] / channel_rate(p, i % CHANNEL_COUNT));
  cost_stream(&c, "links", bytes,
              (double)p->target.link_latency_cycles * hops + worst + pod_sync_cycles(p, p->ipus));
  return c;
}

Cost cost_link(const Pod *p, int from, int to, double bytes) {
  Transfer one = {from, to, bytes};
  return cost_links(p, &one, 1);
}

/* IPUs that share no board with another pod's talk through the gateways. */
static bool crosses_gateways(const Pod *p) { return p->ipus > 64; }

/* Half of a ring all-reduce: every replica sends all shares but its own, one hop at a time. */
Cost cost_reduce_scatter(const Pod *p, int replicas, int ipus_per_replica, double bytes) {
  Cost c = cost_free();
  if (replicas < 2 || ipus_per_replica < 1 || !(bytes > 0)) return c;
  double link = (double)p->target.link_bytes_per_second / (double)p->target.clock_hz,
         k = (double)ipus_per_replica;
  double rate =
      /* both rails and directions that they own */
      ipus_per_replica == 1 ? 4 * link : 4 * link * k / 2;
  double hops = (double)replicas - 1, share = bytes * hops / (double)replicas;
  double cycles = hops * (double)p->target.link_latency_cycles + share / rate;
  if (crosses_gateways(p)) {
    double boards = (double)board_count(p), pods = ceil((double)p->ipus / 64);
    double gateways =
        (double)p->target.gateway_bytes_per_second / (double)p->target.clock_hz * boards / pods;
    cycles +=
        bytes * (pods - 1) / pods / gateways + (double)p->target.link_latency_cycles * (pods - 1);
  }
  cost_stream(&c, "collective", share, cycles + pod_sync_cycles(p, p->ipus));
  return c;
}

Cost cost_all_reduce(const Pod *p, int replicas, int ipus_per_replica, double bytes) {
  Cost c = cost_reduce_scatter(p, replicas, ipus_per_replica, bytes);
  cost_repeat(&c, 2);
  return c;
}

Cost cost_host(const Pod *p, double bytes, int sharing) {
  Cost c = cost_free();
  const Target *t = &p->target;
  if (!(bytes > 0)) return c;
  double clock = (double)t->clock_hz, users = sharing > 1 ? (double)sharing : 1;
  if (p->model_host) {
    cost_stream(&c, "host", bytes, bytes / ((double)t->model_host_bytes_per_second / clock));
    return c;
  }
  double rate = fmin((double)t->host_bytes_per_second, (double)t->nic_bytes_per_second / users);
  cost_stream(&c, "host", bytes, (double)t->host_latency_cycles + bytes / (rate / clock));
  return c;
}

Cost cost_streaming(const Pod *p, double bytes) {
  Cost c = cost_free();
  const Target *t = &p->target;
  if (!(bytes > 0)) return c;
  cost_stream(&c, "streaming memory", bytes,
              (double)t->host_latency_cycles +
                  bytes / ((double)t->streaming_bytes_per_second / (double)t->clock_hz));
  if (t->streaming_bytes < 1) c.fits = false, c.why = "this chip has no streaming memory";
  return c;
}

double pod_run_cycles(const Pod *p) {
  return (double)p->target.run_call_ns * 1e-9 * (double)p->target.clock_hz;
}
