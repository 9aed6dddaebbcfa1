/* The cost of matrix products: their plan (matmul_plan.c), and the moves before and after it. */
#include <math.h>

#include "target/plan.h"

void cost_plan(Cost *c, const Target *t, const Plan *p) {
  Cost plan = cost_free();
  double rate = (double)t->exchange_bytes_per_cycle, n = (double)p->serial;
  cost_steps(&plan, t, "rearrange", p->prepare_steps, p->prepare_exchange / p->prepare_steps * rate,
             p->prepare / p->prepare_steps);
  cost_steps(&plan, t, "multiply", n, p->exchange_in * rate, p->compute);
  cost_steps(&plan, t, "reduce partials", n * p->reduce_steps,
             p->reduce_exchange / p->reduce_steps * rate, p->reduce / p->reduce_steps);
  cost_steps(&plan, t, "convert", n * 2, 0, p->convert / 2);
  if (p->serial > 1) cost_steps(&plan, t, "join parts", n * 3, 0, p->update / 3);
  plan.tiles = p->tiles;
  cost_memory(&plan, MEMORY_MESSAGE, p->input_bytes + p->weight_bytes);
  /* the sums are the result already, as far as they aren't padding */
  bool in_place = p->in_split == 1 && p->convert == 0;
  cost_memory(&plan, MEMORY_PARTIALS, in_place ? 0 : p->partial_bytes);
  cost_memory(&plan, MEMORY_TEMPORARY, p->joined_bytes);
  /* both operands and the sums: three elements, and programs lie in the first */
  if (p->dots)
    plan.separate_bytes = (t->code ? 2 : 1) * (double)t->element_bytes + p->partial_bytes;
  else if (p->kernel != VERTEX_OUTER) plan.interleaved_bytes = p->partial_bytes;
  cost_vertex(&plan, t, p->kernel, 60, 300);
  if (p->convert > 0) cost_vertex(&plan, t, VERTEX_CAST, 12, 0);
  if (p->in_split > 1) cost_vertex(&plan, t, VERTEX_REDUCE_PARTIALS, 24, 40);
  if (p->serial > 1)
    cost_vertex(&plan, t, VERTEX_SLICE, 24, 20), cost_vertex(&plan, t, VERTEX_COPY, 24, 20);
  if (!p->fits) plan.fits = false, plan.why = "no plan's blocks fit the available memory of a tile";
  cost_then(c, &plan);
}

void cost_layout(Cost *c, const Target *t, Dtype d, double elements, double run_elements) {
  Cost moved = cost_rearrange(t, to_extent(elements * element_bytes(d)),
                              to_extent(run_elements * element_bytes(d)));
  cost_then(c, &moved);
}

void cost_scaled_add(Cost *c, const Target *t, Dtype d, double elements) {
  double share = elements / (double)t->tiles, w = (double)t->workers;
  cost_step(c, t, "scaled add", 0, w * (24 + 3 * ceil_ratio(share, w * vector_width(t, d))));
  cost_vertex(c, t, VERTEX_ELEMENTWISE, 12, 0);
}

/* A matrix that changes its layout. If its channels don't fill whole groups of the units, it is
 * padded or cut on the way, which moves it once more. */
static void move_matrix(Cost *c, const Target *t, Dtype d, double elements, int64_t channels) {
  cost_layout(c, t, d, elements, 1);
  bool uneven = channels % t->group_f16 != 0 && element_bytes(d) == 2;
  if (uneven && elements > 16 * (double)t->tiles) cost_layout(c, t, d, elements, 1);
}

/* Many small products: multiplied element by element, one operand repeated, then added up. */
static Cost cost_dots(const Target *t, Dtype d, int64_t outputs, int64_t k, int64_t smaller) {
  double products = (double)outputs * (double)k, share = tile_share(t, d, products);
  /* A group's products lie together: a tile needs as much less of the smaller operand as that is
   * repeated. */
  int64_t received = to_extent(ceil(share * fmin(1, (double)smaller / products)));
  Cost c = cost_broadcast(t, d, times(outputs, k), received, VECTOR(MUL, d));
  if (k == 1) return c;
  cost_memory(&c, MEMORY_TEMPORARY, share * element_bytes(d));
  Cost sum = cost_reduce(t, d, COST_SUM, outputs, k, 1);
  cost_then(&c, &sum);
  return c;
}

Cost cost_serial_dots(const Target *t, Dtype d, int64_t groups, int64_t m, int64_t k, int64_t n,
                      double limit) {
  Cost c = cost_free();
  for (int64_t parts = 1; parts <= 32; parts *= 2) {
    int64_t each = ceil_div(groups, parts);
    c = cost_dots(t, d, times(each, times(m, n)), k, times(each, times(k, m < n ? m : n)));
    if (parts > 1) cost_repeat(&c, (double)parts);
    c.fits = cost_temporary(&c) <= limit;
    if (c.fits) break;
  }
  return c;
}

bool is_far_better(const Cost *other, const Cost *choice) {
  double saved = cost_cycles(choice) - cost_cycles(other);
  return other->fits && (!choice->fits || (saved > 0.35 * cost_cycles(choice) && saved > 7500) ||
                         saved > 0.67 * cost_cycles(choice));
}

/* An operand in the layout of the plan. Each of the tiles that share a block holds a part of it,
 * and receives the others. */
static void keep_inputs(const Target *t, Plan *p) {
  double pair = t->exchange_pair && p->out_split % 2 == 0 ? 2 : 1,
         held = p->input_bytes / (double)p->out_split;
  p->exchange_in -= held / pair / (double)t->exchange_bytes_per_cycle;
  p->input_bytes -= held;
}

static Cost plan_cost(const Target *t, Plan p, const PlanOptions *o) {
  Cost c = cost_free();
  if (o->resident) keep_inputs(t, &p);
  cost_plan(&c, t, &p);
  return c;
}

Cost cost_matmul(const Target *t, Dtype d, Dtype partials, int64_t groups, int64_t m, int64_t k,
                 int64_t n, const PlanOptions *options) {
  PlanOptions chosen = options ? *options : (PlanOptions){0};
  if (!(chosen.available_memory_proportion > 0))
    chosen.available_memory_proportion = t->matmul_proportion;
  const PlanOptions *o = &chosen;
  Cost c = cost_free();
  if (groups <= 0 || m <= 0 || k <= 0 || n <= 0) return c;
  groups = clamp_extent(groups), m = clamp_extent(m), k = clamp_extent(k), n = clamp_extent(n);
  double g = (double)groups;
  if (o->left_moved && m > 1 && k > 1) cost_layout(&c, t, d, g * (double)m * (double)k, 1);
  if (o->right_moved && k > 1 && n > 1) move_matrix(&c, t, d, g * (double)k * (double)n, k);
  /* The result's columns stream past the units, its rows are loaded into them, unless it pays to
   * move everything. */
  MatmulShape s = {groups, n, k, m, false, false}, other = {groups, m, k, n, false, false};
  double all = g * ((double)m * (double)k + (double)k * (double)n + (double)m * (double)n) *
               element_bytes(d);
  double share = o->available_memory_proportion;
  bool one = o->trained && groups == 1, row = one && k > 1 && (m == 1 || n == 1),
       outer = one && k == 1 && m > 1 && n > 1;
  Plan p = row     ? plan_row(t, d, partials, k, m == 1 ? n : m, share)
           : outer ? plan_outer(t, d, partials, m, n, share)
                   : plan_matmul(t, d, partials, &s, &other, all, share);
  Cost products = plan_cost(t, p, o);
  if (row) { /* or past the row after all */
    Cost streamed = plan_cost(t, plan_matmul(t, d, partials, &s, &other, all, share), o);
    if (is_far_better(&streamed, &products)) products = streamed;
  }
  cost_then(&c, &products);
  if (o->result_moved && m > 1 && n > 1 && !outer) {
    move_matrix(&c, t, d, g * (double)m * (double)n, m);
    if (element_bytes(d) == 2) cost_step(&c, t, "rearrange", 0, 0);
  }
  if (o->accumulate) cost_scaled_add(&c, t, d, g * (double)m * (double)n);
  /* outer products have nothing to add up */
  bool many = groups > t->tiles || (k == 1 && groups > 1);
  Cost dots = outer ? c : cost_serial_dots(t, d, groups, m, k, n, plan_limit(t, share));
  if (many ? dots.fits && (!c.fits || cost_cycles(&dots) < cost_cycles(&c))
           : is_far_better(&dots, &c))
    c = dots;
  c.flops = 2 * g * (double)m * (double)k * (double)n;
  return c;
}
