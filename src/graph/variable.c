#include "graph/variable.h"

#include <stdlib.h>
#include <string.h>

Variable *variable_new(Error *e, const char *name, const Type *type, bool trainable) {
  if (type_check(e, name, type) != OK) return NULL;
  Variable *v = calloc(1, sizeof *v);
  if (v) v->name = strdup(name);
  if (!v || !v->name) {
    free(v);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory for variable '%s'", name);
    return NULL;
  }
  v->references = 1;
  v->type = *type;
  v->trainable = trainable;
  return v;
}

Variable *variable_retain(Variable *v) {
  if (v) atomic_fetch_add(&v->references, 1);
  return v;
}

void variable_release(Variable *v) {
  if (!v || atomic_fetch_sub(&v->references, 1) != 1) return;
  tensor_release(v->value);
  free(v->name);
  free(v);
}

Status variable_assign(Error *e, Variable *v, const Tensor *t) {
  char want[TYPE_TEXT], got[TYPE_TEXT];
  if (!type_equal(&v->type, &t->type))
    return fail(e, ERR_INVALID_ARGUMENT, "variable '%s' is %s, got %s", v->name, type_text(&v->type, want),
                type_text(&t->type, got));
  if (v->value && tensor_is_shared(v->value)) {
    tensor_release(v->value);
    v->value = NULL;
  }
  if (!v->value) v->value = tensor_new_uninitialised(e, &v->type);
  if (!v->value) return ERR_OUT_OF_MEMORY;
  if (type_count(&v->type)) tensor_copy_out(t, v->value->data);
  v->version++;
  return OK;
}

void *variable_writable(Error *e, Variable *v) {
  if (!v->value) {
    fail(e, ERR_FAILED_PRECONDITION, "variable '%s' is read before it was initialised", v->name);
    return NULL;
  }
  if (tensor_is_shared(v->value)) {
    Tensor *own = tensor_from(e, &v->type, v->value->data);
    if (!own) return NULL;
    tensor_release(v->value);
    v->value = own;
  }
  v->version++;
  return v->value->data;
}
