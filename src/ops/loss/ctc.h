/* Declarations of connectionist temporal classification, for the loss (ctc.c, and ctc_composed.c of
 * other ops) and the decoder (ctc_decoder.c). */
#ifndef IPULUA_OPS_LOSS_CTC_H
#define IPULUA_OPS_LOSS_CTC_H
#include "ops/nn.h"

enum { CTC_LABELS, CTC_SCORES, CTC_LABEL_LENGTH, CTC_SCORE_LENGTH }; /* operands of the loss */
enum { CTC_BLANK, CTC_OUT_DTYPE };                                   /* its attributes */

enum { CTC_OF_LOGITS, CTC_OF_LOG_PROBS }; /* forms of the rows */

double ctc_log_add(double a, double b);
/* Row t of a sample's [time, batch, classes] as log probabilities. */
void ctc_log_row(const Type *x, const void *data, int64_t t, int64_t sample, bool normalise,
                 double *row);
Status ctc_blank(Error *e, int64_t blank, int64_t classes, int64_t *out);
Status ctc_want_lengths(Error *e, const char *what, const Type *t, int64_t batch);
Status ctc_check_lengths(const Call *c, const char *what, int input, int64_t limit);
bool ctc_takes_logits(const Node *n);
/* OpDef.compose of the losses. */
void ctc_compose(Graph *g, const Node *n, Value **out);
#endif
