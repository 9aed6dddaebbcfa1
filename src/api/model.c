/* Keras models: each function is a call of ipulua/tools/embed.lua. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/interpreter.h"
#include "base/text.h"

enum { NAME_BYTES = 48 }; /* of a function of the interface */

struct ipu_model {
  ipu_context *context;
  int64_t object;
  char *logs; /* JSON, of the newest training or evaluation */
};

/* ---- tensors across the bridge ---- */

static void release(void *owner) { tensor_release(owner); }

static BridgeTensor lend(Tensor *t) {
  return (BridgeTensor){
      .type = t->type, .data = t->data, .owner = tensor_retain(t), .release = release};
}

/* A crossed tensor as one of ours; takes it over. */
static Tensor *receive(Error *e, const BridgeTensor *t) {
  Tensor *own = tensor_wrap(e, &t->type, t->data, t->release, t->owner);
  if (!own) t->release(t->owner);
  return own;
}

/* The call's tensors: x, then y. NULL with the error filled. */
static BridgeTensor *lend_all(Error *e, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                              int y_count) {
  if (context_check_list(e, "inputs", x, x_count) != OK ||
      context_check_list(e, "targets", y, y_count) != OK)
    return NULL;
  BridgeTensor *list = malloc((size_t)(x_count + y_count + 1) * sizeof *list);
  if (!list) fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; list && i < x_count; i++) list[i] = lend(tensor_of(x[i]));
  for (int i = 0; list && i < y_count; i++) list[x_count + i] = lend(tensor_of(y[i]));
  return list;
}

static void drop_results(BridgeCall *call) {
  for (int i = 0; i < call->out_count; i++) call->out[i].release(call->out[i].owner);
  free(call->out);
  free(call->out_text);
  call->out = NULL;
  call->out_text = NULL;
  call->out_count = 0;
}

/* Hands out the tensors of a finished call. */
static void receive_all(Error *e, BridgeCall *call, ipu_tensor **outputs, int capacity,
                        int *count) {
  if (call->out_count > capacity)
    fail(e, ERR_INVALID_ARGUMENT, "%s: there %s %d result%s, and room for %d", call->function,
         call->out_count == 1 ? "is" : "are", call->out_count, plural(call->out_count), capacity);
  if (e->status != OK) return;
  int n = call->out_count;
  for (int i = 0; i < n; i++) outputs[i] = handle_of(receive(e, &call->out[i]));
  call->out_count = 0;
  for (int i = 0; i < n && e->status != OK; i++)
    tensor_release(tensor_of(outputs[i])), outputs[i] = NULL;
  if (count) *count = e->status == OK ? n : 0;
}

/* ---- calls ---- */

/* A call without tensors. *text (text may be NULL) is the text that it returns. */
static int call_text(ipu_context *c, BridgeCall call, const char **text) {
  context_begin(c);
  if (text) *text = "";
  if (interpreter_call(c, &call) == OK && text && call.out_text) {
    context_text(c, call.out_text, text);
    call.out_text = NULL;
  }
  drop_results(&call);
  return context_end(c);
}

static int new_model(ipu_context *c, const char *function, const char *what, const char *text,
                     ipu_model **out) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "ipu_%s", function);
  if (out) *out = NULL;
  if (!context_given(c, name, (Given[]){{what, text}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  context_begin(c);
  ipu_model *m = calloc(1, sizeof *m);
  if (!m) return context_fail(c, ERR_OUT_OF_MEMORY, "out of memory");
  BridgeCall call = {.function = function, .text = text};
  if (interpreter_call(c, &call) == OK) {
    m->object = call.out_object;
    m->context = context_retain(c);
    *out = m;
  } else {
    free(m);
  }
  drop_results(&call);
  return context_end(c);
}

int ipu_model_from_json(ipu_context *c, const char *json, ipu_model **out) {
  return new_model(c, "model_from_json", "json", json, out);
}
int ipu_model_from_lua(ipu_context *c, const char *code, ipu_model **out) {
  return new_model(c, "model_from_lua", "code", code, out);
}
int ipu_model_load(ipu_context *c, const char *path, ipu_model **out) {
  return new_model(c, "model_load", "path", path, out);
}

void ipu_model_free(ipu_model *m) {
  if (!m) return;
  Error before = m->context->error; /* freeing can't fail, so the last message stays */
  BridgeCall call = {.function = "model_free", .object = m->object};
  interpreter_call(m->context, &call);
  drop_results(&call);
  m->context->error = before;
  ipu_context_free(m->context);
  free(m->logs);
  free(m);
}

/* Are the model and the required arguments of its method there? */
static bool model_given(ipu_model *m, const char *method, const Given *given) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "ipu_model_%s", method);
  return context_given(m ? m->context : NULL, name, given);
}

static int simple(ipu_model *m, const char *function, const char *text, const char **out) {
  if (out) *out = "";
  if (!model_given(m, function, (Given[]){{0}})) return IPU_E_INVALID_ARGUMENT;
  return call_text(m->context,
                   (BridgeCall){.function = function, .object = m->object, .text = text}, out);
}

static int with_path(ipu_model *m, const char *function, const char *path) {
  if (!model_given(m, function, (Given[]){{"path", path}, {0}})) return IPU_E_INVALID_ARGUMENT;
  return simple(m, function, path, NULL);
}

int ipu_model_save(ipu_model *m, const char *path) { return with_path(m, "save", path); }
int ipu_model_load_weights(ipu_model *m, const char *path) {
  return with_path(m, "load_weights", path);
}
int ipu_model_save_weights(ipu_model *m, const char *path) {
  return with_path(m, "save_weights", path);
}
int ipu_model_to_json(ipu_model *m, const char **json) { return simple(m, "to_json", NULL, json); }
int ipu_model_summary(ipu_model *m, const char **text) { return simple(m, "summary", NULL, text); }
int ipu_model_compile(ipu_model *m, const char *options) {
  return simple(m, "compile", options, NULL);
}
int ipu_model_estimate(ipu_model *m, const char *options, const char **json) {
  return simple(m, "estimate", options, json);
}

int ipu_run_lua(ipu_context *c, const char *code, const char **result) {
  if (result) *result = "";
  if (!context_given(c, "ipu_run_lua", (Given[]){{"code", code}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  return call_text(c, (BridgeCall){.function = "run", .text = code}, result);
}

int ipu_model_build(ipu_model *m, int rank, const int64_t *shape) {
  if (!model_given(m, "build", (Given[]){{"shape", rank > 0 ? (const void *)shape : ""}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  if (rank < 0 || rank > MAX_RANK)
    return context_begin(m->context),
           context_fail(m->context, ERR_INVALID_ARGUMENT,
                        "ipu_model_build: the rank must be 0 to %d, got %d", MAX_RANK, rank);
  Text t = {0};
  text_add(&t, "[");
  for (int i = 0; i < rank; i++) text_print(&t, "%s%lld", i ? ", " : "", (long long)shape[i]);
  text_add(&t, "]");
  char *text = text_take(&t);
  int status = text ? simple(m, "build", text, NULL)
                    : context_fail(m->context, ERR_OUT_OF_MEMORY, "out of memory");
  free(text);
  return status;
}

/* ---- training ---- */

/* Keeps the numbers in the text, and returns the text itself: the logs, or a fit's history. */
static int call_logs(ipu_model *m, const char *function, ipu_tensor *const *x, int x_count,
                     ipu_tensor *const *y, int y_count, const char *options, const char **text) {
  if (text) *text = "";
  if (!model_given(m, function, (Given[]){{0}})) return IPU_E_INVALID_ARGUMENT;
  ipu_context *c = m->context;
  Error *e = context_begin(c);
  BridgeTensor *in = lend_all(e, x, x_count, y, y_count);
  if (!in) return context_end(c);
  BridgeCall call = {.function = function, .object = m->object, .text = options, .in = in};
  call.in_count = x_count + y_count, call.x_count = x_count;
  if (interpreter_call(c, &call) == OK) {
    free(m->logs);
    m->logs = call.out_text ? strdup(call.out_text) : NULL;
    if (text) context_text(c, call.out_text, text), call.out_text = NULL;
  }
  free(in);
  drop_results(&call);
  return context_end(c);
}

int ipu_model_fit(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                  int y_count, const char *options, const char **history) {
  return call_logs(m, "fit", x, x_count, y, y_count, options, history);
}

int ipu_model_train_on_batch(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                             int y_count, const char **logs) {
  return call_logs(m, "train_on_batch", x, x_count, y, y_count, NULL, logs);
}

int ipu_model_evaluate(ipu_model *m, ipu_tensor *const *x, int x_count, ipu_tensor *const *y,
                       int y_count, const char *options, const char **logs) {
  return call_logs(m, "evaluate", x, x_count, y, y_count, options, logs);
}

int ipu_model_log(ipu_model *m, const char *name, double *out) {
  if (!model_given(m, "log", (Given[]){{"name", name}, {"out", out}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  context_begin(m->context);
  json_t *logs = m->logs ? json_loads(m->logs, 0, NULL) : NULL;
  const json_t *value = json_object_get(logs, name);
  if (json_is_array(value)) value = json_array_get(value, json_array_size(value) - 1);
  bool found = json_is_number(value);
  if (found) *out = json_number_value(value);
  else
    context_fail(m->context, ERR_NOT_FOUND, "the newest logs have no '%.60s': %.300s", name,
                 m->logs ? m->logs : "{}");
  json_decref(logs);
  return context_end(m->context);
}

/* ---- tensors out ---- */

static int call_tensors(ipu_model *m, const char *function, ipu_tensor *const *x, int x_count,
                        const char *options, const char *out_name, ipu_tensor **outputs,
                        int capacity, int *count) {
  if (count) *count = 0;
  if (!model_given(m, function,
                   (Given[]){{out_name, capacity > 0 ? (const void *)outputs : ""}, {0}}))
    return IPU_E_INVALID_ARGUMENT;
  ipu_context *c = m->context;
  Error *e = context_begin(c);
  BridgeTensor *in = lend_all(e, x, x_count, NULL, 0);
  if (!in) return context_end(c);
  BridgeCall call = {.function = function, .object = m->object, .text = options, .in = in};
  call.in_count = call.x_count = x_count;
  if (interpreter_call(c, &call) == OK) receive_all(e, &call, outputs, capacity, count);
  free(in);
  drop_results(&call);
  return context_end(c);
}

/* A call that fails returns no objects. */
static int give_tensors(ipu_model *m, const char *function, ipu_tensor *const *x, int x_count,
                        const char *options, const char *out_name, ipu_tensor **outputs,
                        int capacity, int *count) {
  int status = call_tensors(m, function, x, x_count, options, out_name, outputs, capacity, count);
  for (int i = 0; status != IPU_OK && outputs && i < capacity; i++) outputs[i] = NULL;
  return status;
}

int ipu_model_predict(ipu_model *m, ipu_tensor *const *x, int x_count, const char *options,
                      ipu_tensor **outputs, int capacity, int *output_count) {
  return give_tensors(m, "predict", x, x_count, options, "outputs", outputs, capacity,
                      output_count);
}

int ipu_model_get_weights(ipu_model *m, ipu_tensor **weights, int capacity, int *count) {
  return give_tensors(m, "get_weights", NULL, 0, NULL, "weights", weights, capacity, count);
}

int ipu_model_set_weights(ipu_model *m, ipu_tensor *const *weights, int count) {
  return call_tensors(m, "set_weights", weights, count, NULL, "outputs", NULL, 0, NULL);
}
