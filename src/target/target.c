#include "target/target.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define X(column, name, architecture, other) CHIP_##column,
enum { TARGET_CHIPS(X) CHIP_COUNT };
#undef X

/* The value of a column; at least one more follows it. */
#define COLUMN_0(a, ...) a
#define COLUMN_1(a, ...) COLUMN_0(__VA_ARGS__)
#define COLUMN_2(a, ...) COLUMN_1(__VA_ARGS__)
#define COLUMN_3(a, ...) COLUMN_2(__VA_ARGS__)
#define COLUMN_4(a, ...) COLUMN_3(__VA_ARGS__)
#define COLUMN_5(a, ...) COLUMN_4(__VA_ARGS__)
#define COLUMN_6(a, ...) COLUMN_5(__VA_ARGS__)
#define COLUMN_7(a, ...) COLUMN_6(__VA_ARGS__)
#define NUMBER_0(member, unit, min, max, source, ...) .member = COLUMN_0(__VA_ARGS__, 0),
#define NUMBER_1(member, unit, min, max, source, ...) .member = COLUMN_1(__VA_ARGS__, 0),
#define NUMBER_2(member, unit, min, max, source, ...) .member = COLUMN_2(__VA_ARGS__, 0),
#define NUMBER_3(member, unit, min, max, source, ...) .member = COLUMN_3(__VA_ARGS__, 0),
#define NUMBER_4(member, unit, min, max, source, ...) .member = COLUMN_4(__VA_ARGS__, 0),
#define NUMBER_5(member, unit, min, max, source, ...) .member = COLUMN_5(__VA_ARGS__, 0),
#define NUMBER_6(member, unit, min, max, source, ...) .member = COLUMN_6(__VA_ARGS__, 0),
#define NUMBER_7(member, unit, min, max, source, ...) .member = COLUMN_7(__VA_ARGS__, 0),

static const Target chips[CHIP_COUNT] = {
#define X(column, chip, its_architecture, other) \
  {.name = chip, .architecture = its_architecture, .code = true, TARGET_NUMBERS(NUMBER_##column)},
    TARGET_CHIPS(X)
#undef X
};

static const char *const other_names[CHIP_COUNT] = {
#define X(column, name, architecture, other) other,
    TARGET_CHIPS(X)
#undef X
};

/* Each row has a value for each chip. */
#define X(member, unit, min, max, source, ...) \
  _Static_assert(sizeof(int64_t[]){__VA_ARGS__} == CHIP_COUNT * sizeof(int64_t), #member);
TARGET_NUMBERS(X)
#undef X

/* One number's row of the table, for setting and printing it by name. */
typedef struct NumberInfo {
  const char *name;
  int64_t min, max;
  size_t offset;
} NumberInfo;

static const NumberInfo numbers[] = {
#define X(member, unit, min, max, source, ...) {#member, min, max, offsetof(Target, member)},
    TARGET_NUMBERS(X)
#undef X
};
enum { NUMBER_COUNT = sizeof numbers / sizeof *numbers };

const Target *target_at(int index) {
  return index >= 0 && index < CHIP_COUNT ? &chips[index] : NULL;
}

const Target *target_find(const char *name) {
  for (int i = 0; name && i < CHIP_COUNT; i++)
    if (!strcasecmp(name, chips[i].name) || !strcasecmp(name, chips[i].architecture) ||
        !strcasecmp(name, other_names[i]))
      return &chips[i];
  return NULL;
}

const char *target_names(char out[TARGET_NAMES], bool small) {
  size_t used = 0;
  for (int i = 0; i < CHIP_COUNT; i++)
    used += (size_t)snprintf(out + used, TARGET_NAMES - used, "%s%s", i ? ", " : "", chips[i].name);
  for (char *c = out; small && *c; c++) *c = (char)tolower((unsigned char)*c);
  return out;
}

static int64_t *number_at(Target *t, const NumberInfo *n) {
  return (int64_t *)(void *)((char *)t + n->offset);
}

static const NumberInfo *find_number(const char *name) {
  for (int i = 0; i < NUMBER_COUNT; i++)
    if (!strcmp(numbers[i].name, name)) return &numbers[i];
  return NULL;
}

/* The member of a target whose first three letters `name` has, or NULL. Texts go before numbers. */
static const char *nearest_name(const char *name) {
  static const char *const others[] = {"base", "name", "architecture", "code"};
  for (int i = 0; strlen(name) >= 3 && i < (int)(sizeof others / sizeof *others); i++)
    if (!strncasecmp(others[i], name, 3)) return others[i];
  for (int i = 0; strlen(name) >= 3 && i < NUMBER_COUNT; i++)
    if (!strncasecmp(numbers[i].name, name, 3)) return numbers[i].name;
  return NULL;
}

static Status unknown(Error *e, const char *name) {
  const char *meant = nearest_name(name);
  return fail(e, ERR_VALUE, "a target has no number called '%s'%s%s%s", name,
              meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

/* Replace one number by its member's name. An unknown name or a value out of range fails; t is then
 * untouched. */
static Status set_number(Error *e, Target *t, const char *name, double value) {
  const NumberInfo *n = name ? find_number(name) : NULL;
  if (!n) return unknown(e, name ? name : "");
  if (!(value >= (double)n->min && value <= (double)n->max) || value != floor(value))
    return fail(e, ERR_VALUE, "target: %s must be a whole number from %lld to %lld, got %g", name,
                (long long)n->min, (long long)n->max, value);
  *number_at(t, n) = (int64_t)value;
  return OK;
}

enum { RAIL_LINKS = 4 }; /* two to each neighbour on the rail */

/* Numbers that only make sense together. */
static Status check(Error *e, const Target *t) {
  if (t->region0_bytes > t->tile_bytes)
    return fail(e, ERR_VALUE, "target: region0_bytes (%lld) is more than tile_bytes (%lld)",
                (long long)t->region0_bytes, (long long)t->tile_bytes);
  if (t->element_bytes > t->tile_bytes)
    return fail(e, ERR_VALUE, "target: element_bytes (%lld) is more than tile_bytes (%lld)",
                (long long)t->element_bytes, (long long)t->tile_bytes);
  if (t->links < t->pair_links + RAIL_LINKS)
    return fail(
        e, ERR_VALUE,
        "target: links (%lld) must be pair_links (%lld) and %d for the two neighbours of a pair at least",
        (long long)t->links, (long long)t->pair_links, RAIL_LINKS);
  return OK;
}

static Status set_text(Error *e, char *out, size_t size, const char *key, json_t *value) {
  const char *s = json_string_value(value);
  if (!s || !*s || strlen(s) >= size)
    return fail(e, ERR_VALUE, "target: %s must be a string of 1 to %d characters", key,
                (int)size - 1);
  memcpy(out, s, strlen(s) + 1);
  return OK;
}

static Status set_member(Error *e, Target *t, const char *key, json_t *value) {
  if (!strcmp(key, "base")) return OK;
  if (!strcmp(key, "name")) return set_text(e, t->name, sizeof t->name, key, value);
  if (!strcmp(key, "architecture"))
    return set_text(e, t->architecture, sizeof t->architecture, key, value);
  if (!strcmp(key, "code")) {
    if (!json_is_boolean(value)) return fail(e, ERR_VALUE, "target: code must be true or false");
    t->code = json_is_true(value);
    return OK;
  }
  if (!find_number(key)) return unknown(e, key);
  if (!json_is_number(value)) return fail(e, ERR_VALUE, "target: %s must be a number", key);
  return set_number(e, t, key, json_number_value(value));
}

static Status read_members(Error *e, json_t *root, Target *t) {
  if (!json_is_object(root)) return fail(e, ERR_VALUE, "target: expected a JSON object");
  json_t *base = json_object_get(root, "base");
  const Target *from = base ? target_find(json_string_value(base)) : target_find(TARGET_DEFAULT);
  char names[TARGET_NAMES];
  if (!from)
    return fail(e, ERR_VALUE, "target: base must be one of %s, got '%s'",
                target_names(names, false),
                base && json_is_string(base) ? json_string_value(base) : "?");
  *t = *from;
  const char *key;
  json_t *value;
  bool changed = false;
  json_object_foreach(root, key, value) {
    Status s = set_member(e, t, key, value);
    if (s != OK) return s;
    changed |= strcmp(key, "base") != 0;
  }
  /* a changed chip doesn't have the name of a real one */
  if (changed && !json_object_get(root, "name"))
    snprintf(t->name, sizeof t->name, "%.20s (changed)", from->name);
  return check(e, t);
}

Status target_parse(Error *e, const char *json, size_t length, Target *out) {
  json_error_t at;
  json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &at);
  if (!root) return fail(e, ERR_VALUE, "target: line %d: %s", at.line, at.text);
  Target t;
  Status s = read_members(e, root, &t);
  json_decref(root);
  if (s == OK) *out = t;
  return s;
}

Status target_restrict(Error *e, Target *t, int64_t tiles_per_ipu, int64_t io_tiles) {
  if (tiles_per_ipu < 0 || tiles_per_ipu > t->tiles)
    return fail(e, ERR_VALUE, "tiles_per_ipu must be from 0 (all) to %lld, got %lld",
                (long long)t->tiles, (long long)tiles_per_ipu);
  int64_t tiles = tiles_per_ipu ? tiles_per_ipu : t->tiles;
  if (io_tiles < 0 || io_tiles >= tiles)
    return fail(e, ERR_VALUE, "num_io_tiles must be from 0 to %lld, got %lld", (long long)tiles - 1,
                (long long)io_tiles);
  t->tiles = tiles - io_tiles;
  return OK;
}

double target_seconds(const Target *t, double cycles) { return cycles / (double)t->clock_hz; }

double target_macs(const Target *t, int64_t element_bytes, int64_t sum_bytes) {
  if (element_bytes >= 4) return (double)t->macs_f32;
  double halved = t->units_f16_f16 > 0 ? (double)t->units_f16_f32 / (double)t->units_f16_f16 : 1;
  return sum_bytes >= 4 ? (double)t->macs_f16 * halved : (double)t->macs_f16;
}
