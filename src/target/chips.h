/* The table of chips: a row for each number with its source, a column for each chip. A new chip is
 * a row of TARGET_CHIPS and a value in each row of TARGET_NUMBERS. No other file names chips. */
#ifndef IPULUA_TARGET_CHIPS_H
#define IPULUA_TARGET_CHIPS_H

/* Sources:
 *   PL      graphcore/poplibs
 *   PL16    its first public revision (popnn/Net.hpp)
 *   RE1     independent study of the first chip
 *   STACK   independent study of ipu21
 *   STREAM  measured STREAM triad on GC200
 *   DS      data sheets of Bow-2000 and C600
 *   TFA     graphcore/ipu_tensorflow_addons, automatic pipelining
 *   TUT     Graphcore's profiling tutorials
 *   PT      the published IPU Model benchmark table
 *   fit     chosen here (docs/pricing.md says how)
 *
 * Chips, in order of age: column, name, architecture (a version of IPUConfig), another name.
 * Numbers: member, unit, minimum, maximum, source, then a value for each chip. */
/* clang-format off */
#define TARGET_CHIPS(X) \
  X(0, "GC2", "ipu1", "mk1") \
  X(1, "GC200", "ipu2", "mk2") \
  X(2, "Bow", "ipu2", "bow") \
  X(3, "C600", "ipu21", "c600")

#define TARGET_NUMBERS(X) \
  X(tiles, "tiles", 1, 1 << 16, "RE1, STACK, DS", \
    1216, 1472, 1472, 1472) \
  X(workers, "contexts/tile", 1, 64, "RE1, PL", \
    6, 6, 6, 6) \
  X(clock_hz, "Hz", 1000, 1000000000000, "TUT; TUT; DS; derived from the 280 TFLOPS of DS", \
    1600000000, 1330000000, 1850000000, 1490000000) \
  X(tile_bytes, "B/tile", 1024, 1LL << 40, "RE1, TFA", \
    262144, 638976, 638976, 638976) \
  X(region0_bytes, "B/tile", 0, 1LL << 40, "RE1, STACK: below it memory is not interleaved", \
    131072, 212992, 212992, 212992) \
  X(element_bytes, "B", 256, 1LL << 30, "RE1, STACK: one memory element", \
    16384, 16384, 16384, 16384) \
  X(vector_bytes, "B/cycle", 4, 1024, "PL16: data path of a load, store or vector operation", \
    8, 8, 8, 8) \
  X(units_f32, "units", 0, 1024, "PL: AMP units, f32 in, f32 sums (16 with zeros of 8 cycles a row; GC2: by published layers)", \
    8, 16, 16, 16) \
  X(units_f16_f32, "units", 0, 1024, "PL16, PL: f16 in, f32 sums", \
    8, 8, 8, 8) \
  X(units_f16_f16, "units", 0, 1024, "PL16, PL: f16 in, f16 sums", \
    8, 16, 16, 16) \
  X(group_f32, "channels", 1, 1024, "PL: input channels of one f32 pass", \
    8, 8, 8, 8) \
  X(group_f16, "channels", 1, 1024, "PL: input channels of one f16 pass", \
    16, 16, 16, 16) \
  X(macs_f32, "MAC/cycle/tile", 1, 1 << 20, "DS: peak rates", \
    8, 16, 16, 16) \
  X(macs_f16, "MAC/cycle/tile", 1, 1 << 20, "DS: peak rates, f16 sums", \
    32, 64, 64, 64) \
  X(weight_bytes_per_cycle, "B/cycle", 1, 1024, "PL, PL16: loading AMP weights", \
    8, 8, 8, 8) \
  X(exchange_bytes_per_cycle, "B/cycle", 1, 1024, "PL, STACK: what one tile receives", \
    4, 4, 4, 4) \
  X(exchange_pair, "0/1", 0, 1, "PL: two neighbour tiles take the same data at twice the rate", \
    1, 1, 1, 1) \
  X(sync_cycles, "cycles", 0, 1000000, "fit: sync inside one IPU", \
    130, 130, 130, 130) \
  X(exchange_start_cycles, "cycles", 0, 1000000, "fit: pipeline delays of RE1", \
    60, 60, 60, 60) \
  X(launch_cycles, "cycles", 0, 1000000, "fit: starting a compute set", \
    60, 60, 60, 60) \
  X(links, "links", 0, 1000, "DS", \
    10, 10, 10, 10) \
  X(link_bytes_per_second, "B/s", 1, 1LL << 50, "PL test utilities: 128 Gibit/s at 0.85", \
    14600000000, 14600000000, 14600000000, 14600000000) \
  X(link_latency_cycles, "cycles", 0, 1000000000, "TFA: idle time of a copy, per hop", \
    3000, 3000, 3000, 3000) \
  X(pair_links, "links", 1, 1000, "PL test utilities (4 of a pair in a pod); TFA: 70 GiB/s measured", \
    4, 5, 5, 5) \
  X(global_sync_ns_per_hop, "ns", 0, 1000000000, "PL test utilities", \
    15, 15, 15, 15) \
  X(host_bytes_per_second, "B/s", 1, 1LL << 50, "TFA: 7 GiB/s effective", \
    7500000000, 7500000000, 7500000000, 7500000000) \
  X(host_latency_cycles, "cycles", 0, 1000000000, "TFA: idle time per transfer", \
    50000, 50000, 50000, 50000) \
  X(model_host_bytes_per_second, "B/s", 1, 1LL << 50, "TUT: what the IPU Model charges, without latency", \
    8000000000, 8000000000, 8000000000, 8000000000) \
  X(nic_bytes_per_second, "B/s", 1, 1LL << 50, "DS: one 100 GbE per four IPUs; PCIe on cards", \
    16000000000, 12500000000, 12500000000, 16000000000) \
  X(run_call_ns, "ns", 0, 1000000000, "Graphcore's infeed tutorial: one call from the host", \
    900000, 900000, 900000, 900000) \
  X(ipus_per_board, "IPUs", 1, 1024, "DS", \
    2, 4, 4, 1) \
  X(streaming_bytes, "B/IPU", 0, 1LL << 50, "DS; attribute listing of a C2", \
    17000000000, 68719476736, 68719476736, 0) \
  X(streaming_bytes_per_second, "B/s", 1, 1LL << 50, "DS: PCIe x8 to the gateway", \
    7500000000, 16000000000, 16000000000, 7500000000) \
  X(gateway_bytes_per_second, "B/s", 1, 1LL << 50, "DS: 2 x 100 Gbit/s between pods, per machine", \
    25000000000, 25000000000, 25000000000, 25000000000)

/* clang-format on */
#endif
