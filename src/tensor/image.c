/* libpng and libjpeg report failures by longjmp; each is called from one function that holds
 * nothing but a struct of its caller's, which cleans up. */
#include "tensor/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/text.h"
#ifdef HAVE_LIBPNG
#include <png.h>
#endif
#ifdef HAVE_LIBJPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

/* A picture's samples at most; and pixels for one byte of file at most: deflate's largest ratio,
 * 1032, times eight pixels in a byte. JPEG stays far below. */
enum { SAMPLE_LIMIT = 1 << 29, RATIO_LIMIT = 8 * 1032 };
static const size_t file_limit = (size_t)1 << 29;

typedef struct Decoder {
  Error *error;
  const char *path;
  const unsigned char *data;
  size_t bytes, at;
  jmp_buf escape;
  Tensor *image;
  unsigned char **rows;
} Decoder;

static Status decoder_failed(Decoder *d, const char *what) {
  return fail(d->error, ERR_VALUE, "%s: %s", d->path, what);
}

#if !defined HAVE_LIBPNG || !defined HAVE_LIBJPEG
static Status without(Error *e, const char *path, const char *format, const char *library,
                      const char *package) {
  return fail(
      e, ERR_FAILED_PRECONDITION,
      "%s: %s files need %s, which this build is without; make builds it in where it is there (Debian's %s)",
      path, format, library, package);
}
#endif

#if defined HAVE_LIBPNG || defined HAVE_LIBJPEG
/* False when the declared size can't be true or is too much. */
static bool make_image(Decoder *d, uint64_t height, uint64_t width, int channels) {
  if (height == 0 || width == 0 || height > UINT32_MAX || width > UINT32_MAX ||
      height > SAMPLE_LIMIT / width / (uint64_t)channels || height * width / RATIO_LIMIT > d->bytes)
    return fail(d->error, ERR_VALUE,
                "%s: a picture of %llu x %llu is too large for its %zu bytes, or for %d samples",
                d->path, (unsigned long long)width, (unsigned long long)height, d->bytes,
                SAMPLE_LIMIT),
           false;
  Type type = type_make(U8, 3, (int64_t[]){(int64_t)height, (int64_t)width, channels});
  d->image = tensor_new(d->error, &type);
  d->rows = d->image ? malloc((size_t)height * sizeof *d->rows) : NULL;
  if (d->image && !d->rows) fail(d->error, ERR_OUT_OF_MEMORY, "out of memory");
  if (!d->rows) return false;
  for (uint64_t i = 0; i < height; i++)
    d->rows[i] = (unsigned char *)d->image->data + i * width * (uint64_t)channels;
  return true;
}
#endif

/* The file is made in memory, then put in place in one step. */
typedef struct Encoder {
  Decoder base; /* error, path, escape */
  Text text;
  int quality; /* of JPEG, 1 … 100 */
} Encoder;

#ifdef HAVE_LIBPNG
bool image_reads_png(void) { return true; }

static void png_failed(png_structp png, png_const_charp message) {
  Decoder *d = png_get_error_ptr(png);
  fail(d->error, ERR_VALUE, "%s: PNG data: %s near byte offset %zu", d->path, message, d->at);
  longjmp(d->escape, 1);
}

static void png_ignore(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void png_take(png_structp png, png_bytep to, size_t bytes) {
  Decoder *d = png_get_io_ptr(png);
  if (bytes > d->bytes - d->at) png_error(png, "the file ends too early");
  memcpy(to, d->data + d->at, bytes);
  d->at += bytes;
}

static void png_set_plain(png_structp png) {
  png_set_scale_16(png);
  png_set_expand(png); /* palettes, 1 to 4 bits and transparent colours */
  png_set_interlace_handling(png);
}

static void decode_png_with(Decoder *d, png_structp png, png_infop info) {
  if (setjmp(d->escape)) return;
  png_set_user_limits(png, 1 << 24, 1 << 24);
  png_set_chunk_malloc_max(png, 1 << 24);
  png_set_read_fn(png, d, png_take);
  png_read_info(png, info);
  png_set_plain(png);
  png_read_update_info(png, info);
  int channels = png_get_channels(png, info);
  if (!make_image(d, png_get_image_height(png, info), png_get_image_width(png, info), channels))
    return;
  if (png_get_rowbytes(png, info) != (size_t)d->image->type.shape[1] * (size_t)channels)
    png_error(png, "unexpected row size");
  png_read_image(png, d->rows);
  png_read_end(png, NULL);
}

static void decode_png(Decoder *d) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, png_failed, png_ignore);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (info) decode_png_with(d, png, info);
  else fail(d->error, ERR_OUT_OF_MEMORY, "out of memory");
  png_destroy_read_struct(&png, &info, NULL);
}

static void png_put(png_structp png, png_bytep from, size_t bytes) {
  Encoder *w = png_get_io_ptr(png);
  text_add_bytes(&w->text, (const char *)from, bytes);
  if (!w->text.failed) return;
  fail(w->base.error, ERR_OUT_OF_MEMORY, "out of memory"); /* the first message is kept */
  png_error(png, "");
}

static void png_put_flush(png_structp png) { (void)png; }

static void encode_png_with(Encoder *w, const Tensor *t, png_structp png, png_infop info,
                            int channels) {
  static const int colour[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                               PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(w->base.escape)) return;
  png_set_write_fn(png, w, png_put, png_put_flush);
  png_set_IHDR(png, info, (png_uint_32)t->type.shape[1], (png_uint_32)t->type.shape[0], 8,
               colour[channels], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  int64_t row_bytes = t->type.shape[1] * channels;
  for (int64_t i = 0; i < t->type.shape[0]; i++)
    png_write_row(png, (png_const_bytep)(t->data + i * row_bytes));
  png_write_end(png, NULL);
}

static void encode_png(Encoder *w, const Tensor *dense, int channels) {
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &w->base, png_failed, png_ignore);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (info) encode_png_with(w, dense, png, info, channels);
  else fail(w->base.error, ERR_OUT_OF_MEMORY, "out of memory");
  png_destroy_write_struct(&png, &info);
}
#else
bool image_reads_png(void) { return false; }
static void decode_png(Decoder *d) { without(d->error, d->path, "PNG", "libpng", "libpng-dev"); }
static void encode_png(Encoder *w, const Tensor *dense, int channels) {
  (void)dense, (void)channels;
  without(w->base.error, w->base.path, "PNG", "libpng", "libpng-dev");
}
#endif

#ifdef HAVE_LIBJPEG
bool image_reads_jpeg(void) { return true; }

enum { SCAN_LIMIT = 500 }; /* progressive files have some ten; each costs a pass over the picture */

typedef struct JpegErrors {
  struct jpeg_error_mgr base; /* libjpeg's, first: it knows only this part */
  Decoder *decoder;
} JpegErrors;

static void jpeg_failed(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  Decoder *d = ((JpegErrors *)(void *)jpeg->err)->decoder;
  jpeg->err->format_message(jpeg, message);
  fail(d->error, ERR_VALUE, "%s: JPEG data: %s", d->path, message);
  longjmp(d->escape, 1);
}

/* libjpeg would go on with grey where data are missing. */
static void jpeg_noted(j_common_ptr jpeg, int level) {
  int code = jpeg->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) jpeg_failed(jpeg);
}

static void jpeg_quiet(j_common_ptr jpeg) { (void)jpeg; }

static void jpeg_progress(j_common_ptr jpeg) {
  Decoder *d = ((JpegErrors *)(void *)jpeg->err)->decoder;
  if (!jpeg->is_decompressor || ((j_decompress_ptr)(void *)jpeg)->input_scan_number <= SCAN_LIMIT)
    return;
  decoder_failed(d, "JPEG data: too many scans");
  longjmp(d->escape, 1);
}

/* Four inks as Adobe writes them, inverted: 255 is none. Packed to RGB in place. */
static void inks_to_rgb(unsigned char *p, int64_t pixels, bool inverted) {
  for (int64_t i = 0; i < pixels; i++) {
    const unsigned char *in = p + 4 * i;
    int k = inverted ? in[3] : 255 - in[3], colour[3];
    for (int c = 0; c < 3; c++) colour[c] = ((inverted ? in[c] : 255 - in[c]) * k + 127) / 255;
    for (int c = 0; c < 3; c++) p[3 * i + c] = (unsigned char)colour[c];
  }
}

static void decode_jpeg_with(Decoder *d, j_decompress_ptr jpeg,
                             struct jpeg_progress_mgr *progress) {
  if (setjmp(d->escape)) return;
  jpeg_create_decompress(jpeg); /* clears all but err */
  jpeg->progress = progress;
  jpeg->mem->max_memory_to_use = 1 << 30;
  jpeg_mem_src(jpeg, d->data, (unsigned long)d->bytes);
  jpeg_read_header(jpeg, TRUE);
  jpeg->out_color_space = jpeg->num_components == 1   ? JCS_GRAYSCALE
                          : jpeg->num_components == 4 ? JCS_CMYK
                                                      : JCS_RGB;
  jpeg_calc_output_dimensions(jpeg);
  if (!make_image(d, jpeg->output_height, jpeg->output_width, jpeg->output_components)) return;
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height)
    jpeg_read_scanlines(jpeg, d->rows + jpeg->output_scanline,
                        jpeg->output_height - jpeg->output_scanline);
  jpeg_finish_decompress(jpeg);
}

static void decode_jpeg(Decoder *d) {
  JpegErrors errors = {.decoder = d};
  struct jpeg_progress_mgr progress = {.progress_monitor = jpeg_progress};
  struct jpeg_decompress_struct jpeg = {.err = jpeg_std_error(&errors.base)};
  errors.base.error_exit = jpeg_failed;
  errors.base.emit_message = jpeg_noted;
  errors.base.output_message = jpeg_quiet;
  decode_jpeg_with(d, &jpeg, &progress);
  bool inverted = jpeg.saw_Adobe_marker;
  jpeg_destroy_decompress(&jpeg);
  if (d->error->status != OK || d->image->type.shape[2] != 4) return;
  Tensor *inks = d->image;
  inks_to_rgb((unsigned char *)inks->data, inks->type.shape[0] * inks->type.shape[1], inverted);
  Type type = type_make(U8, 3, (int64_t[]){inks->type.shape[0], inks->type.shape[1], 3});
  d->image = tensor_from(d->error, &type, inks->data);
  tensor_release(inks);
}
/* out: libjpeg's memory, which it may move. */
static void encode_jpeg_with(Encoder *w, j_compress_ptr jpeg, const Tensor *t, int channels,
                             unsigned char **out, unsigned long *bytes) {
  if (setjmp(w->base.escape)) return;
  jpeg_create_compress(jpeg); /* clears all but err */
  jpeg_mem_dest(jpeg, out, bytes);
  jpeg->image_height = (JDIMENSION)t->type.shape[0];
  jpeg->image_width = (JDIMENSION)t->type.shape[1];
  jpeg->input_components = channels;
  jpeg->in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(jpeg);
  jpeg_set_quality(jpeg, w->quality, TRUE);
  jpeg_start_compress(jpeg, TRUE);
  while (jpeg->next_scanline < jpeg->image_height) {
    JSAMPROW row =
        (JSAMPROW)(uintptr_t)t->data + jpeg->next_scanline * jpeg->image_width * (unsigned)channels;
    jpeg_write_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_compress(jpeg);
}

static void encode_jpeg(Encoder *w, const Tensor *dense, int channels) {
  unsigned char *out = NULL;
  unsigned long bytes = 0;
  JpegErrors errors = {.decoder = &w->base};
  struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&errors.base)};
  errors.base.error_exit = jpeg_failed;
  errors.base.output_message = jpeg_quiet;
  encode_jpeg_with(w, &jpeg, dense, channels, &out, &bytes);
  jpeg_destroy_compress(&jpeg);
  if (w->base.error->status == OK) text_add_bytes(&w->text, (const char *)out, bytes);
  if (w->text.failed) fail(w->base.error, ERR_OUT_OF_MEMORY, "out of memory");
  free(out);
}
#else
bool image_reads_jpeg(void) { return false; }
static void decode_jpeg(Decoder *d) {
  without(d->error, d->path, "JPEG", "libjpeg", "libjpeg62-turbo-dev");
}
static void encode_jpeg(Encoder *w, const Tensor *dense, int channels) {
  (void)dense, (void)channels;
  without(w->base.error, w->base.path, "JPEG", "libjpeg", "libjpeg62-turbo-dev");
}
#endif

/* One pixel of from channels as one of to channels. Grey is ITU-R BT.601's luma. */
static void convert_pixel(const unsigned char *in, int from, unsigned char *out, int to) {
  bool is_grey = from < 3;
  unsigned char alpha = from == 2 ? in[1] : from == 4 ? in[3] : 255;
  if (to < 3)
    out[0] =
        is_grey ? in[0] : (unsigned char)((299 * in[0] + 587 * in[1] + 114 * in[2] + 500) / 1000);
  else
    for (int c = 0; c < 3; c++) out[c] = in[is_grey ? 0 : c];
  if (to % 2 == 0) out[to - 1] = alpha;
}

static Tensor *convert_channels(Error *e, const Tensor *t, int channels) {
  int from = (int)t->type.shape[2];
  Type type = type_make(U8, 3, (int64_t[]){t->type.shape[0], t->type.shape[1], channels});
  Tensor *out = tensor_new_uninitialised(e, &type);
  int64_t pixels = type.shape[0] * type.shape[1];
  for (int64_t i = 0; out && i < pixels; i++)
    convert_pixel((const unsigned char *)t->data + i * from, from,
                  (unsigned char *)out->data + i * channels, channels);
  return out;
}

static bool is_png(const void *data, size_t bytes) {
  return bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static bool is_jpeg(const void *data, size_t bytes) {
  return bytes >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
}

static const char unknown_bytes[] = "neither a PNG nor a JPEG file: unknown bytes at byte offset 0";

Status image_parse(Error *e, const char *path, const void *data, size_t bytes, int channels,
                   Tensor **out) {
  Error own = {.status = OK};
  Decoder d = {.error = &own, .path = path, .data = data, .bytes = bytes};
  *out = NULL;
  if (channels < 0 || channels > 4)
    return fail(e, ERR_VALUE, "%s: a picture has 1 to 4 channels, not %d", path, channels);
  if (is_png(data, bytes)) decode_png(&d);
  else if (is_jpeg(data, bytes)) decode_jpeg(&d);
  else decoder_failed(&d, unknown_bytes);
  free(d.rows);
  if (own.status == OK && channels && channels != d.image->type.shape[2]) {
    Tensor *converted = convert_channels(&own, d.image, channels);
    tensor_release(d.image);
    d.image = converted;
  }
  if (own.status != OK) return tensor_release(d.image), fail(e, own.status, "%s", own.message);
  return *out = d.image, OK;
}

static Status image_beginning(Error *e, const char *path, const void *start, size_t bytes,
                              size_t *total) {
  if (!is_png(start, bytes) && !is_jpeg(start, bytes))
    return fail(e, ERR_VALUE, "%s: %s", path, unknown_bytes);
  (void)total; /* neither format says it at the beginning */
  return OK;
}

Status image_read(Error *e, const char *path, int channels, Tensor **out) {
  void *data;
  size_t bytes;
  *out = NULL;
  Status s = file_read_from(e, path, file_limit, false, image_beginning, &data, &bytes);
  if (s != OK) return s;
  s = image_parse(e, path, data, bytes, channels, out);
  free(data);
  return s;
}

/* ---- writing ---- */

static Status check_picture(Error *e, const char *path, const Tensor *t, ImageFormat format) {
  int64_t channels = t->type.rank == 3 ? t->type.shape[2] : 1;
  char text[TYPE_TEXT];
  if (t->type.dtype != U8 || t->type.rank < 2 || t->type.rank > 3 || channels < 1 || channels > 4 ||
      t->type.shape[0] < 1 || t->type.shape[1] < 1 || t->type.shape[0] > 1000000 ||
      t->type.shape[1] > 1000000)
    return fail(e, ERR_VALUE, "%s: a picture is uint8 [height, width, 1 to 4 channels], not %s",
                path, type_text(&t->type, text));
  bool fits = channels % 2 == 1 && t->type.shape[0] <= 65500 && t->type.shape[1] <= 65500;
  if (format == IMAGE_JPEG && !fits)
    return fail(e, ERR_VALUE,
                "%s: JPEG has 1 or 3 channels and at most 65500 rows and columns, not %s", path,
                type_text(&t->type, text));
  return OK;
}

Status image_encode(Error *e, const char *path, const Tensor *t, ImageFormat format, int quality,
                    char **out, size_t *bytes) {
  int channels = t->type.rank == 3 ? (int)t->type.shape[2] : 1;
  Error own = {.status = OK};
  Encoder w = {.base = {.error = &own, .path = path}, .quality = quality};
  *out = NULL;
  if (check_picture(e, path, t, format) != OK) return e->status;
  Tensor *packed = NULL;
  if (!tensor_is_dense(t)) {
    if (!(packed = tensor_new_uninitialised(e, &t->type))) return e->status;
    tensor_copy_out(t, packed->data);
  }
  (format == IMAGE_JPEG ? encode_jpeg : encode_png)(&w, packed ? packed : t, channels);
  tensor_release(packed);
  if (own.status != OK) return text_free(&w.text), fail(e, own.status, "%s", own.message);
  *out = w.text.data, *bytes = w.text.used;
  return OK;
}

Status image_write(Error *e, const char *path, const Tensor *t, ImageFormat format, int quality) {
  char *data;
  size_t bytes;
  Status s = image_encode(e, path, t, format, quality, &data, &bytes);
  if (s == OK) s = file_write(e, path, data, bytes);
  free(data);
  return s;
}
