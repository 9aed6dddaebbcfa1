/* Pictures as uint8 [height, width, channels]. PNG and JPEG are supported if the build found libpng
 * and libjpeg. */
#ifndef IPULUA_TENSOR_IMAGE_H
#define IPULUA_TENSOR_IMAGE_H
#include "tensor/tensor.h"

bool image_reads_png(void), image_reads_jpeg(void);
/* channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA, 0 the file's number. 16-bit samples are scaled
 * to 8 bits; colours are taken as they are, without gamma. */
Status image_parse(Error *e, const char *path, const void *data, size_t bytes, int channels,
                   Tensor **out);
Status image_read(Error *e, const char *path, int channels, Tensor **out);
typedef enum ImageFormat { IMAGE_PNG, IMAGE_JPEG } ImageFormat;
/* t is uint8 [height, width] or [height, width, channels], with 1 to 4 channels, or 1 or 3 as JPEG.
 * JPEG's quality is 1 to 100. The file is replaced atomically. */
Status image_write(Error *e, const char *path, const Tensor *t, ImageFormat format, int quality);
/* The file's bytes; free() them. path names them in errors. */
Status image_encode(Error *e, const char *path, const Tensor *t, ImageFormat format, int quality,
                    char **out, size_t *bytes);
#endif
