/* The sums of a reduction [outer, rows, kept] over its rows that tiles have in another order than
 * PopLibs finds for all. They are found by looking at every element. src/target/reduce.c, which
 * looks at the ends of each tile's run, must agree. */
#ifndef IPULUA_COLUMN_ORDER_H
#define IPULUA_COLUMN_ORDER_H
#include <stdint.h>
#include <string.h>

enum { ORDER_COLUMNS = 512 };

typedef struct ColumnOrder {
  int outer, rows, kept, tiles, width, grain, workers;
  int after[ORDER_COLUMNS], before[ORDER_COLUMNS], place[ORDER_COLUMNS];
} ColumnOrder;

/* The columns of one tile: in the order in which they lie there, where, how often. */
typedef struct TileColumns {
  int n, column[ORDER_COLUMNS], at[ORDER_COLUMNS], count[ORDER_COLUMNS];
} TileColumns;

/* The number of tiles in use, each with at least 16 grains of `width` elements. */
static int order_tiles(const ColumnOrder *o, int *grains) {
  *grains = (o->outer * o->rows * o->kept + o->width - 1) / o->width;
  int parts = *grains / 16 < o->tiles ? *grains / 16 : o->tiles;
  int most = parts > 1 ? (*grains + parts - 1) / parts : *grains;
  return (*grains + most - 1) / most;
}

static void list_columns(const ColumnOrder *o, int tile, TileColumns *list) {
  int grains, used = order_tiles(o, &grains), seen[ORDER_COLUMNS];
  int total = o->outer * o->rows * o->kept, to = (tile + 1) * grains / used * o->width;
  memset(seen, -1, sizeof seen);
  list->n = 0;
  for (int i = tile * grains / used * o->width; i < to && i < total; i++) {
    int c = i / (o->rows * o->kept) * o->kept + i % o->kept;
    if (seen[c] < 0) {
      seen[c] = list->n, list->column[list->n] = c, list->at[list->n] = i;
      list->count[list->n++] = 0;
    }
    list->count[seen[c]]++;
  }
}

/* Whether the columns at i and i + 1 are of one group: beside each other, as often. */
static int same_group(const TileColumns *list, int i) {
  return i + 1 < list->n && list->at[i] + 1 == list->at[i + 1] &&
         list->count[i] == list->count[i + 1];
}

static void find_order(ColumnOrder *o) {
  int grains, used = order_tiles(o, &grains), columns = o->outer * o->kept, next = 0;
  TileColumns list;
  memset(o->after, -1, sizeof o->after), memset(o->before, -1, sizeof o->before);
  for (int t = 0; t < used; t++) {
    list_columns(o, t, &list);
    for (int i = 0; i < list.n; i++) {
      int a = list.column[i], b = same_group(&list, i) ? list.column[i + 1] : -1;
      if (b >= 0 && o->after[a] < 0 && o->before[b] < 0) o->after[a] = b, o->before[b] = a;
    }
  }
  for (int c = 0; c < columns; c++) { /* circles end before their smallest column */
    int last = c, steps = 0;
    while (o->after[last] >= 0 && o->after[last] != c && steps++ < columns) last = o->after[last];
    if (o->after[last] == c) o->after[last] = o->before[c] = -1;
  }
  for (int c = 0; c < columns; c++)
    for (int i = o->before[c] < 0 ? c : -1; i >= 0; i = o->after[i]) o->place[i] = next++;
}

/* Columns of the largest vertex that has them in another order; 0 if none has. */
static int copied_by_elements(ColumnOrder *o) {
  int grains, used = order_tiles(o, &grains), most = 0;
  TileColumns list;
  find_order(o);
  for (int t = 0; t < used; t++) {
    list_columns(o, t, &list);
    int parts = (list.n + o->grain - 1) / o->grain, each = (parts + o->workers - 1) / o->workers;
    int workers = (parts + each - 1) / each, from = 0, worker = 0, turned = 0;
    for (int i = 0; i < list.n; i++) {
      int end = (worker + 1) * parts / workers * o->grain;
      int is_last = i + 1 == end || !same_group(&list, i);
      if (i + 1 == end) worker++;
      turned |= !is_last && o->place[list.column[i + 1]] != o->place[list.column[i]] + 1;
      if (!is_last) continue;
      if (turned && i + 1 - from > most) most = i + 1 - from;
      from = i + 1, turned = 0;
    }
  }
  return most;
}
#endif
