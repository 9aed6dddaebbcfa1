/* The profile as JSON, and the trace events. Numbers are plain; a name is written once, in
 * "strings", and then by its number. */
#include "machine/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "machine/io_tiles.h"
#include "machine/memory.h"
#include "machine/priced.h"
#include "machine/timeline.h"
#include "program/schedule.h"

enum { MAX_EVENTS = 150000, MAX_TRACE_EVENTS = 400000 };

/* Bytes that aren't UTF-8 become U+FFFD, since JSON has no other text. */
static void put_string(FILE *f, const char *s) {
  fputc('"', f);
  for (int length; s && *s; s += length ? length : 1) {
    unsigned char c = (unsigned char)*s;
    length = text_utf8_length(s);
    if (c == '"' || c == '\\') fprintf(f, "\\%c", c);
    /* safe inside HTML too */
    else if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f) fprintf(f, "\\u%04x", c);
    else if (!length) fputs("\\ufffd", f);
    else fwrite(s, 1, (size_t)length, f);
  }
  fputc('"', f);
}

/* Whole numbers up to 2^53, others to six digits. */
static void put_number(FILE *f, double x) {
  char text[64];
  bool whole = x == floor(x) && fabs(x) < 9007199254740992.0;
  snprintf(text, sizeof text, whole ? "%.0f" : "%.12g", isfinite(x) ? x : 0);
  text_use_point(text);
  fputs(text, f);
}

static void put_member(FILE *f, const char *name, double x) {
  fprintf(f, "\"%s\":", name);
  put_number(f, x);
}

/* ---- strings ---- */

typedef struct Strings {
  Map *number; /* text → position + 1, as a pointer */
  bool failed;
} Strings;

static int string_number(Strings *s, const char *text) {
  void *found = map_get(s->number, text);
  if (found) return (int)((intptr_t)found - 1);
  int next = map_count(s->number);
  if (!map_set(s->number, text, (void *)(intptr_t)(next + 1))) s->failed = true;
  return next;
}

static void put_strings(FILE *f, const Strings *s) {
  int cursor = 0;
  bool first = true;
  fputs("\"strings\":[", f);
  for (const char *text; (text = map_next(s->number, &cursor, NULL)); first = false) {
    if (!first) fputc(',', f);
    put_string(f, text);
  }
  fputc(']', f);
}

/* ---- parts ---- */

static void put_target(FILE *f, const Price *p) {
  const Target *t = &p->machine.pod.target;
  fputs("\"target\":{\"name\":", f);
  put_string(f, t->name);
  fputs(",\"architecture\":", f);
  put_string(f, t->architecture);
  fprintf(
      f,
      ",\"tiles_per_ipu\":%lld,\"bytes_per_tile\":%lld,\"workers_per_tile\":%lld,\"clock_hz\":%lld",
      (long long)t->tiles, (long long)t->tile_bytes, (long long)t->workers, (long long)t->clock_hz);
  fprintf(
      f,
      ",\"ipus\":%d,\"ipus_per_replica\":%d,\"replicas\":%d,\"instances\":%d,\"host\":\"%s\",\"code\":%s}",
      p->machine.pod.ipus, p->shards, p->replicas, pod_hosts(&p->machine.pod),
      p->machine.pod.model_host ? "model" : "machine", t->code ? "true" : "false");
}

static void put_cycles(FILE *f, const double *cycles, double total) {
  fputs("\"cycles\":{", f);
  for (int k = 0; k < PHASE_COUNT; k++) {
    put_member(f, cost_phase_name((CostPhase)k), cycles[k]);
    fputc(',', f);
  }
  put_member(f, "total", total);
  fputc('}', f);
}

static void put_totals(FILE *f, const Price *p) {
  fputs("\"totals\":{", f);
  put_cycles(f, p->cycles, p->total);
  fputc(',', f), put_member(f, "seconds", p->seconds);
  fputc(',', f), put_member(f, "infeed_elements", p->elements * p->replicas);
  fputc(',', f), put_member(f, "flops", p->flops * p->replicas);
  fputc(',', f), put_member(f, "streamed_bytes", p->streamed_bytes * p->replicas);
  fprintf(f, ",\"ops\":%d,\"ops_priced\":%d,\"fits\":%s}", p->op_count, p->op_count - p->unpriced,
          p->fits ? "true" : "false");
}

static void put_memory(FILE *f, const Price *p, const IpuPrice *x) {
  fputs("\"memory\":{\"categories\":{", f);
  for (int k = 0; k < BYTES_COUNT; k++) {
    if (k) fputc(',', f);
    put_member(f, price_category_name((PriceCategory)k), x->bytes[k]);
  }
  fputs("},", f);
  put_member(f, "total", price_bytes(x));
  fputc(',', f), put_member(f, "always_live", x->always);
  fputc(',', f), put_member(f, "not_always_live", x->temporary);
  fputc(',', f), put_member(f, "gaps", x->gaps);
  fputc(',', f), put_member(f, "streaming", x->streaming);
  if (price_has_io(p)) {
    fputc(',', f), put_member(f, "io_tiles", x->io_bytes);
    fputc(',', f), put_member(f, "io_tiles_limit", price_io_limit(p));
  }
  fprintf(f, ",\"peak_step\":%d,\"fits\":%s},\"tiles\":{", x->peak, x->fits ? "true" : "false");
}

static void put_ipus(FILE *f, const Price *p) {
  fputs("\"ipus\":[", f);
  for (int i = 0; i < p->shards; i++) {
    const IpuPrice *x = &p->ipu[i];
    fprintf(f, "%s{\"ipu\":%d,", i ? "," : "", i);
    put_cycles(f, x->cycles, p->total);
    fputc(',', f), put_memory(f, p, x);
    put_member(f, "first", (double)i * (double)p->machine.pod.target.tiles);
    fputc(',', f), put_member(f, "least", x->min);
    fputc(',', f), put_member(f, "mean", x->mean);
    fputc(',', f), put_member(f, "most", x->max);
    fprintf(f, ",\"over\":%d,\"bytes\":[", x->tiles_over);
    for (int64_t t = 0; t < p->machine.pod.target.tiles; t++) {
      if (t) fputc(',', f);
      put_number(f, round(x->tile[t]));
    }
    fputs("]}}", f);
  }
  fputc(']', f);
}

static void put_stages(FILE *f, const Price *p) {
  fputs("\"stages\":[", f);
  for (int s = 0; s < p->stage_count; s++) {
    const StagePrice *x = &p->stage[s];
    fprintf(f, "%s{\"stage\":%d,\"ipu\":%d,", s ? "," : "", s, x->ipu);
    put_member(f, "forward_cycles", x->forward);
    fputc(',', f), put_member(f, "backward_cycles", x->backward);
    fputc(',', f), put_member(f, "stash_bytes", x->stash_bytes);
    fprintf(f, ",\"stash_depth\":%d}", x->stash_depth);
  }
  fputc(']', f);
}

static void put_steps(FILE *f, const Price *p, Strings *s) {
  fputs(
      "\"step_columns\":[\"kind\",\"name\",\"source\",\"parent\",\"ipu\",\"stage\",\"backward\",\"times\",\"repeats\",\"compute\","
      "\"exchange\",\"sync\",\"stream\",\"bytes\",\"tiles\",\"flops\",\"temporary\",\"layer\"],\"steps\":[",
      f);
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    fprintf(f, "%s[%d,%d,%d,%d,%d,%d,%d,", i ? "," : "",
            string_number(s, priced_kind_name(r->kind)), string_number(s, priced_name(r)),
            string_number(s, priced_source(r)), r->parent, r->ipu, r->stage, r->backward);
    put_number(f, r->times);
    fputc(',', f), put_number(f, r->repeats);
    for (int k = 0; k < PHASE_COUNT; k++)
      fputc(',', f), put_number(f, r->cost ? r->cost->cycles[k] : 0);
    fputc(',', f), put_number(f, r->cost && r->kind == PRICED_OP ? r->cost->moved_bytes : r->bytes);
    fputc(',', f), put_number(f, r->cost ? r->cost->tiles : 0);
    fputc(',', f), put_number(f, r->cost ? r->cost->flops : 0);
    fputc(',', f), put_number(f, r->cost ? round(r->cost->temporary_total) : 0);
    fprintf(f, ",%d]",
            string_number(
                s, r->node && r->node->name && !priced_is_block(r->kind) ? r->node->name : ""));
  }
  fputc(']', f);
}

/* All steps of one kind together, as a program's compute sets and exchanges are. */
static void put_compute_sets(FILE *f, const Price *p) {
  Map *sets = map_new();
  Arena *a = arena_new();
  for (int i = 0; sets && a && i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    for (int k = 0; r->cost && k < r->cost->row_count; k++) {
      const CostStep *c = &r->cost->steps[k];
      CostStep *sum = map_get(sets, c->name);
      if (!sum && (sum = arena_alloc(a, sizeof *sum))) map_set(sets, c->name, sum);
      if (!sum) continue;
      sum->times += c->times * r->times;
      sum->compute += c->compute * r->times, sum->exchange += c->exchange * r->times;
      sum->sync += c->sync * r->times, sum->stream += c->stream * r->times,
          sum->bytes += c->bytes * r->times;
    }
  }
  int cursor = 0;
  bool first = true;
  void *value;
  fputs("\"compute_sets\":[", f);
  for (const char *name; sets && (name = map_next(sets, &cursor, &value)); first = false) {
    const CostStep *c = value;
    fprintf(f, "%s{\"name\":", first ? "" : ",");
    put_string(f, name);
    const double numbers[] = {c->times, c->compute, c->exchange, c->sync, c->stream, c->bytes};
    static const char *const names[] = {"times", "compute", "exchange",
                                        "sync",  "stream",  "bytes_to_busiest_tile"};
    for (int k = 0; k < 6; k++) fputc(',', f), put_member(f, names[k], numbers[k]);
    fputc('}', f);
  }
  fputc(']', f);
  map_free(sets);
  arena_free(a);
}

static void put_variables(FILE *f, const Price *p, Strings *s) {
  fputs(
      "\"variable_columns\":[\"name\",\"source\",\"category\",\"bytes\",\"ipu\",\"first\",\"last\",\"always\",\"offloaded\"],\"variables\":[",
      f);
  char label[256];
  bool first_row = true;
  for (int i = 0; i < p->allocation_count; i++) {
    const Allocation *h = &p->allocation[i];
    if (h->ipu < 0) continue; /* the host's */
    bool always = price_category_always(h->category) && !h->offloaded;
    int last = p->step_count - 1, first = h->first, end = h->last;
    int from = always || first > end || first < 0 ? 0 : first,
        to = always || end > last ? last : end;
    fprintf(f, "%s[%d,%d,%d,", first_row ? "" : ",", string_number(s, allocation_label(h, label)),
            string_number(s, allocation_source(h)),
            string_number(s, price_category_name(h->category)));
    put_number(f, h->bytes);
    fprintf(f, ",%d,%d,%d,%d,%d]", h->ipu, from < last || last < 0 ? from : last, to, always,
            h->offloaded);
    first_row = false;
  }
  fputc(']', f);
}

static void put_timetable(FILE *f, const Price *p) {
  fprintf(
      f,
      "\"timetable\":{\"step\":%d,\"time_steps\":%d,\"schedule\":\"%s\",\"columns\":[\"time_step\",\"ipu\",\"stage\",\"micro_batch\","
      "\"backward\",\"begin\",\"cycles\"],\"slots\":[",
      p->pipeline_step, p->time_steps, p->plan ? p->plan->schedule->name : "");
  for (int i = 0; i < p->entry_count; i++) {
    const PricedEntry *s = &p->entry[i];
    fprintf(f, "%s[%d,%d,%d,%d,%d,%.0f,%.0f]", i ? "," : "", s->step, s->ipu, s->stage,
            s->micro_batch, s->backward, s->begin, s->cycles);
  }
  fputs("]}", f);
}

static void put_timeline(FILE *f, const Price *p) {
  Timeline t = timeline_of(p, MAX_EVENTS);
  fputs(
      "\"timeline_columns\":[\"begin\",\"cycles\",\"step\",\"ipu\",\"slot\",\"repeats\"],\"timeline\":[",
      f);
  for (int i = 0; i < t.count; i++) {
    const Event *e = &t.event[i];
    fprintf(f, "%s[%.0f,%.0f,%d,%d,%d,%.0f]", i ? "," : "", e->begin, e->cycles, e->step, e->ipu,
            e->slot, e->repeats);
  }
  fputc(']', f);
  free(t.event);
}

char *profile_json(const Price *p, const char *extra) {
  char *text = NULL;
  size_t bytes = 0;
  Strings s = {.number = map_new()};
  FILE *f = s.number ? open_memstream(&text, &bytes) : NULL;
  if (!f) {
    map_free(s.number);
    return NULL;
  }
  fprintf(f, "{\"version\":%d,\"program\":", PROFILE_VERSION);
  put_string(f, p->name);
  fputc(',', f), put_target(f, p);
  fputc(',', f), put_totals(f, p);
  fputc(',', f), put_ipus(f, p);
  fputc(',', f), put_stages(f, p);
  fputc(',', f), put_timetable(f, p);
  fputc(',', f), put_steps(f, p, &s);
  fputc(',', f), put_compute_sets(f, p);
  fputc(',', f), put_variables(f, p, &s);
  fputc(',', f), put_timeline(f, p);
  fputc(',', f), put_strings(f, &s);
  fprintf(f, ",\"session\":%s}\n", extra && *extra ? extra : "{}");
  bool failed = fclose(f) != 0 || s.failed;
  map_free(s.number);
  if (failed) free(text), text = NULL;
  return text;
}

/* ---- trace events ---- */

static const char *event_name(const Price *p, const Event *e, char *room, size_t size) {
  if (e->repeats > 0) {
    snprintf(room, size, "%.0f more", e->repeats);
    return room;
  }
  if (e->slot < 0) return priced_name(&p->step[e->step]);
  const PricedEntry *s = &p->entry[e->slot];
  snprintf(room, size, "%c%d stage %d", s->backward ? 'B' : 'F', s->micro_batch, s->stage);
  return room;
}

/* Whole nanoseconds: viewers round times to these, and drop an event that then ends after the
 * next one begins. */
static void put_span(FILE *f, const Event *e, double ns_per_cycle) {
  long long begin = llround(e->begin * ns_per_cycle),
            length = llround((e->begin + e->cycles) * ns_per_cycle) - begin;
  fprintf(f, "\"ts\":%lld.%03lld,\"dur\":%lld.%03lld", begin / 1000, begin % 1000, length / 1000,
          length % 1000);
}

char *profile_trace(const Price *p) {
  char *text = NULL, name[80];
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  double ns_per_cycle = 1e9 / (double)p->machine.pod.target.clock_hz;
  Timeline t = timeline_of(p, MAX_TRACE_EVENTS);
  fputs(
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":",
      f);
  put_string(f, p->name);
  fputs("}}", f);
  for (int i = 0; i < p->shards; i++)
    fprintf(
        f,
        ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"IPU %d\"}}",
        i, i);
  for (int i = 0; i < t.count; i++) {
    const Event *e = &t.event[i];
    const PricedStep *r = &p->step[e->step];
    fprintf(f, ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,", e->ipu);
    put_span(f, e, ns_per_cycle);
    fprintf(f, ",\"cat\":\"%s\",\"name\":", priced_kind_name(r->kind));
    put_string(f, event_name(p, e, name, sizeof name));
    fputs(",\"args\":{\"line\":", f);
    put_string(f, priced_source(r));
    fprintf(f, ",\"step\":%d,\"cycles\":%.0f", e->step, e->cycles);
    for (int k = 0; r->cost && k < PHASE_COUNT; k++)
      fputc(',', f), put_member(f, cost_phase_name((CostPhase)k), r->cost->cycles[k]);
    fputs("}}", f);
  }
  fputs("\n]}\n", f);
  free(t.event);
  return fclose(f) == 0 && !t.failed ? text : (free(text), NULL);
}
