/* Shared libraries that are opened at their first use. The program starts without waiting for them,
 * and runs without missing ones. */
#ifndef IPULUA_BASE_LIBRARY_H
#define IPULUA_BASE_LIBRARY_H
#include "base/status.h"

typedef struct LibrarySymbol {
  const char *name;
  void *function; /* where its address goes */
} LibrarySymbol;

typedef struct Library {
  const char *file;             /* the name for the loader: "libzip.so.4" */
  const char *package;          /* the name of its Debian package: "libzip4" */
  const LibrarySymbol *symbols; /* a name of NULL at the end */
  _Atomic(bool) open;           /* true from the start if it was linked */
} Library;

/* A table of functions is made from a list: `#define LIST(X) X(zip_open) X(zip_close) …`. These
 * macros make a member with the function's declared type, the entry of LibrarySymbol for it, and
 * the initialiser of a linked function. */
#define LIBRARY_MEMBER(function) __typeof__(function) *function;
#define LIBRARY_SYMBOL(table, function) {#function, &(table).function},
#define LIBRARY_ADDRESS(function) .function = function,

/* Opens the library, unless it is open, and fills its table. It fails if a function is missing. Any
 * thread may call it. An opened library stays open. wanting is the beginning of the message:
 * "w.npz: npz files". */
Status library_open(Error *e, Library *l, const char *wanting);
/* Sets *function to the address of a function, or to NULL. Returns whether there is one. */
bool library_find(void *handle, const char *name, void *function);
#endif
