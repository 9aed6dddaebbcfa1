/* Records of one or two label bytes and 3072 pixels: a 32 x 32 plane of red, one of green, one
 * of blue. */
#include "tensor/cifar.h"

#include <stdlib.h>

#include "base/file.h"

enum { EDGE = 32, PLANE = EDGE * EDGE, CHANNELS = 3, PIXELS = PLANE * CHANNELS };
static const size_t file_limit = (size_t)1 << 30; /* five times all of CIFAR-10 */

static Status check_labels(Error *e, const char *path, const unsigned char *record, int labels,
                           size_t offset) {
  static const int max[2][2] = {{9}, {19, 99}};
  for (int i = 0; i < labels; i++)
    if (record[i] > max[labels - 1][i])
      return fail(e, ERR_VALUE, "%s: label at byte offset %zu is %d; at most %d is possible", path,
                  offset + (size_t)i, record[i], max[labels - 1][i]);
  return OK;
}

static void interleave(const unsigned char *planes, unsigned char *pixels) {
  for (int i = 0; i < PLANE; i++)
    for (int c = 0; c < CHANNELS; c++) pixels[i * CHANNELS + c] = planes[c * PLANE + i];
}

static Status read_records(Error *e, const char *path, const unsigned char *p, int64_t count,
                           int labels, Tensor *images, Tensor *classes, Tensor *coarse) {
  size_t record = (size_t)labels + PIXELS;
  for (int64_t i = 0; i < count; i++, p += record) {
    Status s = check_labels(e, path, p, labels, (size_t)i * record);
    if (s != OK) return s;
    classes->data[i] = (char)p[labels - 1];
    if (coarse) coarse->data[i] = (char)p[0];
    interleave(p + labels, (unsigned char *)images->data + i * PIXELS);
  }
  return OK;
}

Status cifar_parse(Error *e, const char *path, int classes, const void *data, size_t bytes,
                   Tensor **images, Tensor **labels, Tensor **coarse) {
  *images = *labels = *coarse = NULL;
  if (classes != 10 && classes != 100)
    return fail(e, ERR_VALUE, "CIFAR has 10 or 100 classes, not %d", classes);
  int per_record = classes == 10 ? 1 : 2;
  size_t record = (size_t)per_record + PIXELS;
  if (bytes == 0 || bytes % record)
    return fail(
        e, ERR_VALUE,
        "%s: not a CIFAR-%d file: %zu bytes are no multiple of a record's %zu; the last begins at "
        "byte offset %zu",
        path, classes, bytes, record, bytes / record * record);
  int64_t count = (int64_t)(bytes / record);
  Type image_type = type_make(U8, 4, (int64_t[]){count, EDGE, EDGE, CHANNELS});
  Type label_type = type_make(U8, 1, &count);
  Tensor *x = tensor_new_uninitialised(e, &image_type),
         *y = x ? tensor_new_uninitialised(e, &label_type) : NULL,
         *z = y && per_record == 2 ? tensor_new_uninitialised(e, &label_type) : NULL;
  Status s = y && (z || per_record == 1) ? read_records(e, path, data, count, per_record, x, y, z)
                                         : ERR_OUT_OF_MEMORY;
  if (s != OK) return tensor_release(x), tensor_release(y), tensor_release(z), s;
  *images = x;
  *labels = y;
  *coarse = z;
  return OK;
}

Status cifar_read(Error *e, const char *path, int classes, Tensor **images, Tensor **labels,
                  Tensor **coarse) {
  void *data;
  size_t bytes;
  *images = *labels = *coarse = NULL;
  Status s = file_read(e, path, file_limit, true, &data, &bytes);
  if (s != OK) return s;
  s = cifar_parse(e, path, classes, data, bytes, images, labels, coarse);
  free(data);
  return s;
}
