/* Building chains: slots, steps, and which dimensions all operands walk alike. */
#include <assert.h>
#include <string.h>

#include "kernels/chain.h"

bool chain_can(const Kernels *k, Elementwise kernel, Dtype operand) {
  if (kernel == ELEMENTWISE_COUNT) return true;
  return k->strip[kernel][dtype_to_compute(operand)] != NULL;
}

void chain_begin(Chain *c, const Kernels *k, const Type *shape) {
  memset(c, 0, offsetof(Chain, slot));
  c->kernels = k;
  c->numerics = NULL;
  c->rng = (RngKey){0};
  c->rank = shape->rank;
  memcpy(c->extent, shape->shape, sizeof c->extent);
  c->count = type_count(shape);
}

static int new_slot(Chain *c, ChainRole role, Dtype d) {
  if (c->slot_count == CHAIN_SLOTS) return -1;
  c->slot[c->slot_count] = (ChainSlot){.role = role, .dtype = d};
  return c->slot_count++;
}

int chain_operand(Chain *c, const Type *type, void *data) {
  int s = new_slot(c, CHAIN_GENERAL, type->dtype);
  if (s < 0) return -1;
  ChainSlot *slot = &c->slot[s];
  slot->data = data;
  int64_t dense[MAX_RANK];
  type_strides(type, dense);
  int missing = c->rank - type->rank;
  for (int i = 0; i < c->rank; i++)
    slot->stride[i] = i < missing || type->shape[i - missing] == 1 ? 0 : dense[i - missing];
  return s;
}

int chain_temporary(Chain *c, Dtype d, int buffer) {
  assert(buffer < CHAIN_TEMPORARIES);
  int s = new_slot(c, CHAIN_TEMPORARY, d);
  if (s >= 0) c->slot[s].temporary = buffer;
  return s;
}

int chain_block_slot(Chain *c, Dtype d) { return new_slot(c, CHAIN_BLOCK, d); }

bool chain_step(Chain *c, Elementwise kernel, int arity, const int *in, int out, const double *p) {
  if (c->step_count == CHAIN_STEPS) return false;
  ChainStep *s = &c->step[c->step_count++];
  *s = (ChainStep){.kernel = kernel, .arity = arity, .out = out};
  for (int i = 0; i < arity; i++) s->in[i] = in[i];
  if (p) memcpy(s->p, p, sizeof s->p);
  return true;
}

/* Dimension i can be merged into i + 1 when every operand's stride says so. */
static bool mergeable(const Chain *c, int i) {
  for (int s = 0; s < c->slot_count; s++) {
    const ChainSlot *slot = &c->slot[s];
    if (slot->role == CHAIN_GENERAL && slot->stride[i] != slot->stride[i + 1] * c->extent[i + 1])
      return false;
  }
  return true;
}

static void remove_dimension(Chain *c, int i) {
  for (int s = 0; s < c->slot_count; s++) {
    int64_t *stride = c->slot[s].stride;
    memmove(stride + i, stride + i + 1, (size_t)(c->rank - i - 1) * sizeof *stride);
  }
  memmove(c->extent + i, c->extent + i + 1, (size_t)(c->rank - i - 1) * sizeof *c->extent);
  c->rank--;
}

static ChainRole classify(const Chain *c, const ChainSlot *slot) {
  bool outer_zero = true;
  int64_t dense = 1;
  bool full = true;
  for (int i = c->rank - 1; i >= 0; i--) {
    if (slot->stride[i] != dense && c->extent[i] != 1) full = false;
    dense *= c->extent[i];
    if (i < c->rank - 1 && slot->stride[i] != 0) outer_zero = false;
  }
  if (full) return CHAIN_FULL;
  if (outer_zero && slot->stride[c->rank - 1] == 0) return CHAIN_SINGLE;
  return outer_zero ? CHAIN_ROW : CHAIN_GENERAL;
}

static bool is_read_once(const Chain *c, int slot) {
  int reads = 0;
  for (int s = 0; s < c->step_count; s++)
    for (int i = 0; i < c->step[s].arity; i++) reads += c->step[s].in[i] == slot;
  return reads == 1;
}

static bool is_divided_byte(const Chain *c, int i) {
  const ChainStep *cast = &c->step[i], *next = cast + 1;
  bool follows = i + 1 < c->step_count && next->kernel == EW_DIV && next->in[0] == cast->out &&
                 c->slot[next->in[1]].role == CHAIN_SINGLE;
  return follows && cast->kernel == ELEMENTWISE_COUNT && c->slot[cast->in[0]].dtype == U8 &&
         c->slot[next->out].dtype == F32 && c->slot[cast->out].role == CHAIN_TEMPORARY &&
         is_read_once(c, cast->out);
}

void chain_finish(Chain *c, bool keep_cols) {
  for (int i = c->rank - 1 - keep_cols; i >= 0 && c->rank > 1; i--)
    if (c->extent[i] == 1) remove_dimension(c, i);
  for (int i = c->rank - 2 - keep_cols; i >= 0; i--) {
    if (!mergeable(c, i)) continue;
    c->extent[i + 1] *= c->extent[i];
    remove_dimension(c, i);
  }
  if (c->rank == 0) {
    c->rank = 1;
    c->extent[0] = 1;
    for (int s = 0; s < c->slot_count; s++) c->slot[s].stride[0] = 0;
  }
  c->cols = c->extent[c->rank - 1];
  c->rows = c->cols ? c->count / c->cols : 0;
  for (int s = 0; s < c->slot_count; s++)
    if (c->slot[s].role == CHAIN_GENERAL) c->slot[s].role = classify(c, &c->slot[s]);
  for (int s = 0; s < c->step_count; s++) {
    ChainStep *step = &c->step[s];
    step->joined = is_divided_byte(c, s);
    for (int i = 0; i < step->arity; i++)
      c->slot[step->in[i]].is_read |= !c->slot[step->in[i]].is_written;
    c->slot[step->out].is_written = true;
  }
}
