/* The C interface of ipulua: libipulua.so.0.
 *
 * Functions that return int, and take a context or an object made from one, return IPU_OK or a
 * negative status. After a failure ipu_last_error() has the message. Query functions return the
 * answer itself. A NULL for a required argument is IPU_E_INVALID_ARGUMENT. If memory runs out, any
 * function may return IPU_E_OUT_OF_MEMORY.
 *
 * Results are returned through pointers. The caller owns the object that a function returns as
 * `ipu_x **out`, and frees it by ipu_x_free(), which accepts NULL. On failure *out is NULL, and so
 * are all entries of a list. Values belong to the builder. Tensors passed in stay the caller's, and
 * may be freed after the call.
 *
 * Text is borrowed, and "" on failure. It is valid until the next call with the same context ends,
 * and may be passed to that call. Element types are strings: "float32" "float64" "float16"
 * "bfloat16" "int8" "uint8" "int32" "int64" "bool". Attributes and options are JSON objects; NULL
 * means {}.
 *
 * A context and the objects made from it are used by one thread at a time. Several contexts may be
 * used at once. Objects may be freed in any order. The region between the marks has plain
 * declarations only, so that LuaJIT's ffi.cdef accepts it. */
#ifndef IPULUA_H
#define IPULUA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compare with ipu_abi_version() after loading the library at run time. */
enum { IPU_ABI_VERSION = 1 };

enum {
  IPU_OK = 0,
  IPU_E_VALUE = -1,
  IPU_E_TYPE = -2,
  IPU_E_INVALID_ARGUMENT = -3,
  IPU_E_FAILED_PRECONDITION = -4,
  IPU_E_NOT_FOUND = -5,
  IPU_E_NOT_IMPLEMENTED = -6,
  IPU_E_OUT_OF_RANGE = -7,
  IPU_E_OUT_OF_MEMORY = -8,
  IPU_E_RUNTIME = -9,
  IPU_E_CANCELLED = -10,
  IPU_E_INTERNAL = -11
};

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- ffi.cdef begins ---- */
typedef struct ipu_context ipu_context;   /* threads, seed, error; the models' interpreter */
typedef struct ipu_tensor ipu_tensor;     /* dense, row-major; reference-counted */
typedef struct ipu_archive ipu_archive;   /* the tensors of a file */
typedef struct ipu_variable ipu_variable; /* state that outlives a function's call */
typedef struct ipu_builder ipu_builder;   /* a function being built */
typedef struct ipu_value ipu_value;       /* a value in it; lives as long as the builder */
typedef struct ipu_function ipu_function; /* a compiled function */
typedef struct ipu_model ipu_model;       /* a Keras model */

/* ---- library and context ---- */
/* IPU_ABI_VERSION of the library that was loaded. */
uint32_t ipu_abi_version(void);
/* "1.2.3"; static, as is every name that the functions below give without a context. */
const char *ipu_version(void);
/* "IPU_E_VALUE"; "IPU_E_INTERNAL" if it is no status. */
const char *ipu_status_name(int status);
/* A new context, with all cores and a random seed. On IPU_E_OUT_OF_MEMORY there is no message, as
 * there is no context. */
int ipu_context_new(ipu_context **out);
/* Objects made from it stay valid, and keep the parts of it that they need. */
void ipu_context_free(ipu_context *c);
/* The message of this thread's newest call, if it failed; "" otherwise. If that call got NULL as
 * its context, builder, function or model, the message is returned for any c. */
const char *ipu_last_error(const ipu_context *c);
/* The maximum number of computing threads, up to 256; 0: one for each core. IPU_E_VALUE for other
 * numbers. Results don't depend on it. */
int ipu_set_threads(ipu_context *c, int threads);
/* Sets the seed of random ops and of models' initial values, from now on. Equal seeds give equal
 * numbers. */
int ipu_set_seed(ipu_context *c, uint64_t seed);

/* ---- tensors: dense, row-major; of a NULL tensor the dtype is "", the rank, count and bytes 0
 * ---- */
/* A copy of data, [shape[0], …, shape[rank - 1]] elements; zeros where it is NULL. rank from 0
 * (one element, shape may be NULL) to 8. IPU_E_VALUE: another rank, a negative extent, an
 * unknown dtype. */
int ipu_tensor_new(ipu_context *c, const char *dtype, int rank, const int64_t *shape,
                   const void *data, ipu_tensor **out);
/* The same tensor, which needs one more ipu_tensor_free. */
ipu_tensor *ipu_tensor_retain(ipu_tensor *t);
/* One owner less; the last one frees it. */
void ipu_tensor_free(ipu_tensor *t);
/* "float32" …; static. */
const char *ipu_tensor_dtype(const ipu_tensor *t);
/* The number of axes. */
int ipu_tensor_rank(const ipu_tensor *t);
/* The extent of an axis from 0; -1 for one that there is not. */
int64_t ipu_tensor_extent(const ipu_tensor *t, int axis);
/* The number of elements. */
int64_t ipu_tensor_count(const ipu_tensor *t);
/* The bytes of its elements. */
size_t ipu_tensor_bytes(const ipu_tensor *t);
/* Its elements, which live as long as the tensor. */
const void *ipu_tensor_data(const ipu_tensor *t);
/* Sets all elements. IPU_E_VALUE: bytes are not the tensor's. */
int ipu_tensor_write(ipu_context *c, ipu_tensor *t, const void *data, size_t bytes);
/* As NumPy prints it: borrowed text. */
int ipu_tensor_text(ipu_context *c, const ipu_tensor *t, const char **text);

/* ---- files: .safetensors, .npz, .npy by the path's ending ---- */
/* names and tensors are [count]; of a .npy count is 1 and names may be NULL. The file is
 * replaced as a whole. IPU_E_VALUE: another ending, a name twice; IPU_E_NOT_FOUND,
 * IPU_E_RUNTIME: a path that can't be written. */
int ipu_save(ipu_context *c, const char *path, const char *const *names, ipu_tensor *const *tensors,
             int count);
/* All of a file in memory. IPU_E_VALUE: another ending, a damaged file; IPU_E_NOT_FOUND,
 * IPU_E_RUNTIME: one that can't be read. */
int ipu_archive_open(ipu_context *c, const char *path, ipu_archive **out);
/* Tensors that were got from it live on. */
void ipu_archive_free(ipu_archive *a);
/* The number of tensors. */
int ipu_archive_count(const ipu_archive *a);
/* Of index from 0 to count - 1, else NULL; lives as long as the archive. The tensor of a .npy is
 * called "". */
const char *ipu_archive_name(const ipu_archive *a, int index);
/* The tensor of a name: yours. IPU_E_NOT_FOUND: there is none. */
int ipu_archive_tensor(ipu_context *c, const ipu_archive *a, const char *name, ipu_tensor **out);

/* ---- ops by name; docs/reference/ops.md lists them with their shapes, dtypes and attributes ----
 * ipu_apply(c, "reduce_sum", &x, 1, "{\"axis\": [0]}", &y, 1, NULL). inputs are [input_count];
 * outputs have room for capacity results, and *output_count (which may be NULL) is how many
 * came, 0 on failure. IPU_E_NOT_FOUND: no such op; IPU_E_VALUE, IPU_E_TYPE,
 * IPU_E_INVALID_ARGUMENT: operands or attributes that the op doesn't take, or too little room. Then
 * there is no result. */
/* The op at index, from 0; NULL after the last. Static. */
const char *ipu_op_name(int index);
/* A sentence; NULL if there is no such op. Static. */
const char *ipu_op_summary(const char *op);
/* For languages in which numbers stand for tensors: the dtype of a number for an input, from 0.
 * Positions are "int32", a condition "bool". Any other input gives beside; "" if that is NULL.
 * beside: the dtype of the first tensor at such another input. "" for NULL, what is no op, and a
 * dtype that there is not. Static. */
const char *ipu_op_number_dtype(const char *op, int input, const char *beside);
/* Computes now; each result is yours. */
int ipu_apply(ipu_context *c, const char *op, ipu_tensor *const *inputs, int input_count,
              const char *attributes, ipu_tensor **outputs, int capacity, int *output_count);

/* ---- functions: written down once, compiled, called often ---- */
/* A variable with a copy of initial, whose dtype and shape it keeps. name may be NULL. */
int ipu_variable_new(ipu_context *c, const char *name, const ipu_tensor *initial,
                     ipu_variable **out);
/* Functions that use it keep it. */
void ipu_variable_free(ipu_variable *v);
/* A copy of its value: yours. */
int ipu_variable_read(ipu_context *c, const ipu_variable *v, ipu_tensor **out);
/* Copies t into it. IPU_E_INVALID_ARGUMENT: another dtype or shape. */
int ipu_variable_assign(ipu_context *c, ipu_variable *v, const ipu_tensor *t);

/* A function without arguments and results yet. Its values belong to the builder;
 * IPU_E_INVALID_ARGUMENT: another builder's value. After ipu_builder_finish all but
 * ipu_builder_free is IPU_E_FAILED_PRECONDITION. */
int ipu_builder_new(ipu_context *c, ipu_builder **out);
/* Ends its values; functions that were finished live on. */
void ipu_builder_free(ipu_builder *b);
/* The next argument, [shape[0], …]; every extent is fixed. IPU_E_FAILED_PRECONDITION: after
 * anything else. */
int ipu_builder_argument(ipu_builder *b, const char *dtype, int rank, const int64_t *shape,
                         ipu_value **out);
/* A copy of t, the same in every call. */
int ipu_builder_constant(ipu_builder *b, ipu_tensor *t, ipu_value **out);
/* The variable's value at this point of the function. */
int ipu_builder_read(ipu_builder *b, ipu_variable *v, ipu_value **out);
/* From here on in the function, and after each call, v has this value. IPU_E_INVALID_ARGUMENT:
 * another dtype or shape. */
int ipu_builder_assign(ipu_builder *b, ipu_variable *v, ipu_value *value);
/* As ipu_apply, when the function is called. */
int ipu_builder_apply(ipu_builder *b, const char *op, ipu_value *const *inputs, int input_count,
                      const char *attributes, ipu_value **outputs, int capacity, int *output_count);
/* d(sum of y) / d(each of xs): gradients are [count], each of its x's dtype and shape; NULL
 * where there is no path. */
int ipu_builder_gradients(ipu_builder *b, ipu_value *y, ipu_value *const *xs, int count,
                          ipu_value **gradients);
/* d(sum of y) / d(each of vs), [count]: the sum over all readings of the variable in the function,
 * before and after assignments to it. Gradients don't pass through the assignments. NULL where
 * there is no path. */
int ipu_builder_variable_gradients(ipu_builder *b, ipu_value *y, ipu_variable *const *vs, int count,
                                   ipu_value **gradients);
/* "float32" …; static. "" for NULL. */
const char *ipu_value_dtype(const ipu_value *v);
/* The number of axes; 0 for NULL. */
int ipu_value_rank(const ipu_value *v);
/* The extent of an axis from 0; -1 for one that there is not. */
int64_t ipu_value_extent(const ipu_value *v, int axis);
/* Compiles the function that gives results, [count]. After it, failed or not, the builder can only
 * be freed. Only a NULL out leaves it as it is. */
int ipu_builder_finish(ipu_builder *b, ipu_value *const *results, int count, ipu_function **out);
/* The variables live on. */
void ipu_function_free(ipu_function *f);
/* arguments is [argument_count], as declared. results has room for capacity tensors, which the
 * caller owns. *result_count (may be NULL) is their number, 0 on failure. IPU_E_VALUE,
 * IPU_E_INVALID_ARGUMENT: other arguments, too little room. */
int ipu_function_call(ipu_function *f, ipu_tensor *const *arguments, int argument_count,
                      ipu_tensor **results, int capacity, int *result_count);

/* ---- Keras models ---- */
/* They run in a Lua state of the context's own. Options are the method's, as in
 * docs/reference/keras.md. Returned text is borrowed, and its pointer may be NULL. x and y are
 * lists of the model's inputs and outputs' labels, [samples, …] each. A status is the kind of the
 * Lua error. IPU_E_NOT_FOUND or IPU_E_RUNTIME: the Lua module is missing. */
/* {"class_name": …, "config": …}, as ipu_model_to_json gives it. */
int ipu_model_from_json(ipu_context *c, const char *json, ipu_model **out);
/* A chunk that returns a model. IPU_E_VALUE: no Lua; IPU_E_TYPE: it returns something else. */
int ipu_model_from_lua(ipu_context *c, const char *code, ipu_model **out);
/* Loads a file of ipu_model_save, with its weights and training state. */
int ipu_model_load(ipu_context *c, const char *path, ipu_model **out);
/* Frees it, and leaves ipu_last_error as it is. */
void ipu_model_free(ipu_model *m);
/* All of it, to a .safetensors file. */
int ipu_model_save(ipu_model *m, const char *path);
/* Sets the weights from a file. IPU_E_VALUE: other names or shapes. */
int ipu_model_load_weights(ipu_model *m, const char *path);
/* The weights, to a .safetensors or .npz file. */
int ipu_model_save_weights(ipu_model *m, const char *path);
/* The architecture. */
int ipu_model_to_json(ipu_model *m, const char **json);
/* The table of layers, lines with "\n" at their ends. */
int ipu_model_summary(ipu_model *m, const char **text);
/* Makes the weights for an input [shape[0], …] with the batch; -1 is an extent that is unknown. */
int ipu_model_build(ipu_model *m, int rank, const int64_t *shape);
/* {"optimizer": …, "loss": …, "metrics": […]} */
int ipu_model_compile(ipu_model *m, const char *options);
/* {"epochs": 3, "batch_size": 32, …}; silent unless "verbose" is given. *history: {"loss": [a
 * number an epoch], …}. A last batch may be smaller. With replicas, pipeline stages or accumulated
 * gradients it is left out. IPU_E_RUNTIME: a model that was not compiled. */
int ipu_model_fit(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                  int y_count, const char *options, const char **history);
/* One weight update; *logs: {"loss": …, …}. */
int ipu_model_train_on_batch(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                             int y_count, const char **logs);
/* *logs: {"loss": …, …}. Without "batch_size" in batches of at most 32 that divide the samples. */
int ipu_model_evaluate(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                       int y_count, const char *options, const char **logs);
/* A number of the newest logs: "loss", "accuracy" …. After a fit these are the last epoch's logs.
 * IPU_E_NOT_FOUND: there is none, or it is no number (NaN). */
int ipu_model_log(ipu_model *m, const char *name, double *out);
/* The outputs for x, [samples, …] each, as many as outputs have room (capacity); each is yours,
 * *output_count how many. Batches as in ipu_model_evaluate. IPU_E_INVALID_ARGUMENT: too little
 * room. */
int ipu_model_predict(ipu_model *m, ipu_tensor *const *x, int x_count, const char *options,
                      ipu_tensor **outputs, int capacity, int *output_count);
/* Copies of the weights, in the order of the layers: yours, as of ipu_model_predict. */
int ipu_model_get_weights(ipu_model *m, ipu_tensor **weights, int capacity, int *count);
/* All weights, in that order. IPU_E_VALUE: another count or shape. */
int ipu_model_set_weights(ipu_model *m, ipu_tensor *const *weights, int count);
/* The estimated cost of a training step on IPUs, as JSON: cycles of the chip's clock, seconds,
 * bytes. {"batch_size": …, "target": …} */
int ipu_model_estimate(ipu_model *m, const char *options, const char **json);
/* Runs a chunk in the models' Lua state; *result is what it returns, as text ("" for nil).
 * IPU_E_VALUE: a text with a NUL in it. IPU_E_FAILED_PRECONDITION: os.exit was called, but the
 * process is the caller's. */
int ipu_run_lua(ipu_context *c, const char *code, const char **result);
/* ---- ffi.cdef ends ---- */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
