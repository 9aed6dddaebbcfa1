/* Declarations shared by the binding files of datasets. */
#ifndef IPULUA_LUA_DATASET_H
#define IPULUA_LUA_DATASET_H
#include "data/dataset.h"
#include "lua/bind.h"

#define DATASET_NAME "ipulua.Dataset"
enum { DATASET_COMPONENTS = 64 };

Dataset **bind_new_dataset(lua_State *L); /* pushes an empty one */
Dataset *bind_check_dataset(lua_State *L, int index);
/* Puts the dataset that a constructor made into an empty userdata, or raises its error. Returns
 * 1. */
int bind_made_dataset(lua_State *L, Dataset **u, Dataset *d, const Error *e);
/* A list of {dtype, shape}, at most DATASET_COMPONENTS; returns how many. */
int bind_read_types(lua_State *L, int index, Type *types);
/* Pops the list on top of L, whose types Lua code has checked, into out. */
Status bind_take_list(lua_State *L, Tensor **out, int count, Error *e);
void bind_release_callback(void *context);
void bind_take_number(void *context, uint64_t number);
DataContext bind_data_context(lua_State *L); /* for iterators opened now */

/* One function or list for each file: the functions of datasets, or their methods. */
extern const luaL_Reg bind_mapping_methods[]; /* mapping.c */
void bind_open_iterator(lua_State *L);        /* iterator.c: the metatable */
int bind_open_dataset_iterator(lua_State *L); /* (dataset, peek) → iterator */
void bind_open_infeed(lua_State *L);          /* infeed.c */
void bind_open_readers(lua_State *L);         /* readers.c: the core table is below */
#endif
