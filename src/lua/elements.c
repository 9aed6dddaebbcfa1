/* Assigning to elements of a tensor: t[2] = v. A tensor that shares no memory is written in place.
 * Otherwise the script's tensor first gets memory of its own, so that datasets, programs and
 * variables keep their values. */
#include <string.h>

#include "lua/bind.h"
#include "lua/tape.h"

/* A part of a tensor refers to the tensor and its index, so that t[1][2] = v writes to t. */
enum { PARENT = 1, INDEX = 2 };

/* (tensor): an error where its elements can't be assigned to. */
static int check_assignable(lua_State *L) {
  const State *s = bind_state(L);
  const LuaTensor *t = bind_check_tensor(L, 1, "what elements are assigned to");
  if (s->trace || !t->tensor)
    bind_fail(
        L, ERR_FAILED_PRECONDITION,
        "a tensor's elements can't be assigned to while a function is traced; make a new one: "
        "ipu.where, ipu.scatter_nd, ipu.concat");
  if (tape_any_holds(L, t->tensor))
    bind_fail(L, ERR_FAILED_PRECONDITION,
              "a gradient tape holds this tensor, so its elements can't be assigned to; make a new "
              "one: ipu.where, ipu.scatter_nd, ipu.concat");
  return 0;
}

static Tensor *dense_copy(lua_State *L, const Tensor *t) {
  Error e = {0};
  Tensor *own = tensor_new_uninitialised(&e, &t->type);
  bind_check(L, &e);
  tensor_copy_out(t, own->data);
  bind_tell_collector(L, type_bytes(&t->type));
  return own;
}

/* The tensor at index 1, in memory that is its alone. */
static Tensor *own_memory(lua_State *L, LuaTensor *u) {
  if (tensor_is_dense(u->tensor) && tensor_is_writable(u->tensor)) return u->tensor;
  Tensor *own = dense_copy(L, u->tensor);
  tensor_release(u->tensor);
  return u->tensor = own;
}

typedef struct Box {
  int rank;
  size_t size; /* of an element */
  int64_t begin[MAX_RANK], count[MAX_RANK];
} Box;

static void check_box(lua_State *L, int begin, int count, const Type *type, Box *box) {
  box->rank = bind_check_shape(L, begin, "begin", box->begin);
  bool fits = bind_check_shape(L, count, "size", box->count) == type->rank;
  fits = fits && box->rank == type->rank;
  for (int i = 0; fits && i < box->rank; i++)
    fits =
        box->begin[i] >= 0 && box->count[i] >= 0 && box->count[i] <= type->shape[i] - box->begin[i];
  if (!fits)
    bind_fail(L, ERR_INTERNAL, "the elements to read or write lie outside of their tensor");
}

/* Rows of the last axis are copied whole. */
static const char *write_box(const Box *box, const Tensor *to, int axis, char *at,
                             const char *from) {
  if (axis == box->rank) return memcpy(at, from, box->size), from + box->size;
  size_t step = (size_t)to->stride[axis] * box->size;
  at += (size_t)box->begin[axis] * step;
  if (axis == box->rank - 1) {
    size_t bytes = (size_t)box->count[axis] * box->size;
    memcpy(at, from, bytes);
    return from + bytes;
  }
  for (int64_t i = 0; i < box->count[axis]; i++, at += step)
    from = write_box(box, to, axis + 1, at, from);
  return from;
}

static bool is_of_box(const Type *value, const Type *whole, const Box *box) {
  bool same = value->dtype == whole->dtype && value->rank == box->rank;
  for (int i = 0; same && i < box->rank; i++) same = value->shape[i] == box->count[i];
  return same;
}

/* (tensor, begin, size, values) values: a tensor of the box's shape and the tensor's dtype */
static int put_elements(lua_State *L) {
  lua_settop(L, 4);
  LuaTensor *u = bind_check_tensor(L, 1, "what elements are assigned to");
  check_assignable(L);
  Box box = {.size = dtype_size(u->tensor->type.dtype)};
  check_box(L, 2, 3, &u->tensor->type, &box);
  Tensor *given = bind_concrete(L, 4, "what is assigned");
  if (!is_of_box(&given->type, &u->tensor->type, &box))
    bind_fail(L, ERR_INTERNAL, "the values don't fit the elements");
  if (type_count(&given->type) == 0) return 0;
  Error e = {0};
  Tensor *values = tensor_dense(&e, given);
  bind_check(L, &e);
  LuaTensor *kept = bind_new_tensor(L); /* own_memory may raise */
  kept->tensor = values;
  Tensor *to = own_memory(L, u);
  write_box(&box, to, 0, to->data, values->data);
  return 0;
}

/* (child, parent, index) → the child, which remembers where it was taken from */
static int linked(lua_State *L) {
  const LuaTensor *child = bind_test_tensor(L, 1);
  if (!child || !child->tensor) return lua_settop(L, 1), 1;
  bind_push_linked(L, tensor_retain(child->tensor));
  for (int i = PARENT; i <= INDEX; i++) {
    lua_pushvalue(L, i + 1);
    lua_setiuservalue(L, -2, i);
  }
  return 1;
}

static int link_of(lua_State *L) { /* (tensor) → parent, index; nothing */
  if (lua_getiuservalue(L, 1, PARENT) != LUA_TUSERDATA) return 0;
  lua_getiuservalue(L, 1, INDEX);
  return 2;
}

void bind_open_elements(lua_State *L) {
  static const luaL_Reg functions[] = {{"check_assignable", check_assignable},
                                       {"put_elements", put_elements},
                                       {"linked", linked},
                                       {"link_of", link_of},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
}
