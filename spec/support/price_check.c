/* Every row of the registry at shapes that nobody listed: the extents of its samples are replaced, equal ones by equal ones, from 1
 * to millions. What infer accepts must have a price: finite, adding up, with a plan or a reason, not below the roofline, and not
 * falling when all extents double. Seeded; the last line is "N passed, N failed". */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "samples.h"
#include "target/cost.h"

enum { ROUNDS = 12, EXTENTS = 32 };

static int passed, failed, priced;
static uint64_t state = 20250301;

static uint64_t next_random(void) { /* xorshift64* */
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 2685821657736338717ULL;
}

static int64_t random_extent(int64_t most) {
  static const int64_t odd[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 64, 97, 128, 512, 1009, 1024};
  if (next_random() % 2) return odd[next_random() % (sizeof odd / sizeof *odd)];
  double u = (double)(next_random() >> 11) / 9007199254740992.0;
  return (int64_t)exp(u * log((double)most));
}

static void check(bool ok, const char *what, const Sample *s, const Node *n) {
  if (ok) {
    passed++;
    return;
  }
  if (failed++ > 40) return;
  char text[TYPE_TEXT];
  printf("FAILED %s: %s, case '%.60s', at", s->op->name, what, s->text);
  for (int i = 0; n && i < n->in_count; i++) printf(" %s", type_text(&n->in[i]->type, text));
  printf("\n");
}

/* What each extent of a sample becomes. */
typedef struct Mapping {
  int64_t from[EXTENTS], to[EXTENTS];
  int count;
} Mapping;

static int64_t map_extent(const Mapping *m, int64_t extent) {
  for (int i = 0; i < m->count; i++)
    if (m->from[i] == extent) return m->to[i];
  return extent;
}

static Mapping choose(const Sample *s, int round) {
  Mapping m = {.count = 0};
  int64_t most = round % 4 == 3 ? 2000000 : 4000;
  for (int i = 0; i < s->count; i++)
    for (int k = 0; k < s->operand[i].type.rank; k++) {
      int64_t extent = s->operand[i].type.shape[k];
      if (extent < 2 || map_extent(&m, extent) != extent || m.count == EXTENTS) continue;
      m.from[m.count] = extent;
      m.to[m.count++] = round == 0 ? extent : random_extent(most);
    }
  return m;
}

static Node *node_at(Graph *g, const Sample *s, const Mapping *m, Dtype real, int64_t factor) {
  Value *in[SAMPLE_OPERANDS];
  double elements = 0;
  for (int i = 0; i < s->count; i++) {
    Type type = sample_type(s, i, real, I32);
    double count = 1;
    for (int k = 0; k < type.rank; k++) {
      if (type.shape[k] > 1) type.shape[k] = map_extent(m, type.shape[k]) * factor;
      count *= (double)type.shape[k];
    }
    elements += count;
    in[i] = elements < 1e12 ? graph_input(g, &type, "x") : NULL;
    if (!in[i]) return NULL;
  }
  return graph_node(g, s->op, in, s->count, s->attr);
}

static void check_cost(const Target *t, const Sample *s, const Node *n, const Cost *c) {
  double cycles = cost_cycles(c), rows = 0, flops = c->flops;
  check(isfinite(cycles) && cycles >= 0, "cycles are finite", s, n);
  for (int i = 0; i < c->row_count; i++) rows += c->steps[i].compute + c->steps[i].exchange + c->steps[i].sync + c->steps[i].stream;
  check(fabs(rows - cycles) <= 1e-6 * cycles + 1, "steps add up", s, n);
  check(c->fits || (c->why && *c->why), "fits, or says why not", s, n);
  bool sane = c->tiles >= 0 && c->tiles <= (double)t->tiles;
  for (int m = 0; m < MEMORY_COUNT; m++) sane = sane && c->bytes[m] >= 0 && isfinite(c->bytes[m]);
  check(sane, "memory and tiles are sane", s, n);
  /* Attributes of internal rows hold extents, which then don't belong to these shapes. */
  double peak = 2 * (double)t->macs_f16 * (double)t->tiles;
  if (!(s->op->traits & INTERNAL)) check(cycles * peak >= flops * 0.999, "not below the roofline", s, n);
}

static void check_sample(const Target *t, const Sample *s, bool *any) {
  for (int round = 0; round < ROUNDS; round++) {
    Mapping m = choose(s, round);
    Dtype real = round % 3 == 1 ? F16 : F32;
    Graph *g = graph_new(), *larger = graph_new();
    Node *n = node_at(g, s, &m, real, 1), *twice = node_at(larger, s, &m, real, 2);
    if (n) {
      Cost c = cost_free(), d = cost_free();
      s->op->cost(t, n, &c);
      priced++;
      *any = true;
      check_cost(t, s, n, &c);
      if (twice) {
        s->op->cost(t, twice, &d);
        double before = cost_cycles(&c), after = cost_cycles(&d);
        /* but for stages that a better spread saves (2,500 cycles each; some rows reduce three times), or another plan */
        check(!c.fits || !d.fits || after >= 0.6 * before || after >= before - 7500, "grows with size", s, twice);
      }
    }
    graph_free(g);
    graph_free(larger);
  }
}

static void check_row(const Target *t, const OpDef *op) {
  const char *text = op->sample;
  bool any = false, wanted = !(op->traits & (VIEW | CONTROL)) && op->sample;
  if (!wanted) return;
  Sample none = {.op = op, .text = ""};
  check(op->cost != NULL, "has a price", &none, NULL);
  Error e = {0};
  Arena *a = arena_new();
  Sample s;
  while (op->cost && a && sample_next(&e, a, op, &text, &s)) check_sample(t, &s, &any);
  if (op->cost) check(any, "some shape is accepted", &none, NULL);
  arena_free(a);
}

int main(void) {
  static const char *const chips[] = {"GC2", "Bow"};
  for (int i = 0; i < 2; i++)
    for (const OpDef *op = op_next(NULL); op; op = op_next(op)) check_row(target_find(chips[i]), op);
  printf("%d shapes priced\n%d passed, %d failed\n", priced, passed, failed);
  return failed != 0;
}
