/* Shared libraries that are opened when they are first needed: starting the program doesn't wait
 * for them, and does without those that are not there. */
#ifndef IPULUA_BASE_LIBRARY_H
#define IPULUA_BASE_LIBRARY_H
#include "base/status.h"

typedef struct LibrarySymbol {
  const char *name;
  void *function; /* where its address goes */
} LibrarySymbol;

typedef struct Library {
  const char *file;             /* as the loader looks for it: "libzip.so.4" */
  const char *package;          /* its name in Debian: "libzip4" */
  const LibrarySymbol *symbols; /* a name of NULL at the end */
  _Atomic(bool) open;           /* true from the start where it was linked */
} Library;

/* A table of functions is made of a list: #define LIST(X) X(zip_open) X(zip_close).
 * MEMBER is a function's member of the table, with the type that the header declares. SYMBOL says
 * where its address goes. ADDRESS is the address of a function that is linked. */
#define LIBRARY_MEMBER(function) __typeof__(function) *function;
#define LIBRARY_SYMBOL(table, function) {#function, &(table).function},
#define LIBRARY_ADDRESS(function) .function = function,

/* Opens the library unless it is open, and fills its table: all of it, or it fails. Threads may
 * call it at once. An open library stays. wanting: "w.npz: npz files", for the message. */
Status library_open(Error *e, Library *l, const char *wanting);
/* Puts the address of a function into *function, NULL when there is none; whether there is one. */
bool library_find(void *handle, const char *name, void *function);
#endif
