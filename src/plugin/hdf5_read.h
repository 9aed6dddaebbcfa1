/* The content of an HDF5 file, as a stream of records. A record is a letter and its fields. Sizes
 * are uint32_t; a text is its size and its bytes.
 *   'D' text name, text dtype, uint32_t rank, int64_t extent …, uint64_t bytes, the elements
 *   'U' text name, text what: a dataset that can't be given, and what it holds
 *   'G' text path: a group, whose attributes follow
 *   'A' text name, uint32_t count, text …: an attribute
 *   'E' text: what is wrong with the file; the last record
 *   'Z' the last record of a file that was read
 * Numbers are in the machine's order. */
#pragma once

enum { HDF5_MAX_RANK = 8, HDF5_MAX_TEXTS = 1 << 16, HDF5_MAX_TEXT = 1 << 20 };

/* Writes the records of a file to a descriptor. It limits the memory and time of its process, which
 * must be a separate one, as libhdf5 may crash it. */
void hdf5_read(const char *path, int out);
