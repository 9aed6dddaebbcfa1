#include "plugin/hdf5_read.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_OBJECTS = 65536, MAX_NAME = 4096, BUFFER_BYTES = 1 << 16 };
/* A dataset that claims much more than the file stores for it is not believed. */
static const hsize_t UNDOUBTED_BYTES = 1 << 26, MAX_RATIO = 1000;
/* Memory and time that reading takes besides the elements, and its least speed. */
static const rlim_t SPARE_BYTES = (rlim_t)256 << 20, SECONDS = 3, BYTES_PER_SECOND = 20 << 20;

typedef struct Reader {
  int out;
  hid_t file;
  rlim_t base; /* bytes of address space when reading began */
  rlim_t read; /* bytes of elements */
  size_t objects, used;
  char problem[512];
  char buffer[BUFFER_BYTES];
} Reader;

static bool wrong(Reader *r, const char *name, const char *problem) {
  if (!r->problem[0])
    snprintf(r->problem, sizeof r->problem, "%.400s%s%s", name, *name ? ": " : "", problem);
  return false;
}

/* ---- records ---- */

static void write_all(int out, const char *data, size_t bytes) {
  while (bytes) {
    ssize_t n = write(out, data, bytes);
    if (n < 0) return; /* the reader has gone */
    data += n, bytes -= (size_t)n;
  }
}

static void flush(Reader *r) {
  write_all(r->out, r->buffer, r->used);
  r->used = 0;
}

static void put(Reader *r, const void *data, size_t bytes) {
  if (bytes > BUFFER_BYTES - r->used) flush(r);
  if (bytes > BUFFER_BYTES) {
    write_all(r->out, data, bytes);
    return;
  }
  memcpy(r->buffer + r->used, data, bytes);
  r->used += bytes;
}

static void put_size(Reader *r, size_t n) {
  uint32_t size = (uint32_t)n;
  put(r, &size, sizeof size);
}

static void put_text(Reader *r, const char *text, size_t bytes) {
  size_t size = bytes < HDF5_MAX_TEXT ? bytes : HDF5_MAX_TEXT;
  put_size(r, size);
  put(r, text, size);
}

static void put_named(Reader *r, char letter, const char *name) {
  put(r, &letter, 1);
  put_text(r, name, strlen(name));
}

/* ---- limits ---- */

static rlim_t address_space(void) {
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%lu", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* The limit with another current value, as far as the greatest one allows. */
static struct rlimit limited(struct rlimit now, rlim_t max) {
  now.rlim_cur = now.rlim_max == RLIM_INFINITY || max < now.rlim_max ? max : now.rlim_max;
  return now;
}

static void limit_memory(rlim_t bytes) {
  struct rlimit now;
  if (getrlimit(RLIMIT_AS, &now) != 0) return;
  now = limited(now, bytes);
  setrlimit(RLIMIT_AS, &now);
}

static void leave_no_core(void) {
  struct rlimit now;
  if (getrlimit(RLIMIT_CORE, &now) != 0) return;
  now = limited(now, 0);
  setrlimit(RLIMIT_CORE, &now);
}

static void limit_time(rlim_t seconds) {
  struct rlimit now;
  if (getrlimit(RLIMIT_CPU, &now) != 0) return;
  now = limited(now, seconds);
  setrlimit(RLIMIT_CPU, &now);
}

/* Makes room for a dataset: its elements twice, since they may be converted. */
static void allow(Reader *r, rlim_t bytes) {
  r->read += bytes;
  if (r->base) limit_memory(r->base + SPARE_BYTES + 2 * bytes);
  limit_time(SECONDS + r->read / BYTES_PER_SECOND);
}

/* ---- texts: attributes that are strings or lists of them ---- */

static void put_texts(Reader *r, const char *name, hid_t attribute, hid_t type, size_t count) {
  hid_t space = H5Aget_space(attribute);
  size_t size = H5Tget_size(type);
  bool variable = H5Tis_variable_str(type) > 0;
  char *data = calloc(count + 1, variable ? sizeof(char *) : size);
  if (data && H5Aread(attribute, type, data) >= 0) {
    put_named(r, 'A', name);
    put_size(r, count);
    for (size_t i = 0; i < count; i++) {
      const char *text = variable ? ((char **)(void *)data)[i] : data + i * size;
      put_text(r, text ? text : "", !text ? 0 : variable ? strlen(text) : strnlen(text, size));
    }
    if (variable) H5Dvlen_reclaim(type, space, H5P_DEFAULT, data);
  } else wrong(r, name, "this attribute can't be read");
  free(data);
  H5Sclose(space);
}

static void put_attribute(Reader *r, const char *name, hid_t attribute) {
  hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  hssize_t count = H5Sget_simple_extent_npoints(space);
  size_t size = H5Tget_size(type);
  H5Sclose(space);
  bool is_text = H5Tget_class(type) == H5T_STRING && count >= 0 && count <= HDF5_MAX_TEXTS;
  if (is_text && size > 0 && size <= 1 << 16 && size * (size_t)count <= UNDOUBTED_BYTES)
    put_texts(r, name, attribute, type, (size_t)count);
  H5Tclose(type);
}

static void put_group(Reader *r, const char *path) {
  put_named(r, 'G', path);
  hid_t group = H5Oopen(r->file, path, H5P_DEFAULT);
  int count = group >= 0 ? H5Aget_num_attrs(group) : 0;
  for (int i = 0; i < count; i++) {
    char name[256];
    hid_t a = H5Aopen_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, H5P_DEFAULT,
                             H5P_DEFAULT);
    if (a < 0) continue;
    if (H5Aget_name(a, sizeof name, name) > 0) put_attribute(r, name, a);
    H5Aclose(a);
  }
  if (group >= 0) H5Oclose(group);
}

/* ---- datasets ---- */

/* How elements are given, so that no value is lost. Halves and floats become float32, wider floats
 * float64. Whole numbers and truth values become int64. */
typedef struct Form {
  const char *dtype;
  hid_t type;
  size_t width;
  bool is_unsigned; /* of 64 bits: int64 has no room for the upper half */
} Form;

static bool form_of(hid_t type, Form *out) {
  H5T_class_t class = H5Tget_class(type);
  size_t stored = H5Tget_size(type);
  *out = (Form){"int64", H5T_NATIVE_INT64, 8, false};
  if (class == H5T_FLOAT && stored <= 4) *out = (Form){"float32", H5T_NATIVE_FLOAT, 4, false};
  else if (class == H5T_FLOAT) *out = (Form){"float64", H5T_NATIVE_DOUBLE, 8, false};
  else if (class == H5T_INTEGER && stored == 8 && H5Tget_sign(type) == H5T_SGN_NONE)
    *out = (Form){"int64", H5T_NATIVE_UINT64, 8, true};
  return class == H5T_FLOAT || (class == H5T_INTEGER && stored <= 8) ||
         (class == H5T_ENUM && stored <= 8);
}

static const char *check_storage(hid_t dataset, hsize_t bytes) {
  hid_t plan = H5Dget_create_plist(dataset);
  bool external = H5Pget_external_count(plan) > 0, is_virtual = H5Pget_layout(plan) == H5D_VIRTUAL;
  H5Pclose(plan);
  if (external || is_virtual) return "its elements are in another file";
  if (bytes > UNDOUBTED_BYTES && bytes / MAX_RATIO > H5Dget_storage_size(dataset))
    return "it claims more elements than are stored";
  return NULL;
}

static bool fits(const Form *f, const uint64_t *element, size_t count) {
  for (size_t i = 0; f->is_unsigned && i < count; i++)
    if (element[i] > INT64_MAX) return false;
  return true;
}

/* The elements, to be freed; NULL where they can't be read. */
static char *read_elements(Reader *r, const char *name, hid_t dataset, const Form *f,
                           size_t count) {
  size_t bytes = count * f->width;
  const char *problem = check_storage(dataset, bytes);
  if (problem) return wrong(r, name, problem), NULL;
  allow(r, bytes);
  char *data = malloc(bytes + 1);
  if (!data) return wrong(r, name, "there is no memory for it"), NULL;
  bool good = !count || H5Dread(dataset, f->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
  if (!good) wrong(r, name, "its elements can't be read");
  else if (!fits(f, (const void *)data, count))
    good = wrong(r, name, "it has numbers from 2^63 on, which int64 can't hold");
  if (!good) free(data);
  return good ? data : NULL;
}

static bool put_other(Reader *r, const char *name, const char *what) {
  put_named(r, 'U', name);
  put_text(r, what, strlen(what));
  return true;
}

static bool put_opened(Reader *r, const char *name, hid_t dataset, const Form *f) {
  hid_t space = H5Dget_space(dataset);
  int rank = H5Sget_simple_extent_ndims(space);
  hsize_t shape[HDF5_MAX_RANK] = {0};
  hssize_t count = rank >= 0 && rank <= HDF5_MAX_RANK ? H5Sget_simple_extent_npoints(space) : -1;
  bool has_shape = count >= 0 && H5Sget_simple_extent_type(space) != H5S_NULL;
  if (has_shape) H5Sget_simple_extent_dims(space, shape, NULL);
  H5Sclose(space);
  if (!has_shape)
    return put_other(r, name,
                     rank > HDF5_MAX_RANK ? "more axes than 8" : "no elements and no shape");
  if (count > (1LL << 44)) return wrong(r, name, "it is too large");
  char *data = read_elements(r, name, dataset, f, (size_t)count);
  if (!data) return false;
  put_named(r, 'D', name);
  put_text(r, f->dtype, strlen(f->dtype));
  put_size(r, (size_t)rank);
  for (int i = 0; i < rank; i++) put(r, &(int64_t){(int64_t)shape[i]}, sizeof(int64_t));
  uint64_t bytes = (uint64_t)count * f->width;
  put(r, &bytes, sizeof bytes);
  put(r, data, (size_t)bytes);
  free(data);
  return true;
}

/* h5py writes complex numbers as records of the floats r and i. */
static bool is_complex(hid_t type) {
  static const char *const part[] = {"r", "i"};
  if (H5Tget_nmembers(type) != 2) return false;
  for (unsigned k = 0; k < 2; k++) {
    char *name = H5Tget_member_name(type, k);
    bool same = name && !strcmp(name, part[k]);
    H5free_memory(name);
    if (!same || H5Tget_member_class(type, k) != H5T_FLOAT) return false;
  }
  return true;
}

/* The content of a dataset without numbers, in words. */
static const char *content_of(hid_t type) {
  static const char *const words[H5T_NCLASSES] = {[H5T_INTEGER] = "integers of more than 64 bits",
                                                  [H5T_ENUM] = "integers of more than 64 bits",
                                                  [H5T_STRING] = "text",
                                                  [H5T_TIME] = "times",
                                                  [H5T_BITFIELD] = "bits",
                                                  [H5T_OPAQUE] = "opaque bytes",
                                                  [H5T_COMPOUND] = "records",
                                                  [H5T_REFERENCE] = "references",
                                                  [H5T_VLEN] = "lists of several lengths",
                                                  [H5T_ARRAY] = "elements that are arrays"};
  H5T_class_t class = H5Tget_class(type);
  if (class == H5T_COMPOUND && is_complex(type))
    return H5Tget_size(type) <= 8 ? "complex64" : "complex128";
  return class >= 0 && class < H5T_NCLASSES && words[class] ? words[class] : "an unknown type";
}

static bool put_dataset(Reader *r, const char *name, hid_t dataset) {
  Form form;
  hid_t type = H5Dget_type(dataset);
  const char *other = form_of(type, &form) ? NULL : content_of(type);
  H5Tclose(type);
  return other ? put_other(r, name, other) : put_opened(r, name, dataset, &form);
}

/* ---- files ---- */

static herr_t visit(hid_t file, const char *name, const H5L_info_t *link, void *context) {
  Reader *r = context;
  if (link->type != H5L_TYPE_HARD) return wrong(r, "", "it has links to elsewhere"), -1;
  if (r->objects++ == MAX_OBJECTS) return wrong(r, "", "it has too many objects"), -1;
  if (strlen(name) > MAX_NAME) return wrong(r, "", "a name in it is too long"), -1;
  /* H5Oget_info_by_name has another form in each version */
  hid_t object = H5Oopen(file, name, H5P_DEFAULT);
  if (object < 0) return wrong(r, name, "it can't be opened"), -1;
  bool good = true;
  H5I_type_t kind = H5Iget_type(object);
  if (kind == H5I_GROUP) put_group(r, name);
  else if (kind == H5I_DATASET) good = put_dataset(r, name, object);
  H5Oclose(object);
  return good && !r->problem[0] ? 0 : -1;
}

static hid_t open_file(const char *path) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  /* whatever an error leaves open closes with the file */
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

static void read_file(Reader *r, const char *path) {
  r->file = open_file(path);
  if (r->file < 0) {
    wrong(r, "", "this is no HDF5 file, or it can't be read");
    return;
  }
  put_group(r, "/");
  if (H5Lvisit(r->file, H5_INDEX_NAME, H5_ITER_INC, visit, r) < 0) wrong(r, "", "it is damaged");
  H5Fclose(r->file);
}

void hdf5_read(const char *path, int out) {
  Reader *r = calloc(1, sizeof *r);
  if (!r) return;
  r->out = out;
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* HDF5's own messages are off */
  H5PLset_loading_state(0);              /* no filters from files beside */
  leave_no_core();
  r->base = address_space();
  allow(r, 0);
  read_file(r, path);
  if (r->problem[0]) put_named(r, 'E', r->problem);
  else put(r, "Z", 1);
  flush(r);
  free(r);
}
