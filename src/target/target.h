/* What a chip is: plain numbers, one column per chip and one row per number, each with its
 * source. A target is a copy of a column; a user's own chip is a column with some numbers
 * replaced. */
#ifndef IPULUA_TARGET_TARGET_H
#define IPULUA_TARGET_TARGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Sources: PL = graphcore/poplibs; PL16 = its first public revision (popnn/Net.hpp); RE1 =
 * independent study of the first chip; STACK = independent study of ipu21; STREAM = measured STREAM
 * triad on GC200; DS = data sheets of Bow-2000 and C600; TFA = graphcore/ipu_tensorflow_addons,
 * automatic pipelining; TUT = Graphcore's profiling tutorials; PT = the published IPU Model
 * benchmark table; fit = chosen here (docs/machine-model.md says how).
 *
 * member, unit, least, most, GC2, GC200, Bow, C600, source */
/* clang-format off */
#define TARGET_NUMBERS(X) \
  X(tiles, "tiles", 1, 1 << 16, 1216, 1472, 1472, 1472, "RE1, STACK, DS") \
  X(workers, "contexts/tile", 1, 64, 6, 6, 6, 6, "RE1, PL") \
  X(clock_hz, "Hz", 1000, 1000000000000, 1600000000, 1330000000, 1850000000, 1490000000, \
    "TUT; TUT; DS; derived from the 280 TFLOPS of DS") \
  X(tile_bytes, "B/tile", 1024, 1LL << 40, 262144, 638976, 638976, 638976, "RE1, TFA") \
  X(region0_bytes, "B/tile", 0, 1LL << 40, 131072, 212992, 212992, 212992, \
    "RE1, STACK: below it memory is not interleaved") \
  X(element_bytes, "B", 256, 1LL << 30, 16384, 16384, 16384, 16384, "RE1, STACK: one memory element") \
  X(vector_bytes, "B/cycle", 4, 1024, 8, 8, 8, 8, "PL16: data path of a load, store or vector operation") \
  X(units_f32, "units", 0, 1024, 4, 8, 8, 8, "PL16, PL, STACK: AMP units, f32 in, f32 sums") \
  X(units_f16_f32, "units", 0, 1024, 8, 8, 8, 8, "PL16, PL: f16 in, f32 sums") \
  X(units_f16_f16, "units", 0, 1024, 8, 16, 16, 16, "PL16, PL: f16 in, f16 sums") \
  X(group_f32, "channels", 1, 1024, 8, 16, 16, 16, "PL: input channels of one f32 pass") \
  X(group_f16, "channels", 1, 1024, 16, 16, 16, 16, "PL: input channels of one f16 pass") \
  X(macs_f32, "MAC/cycle/tile", 1, 1 << 20, 8, 16, 16, 16, "DS: peak rates") \
  X(macs_f16, "MAC/cycle/tile", 1, 1 << 20, 32, 64, 64, 64, "DS: peak rates, f16 sums") \
  X(weight_bytes_per_cycle, "B/cycle", 1, 1024, 8, 8, 8, 8, "PL, PL16: loading AMP weights") \
  X(exchange_bytes_per_cycle, "B/cycle", 1, 1024, 4, 4, 4, 4, "PL, STACK: what one tile receives") \
  X(exchange_pair, "0/1", 0, 1, 1, 1, 1, 1, "PL: two neighbour tiles take the same data at twice the rate") \
  X(reduce_apart, "0/1", 0, 1, 1, 0, 0, 0, "PL-bench: sums between two stages of a reduction lie in a memory element of their own") \
  X(sync_cycles, "cycles", 0, 1000000, 130, 130, 130, 130, "fit: sync inside one IPU") \
  X(exchange_start_cycles, "cycles", 0, 1000000, 60, 60, 60, 60, "fit: pipeline delays of RE1") \
  X(launch_cycles, "cycles", 0, 1000000, 60, 60, 60, 60, "fit: starting a compute set") \
  X(links, "links", 0, 1000, 10, 10, 10, 10, "DS") \
  X(link_bytes_per_second, "B/s", 1, 1LL << 50, 14600000000, 14600000000, 14600000000, 14600000000, \
    "PL test utilities: 128 Gibit/s at 0.85") \
  X(link_latency_cycles, "cycles", 0, 1000000000, 3000, 3000, 3000, 3000, \
    "TFA: idle time of a copy, per hop") \
  X(pair_links, "links", 1, 1000, 4, 5, 5, 5, \
    "PL test utilities (4 of a pair in a pod); TFA: 70 GiB/s measured") \
  X(global_sync_ns_per_hop, "ns", 0, 1000000000, 15, 15, 15, 15, "PL test utilities") \
  X(host_bytes_per_second, "B/s", 1, 1LL << 50, 7500000000, 7500000000, 7500000000, 7500000000, \
    "TFA: 7 GiB/s effective") \
  X(host_latency_cycles, "cycles", 0, 1000000000, 50000, 50000, 50000, 50000, "TFA: idle time per transfer") \
  X(model_host_bytes_per_second, "B/s", 1, 1LL << 50, 8000000000, 8000000000, 8000000000, 8000000000, \
    "TUT: what the IPU Model charges, without latency") \
  X(nic_bytes_per_second, "B/s", 1, 1LL << 50, 16000000000, 12500000000, 12500000000, 16000000000, \
    "DS: one 100 GbE per four IPUs; PCIe on cards") \
  X(run_call_ns, "ns", 0, 1000000000, 900000, 900000, 900000, 900000, \
    "Graphcore's infeed tutorial: one call from the host") \
  X(ipus_per_board, "IPUs", 1, 1024, 2, 4, 4, 1, "DS") \
  X(streaming_bytes, "B/IPU", 0, 1LL << 50, 17000000000, 68719476736, 68719476736, 0, \
    "DS; attribute listing of a C2") \
  X(streaming_bytes_per_second, "B/s", 1, 1LL << 50, 7500000000, 16000000000, 16000000000, 7500000000, \
    "DS: PCIe x8 to the gateway") \
  X(gateway_bytes_per_second, "B/s", 1, 1LL << 50, 25000000000, 25000000000, 25000000000, 25000000000, \
    "DS: 2 x 100 Gbit/s between pods, per machine")

/* clang-format on */

typedef struct Target {
  char name[32];         /* "GC200" */
  char architecture[16]; /* "ipu2" */
  bool code;             /* count vertex, exchange and control code (compile_ipu_code) */
  /* of a tile, for what a plan holds for itself; 0 means 0.6 */
  double matmul_proportion, conv_proportion;
  int64_t cholesky_block, solve_block; /* rows and columns; 0: the quickest */
#define X(member, unit, least, most, gc2, gc200, bow, c600, source) int64_t member;
  TARGET_NUMBERS(X)
#undef X
} Target;

/* The chip of that name, in any case: GC2 or ipu1, GC200 or ipu2, Bow, C600 or ipu21. NULL when
 * there is none. */
const Target *target_find(const char *name);
const Target *target_at(int index); /* 0, 1, ... in order of age; NULL after the last */

/* Replace one number by its member's name. An unknown name or a value out of range fails; t is then
 * untouched. */
Status target_set(Error *e, Target *t, const char *name, double value);
/* A target in JSON: {"base": "GC200", "name": "mine", "tiles": 3000, ...}. base is GC200 unless
 * given. */
Status target_parse(Error *e, const char *json, size_t length, Target *out);
/* The other direction; a string to free(), NULL when memory is out. */
char *target_print(const Target *t);

/* Use only some of the tiles: 0 means all. io_tiles are set apart for streaming. */
Status target_restrict(Error *e, Target *t, int64_t tiles_per_ipu, int64_t io_tiles);

/* Number `index` of the table above: its name, unit and source; false after the last. */
bool target_number(int index, const char **name, const char **unit, const char **source);
double target_seconds(const Target *t, double cycles);
/* Peak multiply-accumulates of one tile and cycle. sums_bytes is 2 or 4. */
double target_macs(const Target *t, int64_t element_bytes, int64_t sum_bytes);
#endif
