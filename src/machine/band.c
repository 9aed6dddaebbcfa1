#include "machine/band.h"

/* Bytes that rows with measured errors count: operands, results, and all beside them. */
static double bytes_of(const PricedStep *r) {
  double bytes = 0;
  for (int m = 0; m < MEMORY_COUNT; m++) bytes += r->cost->bytes[m] * r->cost->tiles;
  for (int i = 0; i < r->node->in_count; i++) bytes += (double)type_bytes(&r->node->in[i]->type);
  for (int i = 0; i < r->node->out_count; i++) bytes += (double)type_bytes(&r->node->out[i].type);
  return bytes;
}

Band price_band(const Price *p) {
  Band sum = {0}, weight = {0};
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    if (!r->cost || !(r->times > 0)) continue;
    bool op = r->kind == PRICED_OP && r->node;
    Band b = cost_band(op ? r->node->op->family : FAMILY_OTHER);
    double cycles = r->times * priced_cycles(r), bytes = op ? bytes_of(r) : 0;
    sum.cycles += b.cycles * cycles, weight.cycles += cycles;
    sum.memory += b.memory * bytes, weight.memory += bytes;
  }
  return (Band){weight.cycles > 0 ? sum.cycles / weight.cycles : 0,
                weight.memory > 0 ? sum.memory / weight.memory : 0};
}
