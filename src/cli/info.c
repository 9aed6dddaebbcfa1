#include "cli/info.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/edit.h"
#include "ipulua.h"
#include "kernels/blas.h"
#include "kernels/products.h"
#include "lua/module.h"
#include "tensor/image.h"
#include "tensor/npy.h"

/* The compiler of this binary; clang calls itself gcc 4.2 too, so it is asked first. */
#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void row(const char *name, const char *value) { printf("%-18s%s\n", name, value); }

/* The instruction sets that have a table of kernels and run on this CPU. */
static void print_kernels(const Kernels *chosen, const char *at_most) {
  static const char *const names[] = {"base", "avx2", "avx512"};
  printf("%-18s%s (of", "CPU kernels", chosen ? chosen->name : "none");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (kernels_find(names[i])) printf(" %s", names[i]);
  printf(")");
  if (!chosen) printf("; " KERNELS_WORDS, at_most);
  else if (at_most && *at_most) printf("; " KERNELS_VARIABLE "=%s", at_most);
  printf("\n");
}

/* The plug-ins that scripts would find. They are separate files, so a copy of the command alone has
 * none. */
static void print_plugins(lua_State *L) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  bool offered = lua_getfield(L, -1, "ipulua.hdf5") != LUA_TNIL;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.hdf5");
  bool loaded = lua_pcall(L, 1, 1, 0) == LUA_OK;
  const char *problem = !loaded && offered ? lua_tostring(L, -1) : NULL;
  printf("%-18s%s", "plug-ins", loaded ? "hdf5" : "");
  bool any = loaded;
  static const char *const communication[] = {"comm_openmpi", "comm_mpich"};
  for (size_t i = 0; i < sizeof communication / sizeof *communication; i++) {
    if (!module_has_plugin(L, communication[i])) continue;
    printf("%s%s", any ? " " : "", communication[i]);
    any = true;
  }
  if (problem) printf("%s (hdf5 can't be loaded: %s)\n", any ? "" : "none", problem);
  else printf("%s\n", any ? "" : "none");
  lua_settop(L, top);
}

/* The libraries of matrix products and of linear algebra. */
static void print_blas(const Kernels *chosen, const char *products) {
  ProductUse use;
  char text[PRODUCTS_TEXT];
  bool known = products_use(products, &use);
  const Kernels *k = kernels_with_products(chosen ? chosen : kernels_select(), use);
  blas_choose_core(k->core);
  const Blas *b = blas_open();
  printf("%-18s%s", "matrix products", known ? products_text(k, text) : "none");
  if (!known) printf("; " PRODUCTS_WORDS, products);
  else if (use == PRODUCTS_OPENBLAS && !(b && b->is_openblas)) printf("; there is no OpenBLAS");
  else if (products && *products) printf("; " PRODUCTS_VARIABLE "=%s", products);
  printf("\n%-18s", "linear algebra");
  if (!b) printf("none; " BLAS_PACKAGE " brings it\n");
  else if (b->is_openblas) printf("OpenBLAS %s (%s)\n", b->version, b->core);
  else printf("%s\n", b->file);
}

void info_print(lua_State *L, bool environment) {
  const char *at_most = environment ? getenv(KERNELS_VARIABLE) : NULL;
  const Kernels *chosen = kernels_at_most(at_most);
  row("ipulua", IPULUA_VERSION);
  row("Lua", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE);
  row("compiler", COMPILER);
  print_kernels(chosen, at_most);
  printf("%-18s%ld\n", "CPU cores", sysconf(_SC_NPROCESSORS_ONLN));
  row("line editing", editor_library());
  row("images", image_reads_png()    ? image_reads_jpeg() ? "PNG JPEG" : "PNG"
                : image_reads_jpeg() ? "JPEG"
                                     : "none");
  row("npz files", npz_library());
  print_plugins(L);
  print_blas(chosen, environment ? getenv(PRODUCTS_VARIABLE) : NULL);
  printf("%-18s%d\n", "C interface", (int)IPU_ABI_VERSION);
}
