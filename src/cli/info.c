#include "cli/info.h"

#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/edit.h"
#include "ipulua.h"
#include "kernels/kernels.h"
#include "tensor/image.h"

/* The compiler of this binary; clang calls itself gcc 4.2 too, so it is asked first. */
#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifdef HAVE_HDF5
#define PLUGINS "hdf5"
#else
#define PLUGINS "none"
#endif

static void row(const char *name, const char *value) { printf("%-18s%s\n", name, value); }

/* The instruction sets that have a table of kernels and run on this CPU. */
static void print_kernels(const char *at_most) {
  static const char *const names[] = {"base", "avx2", "avx512"};
  const Kernels *chosen = kernels_at_most(at_most);
  printf("%-18s%s (of", "CPU kernels", chosen ? chosen->name : "none");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (kernels_find(names[i])) printf(" %s", names[i]);
  printf(")");
  if (!chosen) printf("; " KERNELS_WORDS, at_most);
  else if (at_most && *at_most) printf("; " KERNELS_VARIABLE "=%s", at_most);
  printf("\n");
}

void info_print(bool environment) {
  row("ipulua", IPULUA_VERSION);
  row("Lua", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE);
  row("compiler", COMPILER);
  print_kernels(environment ? getenv(KERNELS_VARIABLE) : NULL);
  printf("%-18s%ld\n", "CPU cores", sysconf(_SC_NPROCESSORS_ONLN));
  row("line editing", editor_library());
  row("images", image_reads_png()    ? image_reads_jpeg() ? "PNG JPEG" : "PNG"
                : image_reads_jpeg() ? "JPEG"
                                     : "none");
  row("plug-ins", PLUGINS);
  row("matrix products", "own kernels, no BLAS");
  printf("%-18s%d\n", "C interface", (int)IPU_ABI_VERSION);
}
