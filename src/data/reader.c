#include "data/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "data/stage.h"
#include "tensor/image.h"

/* ---- text
 * ---------------------------------------------------------------------------------------------- */

Tensor *text_read_bytes(Error *e, const char *path) {
  void *data;
  size_t bytes;
  if (file_read(e, path, 0, true, &data, &bytes) != OK) return NULL;
  int64_t n = (int64_t)bytes;
  Type type = type_make(U8, 1, &n);
  Tensor *t = tensor_wrap(e, &type, data, free, data);
  if (!t) free(data);
  return t;
}

/* One character at p (at most n bytes follow); *length is its bytes. */
static int32_t decode(const uint8_t *p, int64_t n, int *length) {
  int more = p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 1 : p[0] < 0xF0 ? 2 : p[0] < 0xF5 ? 3 : 0;
  int32_t code = more == 1 ? p[0] & 0x1F : more == 2 ? p[0] & 0x0F : more == 3 ? p[0] & 0x07 : p[0];
  *length = 1;
  if (more >= n) return p[0];
  for (int i = 1; i <= more; i++) {
    if ((p[i] & 0xC0) != 0x80) return p[0];
    code = code << 6 | (p[i] & 0x3F);
  }
  bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return p[0];
  *length = more + 1;
  return code;
}

Tensor *text_read_characters(Error *e, const char *path) {
  Tensor *bytes = text_read_bytes(e, path);
  if (!bytes) return NULL;
  const uint8_t *p = (const uint8_t *)bytes->data;
  int64_t n = bytes->type.shape[0], count = 0;
  int length;
  for (int64_t i = 0; i < n; i += length) decode(p + i, n - i, &length), count++;
  Type type = type_make(I32, 1, &count);
  Tensor *t = tensor_new_uninitialised(e, &type);
  int32_t *out = t ? (int32_t *)(void *)t->data : NULL;
  for (int64_t i = 0; t && i < n; i += length) *out++ = decode(p + i, n - i, &length);
  tensor_release(bytes);
  return t;
}

typedef struct LinesDataset {
  Dataset base;
  Tensor *text;
} LinesDataset;

typedef struct LinesStage {
  Stage base;
  int64_t position; /* of the next line, in bytes */
} LinesStage;

/* The line at position: where it ends without and with its line end. */
static void find_end(const Tensor *text, int64_t position, int64_t *end, int64_t *next) {
  const char *p = text->data + position;
  int64_t left = text->type.shape[0] - position;
  const char *newline = memchr(p, '\n', (size_t)left);
  *end = newline ? position + (newline - p) : position + left;
  *next = newline ? *end + 1 : *end;
  if (newline && *end > position && text->data[*end - 1] == '\r') --*end;
}

static Status lines_next(Stage *s, Tensor **out, bool *end, Error *e) {
  LinesStage *l = (LinesStage *)s;
  Tensor *text = ((const LinesDataset *)s->dataset)->text;
  *end = l->position >= text->type.shape[0];
  if (*end) return OK;
  int64_t last, next, one = 1;
  find_end(text, l->position, &last, &next);
  int64_t length = last - l->position;
  Type type = type_make(U8, 1, &length);
  if (!(out[0] = tensor_view(e, text, &type, &one, l->position))) return ERR_OUT_OF_MEMORY;
  l->position = next;
  return OK;
}

static void lines_free(Dataset *d) { tensor_release(((LinesDataset *)d)->text); }

static const StageClass lines_class = {.name = "from_text",
                                       .dataset_bytes = sizeof(LinesDataset),
                                       .stage_bytes = sizeof(LinesStage),
                                       .free = lines_free,
                                       .next = lines_next};

Dataset *dataset_from_lines(Error *e, const char *source, const char *path) {
  Tensor *text = text_read_bytes(e, path);
  if (!text) return NULL;
  Dataset *d = dataset_new(e, source, &lines_class, 0, NULL, 1);
  if (!d) return tensor_release(text), NULL;
  ((LinesDataset *)d)->text = text;
  d->cardinality = 0;
  for (int64_t at = 0, end; at < text->type.shape[0]; d->cardinality++)
    find_end(text, at, &end, &at);
  int64_t unknown = -1;
  d->type[0] = type_make(U8, 1, &unknown);
  return dataset_finish(e, d);
}

/* ---- pictures
 * -------------------------------------------------------------------------------------------- */

static bool is_image(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && name[0] != '.' &&
         (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static bool is_text(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && !strcasecmp(dot, ".txt");
}

static bool is_of_kind(FileKind kind, const char *path, const char *name) {
  if (kind == FILE_FOLDER) return folder_exists(path);
  return kind == FILE_TEXT ? is_text(name) : is_image(name);
}

static char *join(const char *folder, const char *name) {
  size_t size = strlen(folder) + strlen(name) + 2;
  char *path = malloc(size);
  if (path) snprintf(path, size, "%s/%s", folder, name);
  return path;
}

/* The sorted names of a folder's entries of one kind. */
static Status list_names(Error *e, const char *who, const char *path, FileKind kind, char ***names,
                         int *count) {
  DIR *dir = opendir(path);
  int capacity = 0;
  Status s = OK;
  *names = NULL, *count = 0;
  if (!dir)
    return fail(e, ERR_NOT_FOUND, "%s: cannot read the folder %s: %s", who, path, strerror(errno));
  for (struct dirent *entry; s == OK && (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    char *whole = join(path, entry->d_name);
    bool wanted = whole && is_of_kind(kind, whole, entry->d_name);
    free(whole);
    if (!whole) s = ERR_OUT_OF_MEMORY;
    if (!wanted) continue;
    char *copy = strdup(entry->d_name);
    if (!copy || !array_reserve(names, &capacity, *count + 1, sizeof **names))
      free(copy), s = ERR_OUT_OF_MEMORY;
    else (*names)[(*count)++] = copy;
  }
  closedir(dir);
  if (s != OK) {
    folder_list_free(*names, *count);
    return *names = NULL, *count = 0, fail(e, s, "out of memory");
  }
  if (*count) qsort(*names, (size_t)*count, sizeof **names, text_order);
  return OK;
}

/* A folder's files of one format, all of one class. */
static Status add_files(Error *e, const char *who, ImageFolder *f, const char *folder, int label,
                        FileKind kind, int *capacity) {
  char **names = NULL;
  int count = 0;
  Status s = list_names(e, who, folder, kind, &names, &count);
  if (s == OK && count) {
    int before = *capacity;
    char *file = NULL;
    bool room = array_reserve(&f->file, capacity, f->file_count + count, sizeof *f->file);
    int *label_list = room ? realloc(f->label, (size_t)*capacity * sizeof *f->label) : NULL;
    if (label_list) f->label = label_list;
    else *capacity = before, s = fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    for (int i = 0; i < count && s == OK; i++) {
      if (!(file = join(folder, names[i]))) s = fail(e, ERR_OUT_OF_MEMORY, "out of memory");
      else f->file[f->file_count] = file, f->label[f->file_count++] = label;
    }
  }
  folder_list_free(names, count);
  return s;
}

static Status add_class(Error *e, const char *who, ImageFolder *f, const char *path, int label,
                        FileKind kind, int *capacity) {
  char *folder = join(path, f->class_name[label]);
  Status s = folder ? add_files(e, who, f, folder, label, kind, capacity)
                    : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  free(folder);
  return s;
}

static Status refuse_empty(Error *e, const char *who, const char *path, FileKind kind, bool flat) {
  const char *what = kind == FILE_TEXT ? ".txt files" : ".png or .jpg pictures";
  if (flat) return fail(e, ERR_NOT_FOUND, "%s: %s has no %s in it", who, path, what);
  return fail(e, ERR_NOT_FOUND, "%s: %s has no folders with %s in them (a folder is a class)", who,
              path, what);
}

Status class_files_list(Error *e, const char *who, const char *path, FileKind kind, bool flat,
                        ImageFolder *out) {
  *out = (ImageFolder){.class_count = 0};
  int capacity = 0;
  Status s = flat ? add_files(e, who, out, path, 0, kind, &capacity)
                  : list_names(e, who, path, FILE_FOLDER, &out->class_name, &out->class_count);
  for (int i = 0; i < out->class_count && s == OK; i++)
    s = add_class(e, who, out, path, i, kind, &capacity);
  if (s == OK && !out->file_count) s = refuse_empty(e, who, path, kind, flat);
  if (s != OK) image_folder_clear(out);
  return s;
}

Status image_folder_list(Error *e, const char *path, ImageFolder *out) {
  return class_files_list(e, "from_image_folder", path, FILE_PICTURE, false, out);
}

void image_folder_clear(ImageFolder *f) {
  folder_list_free(f->class_name, f->class_count);
  folder_list_free(f->file, f->file_count);
  free(f->label);
  *f = (ImageFolder){.class_count = 0};
}

/* The position of a result's coordinate in the source (half-pixel centres), and its neighbours'
 * weights. */
typedef struct Sample {
  int64_t low, high;
  float share; /* of high */
} Sample;

static Sample sample_at(int64_t i, int64_t to, int64_t from) {
  float at = ((float)i + 0.5f) * (float)from / (float)to - 0.5f;
  if (at < 0) at = 0;
  int64_t low = (int64_t)at;
  if (low > from - 1) low = from - 1;
  return (Sample){low, low + 1 < from ? low + 1 : low, at - (float)low};
}

static void resize_row(uint8_t *out, const uint8_t *upper, const uint8_t *lower, float share,
                       int64_t width, int64_t from, int64_t channels) {
  for (int64_t x = 0; x < width; x++) {
    Sample s = sample_at(x, width, from);
    for (int64_t c = 0; c < channels; c++) {
      float a = (float)upper[s.low * channels + c], b = (float)upper[s.high * channels + c];
      float d = (float)lower[s.low * channels + c], f = (float)lower[s.high * channels + c];
      float top = a + s.share * (b - a), bottom = d + s.share * (f - d);
      out[x * channels + c] = (uint8_t)(top + share * (bottom - top) + 0.5f);
    }
  }
}

/* Bilinear, as tf.image.resize: u8 [h, w, channels] to [height, width, channels]. */
static Tensor *image_resized(Error *e, const Tensor *image, int64_t height, int64_t width) {
  int64_t h = image->type.shape[0], w = image->type.shape[1], channels = image->type.shape[2];
  Type type = type_make(U8, 3, (int64_t[]){height, width, channels});
  Tensor *out = tensor_new_uninitialised(e, &type);
  for (int64_t y = 0; out && y < height; y++) {
    Sample s = sample_at(y, height, h);
    const uint8_t *from = (const uint8_t *)image->data;
    resize_row((uint8_t *)out->data + y * width * channels, from + s.low * w * channels,
               from + s.high * w * channels, s.share, width, w, channels);
  }
  return out;
}

typedef struct ImagesDataset {
  Dataset base;
  ImageFolder files;
  int64_t height, width;
  int channels;
} ImagesDataset;

enum { GROUP = 16 }; /* pictures decoded side by side */

typedef struct Picture {
  Tensor *image;
  Status status;
  Error error;
} Picture;

typedef struct ImagesStage {
  Stage base;
  int64_t position;
  int first, ready; /* of the group */
  Picture *group;
} ImagesStage;

static Status images_open(Stage *s, Error *e) {
  ((ImagesStage *)s)->group = calloc(GROUP, sizeof(Picture));
  return ((ImagesStage *)s)->group ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static void images_close(Stage *s) {
  Picture *group = ((ImagesStage *)s)->group;
  for (int i = 0; group && i < GROUP; i++) tensor_release(group[i].image);
  free(group);
}

static Tensor *read_picture(Error *e, const ImagesDataset *d, const char *path) {
  Tensor *image, *resized;
  if (image_read(e, path, d->channels, &image) != OK) return NULL;
  if (!d->height) return image;
  if (image->type.shape[0] < 1 || image->type.shape[1] < 1)
    resized = NULL, fail(e, ERR_VALUE, "%s is empty", path);
  else resized = image_resized(e, image, d->height, d->width);
  tensor_release(image);
  return resized;
}

static void read_one(void *context, int64_t chunk, int slot) {
  (void)slot;
  ImagesStage *s = context;
  const ImagesDataset *d = (const ImagesDataset *)s->base.dataset;
  Picture *p = &s->group[chunk];
  error_clear(&p->error);
  p->image = read_picture(&p->error, d, d->files.file[s->position + chunk]);
  p->status = p->image ? OK : dataset_blame(s->base.dataset, &p->error, p->error.status);
}

static void read_group(ImagesStage *s) {
  const ImagesDataset *d = (const ImagesDataset *)s->base.dataset;
  int64_t left = d->files.file_count - s->position;
  int team = pool_size(s->base.scope->tree->pool), max = team == 1 ? 1 : GROUP;
  s->first = 0;
  s->ready = left < max ? (int)left : max;
  pool_run(s->base.scope->tree->pool, s->ready, read_one, s);
  s->position += s->ready;
}

static Status images_next(Stage *s, Tensor **out, bool *end, Error *e) {
  ImagesStage *i = (ImagesStage *)s;
  const ImagesDataset *d = (const ImagesDataset *)s->dataset;
  *end = i->first == i->ready && i->position >= d->files.file_count;
  if (*end) return OK;
  if (i->first == i->ready) read_group(i);
  int32_t label = d->files.label[i->position - i->ready + i->first];
  Picture *p = &i->group[i->first++];
  if (p->status != OK) {
    if (e->status == OK) *e = p->error;
    return p->status;
  }
  Type scalar = type_scalar(I32);
  out[0] = p->image, p->image = NULL;
  if ((out[1] = tensor_from(e, &scalar, &label))) return OK;
  tensors_release(out, 1);
  return ERR_OUT_OF_MEMORY;
}

static Status images_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  (void)e;
  ImagesStage *i = (ImagesStage *)s;
  for (; *skipped < n && i->first < i->ready; ++*skipped)
    tensors_release(&i->group[i->first++].image, 1);
  int64_t left = ((const ImagesDataset *)s->dataset)->files.file_count - i->position,
          more = n - *skipped;
  if (more > left) more = left;
  i->position += more;
  *skipped += more;
  return OK;
}

static void images_free(Dataset *d) { image_folder_clear(&((ImagesDataset *)d)->files); }

static const StageClass images_class = {.name = "from_image_folder",
                                        .dataset_bytes = sizeof(ImagesDataset),
                                        .stage_bytes = sizeof(ImagesStage),
                                        .free = images_free,
                                        .open = images_open,
                                        .close = images_close,
                                        .next = images_next,
                                        .skip = images_skip};

Dataset *dataset_from_images(Error *e, const char *source, ImageFolder *files, int64_t height,
                             int64_t width, int channels) {
  Dataset *d = NULL;
  bool sized = height > 0 && width > 0;
  if (!sized && (height || width))
    source_fail("from_image_folder", source, e, ERR_VALUE,
                "the image size must be positive, got [%lld, %lld]", (long long)height,
                (long long)width);
  else if (channels < 1 || channels > 4)
    source_fail("from_image_folder", source, e, ERR_VALUE, "pictures have 1 to 4 channels, got %d",
                channels);
  else d = dataset_new(e, source, &images_class, 0, NULL, 2);
  if (!d) return image_folder_clear(files), NULL;
  ImagesDataset *i = (ImagesDataset *)d;
  i->files = *files, i->height = height, i->width = width, i->channels = channels;
  *files = (ImageFolder){.class_count = 0};
  d->cardinality = i->files.file_count;
  d->type[0] = type_make(U8, 3, (int64_t[]){sized ? height : -1, sized ? width : -1, channels});
  d->type[1] = type_scalar(I32);
  return dataset_finish(e, d);
}
