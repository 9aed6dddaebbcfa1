/* ipulua.hdf5: the datasets and texts of an HDF5 file, for Keras' weights. A Lua module of its
 * own, since the library is large and seldom needed. Links, external and virtual data, and
 * filters from other files are refused: a file holds what it shows. */
#include <hdf5.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OBJECTS = 65536, MOST_RANK = 8, MOST_TEXTS = 65536 };
/* A dataset that claims much more than the file stores for it is not believed. */
static const hsize_t UNDOUBTED_BYTES = 1 << 26, MOST_RATIO = 1000;

typedef struct Names {
  char **name;
  bool *is_group;
  size_t count;
  const char *problem;
} Names;

static herr_t visit(hid_t file, const char *name, const H5L_info_t *link, void *context) {
  Names *n = context;
  if (link->type != H5L_TYPE_HARD) return n->problem = "it has links to elsewhere", -1;
  if (n->count == MOST_OBJECTS) return n->problem = "it has too many objects", -1;
  /* H5Oget_info_by_name has another form in each version */
  hid_t object = H5Oopen(file, name, H5P_DEFAULT);
  if (object < 0) return -1;
  n->name[n->count] = strdup(name);
  n->is_group[n->count] = H5Iget_type(object) == H5I_GROUP;
  H5Oclose(object);
  return n->name[n->count++] ? 0 : -1;
}

static int fail(lua_State *L, const char *path, const char *what, const char *problem) {
  return luaL_error(L, "%s: %s%s%s", path, what, *what ? ": " : "", problem);
}

/* ---- texts: attributes that are strings or lists of them ---- */

static void push_text(lua_State *L, const char *text, size_t size) {
  lua_pushlstring(L, text, strnlen(text, size));
}

/* Pushes the attribute's texts as a list; nothing and false when it is something else. */
static bool push_attribute(lua_State *L, hid_t attribute) {
  hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  hssize_t count = H5Sget_simple_extent_npoints(space);
  size_t size = H5Tget_size(type);
  bool is_text = H5Tget_class(type) == H5T_STRING && count >= 0 && count <= MOST_TEXTS &&
                 size > 0 && size <= 1 << 16;
  bool variable = is_text && H5Tis_variable_str(type) > 0;
  char *data = is_text ? calloc((size_t)count + 1, variable ? sizeof(char *) : size) : NULL;
  bool good = data && H5Aread(attribute, type, data) >= 0;
  if (good) {
    /* out of memory here leaks; nothing else can raise before data is freed */
    lua_createtable(L, (int)count, 0);
    for (hssize_t i = 0; i < count; i++) {
      const char *text = variable ? ((char **)(void *)data)[i] : data + (size_t)i * size;
      if (text) push_text(L, text, variable ? (size_t)-1 : size);
      else lua_pushliteral(L, "");
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    if (variable) H5Dvlen_reclaim(type, space, H5P_DEFAULT, data);
  }
  free(data);
  H5Sclose(space);
  H5Tclose(type);
  return good;
}

/* The texts of a group, in the table at the top of the stack: path → name → list. */
static void add_attributes(lua_State *L, hid_t file, const char *path) {
  hid_t group = H5Oopen(file, path, H5P_DEFAULT);
  lua_newtable(L);
  int count = group >= 0 ? H5Aget_num_attrs(group) : 0;
  for (int i = 0; i < count; i++) {
    char name[256];
    hid_t a = H5Aopen_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, H5P_DEFAULT,
                             H5P_DEFAULT);
    if (a < 0) continue;
    if (H5Aget_name(a, sizeof name, name) > 0 && push_attribute(L, a)) lua_setfield(L, -2, name);
    H5Aclose(a);
  }
  if (group >= 0) H5Oclose(group);
  lua_setfield(L, -2, path);
}

/* ---- datasets ---- */

static const char *check_storage(hid_t dataset, hsize_t bytes) {
  hid_t plan = H5Dget_create_plist(dataset);
  bool external = H5Pget_external_count(plan) > 0, is_virtual = H5Pget_layout(plan) == H5D_VIRTUAL;
  H5Pclose(plan);
  if (external || is_virtual) return "its elements are in another file";
  if (bytes > UNDOUBTED_BYTES && bytes / MOST_RATIO > H5Dget_storage_size(dataset))
    return "it claims more elements than are stored";
  return NULL;
}

/* Pushes {dtype, shape, data} of a dataset of numbers; nil for what is none. */
static void push_dataset(lua_State *L, hid_t file, const char *path, const char *name) {
  hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  if (dataset < 0) fail(L, path, name, "it can't be opened");
  hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  H5T_class_t class = H5Tget_class(type);
  size_t stored = H5Tget_size(type);
  int rank = H5Sget_simple_extent_ndims(space);
  hsize_t shape[MOST_RANK] = {0};
  hssize_t count = rank >= 0 && rank <= MOST_RANK ? H5Sget_simple_extent_npoints(space) : -1;
  if (count >= 0) H5Sget_simple_extent_dims(space, shape, NULL);
  H5Sclose(space);
  H5Tclose(type);
  bool is_float = class == H5T_FLOAT, is_double = is_float && stored == 8;
  if ((!is_float && class != H5T_INTEGER) || count < 0) {
    H5Dclose(dataset);
    lua_pushnil(L);
    return;
  }
  size_t width = is_float && !is_double ? 4 : 8;
  if (count > (1LL << 44)) fail(L, path, name, "it is too large");
  const char *problem = check_storage(dataset, (hsize_t)count * width);
  if (problem) fail(L, path, name, problem);
  lua_createtable(L, 0, 3);
  lua_pushstring(L, is_double  ? "float64"
                    : is_float ? "float32"
                               : "int64"),
      lua_setfield(L, -2, "dtype");
  lua_createtable(L, rank, 0);
  for (int i = 0; i < rank; i++)
    lua_pushinteger(L, (lua_Integer)shape[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "shape");
  luaL_Buffer b;
  char *data = luaL_buffinitsize(L, &b, (size_t)count * width);
  hid_t wanted = is_double ? H5T_NATIVE_DOUBLE : is_float ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT64;
  herr_t status = count ? H5Dread(dataset, wanted, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) : 0;
  luaL_pushresultsize(&b, (size_t)count * width);
  H5Dclose(dataset);
  if (status < 0) fail(L, path, name, "its elements can't be read");
  lua_setfield(L, -2, "data");
}

typedef struct Reading {
  const char *path;
  hid_t file;
  Names names;
} Reading;

static int read_all(lua_State *L) {
  Reading *r = lua_touserdata(L, 1);
  lua_newtable(L);
  lua_newtable(L);
  add_attributes(L, r->file, "/");
  for (size_t i = 0; i < r->names.count; i++) {
    const char *name = r->names.name[i];
    if (r->names.is_group[i]) {
      add_attributes(L, r->file, name);
      continue;
    }
    push_dataset(L, r->file, r->path, name);
    lua_setfield(L, -3, name);
  }
  return 2;
}

static hid_t open_file(const char *path) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  /* whatever an error leaves open closes with the file */
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

/* (path) → {name = {dtype, shape, data}}, {group = {attribute = list of texts}}; "/" is the root */
static int read(lua_State *L) {
  Reading r = {.path = luaL_checkstring(L, 1)};
  r.names.name = lua_newuserdatauv(L, MOST_OBJECTS * sizeof *r.names.name, 0);
  r.names.is_group = lua_newuserdatauv(L, MOST_OBJECTS * sizeof *r.names.is_group, 0);
  lua_pushcfunction(L, read_all);
  lua_pushlightuserdata(L, &r);
  r.file = open_file(r.path);
  if (r.file < 0) return fail(L, r.path, "", "this is no HDF5 file, or it can't be read");
  bool listed = H5Lvisit(r.file, H5_INDEX_NAME, H5_ITER_INC, visit, &r.names) >= 0;
  int status = listed ? lua_pcall(L, 1, 2, 0) : LUA_OK;
  H5Fclose(r.file);
  for (size_t i = 0; i < r.names.count; i++) free(r.names.name[i]);
  if (!listed) return fail(L, r.path, "", r.names.problem ? r.names.problem : "it is damaged");
  return status == LUA_OK ? 2 : lua_error(L);
}

__attribute__((visibility("default"))) int luaopen_ipulua_hdf5(lua_State *L);
int luaopen_ipulua_hdf5(lua_State *L) {
  static const luaL_Reg functions[] = {{"read", read}, {NULL, NULL}};
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are ours to tell */
  H5PLset_loading_state(0);              /* no filters from files beside */
  luaL_newlib(L, functions);
  return 1;
}
