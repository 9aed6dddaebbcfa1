#include "graph/variable.h"

#include <stdlib.h>
#include <string.h>

static _Atomic int64_t made;

int64_t variable_newest(void) { return atomic_load(&made); }

Variable *variable_new(Error *e, const char *name, const Type *type, bool trainable) {
  if (type_check(e, name, type) != OK) return NULL;
  Variable *v = calloc(1, sizeof *v);
  if (v) v->name = strdup(name);
  if (!v || !v->name) {
    free(v);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory for variable '%s'", name);
    return NULL;
  }
  v->references = v->replicas = 1;
  v->serial = atomic_fetch_add(&made, 1) + 1;
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
  variable_release(v->aggregate);
  for (int i = 0; i + 1 < v->replica_count; i++) tensor_release(v->replica[i]);
  free(v->replica);
  free(v->name);
  free(v);
}

/* Of an aggregated variable, too; other replicas than the first may have zero. */
static Status assign_aggregate(Error *e, Variable *v, const Tensor *t) {
  return v->aggregate ? variable_assign(e, v->aggregate, t) : OK;
}

Status variable_check_idle(Error *e, const Variable *v) {
  if (!v->users) return OK;
  return fail(
      e, ERR_FAILED_PRECONDITION,
      "variable '%s' can't be assigned inside of a program that uses it and is running; a callback returns a value, which the program "
      "assigns",
      v->name);
}

Status variable_assign(Error *e, Variable *v, const Tensor *t) {
  char want[TYPE_TEXT], got[TYPE_TEXT];
  if (!type_equal(&v->type, &t->type))
    return fail(e, ERR_INVALID_ARGUMENT, "variable '%s' is %s, got %s", v->name,
                type_text(&v->type, want), type_text(&t->type, got));
  if (variable_check_idle(e, v) != OK || assign_aggregate(e, v, t) != OK) return e->status;
  if (v->value && tensor_is_shared(v->value)) {
    tensor_release(v->value);
    v->value = NULL;
  }
  if (!v->value) v->value = tensor_new_uninitialised(e, &v->type);
  if (!v->value) return ERR_OUT_OF_MEMORY;
  if (type_count(&v->type)) tensor_copy_out(t, v->value->data);
  v->replicas = 1;
  v->version++;
  v->assigned = true;
  return OK;
}

static void *own_value(Error *e, Variable *v) {
  if (variable_check_idle(e, v) != OK) return NULL;
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

void *variable_writable(Error *e, Variable *v) {
  void *data = own_value(e, v);
  if (data) v->replicas = 1;
  return data;
}

static Status make_room(Error *e, Variable *v, int replicas) {
  if (replicas <= v->replica_count) return OK;
  Tensor **more = realloc(v->replica, (size_t)replicas * sizeof *more);
  if (!more)
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory for variable '%s' on %d replicas", v->name,
                replicas);
  v->replica = more;
  if (v->replica_count < 1) v->replica_count = 1;
  for (; v->replica_count < replicas; v->replica_count++) {
    v->replica[v->replica_count - 1] = tensor_new_uninitialised(e, &v->type);
    if (!v->replica[v->replica_count - 1]) return e->status;
  }
  return OK;
}

Status variable_spread(Error *e, Variable *v, int replicas, void **data) {
  data[0] = own_value(e, v);
  if (!data[0] || make_room(e, v, replicas) != OK) return e->status;
  for (int r = 1; r < replicas; r++) {
    data[r] = v->replica[r - 1]->data;
    if (v->replicas == replicas) continue;
    if (v->first_only) memset(data[r], 0, type_bytes(&v->type));
    else memcpy(data[r], data[0], type_bytes(&v->type));
    if (v->replica_step)
      dtype_set_integer(v->type.dtype, data[r], 0,
                        dtype_get_integer(v->type.dtype, data[0], 0) + r * v->replica_step);
  }
  v->replicas = replicas;
  return OK;
}

const void *variable_of_replica(const Variable *v, int r, int replicas) {
  return r && v->replicas == replicas ? v->replica[r - 1]->data : v->value->data;
}
