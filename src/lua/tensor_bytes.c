/* Bytes of tensors: comparison, conversion to strings, and the total of live tensors. */
#include <string.h>

#include "dist/crc.h"
#include "lua/bind.h"

static int same_bytes(lua_State *L) { /* (a, b): type and every bit */
  Tensor *a = bind_concrete(L, 1, "same_bytes"), *b = bind_concrete(L, 2, "same_bytes");
  Error e = {0};
  Tensor *x = tensor_dense(&e, a), *y = x ? tensor_dense(&e, b) : NULL;
  bool same =
      y && type_equal(&x->type, &y->type) && !memcmp(x->data, y->data, type_bytes(&x->type));
  tensor_release(x);
  tensor_release(y);
  bind_check(L, &e);
  lua_pushboolean(L, same);
  return 1;
}

static int bytes_alive(lua_State *L) {
  lua_pushinteger(L, storage_bytes_alive());
  return 1;
}

/* (tensor) → its elements as a string, row-major and little-endian */
static int to_bytes(lua_State *L) {
  Tensor *t = bind_concrete(L, 1, "to_bytes");
  size_t bytes = type_bytes(&t->type);
  luaL_Buffer b;
  char *data = luaL_buffinitsize(L, &b, bytes);
  if (bytes) tensor_copy_out(t, data);
  luaL_pushresultsize(&b, bytes);
  return 1;
}

/* (dtype, shape, string) → tensor */
static int from_bytes(lua_State *L) {
  Type type = {.dtype = bind_check_dtype(L, 1)};
  type.rank = bind_check_shape(L, 2, "shape", type.shape);
  size_t bytes;
  const char *data = luaL_checklstring(L, 3, &bytes);
  Error e = {0};
  type_check(&e, "tensor", &type);
  bind_check(L, &e);
  if (bytes != type_bytes(&type))
    bind_fail(L, ERR_VALUE, "a tensor of %zu bytes was given %zu", type_bytes(&type), bytes);
  LuaTensor *u = bind_new_tensor(L);
  u->tensor = tensor_from(&e, &type, data);
  bind_check(L, &e);
  return 1;
}

/* (dense tensor) → the CRC32C of its elements */
static int crc_of_tensor(lua_State *L) {
  const LuaTensor *t = bind_check_tensor(L, 1, "value");
  if (!t->tensor || !tensor_is_dense(t->tensor))
    return luaL_error(L, "'value' must be a dense tensor");
  lua_pushinteger(L, dist_crc(0, t->tensor->data, type_bytes(&t->tensor->type)));
  return 1;
}

void bind_open_tensor_bytes(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"same_bytes", same_bytes}, {"bytes_alive", bytes_alive},     {"to_bytes", to_bytes},
      {"from_bytes", from_bytes}, {"crc_of_tensor", crc_of_tensor}, {NULL, NULL}};
  bind_set_functions(L, functions);
}
