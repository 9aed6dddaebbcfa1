/* Readers of data sets for Lua: a file as tensors, or as a dataset. */
#include "data/reader.h"

#include <stdlib.h>

#include "data/digits.h"
#include "lua/dataset.h"
#include "tensor/cifar.h"
#include "tensor/csv.h"
#include "tensor/idx.h"
#include "tensor/image.h"

#define FOLDER_NAME "ipulua.ImageFolder"

/* A tensor that a reader is going to give: its userdata is there first. */
static int read_tensor(lua_State *L, Status (*read)(Error *, const char *, Tensor **)) {
  const char *path = luaL_checkstring(L, 1);
  LuaTensor *u = bind_new_tensor(L);
  Error e = {0};
  read(&e, path, &u->tensor);
  bind_check(L, &e);
  return 1;
}

static Status read_text_bytes(Error *e, const char *path, Tensor **out) {
  return (*out = text_read_bytes(e, path)) ? OK : e->status;
}
static Status read_text_characters(Error *e, const char *path, Tensor **out) {
  return (*out = text_read_characters(e, path)) ? OK : e->status;
}

static int read_idx(lua_State *L) { return read_tensor(L, idx_read); }
static int read_bytes(lua_State *L) { return read_tensor(L, read_text_bytes); }
static int read_characters(lua_State *L) { return read_tensor(L, read_text_characters); }

/* (path, classes) → images, labels; of 100 classes also the coarse labels */
static int read_cifar(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  int classes = (int)luaL_checkinteger(L, 2);
  LuaTensor *images = bind_new_tensor(L), *labels = bind_new_tensor(L),
            *coarse = bind_new_tensor(L);
  Error e = {0};
  cifar_read(&e, path, classes, &images->tensor, &labels->tensor, &coarse->tensor);
  bind_check(L, &e);
  if (classes == 100) return 3;
  lua_pop(L, 1);
  return 2;
}

/* (path, dtype, separator, has header, columns, fill | nil, is label). columns: names, or positions
 * from 0, or nil for all. */
static int read_csv(lua_State *L) {
  enum { MAX_COLUMNS = 1024 };
  const char *path = luaL_checkstring(L, 1), *separator = luaL_checkstring(L, 3);
  const char *name[MAX_COLUMNS];
  int64_t position[MAX_COLUMNS];
  CsvOptions o = {.dtype = bind_check_dtype(L, 2),
                  .separator = separator[0],
                  .has_header = lua_toboolean(L, 4),
                  .is_label = lua_toboolean(L, 7)};
  CsvFill fill = {.number = luaL_optnumber(L, 6, 0)};
  int is_whole;
  fill.whole = lua_tointegerx(L, 6, &is_whole);
  fill.is_whole = is_whole != 0;
  if (!lua_isnoneornil(L, 6)) o.fill = &fill;
  if (lua_istable(L, 5)) {
    lua_Integer n = luaL_len(L, 5);
    if (n > MAX_COLUMNS)
      return bind_fail(L, ERR_VALUE, "from_csv: at most %d columns can be named", MAX_COLUMNS);
    o.column_count = (int)n;
    for (int i = 0; i < o.column_count; i++) {
      lua_rawgeti(L, 5, i + 1);
      bool named = lua_type(L, -1) == LUA_TSTRING;
      if (named) name[i] = lua_tostring(L, -1);
      else position[i] = luaL_checkinteger(L, -1);
      if (i && named != (o.names != NULL))
        return bind_fail(L, ERR_TYPE, "from_csv: columns are named either by name or by position");
      if (named) o.names = name;
      else o.positions = position;
      lua_pop(L, 1); /* the list holds the names */
    }
  }
  LuaTensor *u = bind_new_tensor(L);
  Error e = {0};
  csv_read(&e, path, &o, &u->tensor);
  bind_check(L, &e);
  return 1;
}

/* Cells go to a list of columns, each a list of texts, at index 3 of the stack. Lua's errors don't
 * pass through C's reader. */
typedef struct Cells {
  lua_State *L;
} Cells;

static int put_cell(lua_State *L) { /* (columns, record, column, text) */
  if (lua_rawgeti(L, 1, lua_tointeger(L, 3) + 1) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, 1, lua_tointeger(L, 3) + 1);
  }
  lua_pushlstring(L, lua_touserdata(L, 4), (size_t)lua_tointeger(L, 5));
  lua_rawseti(L, -2, lua_tointeger(L, 2) + 1);
  return 0;
}

static bool take_cell(void *context, int64_t record, int column, const char *text, size_t bytes) {
  lua_State *L = ((Cells *)context)->L;
  lua_pushcfunction(L, put_cell);
  lua_pushvalue(L, 3);
  lua_pushinteger(L, record);
  lua_pushinteger(L, column);
  lua_pushlightuserdata(L, (void *)(uintptr_t)text);
  lua_pushinteger(L, (lua_Integer)bytes);
  if (lua_pcall(L, 5, 0, 0) == LUA_OK) return true;
  lua_pop(L, 1);
  return false;
}

static int read_csv_cells(lua_State *L) { /* (path, separator) → columns of texts, records */
  const char *path = luaL_checkstring(L, 1), *separator = luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_newtable(L);
  Cells cells = {L};
  int fields;
  int64_t records;
  Error e = {0};
  csv_read_cells(&e, path, separator[0], take_cell, &cells, &fields, &records);
  bind_check(L, &e);
  lua_pushinteger(L, records);
  return 2;
}

static int csv_columns(lua_State *L) { /* (path, separator) → names */
  const char *path = luaL_checkstring(L, 1), *separator = luaL_checkstring(L, 2);
  /* holds names, which may not be lost when Lua raises */
  ImageFolder *f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = (ImageFolder){0};
  luaL_setmetatable(L, FOLDER_NAME);
  Error e = {0};
  csv_first_record(&e, path, separator[0], &f->class_name, &f->class_count);
  bind_check(L, &e);
  bind_push_texts(L, f->class_name, f->class_count);
  return 1;
}

static int from_lines(lua_State *L) { /* (path) */
  const char *path = luaL_checkstring(L, 1);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  return bind_made_dataset(L, u, dataset_from_lines(&e, bind_where(L), path), &e);
}

static void push_labels(lua_State *L, const ImageFolder *f) {
  lua_createtable(L, f->file_count, 0);
  for (int i = 0; i < f->file_count; i++) {
    lua_pushinteger(L, f->label[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static ImageFolder *new_folder(lua_State *L) {
  ImageFolder *f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = (ImageFolder){0};
  luaL_setmetatable(L, FOLDER_NAME);
  return f;
}

/* (who, path, whether texts, whether the folder's own) → paths, labels, class names */
static int class_files(lua_State *L) {
  const char *who = luaL_checkstring(L, 1), *path = luaL_checkstring(L, 2);
  FileKind kind = lua_toboolean(L, 3) ? FILE_TEXT : FILE_PICTURE;
  bool flat = lua_toboolean(L, 4);
  ImageFolder *f = new_folder(L);
  Error e = {0};
  class_files_list(&e, who, path, kind, flat, f);
  bind_check(L, &e);
  bind_push_texts(L, f->file, f->file_count);
  push_labels(L, f);
  bind_push_texts(L, f->class_name, f->class_count);
  return 3;
}

/* The files that two lists say, with their labels. */
static void take_files(lua_State *L, int paths, int labels, ImageFolder *f) {
  size_t count = (size_t)luaL_len(L, paths);
  f->file = calloc(count + 1, sizeof *f->file);
  f->label = calloc(count + 1, sizeof *f->label);
  if (!f->file || !f->label) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
  for (size_t i = 0; i < count; i++) {
    lua_geti(L, paths, (lua_Integer)i + 1);
    lua_geti(L, labels, (lua_Integer)i + 1);
    f->file[i] = strdup(luaL_checkstring(L, -2));
    if (!f->file[i]) bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
    f->file_count = (int)i + 1;
    f->label[i] = bind_check_int(L, -1, "a label");
    lua_pop(L, 2);
  }
}

/* (paths, labels, height, width, channels) → dataset */
static int from_image_files(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  int64_t height = luaL_checkinteger(L, 3), width = luaL_checkinteger(L, 4);
  int channels = bind_check_int(L, 5, "channels");
  ImageFolder *f = new_folder(L);
  take_files(L, 1, 2, f);
  Dataset **u = bind_new_dataset(L);
  Error e = {0};
  return bind_made_dataset(L, u, dataset_from_images(&e, bind_where(L), f, height, width, channels),
                           &e);
}

/* (path, height, width, channels) → dataset, class names */
static int from_images(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  int64_t height = luaL_checkinteger(L, 2), width = luaL_checkinteger(L, 3);
  int channels = bind_check_int(L, 4, "channels");
  ImageFolder *f = new_folder(L);
  Error e = {0};
  image_folder_list(&e, path, f);
  bind_check(L, &e);
  bind_push_texts(L, f->class_name, f->class_count);
  Dataset **u = bind_new_dataset(L);
  bind_made_dataset(L, u, dataset_from_images(&e, bind_where(L), f, height, width, channels), &e);
  lua_insert(L, -2);
  return 2;
}

static int free_folder(lua_State *L) {
  image_folder_clear(lua_touserdata(L, 1));
  return 0;
}

static int read_image(lua_State *L) { /* (path, channels) */
  const char *path = luaL_checkstring(L, 1);
  int channels = lua_isnoneornil(L, 2) ? 0 : bind_check_int(L, 2, "channels");
  LuaTensor *u = bind_new_tensor(L);
  Error e = {0};
  image_read(&e, path, channels, &u->tensor);
  bind_check(L, &e);
  return 1;
}

enum { JPEG_QUALITY = 95 };

static ImageFormat check_format(lua_State *L, int index) {
  return lua_toboolean(L, index) ? IMAGE_JPEG : IMAGE_PNG;
}

static int write_image(lua_State *L) { /* (path, tensor, whether as JPEG, quality | nil) */
  const char *path = luaL_checkstring(L, 1);
  lua_settop(L, 4); /* the values of a tensor may be pushed above them */
  Tensor *t = bind_concrete(L, 2, "image.write");
  Error e = {0};
  image_write(&e, path, t, check_format(L, 3), (int)luaL_optinteger(L, 4, JPEG_QUALITY));
  bind_check(L, &e);
  return 0;
}

static int encode_image(lua_State *L) { /* (tensor, whether as JPEG, quality | nil) → bytes */
  lua_settop(L, 3);
  Tensor *t = bind_concrete(L, 1, "image.encode");
  char *data;
  size_t bytes;
  Error e = {0};
  image_encode(&e, "image", t, check_format(L, 2), (int)luaL_optinteger(L, 3, JPEG_QUALITY), &data,
               &bytes);
  bind_check(L, &e);
  bind_push_freed(L, data, bytes);
  return 1;
}

static int digits(lua_State *L) { /* (test, count | nil, seed | nil) → images, labels */
  bool test = lua_toboolean(L, 1);
  int64_t count = luaL_optinteger(L, 2, test ? DIGITS_TEST_COUNT : DIGITS_TRAIN_COUNT);
  uint64_t seed = (uint64_t)luaL_optinteger(L, 3, 0);
  Error e = {0};
  LuaTensor *images = bind_new_tensor(L), *labels = bind_new_tensor(L);
  digits_draw(&e, engine_pool(bind_state(L)->engine), seed, test ? DIGITS_TEST : DIGITS_TRAIN,
              count, &images->tensor, &labels->tensor);
  bind_check(L, &e);
  return 2;
}

void bind_open_readers(lua_State *L) {
  static const luaL_Reg datasets[] = {{"from_lines", from_lines},
                                      {"from_images", from_images},
                                      {"class_files", class_files},
                                      {"from_image_files", from_image_files},
                                      {NULL, NULL}};
  static const luaL_Reg tensors[] = {{"read_idx", read_idx},
                                     {"read_bytes", read_bytes},
                                     {"read_characters", read_characters},
                                     {"read_cifar", read_cifar},
                                     {"read_csv", read_csv},
                                     {"csv_columns", csv_columns},
                                     {"read_csv_cells", read_csv_cells},
                                     {"read_image", read_image},
                                     {"write_image", write_image},
                                     {"encode_image", encode_image},
                                     {"digits", digits},
                                     {NULL, NULL}};
  luaL_setfuncs(L, datasets, 0);
  lua_insert(L, -2); /* the core table below the one of datasets */
  luaL_setfuncs(L, tensors, 0);
  lua_insert(L, -2);
  bind_type(L, FOLDER_NAME, free_folder, NULL);
}
