/* The C interface of ipulua: libipulua.so.0.
 *
 * Every function that can fail returns 0 or a negative status; ipu_last_error() has the words. Results come back
 * through pointers; what a function gives out as `ipu_x **out` is yours, and ipu_x_free() ends it (NULL is fine).
 * Text is borrowed: it lasts until the next call with the same context. Element types are named by strings:
 * "float32" "float64" "float16" "bfloat16" "int8" "uint8" "int32" "int64" "bool". Attributes and options are JSON
 * objects; NULL stands for {}.
 *
 * A context, and what was made from it, is used by one thread at a time; several contexts may be used side by side.
 * Objects may be freed in any order. The region between the marks holds plain declarations only: LuaJIT's ffi.cdef
 * takes it as it stands. */
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
typedef struct ipu_tensor ipu_tensor;     /* dense, row-major; counted */
typedef struct ipu_archive ipu_archive;   /* the tensors of a file */
typedef struct ipu_variable ipu_variable; /* what outlives a call of a function */
typedef struct ipu_builder ipu_builder;   /* a function that is being written down */
typedef struct ipu_value ipu_value;       /* a value in it; lives as long as the builder */
typedef struct ipu_function ipu_function; /* a compiled function */
typedef struct ipu_model ipu_model;       /* a Keras model */

/* ---- library and context ---- */
uint32_t ipu_abi_version(void);
const char *ipu_version(void);
const char *ipu_status_name(int status); /* "IPU_E_VALUE" */
int ipu_context_new(ipu_context **out);
void ipu_context_free(ipu_context *c);
const char *ipu_last_error(const ipu_context *c); /* of the newest call that failed; "" before the first */
int ipu_set_threads(ipu_context *c, int threads); /* that compute at most; 0: the CPU's cores */
int ipu_set_seed(ipu_context *c, uint64_t seed);

/* ---- tensors ---- */
int ipu_tensor_new(ipu_context *c, const char *dtype, int rank, const int64_t *shape, const void *data,
                   ipu_tensor **out); /* copies data; NULL: zeros */
ipu_tensor *ipu_tensor_retain(ipu_tensor *t); /* one ipu_tensor_free more */
void ipu_tensor_free(ipu_tensor *t);
const char *ipu_tensor_dtype(const ipu_tensor *t);
int ipu_tensor_rank(const ipu_tensor *t);
int64_t ipu_tensor_extent(const ipu_tensor *t, int axis); /* axis counts from 0; -1 beyond the rank */
int64_t ipu_tensor_count(const ipu_tensor *t);            /* elements */
size_t ipu_tensor_bytes(const ipu_tensor *t);
const void *ipu_tensor_data(const ipu_tensor *t);
int ipu_tensor_write(ipu_context *c, ipu_tensor *t, const void *data, size_t bytes); /* all of it */
int ipu_tensor_text(ipu_context *c, const ipu_tensor *t, const char **text);          /* as NumPy prints it */

/* ---- files: .safetensors, .npz, .npy by the path's ending ---- */
int ipu_save(ipu_context *c, const char *path, const char *const *names, ipu_tensor *const *tensors, int count);
int ipu_archive_open(ipu_context *c, const char *path, ipu_archive **out);
void ipu_archive_free(ipu_archive *a);
int ipu_archive_count(const ipu_archive *a);
const char *ipu_archive_name(const ipu_archive *a, int index); /* from 0; lives as long as the archive */
int ipu_archive_tensor(ipu_context *c, const ipu_archive *a, const char *name, ipu_tensor **out);

/* ---- ops by name: ipu_apply(c, "reduce_sum", &x, 1, "{\"axis\": [0]}", &y, 1, NULL) ---- */
const char *ipu_op_name(int index);            /* from 0; NULL behind the last */
const char *ipu_op_summary(const char *op);    /* a sentence; NULL for what is no op */
int ipu_apply(ipu_context *c, const char *op, ipu_tensor *const *inputs, int input_count, const char *attributes,
              ipu_tensor **outputs, int capacity, int *output_count);

/* ---- functions: written down once, compiled, called often ---- */
int ipu_variable_new(ipu_context *c, const char *name, const ipu_tensor *initial, ipu_variable **out);
void ipu_variable_free(ipu_variable *v);
int ipu_variable_read(ipu_context *c, const ipu_variable *v, ipu_tensor **out); /* a copy */
int ipu_variable_assign(ipu_context *c, ipu_variable *v, const ipu_tensor *t);

int ipu_builder_new(ipu_context *c, ipu_builder **out);
void ipu_builder_free(ipu_builder *b);
int ipu_builder_argument(ipu_builder *b, const char *dtype, int rank, const int64_t *shape,
                         ipu_value **out); /* before anything else */
int ipu_builder_constant(ipu_builder *b, ipu_tensor *t, ipu_value **out);
int ipu_builder_read(ipu_builder *b, ipu_variable *v, ipu_value **out);
int ipu_builder_assign(ipu_builder *b, ipu_variable *v, ipu_value *value);
int ipu_builder_apply(ipu_builder *b, const char *op, ipu_value *const *inputs, int input_count, const char *attributes,
                      ipu_value **outputs, int capacity, int *output_count);
int ipu_builder_gradients(ipu_builder *b, ipu_value *y, ipu_value *const *xs, int count,
                          ipu_value **gradients); /* [count]; NULL where there is no path */
const char *ipu_value_dtype(const ipu_value *v);
int ipu_value_rank(const ipu_value *v);
int64_t ipu_value_extent(const ipu_value *v, int axis);
int ipu_builder_finish(ipu_builder *b, ipu_value *const *results, int count,
                       ipu_function **out); /* after it, the builder can only be freed */
void ipu_function_free(ipu_function *f);
int ipu_function_call(ipu_function *f, ipu_tensor *const *arguments, int argument_count, ipu_tensor **results,
                      int capacity, int *result_count);

/* ---- Keras models; they run in a Lua state of the context's own ---- */
int ipu_model_from_json(ipu_context *c, const char *json, ipu_model **out); /* {"class_name": …, "config": …} */
int ipu_model_from_lua(ipu_context *c, const char *code, ipu_model **out);  /* a chunk that returns a model */
int ipu_model_load(ipu_context *c, const char *path, ipu_model **out);      /* what ipu_model_save wrote */
void ipu_model_free(ipu_model *m);
int ipu_model_save(ipu_model *m, const char *path);
int ipu_model_load_weights(ipu_model *m, const char *path);
int ipu_model_save_weights(ipu_model *m, const char *path);
int ipu_model_to_json(ipu_model *m, const char **json);
int ipu_model_summary(ipu_model *m, const char **text);
int ipu_model_build(ipu_model *m, int rank, const int64_t *shape); /* of the input, with the batch; -1: unknown */
int ipu_model_compile(ipu_model *m, const char *options); /* {"optimizer": …, "loss": …, "metrics": […]} */
int ipu_model_fit(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y, int y_count,
                  const char *options, const char **history); /* {"epochs": 3, "batch_size": 32, …} */
int ipu_model_train_on_batch(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y, int y_count,
                             const char **logs);
int ipu_model_evaluate(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y, int y_count,
                       const char *options, const char **logs);
/* A number of the newest logs: "loss", "accuracy" …; after a fit those of the last epoch. */
int ipu_model_log(ipu_model *m, const char *name, double *out);
int ipu_model_predict(ipu_model *m, ipu_tensor *const *x, int x_count, const char *options, ipu_tensor **outputs,
                      int capacity, int *output_count);
int ipu_model_get_weights(ipu_model *m, ipu_tensor **weights, int capacity, int *count);
int ipu_model_set_weights(ipu_model *m, ipu_tensor *const *weights, int count);
/* What a step of training would cost on IPUs, as JSON: {"batch_size": …, "target": …} */
int ipu_model_estimate(ipu_model *m, const char *options, const char **json);
/* Runs a chunk in the models' Lua state; *result is what it returns, as text. */
int ipu_run_lua(ipu_context *c, const char *code, const char **result);
/* ---- ffi.cdef ends ---- */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
