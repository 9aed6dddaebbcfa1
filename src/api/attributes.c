#include "api/attributes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/nearest.h"
#include "graph/choice.h"
#include "graph/graph.h"
#include "ops/ops.h"

static bool is_open(const OpDef *op) { return !(op->traits & (INTERNAL | CONTROL)); }

/* The op of that name in another module (relu is nn.relu), or the one with the nearest name in
 * any. */
static const OpDef *near_op(const char *name) {
  const OpDef *best = NULL;
  int limit = nearest_limit(name);
  for (const OpDef *op = op_next(NULL); op; op = op_next(op)) {
    const char *dot = strrchr(op->name, '.');
    int d =
        int_min(nearest_distance(name, op->name), nearest_distance(name, dot ? dot + 1 : op->name));
    if (is_open(op) && d < limit) limit = d, best = op;
  }
  return best;
}

static const OpDef *unknown_op(Error *e, const char *name) {
  const OpDef *op = near_op(name);
  fail(e, ERR_NOT_FOUND, "there is no op '%.60s'%s%s%s", name, op ? "; did you mean '" : "",
       op ? op->name : "", op ? "'?" : "");
  return NULL;
}

const OpDef *attributes_op(Error *e, const char *name, int input_count) {
  const OpDef *op = name ? op_find(name) : NULL;
  if (!op || !is_open(op)) return unknown_op(e, name ? name : "NULL");
  int required, max = op_input_count(op, &required), counter = (op->traits & RANDOM) != 0;
  if (op->traits & VARIADIC) return op;
  required -= counter, max -= counter;
  if (input_count < required || input_count > max) {
    char range[32] = "";
    if (required < max) snprintf(range, sizeof range, "%d to ", required);
    return fail(e, ERR_VALUE, "%s takes %s%d tensor%s, got %d", name, range, max,
                max == 1 ? "" : "s", input_count),
           NULL;
  }
  return op;
}

static Status wrong_type(Error *e, const OpDef *op, const AttrDef *def, const char *wanted) {
  return fail(e, ERR_TYPE, "%s: '%s' must be %s", op->name, def->name, wanted);
}

/* How many elements the lists in a value have; a value that is none counts as one. */
static size_t elements_of(const json_t *value) {
  size_t count = 0;
  if (!json_is_array(value)) return 1;
  for (size_t i = 0; i < json_array_size(value); i++)
    count += elements_of(json_array_get(value, i));
  return count;
}

/* Nested lists are read in order; false stands for an open end. */
static Status read_list(Error *e, const OpDef *op, const AttrDef *def, const json_t *value,
                        int64_t *list, int *count) {
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *each = json_array_get(value, i);
    if (json_is_array(each)) {
      if (read_list(e, op, def, each, list, count) != OK) return e->status;
      continue;
    }
    if (!json_is_integer(each) && !json_is_false(each))
      return wrong_type(e, op, def, "an integer or a list of integers");
    list[(*count)++] = json_is_false(each) ? INT64_MIN : json_integer_value(each);
  }
  return OK;
}

/* The row's own spelling of a choice, in which letter case is free; it lives in the document. */
static Status read_choice(Error *e, const OpDef *op, const AttrDef *def, json_t *root,
                          const char *given, Attr *out) {
  *out = attr_string(given);
  if (!def->choices) return OK;
  size_t n;
  const char *choice = choice_find(def, given, &n);
  if (!choice) return choice_refuse(e, op, def, given);
  json_t *spelt = json_stringn(choice, n);
  if (!spelt || json_object_set_new(root, def->name, spelt))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  *out = attr_string(json_string_value(spelt));
  return OK;
}

static Status read_attribute(Error *e, const OpDef *op, int i, json_t *root, const json_t *value,
                             Attributes *a) {
  const AttrDef *def = &op->attrs[i];
  int64_t *list = a->lists + a->used;
  int count = 0;
  Dtype d;
  switch (def->kind) {
    case ATTR_INT:
      if (!json_is_integer(value)) return wrong_type(e, op, def, "an integer");
      a->attr[i] = attr_int(json_integer_value(value));
      return OK;
    case ATTR_FLOAT:
      if (!json_is_number(value)) return wrong_type(e, op, def, "a number");
      a->attr[i] = attr_float(json_number_value(value));
      return OK;
    case ATTR_BOOL:
      if (!json_is_boolean(value)) return wrong_type(e, op, def, "a boolean");
      a->attr[i] = attr_bool(json_is_true(value));
      return OK;
    case ATTR_STRING:
      if (!json_is_string(value)) return wrong_type(e, op, def, "a string");
      return read_choice(e, op, def, root, json_string_value(value), &a->attr[i]);
    case ATTR_DTYPE:
      if (!json_is_string(value)) return wrong_type(e, op, def, "a dtype");
      if (!dtype_find(json_string_value(value), &d))
        return fail(e, ERR_VALUE, "%s: '%s': there is no dtype '%.40s'", op->name, def->name,
                    json_string_value(value));
      a->attr[i] = attr_dtype(d);
      return OK;
    case ATTR_INTS:
      if (json_is_integer(value)) list[count++] = json_integer_value(value);
      else if (!json_is_array(value))
        return wrong_type(e, op, def, "an integer or a list of integers");
      else if (read_list(e, op, def, value, list, &count) != OK) return e->status;
      a->attr[i] = attr_ints(list, count);
      a->attr[i].ints.listed = json_is_array(value);
      a->used += (size_t)count;
      return OK;
    default:
      return fail(e, ERR_TYPE, "%s: '%s' can't be given here", op->name, def->name);
  }
}

static int find(const OpDef *op, const char *name) {
  for (int i = 0; i < op_attr_count(op); i++)
    if (!strcmp(op->attrs[i].name, name) && strcmp(name, "stream")) return i;
  return -1;
}

static Status unknown_attribute(Error *e, const OpDef *op, const char *name) {
  char known[256] = "";
  const char *names[MAX_ATTRS + 1] = {0};
  size_t at = 0;
  for (int i = 0, n = 0; i < op_attr_count(op) && at < sizeof known; i++) {
    if (!strcmp(op->attrs[i].name, "stream")) continue;
    names[n++] = op->attrs[i].name;
    at +=
        (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", op->attrs[i].name);
  }
  const char *near = nearest_name(name, names);
  return fail(e, ERR_VALUE, "%s has no attribute '%.60s'%s%s%s has %s", op->name, name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'? It" : "; it",
              at ? known : "none");
}

static bool make_lists(json_t *root, Attributes *a) {
  size_t room = 1;
  for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at))
    room += elements_of(json_object_iter_value(at));
  a->lists = malloc(room * sizeof *a->lists);
  return a->lists != NULL;
}

static Status read_all(Error *e, const OpDef *op, json_t *root, Attributes *a) {
  for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
    const char *name = json_object_iter_key(at);
    int i = find(op, name);
    if (i < 0) return unknown_attribute(e, op, name);
    if (json_is_null(json_object_iter_value(at))) continue;
    if (read_attribute(e, op, i, root, json_object_iter_value(at), a) != OK) return e->status;
  }
  return OK;
}

Status attributes_read(Error *e, const OpDef *op, const char *text, Attributes *a) {
  *a = (Attributes){.document = NULL};
  if (text && *text) {
    json_error_t problem;
    a->document = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!a->document)
      return fail(e, ERR_VALUE, "%s: its attributes are no JSON: line %d, column %d: %s", op->name,
                  problem.line, problem.column, problem.text);
    if (!json_is_object((json_t *)a->document))
      return fail(e, ERR_VALUE, "%s: its attributes must be a JSON object, got %.100s", op->name,
                  text);
    if (!make_lists(a->document, a)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    if (read_all(e, op, a->document, a) != OK) return e->status;
  }
  for (int i = 0; i < op_attr_count(op); i++)
    if (a->attr[i].kind == ATTR_NONE && !op->attrs[i].fallback)
      return fail(e, ERR_TYPE, "%s: '%s' is missing", op->name, op->attrs[i].name);
  return OK;
}

void attributes_clear(Attributes *a) {
  json_decref(a->document);
  free(a->lists);
  *a = (Attributes){.document = NULL};
}
