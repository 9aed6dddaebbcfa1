/* Settings of the engine, and the fields that new nodes inherit from scopes. */
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "kernels/products.h"
#include "lua/bind.h"

static int set_threads(lua_State *L) {
  bind_settle(L, NULL);
  Error e = {0};
  engine_set_threads(&e, bind_state(L)->engine, bind_check_int(L, 1, "threads"));
  bind_check(L, &e);
  return 0;
}

/* (class | nil) Kernels of at most that class. */
static int set_kernels(lua_State *L) {
  Error e = {0};
  engine_choose_kernels(&e, bind_state(L)->engine, luaL_optstring(L, 1, NULL),
                        luaL_optstring(L, 2, NULL));
  bind_check(L, &e);
  return 0;
}

/* (edge, precision, threshold): how tensors are printed */
static int set_print_options(lua_State *L) {
  bind_state(L)->print = (PrintOptions){.edge = bind_check_int(L, 1, "edgeitems"),
                                        .precision = bind_check_int(L, 2, "precision"),
                                        .threshold = luaL_checkinteger(L, 3)};
  return 0;
}

static int engine_info(lua_State *L) {
  Engine *g = bind_state(L)->engine;
  lua_newtable(L);
  bind_set_integer(L, "threads", g->threads);
  bind_set_integer(L, "seed", (lua_Integer)g->seed);
  bind_set_text(L, "kernels", g->kernels->name);
  char text[PRODUCTS_TEXT];
  bind_set_text(L, "products", products_text(g->kernels, text));
  return 1;
}

/* Values of the command's long options; {} in another host. */
static int options(lua_State *L) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, "ipulua.options") != LUA_TTABLE) lua_newtable(L);
  return 1;
}

/* (table of flags) → numerics of later programs */
static int set_numerics(lua_State *L) {
  bind_refuse_inside(L, "configuring numerics");
  Numerics *n = &bind_state(L)->engine->numerics;
  const struct {
    const char *name;
    bool *flag;
  } flags[] = {{"nanoo", &n->nan_on_overflow},
               {"esr", &n->stochastic_rounding},
               {"identical_only", &n->identical_only},
               {"inv", &n->trap_invalid},
               {"div0", &n->trap_divide},
               {"oflo", &n->trap_overflow},
               {"half_products", &n->half_products},
               {"half_convolutions", &n->half_convolutions},
               {"fast_math", &n->fast_math},
               {"check_finite", &n->check_finite}};
  luaL_checktype(L, 1, LUA_TTABLE);
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (lua_getfield(L, 1, flags[i].name) != LUA_TNIL) *flags[i].flag = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  return 0;
}

/* (infeed, outfeed, "uniform" | "normal" | number, parameters): values of queues and variables when
 * no data crosses */
static int set_synthetic(lua_State *L) {
  bind_refuse_inside(L, "configuring synthetic data");
  Synthetic *s = &bind_state(L)->engine->synthetic;
  const char *kind = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "";
  *s = (Synthetic){.infeed = lua_toboolean(L, 1),
                   .outfeed = lua_toboolean(L, 2),
                   .parameters = lua_toboolean(L, 4),
                   .serial = s->serial + 1,
                   .kind = !strcmp(kind, "uniform")  ? SYNTHETIC_UNIFORM
                           : !strcmp(kind, "normal") ? SYNTHETIC_NORMAL
                                                     : SYNTHETIC_NUMBER,
                   .number = lua_type(L, 3) == LUA_TNUMBER ? lua_tonumber(L, 3) : 0};
  return 0;
}

/* (field, integer) A field that new nodes inherit: device, shard, stage, backward (0, 1) … Returns
 * the old value. */
static int set_placement(lua_State *L) {
  Placement *p = &bind_state(L)->scope.place;
  const char *field = luaL_checkstring(L, 1);
  int value = (int)luaL_checkinteger(L, 2);
  int *slot = !strcmp(field, "device")              ? &p->device
              : !strcmp(field, "shard")             ? &p->shard
              : !strcmp(field, "stage")             ? &p->stage
              : !strcmp(field, "product_share")     ? &p->product_share
              : !strcmp(field, "convolution_share") ? &p->convolution_share
                                                    : NULL;
  int8_t *small = !strcmp(field, "stochastic_rounding") ? &p->stochastic_rounding
                  : !strcmp(field, "half_products")     ? &p->half_products
                  : !strcmp(field, "half_convolutions") ? &p->half_convolutions
                                                        : NULL;
  if (slot) {
    lua_pushinteger(L, *slot);
    *slot = value;
  } else if (!strcmp(field, "backward")) {
    lua_pushinteger(L, p->backward);
    p->backward = value != 0;
  } else if (small) {
    lua_pushinteger(L, *small);
    *small = (int8_t)value;
    engine_follow_scopes(bind_state(L)->engine, p);
  } else {
    return luaL_error(L, "no placement field '%s'", field);
  }
  return 1;
}

/* The scopes' settings for new nodes, except names. Programs of the same operations differ by
 * them. */
static int scope_key(lua_State *L) {
  const State *s = bind_state(L);
  const Placement *p = &s->scope.place;
  lua_pushfstring(L, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%s", p->device, p->shard, p->stage,
                  (int)p->backward, (int)p->stochastic_rounding, (int)p->half_products,
                  (int)p->half_convolutions, (int)p->product_share, (int)p->convolution_share,
                  s->attributes ? s->attributes : "");
  return 1;
}

/* A text that is no longer than the present one needs no memory, so that leaving a scope of names
 * can't fail. */
static int set_text(lua_State *L, char **slot) {
  const char *text = luaL_checkstring(L, 1);
  size_t bytes = strlen(text) + 1;
  if (!*slot || strlen(*slot) + 1 < bytes) {
    char *longer = malloc(bytes);
    if (!longer) return bind_fail(L, ERR_OUT_OF_MEMORY, "out of memory");
    free(*slot);
    *slot = longer;
  }
  memcpy(*slot, text, bytes);
  return 0;
}

static int set_name_prefix(lua_State *L) { return set_text(L, &bind_state(L)->prefix); }
static int set_attributes(lua_State *L) { return set_text(L, &bind_state(L)->attributes); }

/* A call that stops in good order by itself (fit) holds Ctrl-C off Lua code: hold(true),
 * hold(false). Was there one that came too late for anything to be stopped? The latter takes it. */
static int hold_interrupts(lua_State *L) {
  bool late = !lua_toboolean(L, 1) && interrupt_pending() == INTERRUPT_SOON;
  if (late) interrupt_take();
  if (lua_toboolean(L, 1)) interrupt_hold();
  else interrupt_unhold();
  lua_pushboolean(L, late);
  return 1;
}

/* Was Ctrl-C pressed? Asking takes it. */
static int take_interrupt(lua_State *L) {
  lua_pushboolean(L, interrupt_pending() != INTERRUPT_NONE && interrupt_take() != INTERRUPT_NONE);
  return 1;
}

/* How often Ctrl-C was pressed in this script, or since this line of the prompt was entered. */
static int interrupt_times(lua_State *L) {
  lua_pushinteger(L, interrupt_count());
  return 1;
}

/* How many interruptions were taken since the process began. */
static int interrupts_taken(lua_State *L) {
  lua_pushinteger(L, interrupt_taken());
  return 1;
}

static int where(lua_State *L) {
  lua_pushstring(L, bind_where(L));
  return 1;
}

void bind_open_settings(lua_State *L) {
  static const luaL_Reg functions[] = {{"set_threads", set_threads},
                                       {"set_kernels", set_kernels},
                                       {"set_print_options", set_print_options},
                                       {"engine_info", engine_info},
                                       {"options", options},
                                       {"set_numerics", set_numerics},
                                       {"set_synthetic", set_synthetic},
                                       {"set_placement", set_placement},
                                       {"set_name_prefix", set_name_prefix},
                                       {"set_attributes", set_attributes},
                                       {"scope_key", scope_key},
                                       {"hold_interrupts", hold_interrupts},
                                       {"take_interrupt", take_interrupt},
                                       {"interrupt_count", interrupt_times},
                                       {"interrupts_taken", interrupts_taken},
                                       {"where", where},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
}
