#include "machine/priced.h"

#include <stdio.h>
#include <string.h>

const char *priced_kind_name(PricedKind k) {
#define X(id, name) [PRICED_##id] = name,
  static const char *const names[] = {PRICED_KINDS(X)};
#undef X
  return names[k];
}

const char *priced_name(const PricedStep *r) {
  if (r->kind == PRICED_HOST_IN && !r->node && r->bytes == 0) return "call from the host";
  return r->kind == PRICED_OP || (r->kind == PRICED_STREAMING && r->node)
             ? r->node->op->name
             : priced_kind_name(r->kind);
}

const char *priced_source(const PricedStep *r) {
  return r->node && r->node->source ? r->node->source : "";
}

const char *allocation_name(const Allocation *h) {
  if (h->variable) return h->variable->name;
  if (h->category == BYTES_STASH) return "activations kept for the backward pass";
  if (!h->node) return "argument";
  if (node_is_input(h->node)) return h->node->name ? h->node->name : "argument";
  return h->node->name && *h->node->name ? h->node->name : h->node->op->name;
}

const char *allocation_label(const Allocation *h, char room[256]) {
  const char *name = allocation_name(h);
  size_t length = strlen(name);
  if (!length || name[length - 1] != '/' || !h->node) return name;
  snprintf(room, 256, "%s%s", name, h->node->op->name);
  return room;
}

const char *allocation_source(const Allocation *h) {
  return h->node && h->node->source ? h->node->source : "";
}
