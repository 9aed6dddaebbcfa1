/* Functions shared by the recurrences (lstm.c, gru.c, simple_rnn.c). They describe sequences, run a
 * chunk of rows through the steps, forwards or backwards, and multiply by the recurrent kernel. */
#ifndef IPULUA_OPS_RECURRENT_RNN_H
#define IPULUA_OPS_RECURRENT_RNN_H
#include <string.h>

#include "ops/nn.h"
#include "target/cost.h"

/* [batch, steps, …]. gates is a multiple of units. */
typedef struct Sequence {
  int64_t batch, steps, inputs, units, gates;
  Dtype dtype;
  size_t size;
} Sequence;

/* A recurrent kernel in panels: columns [col, col + cols) of [rows, …] or, transposed, rows of
 * it. */
typedef struct Panels {
  char *data;
  const void *source;
  int64_t row, col, rows, cols;
} Panels;

/* One chunk: rows [first, first + rows) of the batch. */
typedef struct RecurrenceChunk {
  const Call *c;
  Sequence s;
  Panels panels[2];
  const uint8_t *mask; /* or NULL */
  bool zero;           /* masked outputs are zero */
  bool half;           /* products add up in float16 */
  size_t slot_bytes;
  char *slots;
} RecurrenceChunk;

typedef struct BackSlot {
  char *dh, *next, *dc, *late, *dz, *row;
} BackSlot;

/* ---- shapes ---- */

/* Rows of the batch in a chunk. */
int64_t rnn_chunk_rows(int64_t batch);
/* The number of rows of a chunk, and the first one. */
int64_t rnn_rows_of(const Sequence *s, int64_t chunk, int64_t *first);
/* Fails unless operand input is missing or has that shape. */
Status rnn_want(Error *e, const Node *n, int input, const char *what, int rank,
                const int64_t *shape);
Status rnn_want_mask(Error *e, const Node *n, int input, const Sequence *s);
/* x, kernel and recurrent kernel are operands 0 to 2; gates: how many times units the kernel is
 * wide. */
Status rnn_forward_sequence(Error *e, const Node *n, int64_t gates, Sequence *s);
Type rnn_sequence_type(const Node *n, const Sequence *s, int64_t width);
Type rnn_state_type(const Node *n, const Sequence *s);
/* ---- products ---- */

/* y [rows, cols] (+)= x [rows, panels' rows] w->panels[which]. turn: the step, counted over all
 * chunks. */
void rnn_multiply(const RecurrenceChunk *w, int which, const void *x, int64_t x_row, int64_t rows,
                  void *y, int64_t y_row, bool accumulate, int64_t turn);
void rnn_apply(const Call *c, Elementwise f, Dtype d, const void *x, void *y, int64_t n);
void rnn_add(const Call *c, Dtype d, const void *a, const void *b, void *y, int64_t n);
/* ---- the walk ---- */

bool rnn_is_masked(const RecurrenceChunk *w, int64_t row, int64_t step);
/* Element [row, step, 0] of a [batch, steps, width] buffer. */
char *rnn_at(const RecurrenceChunk *w, const void *data, int64_t row, int64_t step, int64_t width);
/* y of a step: the state, or a masked step's output. */
void rnn_put_output(const RecurrenceChunk *w, void *out, int64_t row, int64_t step,
                    const char *state);
/* Backward: adds dy to dh, the gradient of the state after a step. A masked step's dy belongs to an
 * earlier output, and is kept in late. */
void rnn_take_output_grad(const RecurrenceChunk *w, const void *dy, int64_t row, int64_t step,
                          char *dh, char *late);
void rnn_start_state(const RecurrenceChunk *w, int input, int64_t first, int64_t rows, char *state);
void rnn_end_state(const RecurrenceChunk *w, int output, int64_t first, int64_t rows,
                   const char *state);

/* The properties of one kind of recurrence. Forward, output `gates` holds the product of the inputs
 * before the steps begin. */
typedef Panels PanelsOf(const Sequence *s, const void *kernel, int64_t first, int64_t count);
typedef struct Recurrence {
  bool backward;
  int64_t times;              /* gates: how many times units */
  int gates, mask, recurrent; /* the output (backward: operand) that has the gates; operands */
  int zero;                   /* attribute: masked outputs are zero */
  /* The kernel's panels (which: its own, or its transpose's); NULL: all of its columns at once. */
  void (*panels)(const Call *c, const Node *n, Room *room, RecurrenceChunk *w, const void *kernel,
                 PanelsOf *which);
  size_t (*slot_bytes)(const Sequence *s);
  NnTask task; /* runs a chunk through the steps */
} Recurrence;
Status rnn_run(const Call *c, const Recurrence *r); /* inside of eval_wide */
size_t rnn_scratch(const Node *n, const Recurrence *r);
/* c NULL: only reserves their room. */
void rnn_prepare_panels(const Call *c, Room *room, Panels *p, const Sequence *s);
/* ---- backward ---- */

Status rnn_check_backward(Error *e, const Node *n, int gates_input, int64_t gates, Sequence *s);
BackSlot rnn_back_slot(Room *r, const Sequence *s);
size_t rnn_back_slot_bytes(const Sequence *s);
/* Copies the state's gradient dh of masked rows to `next`, before the two buffers are swapped. */
void rnn_keep_masked(const RecurrenceChunk *w, int64_t first, int64_t rows, int64_t t,
                     const char *dh, char *next);
/* [batch, steps, width] as [batch steps, width]. */
Value *rnn_flat(Graph *g, Value *v);
Value *rnn_or_zeros(Graph *g, Value *v, const Type *t);
Value *rnn_column_sum(Graph *g, Value *v);
void rnn_grad_inputs(Graph *g, const Node *n, Value *dgates, Value **dx);
/* ---- of other ops, for second derivatives ---- */

/* A recurrence written out, step by step. After a failure there are no steps. */
typedef struct Written {
  Graph *g;
  int64_t steps;
  bool zero;      /* masked outputs are zero */
  Value **mask;   /* by step, [batch, 1]; NULL: none */
  Value *nothing; /* zeros [batch, units] */
  Value *number;  /* 0, of rank 0 */
} Written;
typedef struct Gates {
  Value *part[4];
} Gates;

/* y: of a sequence of outputs, [batch, steps, units]. */
Written rnn_write(Graph *g, const Node *n, int mask_input, const Type *y);
Value **rnn_room(Written *w);
/* A sequence as its steps and back; type: of the sequence, for none. */
Value **rnn_steps(Written *w, Value *sequence);
Value *rnn_sequence(Written *w, Value **step, const Type *type);
/* [batch, count units] as so many parts and back. */
Gates rnn_split(Written *w, Value *gates, int count);
Value *rnn_join(Written *w, const Gates *gates, int count);
/* x kernel of all steps, before any bias. */
Value *rnn_project(Graph *g, const Node *n);
/* Operand input, or zeros. */
Value *rnn_state(const Written *w, const Node *n, int input);
/* a where step t is not masked, else b. */
Value *rnn_unmasked(const Written *w, int64_t t, Value *a, Value *b);
/* y of a step; before: of the step before it. */
Value *rnn_output(const Written *w, int64_t t, Value *state, Value *before);
/* rnn_take_output_grad: the gradient that reaches the state, and the gradient that belongs to an
 * earlier output. */
void rnn_output_grad(const Written *w, int64_t t, Value *dy, Value **dh, Value **late);
Value *rnn_back(Graph *g, Value *dz, Value *recurrent); /* dz recurrent' */

/* ---- cost ---- */

void rnn_cost_forward(const Target *t, const Node *n, int64_t gates, Cost *c);
void rnn_cost_backward(const Target *t, const Node *n, int64_t gates, Cost *c);

enum { ZERO_OUTPUT }; /* the first attribute of all */
#define A_ZERO                     \
  {.name = "zero_output_for_mask", \
   .kind = ATTR_BOOL,              \
   .fallback = "false",            \
   .summary = "Outputs of masked steps are zero instead of the previous ones."}
#endif
