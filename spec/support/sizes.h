/* Parts of sizes_check: samples as shapes, cases of rows whose samples don't stretch, and plain
 * loops to compare with. */
#ifndef SPEC_SIZES_H
#define SPEC_SIZES_H
#include "base/pool.h"
#include "samples.h"

enum { SIZES_OUTPUTS = 64 };

/* A sample's operands and attributes, to be written again with other extents. */
typedef struct Form {
  int count;
  char letter[SAMPLE_OPERANDS];
  int64_t below[SAMPLE_OPERANDS];
  Type type[SAMPLE_OPERANDS];
  const char *attrs; /* "{…}" or "" */
} Form;

/* The extents that change: all first ones that equal the first operand's, all last ones, only the
 * first operand's, or all that equal the first one. */
typedef enum Strategy {
  LEADING_EQUAL,
  LAST_EQUAL,
  LEADING_FIRST,
  EVERY_EQUAL,
  STRATEGIES
} Strategy;

void form_of(const Sample *s, Form *f); /* without the counter of RANDOM rows */
bool form_stretch(const Form *from, Strategy how, int64_t extent,
                  Form *to); /* false: there is no such extent */
const char *form_text(Arena *a, const Form *f);
const char *form_attributes(const char *text);
bool form_is_cheap(const Form *f);
/* from, broadcast to the shape of to. */
void sizes_expand(const Tensor *from, Tensor *to);

typedef struct OwnCase {
  const char *op, *text;
} OwnCase;
extern const OwnCase sizes_own[]; /* up to one without op */
bool sizes_small(const char *op); /* no size makes it take another way */
bool sizes_whole(const char *op); /* its rows depend on each other, though small ones seem not to */
bool sizes_costly(const char *op); /* long rows take long */
bool sizes_kinked(
    const char *op); /* its derivative jumps at so many places that differences say nothing */

/* Rows compared with plain loops, by all teams. */
void sizes_plain(Pool *const *team, int teams, int argc, char **argv, int *passed, int *failed);
#endif
