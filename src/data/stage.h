/* The inside of datasets and iterators, for the files of this folder. A dataset is a tree of
 * Datasets; reading it is a tree of Stages, each asked for elements by the one above. */
#ifndef IPULUA_DATA_STAGE_H
#define IPULUA_DATA_STAGE_H
#include <stdatomic.h>

#include "data/dataset.h"

typedef struct Stage Stage;
typedef struct StageClass StageClass;

/* Elements that lie in memory side by side. Stages over them hand on row numbers instead of
 * elements (Stage.rows is set), until something gathers the rows straight into their
 * destination. */
typedef struct Rows {
  int64_t length;
  int count;
  Tensor **tensor;   /* [count] dense, [length, ...], retained */
  size_t *row_bytes; /* [count] */
} Rows;

struct Dataset {
  _Atomic int references;
  const StageClass *class;
  char *source;
  int depth;    /* length of the chain. It is limited, since chains are walked recursively */
  int count;    /* components */
  Type *type;   /* [count] */
  bool *nested; /* [count] */
  bool is_static;
  int64_t cardinality;
  int64_t batch; /* elements of a batch, for a stage that batches and keeps the remainder; else 0 */
  int input_count;
  Dataset **input;
  const Rows *rows;            /* elements 0 … length-1, if they stay in memory */
  _Atomic uint64_t iterations; /* iterators that were opened */
  HostDeferred deferred;
};

/* Where an element goes: tensors that it makes, or else memory of its components' sizes. */
typedef struct Receiver {
  Tensor **tensors;
  void *const *memory;
} Receiver;

struct StageClass {
  const char *name;
  size_t dataset_bytes, stage_bytes; /* of the structs that begin with a Dataset or Stage; zeroed */
  bool shuffles;                     /* its order depends on the number of earlier iterators */
  bool in_turn;                      /* gives all elements of its first input, then the next */
  /* whether it calls the script, or computes on several threads; NULL: false */
  bool (*needs_caller)(const Dataset *d);
  /* frees the larger struct's own fields; may be NULL, like all below except next or give */
  void (*free)(Dataset *d);
  Status (*open)(Stage *s, Error *e);
  void (*close)(Stage *s); /* also after a failed open; s->input is closed afterwards */
  Status (*next)(Stage *s, Tensor **out, bool *end, Error *e);
  Status (*next_into)(Stage *s, void *const *out, bool *end, Error *e); /* NULL: next, copied */
  /* Stages that hand on their input's elements have it instead of next and next_into. */
  Status (*give)(Stage *s, const Receiver *to, bool *end, Error *e);
  /* Up to n row numbers of s->rows; *got < n only at the end. Stages that set s->rows in open have
   * it instead of those. */
  Status (*indices)(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e);
  Status (*skip)(Stage *s, int64_t n, int64_t *skipped, Error *e); /* NULL: next, dropped */
};

/* A shuffle that existed when the iterator was opened. */
typedef struct KnownShuffle {
  const Dataset *dataset;
  uint64_t iteration; /* number of earlier iterators of it */
} KnownShuffle;

/* State shared by the stages of one iterator; constant while there are threads. */
typedef struct Tree {
  HostCalls *host;
  bool owns_host;
  Pool *pool;
  uint64_t seed;
  uint64_t iteration; /* number of earlier iterators of the whole dataset */
  _Atomic int spare_threads;
  bool aside; /* read by a thread that would otherwise be idle, so starting a thread for it doesn't
               * pay */
  int shuffle_count, shuffle_capacity;
  KnownShuffle *shuffle;
} Tree;

/* A part that can be cancelled on its own, and where its reading began. It is an iterator, or the
 * stages that one of its threads reads. Below a cache, random numbers and orders are always the
 * first reading's. So cached elements don't depend on when they were first read. */
typedef struct Scope {
  Tree *tree;
  const struct Scope *parent;
  /* the epoch in which its dataset was opened */
  uint64_t birth;
  bool made; /* its dataset was made by a function, in this iteration */
  bool kept; /* below a cache: as in the first iteration */
  _Atomic bool cancelled;
  _Atomic bool threaded; /* read by a thread of its own, which Ctrl-C leaves alone */
} Scope;

struct Stage {
  const StageClass *class;
  Dataset *dataset; /* borrowed: the iterator, or the stage that got it from a function, holds it */
  Scope *scope;
  uint64_t epoch; /* the number of this reading, by its position in the iterator, not by time */
  Stage *input;
  const Rows *rows;
  bool ended; /* kept by the calls below: classes are not asked again after their end */
};

/* Datasets. A new one has cardinality, components and rows still to be set; inputs are retained. */
Dataset *dataset_new(Error *e, const char *source, const StageClass *class, int input_count,
                     Dataset *const *input, int component_count);
Dataset *dataset_new_like(Error *e, const char *source, const StageClass *class,
                          Dataset *in); /* in's elements */
/* d's components from first on are as in's. */
void dataset_take_types(Dataset *d, int first, const Dataset *in);
/* To be called after the components are set. NULL (and d released) if a type is impossible. */
Dataset *dataset_finish(Error *e, Dataset *d);
/* Fails with the stage's name and line. */
Status dataset_fail(const Dataset *d, Error *e, Status s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds the stage to an error from below. Returns s. */
Status dataset_blame(const Dataset *d, Error *e, Status s);
/* Fails if a component of in is a dataset itself. */
Status stage_refuse_nested(Error *e, const char *name, const char *source, const Dataset *in);
/* Fails for a dataset under construction, of this name and source. Returns NULL. */
void *source_fail(const char *name, const char *source, Error *e, Status s, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool dataset_needs_caller(const Dataset *d); /* itself, or a dataset that it reads */
bool stage_calls_script(const Dataset *d);   /* a needs_caller: yes */
/* From any thread; the callbacks' contexts are released on the script's. */
void dataset_release_from(HostCalls *host, Dataset *d);
int64_t cardinality_scale(int64_t n, int64_t factor); /* saturates to unknown */

/* Stages. After a failure other than ERR_CANCELLED the failed element counts as read, so elements
 * keep their positions. A stage that makes one element of several skips the others too. It does so
 * at the next request, so that failures are reported at once. After ERR_CANCELLED (an interruption)
 * the next request gives the element that this one would have given. The stage keeps its input for
 * it. Row numbers that came with it count as given. */
Scope scope_within(const Scope *parent);
Status stage_open(Error *e, Scope *scope, Dataset *d, uint64_t epoch, Stage **out);
void stage_close(Stage *s);                  /* NULL is fine */
Status stage_open_input(Stage *s, Error *e); /* the first input of its dataset, as s->input */
Status stage_give(Stage *s, const Receiver *to, bool *end, Error *e);
Status stage_next(Stage *s, Tensor **out, bool *end, Error *e);
Status stage_next_into(Stage *s, void *const *out, bool *end, Error *e);
Status stage_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e);
/* *skipped includes failed elements. */
Status stage_skip(Stage *s, int64_t n, int64_t *skipped, Error *e);
/* The same, but continues after failures. */
Status stage_pass(Stage *s, int64_t n, int64_t *passed, Error *e);
/* Skips the *owed elements that a failure has left to be skipped. */
Status stage_pass_owed(Stage *s, int64_t *owed, Error *e);
/* ERR_CANCELLED in loops that may be endless */
Status stage_check_cancelled(const Stage *s, Error *e);
bool scope_is_cancelled(const Scope *scope);
/* Whether reading in this scope should stop because of Ctrl-C. The first Ctrl-C doesn't interrupt a
 * call that stops in good order by itself. */
bool scope_is_interrupted(const Scope *scope);
Status scope_interrupt(Error *e); /* takes the interruption, and fails with it */
Status tree_collect_shuffles(Tree *t, Error *e, const Dataset *d); /* all below d */
/* The index of d among the known shuffles, or -1. */
int tree_find_shuffle(const Tree *t, const Dataset *d);
/* The epoch number of the k-th reading of an input, inside `epoch` of its reader. */
uint64_t epoch_within(uint64_t epoch, uint64_t k);
/* The number of element k of a reading: k in the first epoch and iteration, in others a number of
 * another range. */
uint64_t stage_element_number(const Stage *s, uint64_t k);

/* Rows. */
/* Retains dense tensors and packs others. Its length is the shortest tensor's. */
Rows *rows_new(Error *e, int count, Tensor *const *tensors);
void rows_free(Rows *r);
/* Component c of n rows, one after the other, to out. */
void rows_gather(const Rows *r, int c, const int64_t *index, int64_t n, char *out, Pool *pool);

/* A stage that reads its dataset's rows in order. */
typedef struct RowsStage {
  Stage base;
  int64_t position;
} RowsStage;
Status rows_stage_open(Stage *s, Error *e);
Status rows_stage_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e);
Status rows_stage_skip(Stage *s, int64_t n, int64_t *skipped, Error *e);
/* zip, when all inputs have rows. */
Dataset *dataset_zip_rows(Error *e, const char *source, int count, Dataset *const *in);

/* Elements as lists of tensors. */
void tensors_release(Tensor **t, int count); /* and sets their pointers to NULL */
/* Fails unless they match d's components. */
Status tensors_check(const Dataset *d, Error *e, Tensor *const *t);
bool type_matches(const Type *spec, const Type *t); /* -1 matches any extent */
#endif
