/* Datasets whose elements differ in size or are read one by one: lines of text, folders of
 * pictures. Files that are one tensor (IDX, CIFAR, CSV, NumPy) are read by tensor/ and sliced by
 * dataset_from_slices. */
#ifndef IPULUA_DATA_READER_H
#define IPULUA_DATA_READER_H
#include "data/dataset.h"

/* Lines without their ends (" " or "\r ") as u8 [-1]. The file may be gzipped. */
Dataset *dataset_from_lines(Error *e, const char *source, const char *path);
/* The text's characters as Unicode numbers, int32 [n]; bytes that aren't UTF-8 count as Latin-1. */
Tensor *text_read_characters(Error *e, const char *path);
Tensor *text_read_bytes(Error *e, const char *path); /* u8 [n] */

/* The files in a folder's subfolders, where each subfolder is a class. flat: the files in the
 * folder itself. Classes and files are in the order of their names. */
typedef enum FileKind {
  FILE_FOLDER,
  FILE_PICTURE, /* .png, .jpg, .jpeg */
  FILE_TEXT     /* .txt */
} FileKind;

typedef struct ImageFolder {
  int class_count, file_count;
  char **class_name;
  char **file; /* paths */
  int *label;
} ImageFolder;
Status image_folder_list(Error *e, const char *path, ImageFolder *out);
/* who: the public function, for messages. */
Status class_files_list(Error *e, const char *who, const char *path, FileKind kind, bool flat,
                        ImageFolder *out);
void image_folder_clear(ImageFolder *f);
/* (u8 [height, width, channels], int32 label). height and width 0: as they are. It takes over the
 * list, also on failure. */
Dataset *dataset_from_images(Error *e, const char *source, ImageFolder *files, int64_t height,
                             int64_t width, int channels);
#endif
