/* Datasets: immutable, reference-counted descriptions of element sequences. Iterators: the state of
 * reading one. An element is a flat list of components; the caller knows how they nest in tuples
 * and tables. Transformations have the meaning, and the element order, of tf.data's transformations
 * of the same name.
 *
 * A dataset's constructor retains its input datasets and tensors, and never changes them. It takes
 * over the context of a callback struct, even if it fails. source is "script.lua:12", or NULL. */
#ifndef IPULUA_DATA_DATASET_H
#define IPULUA_DATA_DATASET_H
#include "base/pool.h"
#include "data/host_call.h"
#include "tensor/tensor.h"

typedef struct Dataset Dataset;
typedef struct Iterator Iterator;

enum { CARDINALITY_ENDLESS = -1, CARDINALITY_UNKNOWN = -2, DATA_AUTOTUNE = -1 };

/* A function on elements that runs on any thread: a traced program. */
typedef struct MapFunction MapFunction;
struct MapFunction {
  void *context;
  int in_count, out_count;
  const Type *out_type; /* [out_count], valid as long as context; -1 where an extent is unknown */
  /* in and out are dense, in component order. No two calls at the same time have the same worker, a
   * number below MAP_WORKERS. number is the element's number, whatever thread computes it. Random
   * numbers may depend on it; other epochs and iterations use other ranges. Only for static input
   * types, or for a variant from specialise. */
  Status (*run)(void *context, int worker, uint64_t number, const void *const *in, void *const *out,
                Error *e);
  /* The function for elements of these (static) types, for datasets whose elements differ in
   * shape. Called on the script's thread. NULL: the elements are static. variant gets a context
   * of its own. */
  Status (*specialise)(void *context, const Type *in, MapFunction *variant, Error *e);
  void (*release)(void *context); /* on the script's thread; may be NULL */
};
enum { MAP_WORKERS = 256 };

/* A function on elements that runs on the script's thread, in Lua. The caller passes either out
 * (gets new references) or dataset (gets a new reference), and NULL for the other. */
typedef struct ScriptFunction {
  void *context;
  Status (*call)(void *context, Tensor *const *in, int in_count, Tensor **out, int out_count,
                 Dataset **dataset, Error *e);
  void (*release)(void *context); /* on the script's thread; may be NULL */
  /* Told before each call: the element's number, on which random numbers depend; may be NULL. */
  void (*number)(void *context, uint64_t number);
} ScriptFunction;

/* Elements from the script; everything is called on its thread. Each open starts from the
 * beginning. */
typedef struct Generator {
  void *context;
  Status (*open)(void *context, void **state, Error *e);
  Status (*next)(void *context, void *state, Tensor **out, int out_count, bool *end, Error *e);
  void (*close)(void *context, void *state);
  void (*release)(void *context); /* may be NULL */
  /* Told before open and each next: the number of the next element; may be NULL. */
  void (*number)(void *context, uint64_t number);
} Generator;

Dataset *dataset_retain(Dataset *d);
void dataset_release(Dataset *d); /* NULL is fine */

/* The components of an element. */
int dataset_component_count(const Dataset *d);
const Type *dataset_component(const Dataset *d, int index); /* -1 where an extent is unknown */
/* Whether a component is a dataset itself, as window makes. Its tensors are stacked along axis 0,
 * which the component's type includes. */
bool dataset_component_is_nested(const Dataset *d, int index);
/* all extents known, nothing nested: iterator_next_into works */
bool dataset_is_static(const Dataset *d);
int64_t dataset_cardinality(const Dataset *d);
const char *dataset_kind(const Dataset *d);   /* "map" */
const char *dataset_source(const Dataset *d); /* "" when unknown */
/* Where an unknown batch extent comes from: the batch stage below d that keeps the remainder, or
 * NULL. */
const Dataset *dataset_find_remainder(const Dataset *d);
/* The batch size of the first element, if a batch stage below d keeps the remainder; 0: unknown. */
int64_t dataset_remainder_batch(const Dataset *d);
/* Whether another stage, d or below d, keeps the remainder of batches of another size. */
bool dataset_has_other_batch(const Dataset *d, int64_t size);

/* Sources. */
Dataset *dataset_from_tensors(Error *e, const char *source, int count, Tensor *const *components);
Dataset *dataset_from_slices(Error *e, const char *source, int count, Tensor *const *components);
Dataset *dataset_range(Error *e, const char *source, int64_t start, int64_t stop, int64_t step);
Dataset *dataset_from_generator(Error *e, const char *source, int count, const Type *components,
                                Generator g);

/* Functions. parallel: 0 or 1 one element at a time, n > 1 up to n at once, DATA_AUTOTUNE as many
 * as threads. */
Dataset *dataset_map(Error *e, const char *source, Dataset *in, MapFunction f, int parallel);
Dataset *dataset_map_host(Error *e, const char *source, Dataset *in, int count, const Type *types,
                          ScriptFunction f);
Dataset *dataset_filter(Error *e, const char *source, Dataset *in, MapFunction predicate);
Dataset *dataset_filter_host(Error *e, const char *source, Dataset *in, ScriptFunction predicate);
Dataset *dataset_take_while_host(Error *e, const char *source, Dataset *in,
                                 ScriptFunction predicate);
/* f makes a dataset of each element; types are the components of all of them. */
Dataset *dataset_interleave(Error *e, const char *source, Dataset *in, int count, const Type *types,
                            ScriptFunction f, int64_t cycle_length, int64_t block_length);
Dataset *dataset_flat_map(Error *e, const char *source, Dataset *in, int count, const Type *types,
                          ScriptFunction f);

/* Grouping. */
Dataset *dataset_batch(Error *e, const char *source, Dataset *in, int64_t size,
                       bool drop_remainder);
/* shapes[c] has the component's rank, -1: as long as the longest; NULL: the component's own
 * shape. values[c]: a tensor of one element of the component's dtype, or NULL: zero. Either list
 * may be NULL. */
Dataset *dataset_padded_batch(Error *e, const char *source, Dataset *in, int64_t size,
                              const Type *const *shapes, Tensor *const *values,
                              bool drop_remainder);
Dataset *dataset_unbatch(Error *e, const char *source, Dataset *in);
/* shift 0: size. Each component becomes a dataset (see dataset_component_is_nested). */
Dataset *dataset_window(Error *e, const char *source, Dataset *in, int64_t size, int64_t shift,
                        int64_t stride, bool drop_remainder);

/* Order. */
typedef struct ShuffleOptions {
  int64_t buffer_size;
  bool has_seed, keep_order; /* keep_order: the same order on each iteration */
  uint64_t seed;
} ShuffleOptions;
Dataset *dataset_shuffle(Error *e, const char *source, Dataset *in, const ShuffleOptions *options);
/* negative: forever */
Dataset *dataset_repeat(Error *e, const char *source, Dataset *in, int64_t count);
/* negative: all */
Dataset *dataset_take(Error *e, const char *source, Dataset *in, int64_t count);
/* negative: all */
Dataset *dataset_skip(Error *e, const char *source, Dataset *in, int64_t count);
Dataset *dataset_shard(Error *e, const char *source, Dataset *in, int64_t count, int64_t index);
Dataset *dataset_enumerate(Error *e, const char *source, Dataset *in, int64_t start);
Dataset *dataset_zip(Error *e, const char *source, int count, Dataset *const *in);
Dataset *dataset_concatenate(Error *e, const char *source, Dataset *first, Dataset *second);

/* Keeping. */
Dataset *dataset_cache(Error *e, const char *source, Dataset *in,
                       const char *path); /* NULL or "": in memory */
/* BufferDataset */
Dataset *dataset_buffer(Error *e, const char *source, Dataset *in, int64_t size);
/* or DATA_AUTOTUNE */
Dataset *dataset_prefetch(Error *e, const char *source, Dataset *in, int64_t size);

/* Sets the number (from 0) of d's next iterator, on which the order of shuffles depends. */
void dataset_begin_at(Dataset *d, uint64_t iteration);
/* The numbers of iterators opened so far of d and of each shuffle in it. *count is how many numbers
 * there are; at most max are put into list. */
Status dataset_iterations(Error *e, Dataset *d, int64_t *list, int64_t max, int64_t *count);
Status dataset_continue(Error *e, Dataset *d, const int64_t *list, int64_t count);

/* The resources for reading. Results depend on seed alone. */
typedef struct DataContext {
  Pool *pool;      /* may be NULL */
  int threads;     /* 1: everything runs on the threads that call iterator_next */
  uint64_t seed;   /* of shuffles without a seed of their own */
  HostCalls *host; /* NULL: this iterator's own; the opening thread is then the script's */
  bool peek;       /* doesn't count: the next iterator shuffles as if this one hadn't been opened */
} DataContext;

/* The pool, host and callbacks must outlive the iterator. One thread at a time may use it. */
Iterator *iterator_open(Error *e, Dataset *d, const DataContext *context);
void iterator_close(Iterator *it); /* allowed in any state, and for NULL; joins its threads */
/* Another thread's iterator_next returns ERR_CANCELLED soon, and so do all later ones. */
void iterator_cancel(Iterator *it);
/* Whether another thread than the reading one may call iterator_next_aside. */
bool iterator_may_be_read_aside(const Iterator *it);
/* Whether it is inside iterator_next, where closing it is an error. */
bool iterator_is_busy(const Iterator *it);
const Dataset *iterator_dataset(const Iterator *it);
/* The next element: a new reference for each component. After the end it stays at the end. A failed
 * element keeps its position, and the next call goes on after it. A batch or window that contains
 * it is skipped whole, and so are the elements zipped with it. Tensors may share memory with the
 * dataset, so they are read-only. */
Status iterator_next(Iterator *it, Tensor **components, bool *end, Error *e);
/* The same into memory of type_bytes(component) for each component; the dataset must be static. */
Status iterator_next_into(Iterator *it, void *const *destinations, bool *end, Error *e);
/* The same from another thread, while the reading thread does something else. */
Status iterator_next_aside(Iterator *it, void *const *destinations, bool *end, Error *e);
/* Skips up to count elements, which is cheaper than reading them. *skipped < count means the end.
 * After a failure *skipped includes the failed element. */
Status iterator_skip(Iterator *it, int64_t count, int64_t *skipped, Error *e);
/* The same, but continues after failures. */
Status iterator_pass(Iterator *it, int64_t count, int64_t *passed, Error *e);
int64_t iterator_position(const Iterator *it); /* elements read or skipped so far */

/* A saved position: an int64 vector of a few numbers. position: the number of elements used, for
 * callers that read ahead; -1: iterator_position. */
Tensor *iterator_save(Error *e, const Iterator *it, int64_t position);
/* An iterator of an equal dataset at that position. Shuffles repeat their order. Generators and
 * host functions are called again for the skipped elements. */
Iterator *iterator_restore(Error *e, Dataset *d, const DataContext *context, const Tensor *saved);
#endif
