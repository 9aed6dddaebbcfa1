/* What the binding files of datasets share. */
#ifndef IPULUA_LUA_DATASET_H
#define IPULUA_LUA_DATASET_H
#include "data/dataset.h"
#include "lua/bind.h"

#define DATASET_NAME "ipulua.Dataset"
enum { DATASET_COMPONENTS = 64 };

Dataset **bind_new_dataset(lua_State *L); /* pushes an empty one */
Dataset *bind_check_dataset(lua_State *L, int index);
/* What a constructor made, or its error, into an empty one; returns 1. */
int bind_made_dataset(lua_State *L, Dataset **u, Dataset *d, const Error *e);
/* A list of {dtype, shape}, at most DATASET_COMPONENTS; returns how many. */
int bind_read_types(lua_State *L, int index, Type *types);
/* The list on top of L, whose types Lua code has checked, into out; pops it. */
Status bind_take_list(lua_State *L, Tensor **out, int count, Error *e);
void bind_release_callback(void *context);
DataContext bind_data_context(lua_State *L); /* what iterators opened now read with */

/* One function a file: fills the table of datasets' functions at the top of the stack, or their
 * methods. */
extern const luaL_Reg bind_mapping_methods[]; /* mapping.c */
void bind_open_iterator(lua_State *L);        /* iterator.c: the metatable */
int bind_open_dataset_iterator(lua_State *L); /* (dataset, peek) → iterator */
void bind_open_infeed(lua_State *L);          /* infeed.c */
void bind_open_readers(lua_State *L);         /* readers.c: the core table is below */
#endif
