/* Prices by hand: numbers of chips, links and hosts, sums of costs, and single costs whose steps
 * can be counted. Figures of chips come from target/chips.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "target/cost.h"
#include "target/pod.h"

static int checks, failures;

static void check_at(bool ok, int line, const char *what) {
  checks++;
  if (ok) return;
  if (failures++ < 40) fprintf(stderr, "costs_check.c:%d: %s\n", line, what);
}
#define CHECK(condition) check_at((condition), __LINE__, #condition)

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

static const CostStep *row_of(const Cost *c, const char *name) {
  static const CostStep none = {.name = ""};
  for (int i = 0; i < c->row_count; i++)
    if (!strcmp(c->steps[i].name, name)) return &c->steps[i];
  return &none;
}

static Target chip_with(const char *name, int64_t tiles) {
  Target t = *target_find(name);
  t.tiles = tiles;
  return t;
}

/* ---- numbers of a chip ---- */

static Status parse(Error *e, const char *json, Target *t) {
  *e = (Error){.status = OK};
  return target_parse(e, json, strlen(json), t);
}

static void check_numbers(void) {
  Error e = {.status = OK};
  Target t = *target_find("GC200");
  CHECK(target_restrict(&e, &t, 8, 8) != OK); /* none is left to compute */
  CHECK(target_restrict(&e, &t, 8, 7) == OK && t.tiles == 1);
  /* two links to each neighbour on the rail, and the pair's own */
  CHECK(parse(&e, "{\"links\": 9, \"pair_links\": 5}", &t) == OK && t.links == 9);
  CHECK(parse(&e, "{\"links\": 8, \"pair_links\": 5}", &t) != OK);
  char json[80], name[sizeof t.name + 1];
  memset(name, 'x', sizeof t.name), name[sizeof t.name] = 0;
  snprintf(json, sizeof json, "{\"name\": \"%s\"}", name);
  CHECK(parse(&e, json, &t) != OK); /* no room for the end */
  snprintf(json, sizeof json, "{\"name\": \"%s\"}", name + 1);
  CHECK(parse(&e, json, &t) == OK && strlen(t.name) == sizeof t.name - 1);
  CHECK(parse(&e, "{\"tilings\": 1}", &t) != OK && strstr(e.message, "did you mean 'tiles'"));
  CHECK(parse(&e, "{\"tirade\": 1}", &t) != OK && !strstr(e.message, "did you mean"));
  /* float32 sums take half of the units of a GC200 */
  const Target *whole = target_find("GC200");
  CHECK(target_macs(whole, 2, 4) == 32 && target_macs(whole, 2, 2) == 64 &&
        target_macs(whole, 4, 4) == 16);
}

/* ---- links and hosts ---- */

static Pod pod_of(const char *chip, int ipus, const char *topology) {
  Pod p;
  Error e = {.status = OK};
  CHECK(pod_make(&e, target_find(chip), ipus, topology, &p) == OK);
  return p;
}

static double links(const Pod *p, const Transfer *list, int count) {
  Cost c = cost_links(p, list, count);
  return cost_cycles(&c);
}

static void check_links(void) {
  Pod four = pod_of("GC200", 4, NULL);
  const double link = 14.6e9 / 1.33e9, sync = ceil(15e-9 * 1.33e9 * 2 * 2);
  CHECK(near(pod_sync_cycles(&four, 2), ceil(15e-9 * 1.33e9 * 1 * 2)));
  CHECK(near(pod_sync_cycles(&four, 4), sync));
  CHECK(near(pod_sync_cycles(&four, 8), ceil(15e-9 * 1.33e9 * 3 * 2)));
  /* one hop across the rung by five links, one up the rail by two */
  CHECK(near(links(&four, &(Transfer){0, 1, 1e6}, 1), 3000 + 1e6 / (5 * link) + sync));
  CHECK(near(links(&four, &(Transfer){0, 2, 1e6}, 1), 3000 + 1e6 / (2 * link) + sync));
  /* 0 to 3: across to 1 first, so that the rail from 0 to 2 is free */
  CHECK(near(links(&four, (Transfer[]){{0, 3, 1e6}, {0, 2, 1e6}}, 2),
             2 * 3000 + 1e6 / (2 * link) + sync));
  CHECK(near(links(&four, (Transfer[]){{0, 3, 1e6}, {1, 3, 1e6}}, 2),
             2 * 3000 + 2e6 / (2 * link) + sync));
  Pod turned = four;
  const uint16_t order[] = {1, 2, 3, 0};
  turned.order_count = 4, memcpy(turned.order, order, sizeof order);
  for (int shard = 0; shard < 4; shard++)
    CHECK(near(links(&turned, &(Transfer){shard, (shard + 1) % 4, 1e6}, 1),
               links(&four, &(Transfer){order[shard], order[(shard + 1) % 4], 1e6}, 1)));
}

/* A ring of n replicas: n - 1 hops, each of a share, over four links. Sixty-four are one pod. */
static void check_rings(void) {
  for (int n = 2; n <= 128; n *= 2) {
    Pod p = pod_of("Bow", n, NULL);
    double link = 14.6e9 / 1.85e9, bytes = 64e6, gateway = 25e9 / 1.85e9;
    double ring = (n - 1) * 3000.0 + bytes * (n - 1) / n / (4 * link) + pod_sync_cycles(&p, n);
    /* 32 boards in two pods: half of the bytes cross over, and one hop more */
    if (n > 64) ring += bytes / 2 / (gateway * 16) + 3000;
    Cost c = cost_reduce_scatter(&p, n, 1, bytes), all = cost_all_reduce(&p, n, 1, bytes);
    CHECK(near(cost_cycles(&c), ring) && near(cost_cycles(&all), 2 * ring));
  }
}

static void check_hosts(void) {
  Pod p = pod_of("GC200", 4, NULL);
  CHECK(near(pod_run_cycles(&p), 900e-6 * 1.33e9));
  for (int sharing = 0; sharing <= 4; sharing++) {
    double rate = fmin(7.5e9, 12.5e9 / fmax(1, sharing)) / 1.33e9;
    Cost c = cost_host(&p, 1e6, sharing);
    CHECK(near(cost_cycles(&c), 50000 + 1e6 / rate));
  }
  Cost c = cost_streaming(&p, 1e6);
  CHECK(near(cost_cycles(&c), 50000 + 1e6 / (16e9 / 1.33e9)) && c.fits);
  Pod card = pod_of("C600", 1, NULL);
  c = cost_streaming(&card, 1e6);
  CHECK(!c.fits && c.why);
}

/* ---- sums ---- */

/* Rows of steps add up to the phases, whatever was put together and repeated. */
static bool adds_up(const Cost *c) {
  double cycles[PHASE_COUNT] = {0}, bytes = 0;
  for (int i = 0; i < c->row_count; i++) {
    const CostStep *s = &c->steps[i];
    cycles[PHASE_COMPUTE] += s->compute, cycles[PHASE_EXCHANGE] += s->exchange;
    cycles[PHASE_SYNC] += s->sync, cycles[PHASE_STREAM] += s->stream;
    bytes += s->bytes;
  }
  bool same = near(bytes, c->moved_bytes);
  for (int i = 0; i < PHASE_COUNT; i++) same = same && near(cycles[i], c->cycles[i]);
  return same;
}

static void check_sums(void) {
  Target t = *target_find("GC200");
  Pod p = pod_of("GC200", 4, NULL);
  Cost sum = cost_softmax(&t, F32, 1000, 1000, false), host = cost_host(&p, 1e6, 1),
       more = cost_host(&p, 3e6, 1), product = cost_matmul(&t, F16, F32, 1, 300, 200, 100, NULL);
  CHECK(adds_up(&sum) && adds_up(&product));
  uint32_t kinds = sum.vertices | product.vertices;
  cost_then(&sum, &host), cost_then(&sum, &product), cost_then(&sum, &more);
  CHECK(adds_up(&sum) && sum.streamed_bytes == 4e6 && sum.vertices == kinds);
  cost_repeat(&sum, 7);
  CHECK(adds_up(&sum) && sum.streamed_bytes == 28e6);
  CHECK(near(sum.cycles[PHASE_STREAM], 7 * (cost_cycles(&host) + cost_cycles(&more))));
  Cost uneven = cost_reduce(&t, F32, COST_SUM, 1, 100000, 8), plain = cost_copy(&t, 1000);
  double before = uneven.uneven_bytes;
  cost_then(&uneven, &plain);
  CHECK(before > 0 && uneven.uneven_bytes == before);
  Cost broadcast = cost_broadcast(&t, F32, 1000, 10, 3);
  CHECK(broadcast.vertices == (1u << VERTEX_ELEMENTWISE | 1u << VERTEX_BROADCAST));
}

/* ---- single costs ---- */

/* PL: six contexts; 30 cycles to begin, 20 for each vector of two float32. */
static double merge_cycles(double elements) {
  return 6 * (30 + 20 * ceil(ceil(elements / 6) / 2)) + 11;
}

static void check_moves(void) {
  Target one = chip_with("GC200", 1), three = chip_with("GC200", 3), t = *target_find("GC200");
  Cost c = cost_broadcast(&one, F32, 1000, 1000, 3);
  CHECK(c.moved_bytes == 0 && c.cycles[PHASE_EXCHANGE] == 0 && c.bytes[MEMORY_MESSAGE] == 0);
  /* 1472 indices, one of four bytes on each tile */
  c = cost_one_hot(&t, F32, 1472, 10);
  CHECK(row_of(&c, "one_hot")->bytes == 4 && row_of(&c, "one_hot")->compute == 74 + 60);
  /* 16 runs of four: 64, 32, 16, 8 elements are merged, each time in three levels */
  c = cost_top_k(&one, F32, 1, 64, 4);
  double merged = merge_cycles(64) + merge_cycles(32) + merge_cycles(16) + merge_cycles(8);
  CHECK(near(row_of(&c, "top k merge")->compute, 3 * merged + 12 * 60));
  /* sums of three tiles are added up in two rounds */
  c = cost_scan(&three, F32, 1, 1000000);
  CHECK(row_of(&c, "scan across tiles")->times == 2);
  /* rows of 1000 vectors a tile: three slices one after another are quicker than a lookup */
  Cost few = cost_gather(&t, F32, 10, 2944000, 3), many = cost_gather(&t, F32, 10, 2944000, 4);
  CHECK(row_of(&few, "slice")->times == 3 && row_of(&many, "gather")->times == 1);
  /* 390 tiles. The table's 400 bytes fill an element of 16,384; as many are added to it. Two rows
   * of eight bytes and two indices of four are gathered and updated. */
  c = cost_scatter(&t, F32, 50, 780, 2);
  CHECK(c.separate_bytes == 16384 + 400 + 2 * 2 * (8 + 4));
}

static void check_chains(void) {
  Target t = *target_find("GC200");
  Cost c = cost_softmax(&t, F32, 3, 1000000, false);
  CHECK(row_of(&c, "elementwise")->times == 4); /* less the maximum, exp, 1 / sum, product */
  c = cost_norm(&t, F32, 1, 1472 * 64, false);
  CHECK(c.bytes[MEMORY_TEMPORARY] == 64 * 4);
  /* a block of 16 in float32, beside an element for the program */
  c = cost_cholesky(&t, F32, 1, 16, 16);
  CHECK(c.separate_bytes == 16384 + 16 * 16 * 4);
}

static void check_sequences(void) {
  Target one = chip_with("GC200", 1);
  RnnShape s = {.batch = 1, .steps = 1, .inputs = 16, .outputs = 1024};
  Cost c = cost_lstm(&one, F32, F32, &s, true, NULL);
  /* the gradients of the state and of the cell, eight bytes a cycle */
  CHECK(row_of(&c, "copy")->times == 1);
  CHECK(near(row_of(&c, "copy")->compute, 60 + 25 + 2 * 1024 * 4 / 8));
  /* four gates, tanh and the cell before; the gradients of the gates */
  Target t = *target_find("GC200");
  s = (RnnShape){.batch = 4096, .steps = 1, .inputs = 16, .outputs = 64};
  c = cost_lstm(&t, F32, F32, &s, true, NULL);
  CHECK(c.bytes[MEMORY_TEMPORARY] * 1472 >= 4096 * (16 + (6 + 4) * 64) * 4);
}

static void check_products(void) {
  Target t = *target_find("GC200");
  PlanOptions little = {.available_memory_proportion = 1e-6};
  Cost fits = cost_matmul(&t, F16, F32, 1, 300, 300, 300, NULL),
       none = cost_matmul(&t, F16, F32, 1, 300, 300, 300, &little);
  CHECK(fits.fits && !none.fits && cost_temporary(&none) <= cost_temporary(&fits));
  /* a trained matrix stays where it is: a row is sent to it, and products of a column and a row are
   * not summed */
  PlanOptions trained = {.trained = true};
  Cost row = cost_matmul(&t, F16, F32, 1, 1, 2048, 2048, &trained);
  CHECK(row.bytes[MEMORY_MESSAGE] * row.tiles < 2048.0 * 2048 * 2);
  Target few = chip_with("GC200", 4);
  for (int64_t n = 32; n <= 2048; n *= 2) {
    Cost outer = cost_matmul(n < 256 ? &few : &t, F16, F32, 1, n, 1, 2048, &trained);
    CHECK(row_of(&outer, "multiply")->times == 1 && row_of(&outer, "convert")->compute == 2 * 60);
    CHECK(row_of(&outer, "reduce partials")->times == 0);
  }
}

/* On a small chip: parts one after another, with the result beside them in the allowed memory. */
static void check_serial_products(void) {
  Target t = chip_with("GC2", 8);
  const Dtype dtypes[] = {F32, F16};
  for (int i = 0; i < 2; i++) {
    Cost c = cost_matmul(&t, dtypes[i], F32, 1, 16, 1024, 2048, NULL);
    CHECK(c.fits && c.bytes[MEMORY_MESSAGE] + c.bytes[MEMORY_PARTIALS] <= 0.6 * 262144);
    CHECK(row_of(&c, "join parts")->times > 0);
    /* one group at a time, if need be */
    Cost one = cost_matmul(&t, dtypes[i], F32, 1, 128, 32, 2048, NULL),
         eight = cost_matmul(&t, dtypes[i], F32, 8, 128, 32, 2048, NULL);
    CHECK(eight.fits && cost_cycles(&eight) < 2 * 8 * cost_cycles(&one));
  }
}

static void check_solvers(void) {
  Target t = *target_find("GC200"), one = chip_with("GC200", 1);
  /* Four blocks of rows and four columns. Each half of the columns has its rows halved: 2 updates.
   * Their four quarters are halved in the same way: 8. A block is solved for each of them. */
  Cost c = cost_triangular_solve(&t, F32, 1, 64, 4, 16);
  CHECK(row_of(&c, "scaled add")->times == 2 + 8 && row_of(&c, "solve")->times == 16);
  /* all points of time on one tile, one after another */
  for (int64_t time = 9; time <= 12; time++) {
    c = cost_ctc_loss(&one, F32, 1, time, 3, 5);
    CHECK(row_of(&c, "paths")->times == (double)time);
  }
}

static void check_octave(void) {
  Target t = *target_find("GC200");
  ConvPart parts[2] = {{.shape = {.batch = 4,
                                  .groups = 1,
                                  .in_channels = 32,
                                  .out_channels = 32,
                                  .rank = 2,
                                  .in = {28, 28},
                                  .out = {28, 28},
                                  .kernel = {3, 3},
                                  .stride = {1, 1},
                                  .dilation = {1, 1}}}};
  parts[1] = parts[0];
  parts[1].shape.in_channels = 8;
  Cost both = cost_octave(&t, F16, F32, parts, 2, CONV_WEIGHTS, NULL);
  CHECK(near(both.flops, 2.0 * 4 * 28 * 28 * 9 * 32 * (32 + 8)));
  CHECK(adds_up(&both));
}

int main(void) {
  check_numbers();
  check_links();
  check_rings();
  check_hosts();
  check_sums();
  check_moves();
  check_chains();
  check_sequences();
  check_products();
  check_serial_products();
  check_solvers();
  check_octave();
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures > 0;
}
