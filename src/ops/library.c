/* Makes rows of a shared object's rows. Each OpDef is the first field of a Row, which refers to the
 * shared object's row. */
#include "ops/library.h"

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "ipulua_op.h"
#include "ops/library_text.h"
#include "ops/ops.h"
#include "target/cost.h"

_Static_assert(sizeof(IpuType) == sizeof(Type) && offsetof(IpuType, shape) == offsetof(Type, shape),
               "IpuType is Type");
_Static_assert((int)IPU_FLOAT32 == F32 && (int)IPU_BFLOAT16 == BF16 && (int)IPU_BOOL == BOOL,
               "IpuDtype is Dtype");
_Static_assert((int)IPU_OP_INPUTS == MAX_INPUTS && (int)IPU_OP_ATTRIBUTES == MAX_ATTRS &&
                   (int)IPU_OP_RANK == MAX_RANK,
               "limits");

typedef struct Row {
  OpDef def; /* first: a node's op is its Row */
  const IpuOp *foreign;
  const OpLibrary *library;
} Row;

struct OpLibrary {
  void *handle;
  Row *row;
  int count;
};

struct IpuNode {
  Error *error;
  const Node *node;
  Node *inferred; /* in infer alone */
};

struct IpuGraph {
  Graph *graph;
  const OpLibrary *library;
};

/* IpuCall, with the pool's arguments. */
typedef struct Evaluation {
  IpuCall foreign;
  const Call *call;
} Evaluation;

static const IpuType *foreign_type(const Type *t) { return (const IpuType *)(const void *)t; }
static const Type *own_type(const IpuType *t) { return (const Type *)(const void *)t; }

/* ---- functions of the host ---- */

/* Threads of one evaluation may fail at once; the first message stays. */
static int host_fail(const IpuNode *n, const char *message) {
  static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&failing);
  Status s = fail(n->error, ERR_INVALID_ARGUMENT, "%s", message ? message : "failed");
  pthread_mutex_unlock(&failing);
  return (int)s;
}

static int input_count(const IpuNode *n) { return n->node->in_count; }

static const IpuType *input_type(const IpuNode *n, int i) {
  return i >= 0 && i < n->node->in_count ? foreign_type(&n->node->in[i]->type) : NULL;
}

static const IpuType *output_type(const IpuNode *n, int i) {
  return i >= 0 && i < n->node->out_count ? foreign_type(&n->node->out[i].type) : NULL;
}

static int set_output(IpuNode *n, int i, const IpuType *type) {
  if (!n->inferred || i < 0 || i >= n->inferred->out_count)
    return host_fail(n, "an output that doesn't exist has been set");
  if (!type || type->dtype < 0 || type->dtype >= DTYPE_COUNT || type->rank < 0 ||
      type->rank > MAX_RANK)
    return host_fail(n, "the type of an output is no type");
  n->inferred->out[i].type = *own_type(type);
  return 0;
}

static const Attr *attribute(const IpuNode *n, int i) {
  static const Attr none = {.kind = ATTR_NONE};
  return i >= 0 && i < op_attr_count(n->node->op) ? &n->node->attr[i] : &none;
}

static int64_t get_int(const IpuNode *n, int i) {
  const Attr *a = attribute(n, i);
  return a->kind == ATTR_INT || a->kind == ATTR_BOOL || a->kind == ATTR_DTYPE ? a->i : 0;
}

static double get_float(const IpuNode *n, int i) {
  const Attr *a = attribute(n, i);
  return a->kind == ATTR_FLOAT ? a->f : (double)get_int(n, i);
}

static const char *get_string(const IpuNode *n, int i) {
  const Attr *a = attribute(n, i);
  return a->kind == ATTR_STRING ? a->s : NULL;
}

static int get_ints(const IpuNode *n, int i, const int64_t **list) {
  const Attr *a = attribute(n, i);
  *list = a->kind == ATTR_INTS ? a->ints.v : NULL;
  return a->kind == ATTR_INTS ? a->ints.n : -1;
}

static int64_t count_of(const IpuType *t) { return type_count(own_type(t)); }
static size_t bytes_of(const IpuType *t) { return type_bytes(own_type(t)); }

static void host_parallel(const IpuCall *c, int64_t count, int64_t grain,
                          void (*body)(void *, int64_t, int64_t), void *context) {
  parallel_for(((const Evaluation *)(const void *)c)->call, count, grain, body, context);
}

static IpuValue *foreign_value(Value *v) { return (IpuValue *)(void *)v; }
static Value *own_value(const IpuValue *v) { return (Value *)(uintptr_t)v; }

static IpuValue *input(const IpuNode *n, int i) {
  return i >= 0 && i < n->node->in_count ? foreign_value(n->node->in[i]) : NULL;
}
static IpuValue *output(const IpuNode *n, int i) {
  return i >= 0 && i < n->node->out_count ? foreign_value(&n->node->out[i]) : NULL;
}
static const IpuType *type_of(const IpuValue *v) {
  return v ? foreign_type(&own_value(v)->type) : NULL;
}

static IpuValue *number(IpuGraph *g, int dtype, double value) {
  if (dtype < 0 || dtype >= DTYPE_COUNT) {
    fail(&g->graph->error, ERR_VALUE, "a gradient asks for a number of no dtype");
    return NULL;
  }
  return foreign_value(graph_number(g->graph, (Dtype)dtype, value));
}

static const OpDef *find_row(const OpLibrary *l, const char *name) {
  for (int i = 0; i < l->count; i++)
    if (!strcmp(l->row[i].def.name, name)) return &l->row[i].def;
  return op_find(name);
}

/* Has the op all that it needs? graph_node trusts its callers. */
static Status check_use(Error *e, const OpDef *op, int in_count, const Attr *attrs) {
  int required, most = op_input_count(op, &required);
  if (op->traits & RANDOM)
    return fail(e, ERR_VALUE, "%s draws numbers, which the gradient of a library can't", op->name);
  if (in_count < required || (in_count > most && !(op->traits & VARIADIC)))
    return fail(e, ERR_VALUE, "%s takes %d operand%s, the gradient of a library gives %d", op->name,
                in_count < required ? required : most,
                plural(in_count < required ? required : most), in_count);
  for (int i = 0; i < op_attr_count(op); i++)
    if (attrs[i].kind == ATTR_NONE && !op->attrs[i].fallback)
      return fail(e, ERR_VALUE, "%s: '%s' is missing", op->name, op->attrs[i].name);
  return OK;
}

static IpuValue *apply(IpuGraph *b, const char *name, IpuValue *const *in, int in_count,
                       const char *attributes) {
  Graph *g = b->graph;
  Value *own[MAX_INPUTS];
  Attr attrs[MAX_ATTRS] = {{.kind = ATTR_NONE}};
  const OpDef *op = name ? find_row(b->library, name) : NULL;
  if (g->error.status != OK) return NULL;
  if (!op || (op->traits & (INTERNAL | CONTROL)) || in_count < 0 || in_count > MAX_INPUTS) {
    fail(&g->error, ERR_VALUE, "a gradient of a library calls an op that does not exist: %s",
         name ? name : "(none)");
    return NULL;
  }
  if (attributes && library_read(g, op, attributes, attrs) != OK) return NULL;
  if (check_use(&g->error, op, in_count, attrs) != OK) return NULL;
  for (int i = 0; i < in_count; i++) own[i] = own_value(in[i]);
  return foreign_value(graph_apply(g, op, own, in_count, attrs));
}

static const IpuHost host = {
    .abi = IPU_OP_ABI,
    .input_count = input_count,
    .input_type = input_type,
    .output_type = output_type,
    .set_output = set_output,
    .get_int = get_int,
    .get_float = get_float,
    .get_string = get_string,
    .get_ints = get_ints,
    .fail = host_fail,
    .count = count_of,
    .bytes = bytes_of,
    .parallel = host_parallel,
    .input = input,
    .output = output,
    .type = type_of,
    .number = number,
    .apply = apply,
};

/* ---- our side of a row ---- */

static const Row *row_of(const Node *n) { return (const Row *)(const void *)n->op; }

/* The status of a foreign function, which may have forgotten to give a message. */
static Status answer(Error *e, int result) {
  if (e->status != OK) return e->status;
  return result ? fail(e, ERR_RUNTIME, "failed") : OK;
}

static Status infer(Error *e, Node *n) {
  IpuNode node = {e, n, n};
  for (int i = 0; i < n->out_count; i++) n->out[i].type = (Type){.rank = -1};
  Status s = answer(e, row_of(n)->foreign->infer(&host, &node));
  for (int i = 0; i < n->out_count && s == OK; i++)
    if (n->out[i].type.rank < 0)
      s = fail(e, ERR_INTERNAL, "the library's infer gave output %d no type", i);
  return s;
}

static Status eval(const Call *c) {
  Error own = {0};
  IpuNode node = {&own, c->node, NULL};
  Evaluation x = {.call = c};
  x.foreign = (IpuCall){.in = c->in,
                        .out = c->out,
                        .in_type = (const IpuType *const *)(const void *)c->in_type,
                        .out_type = (const IpuType *const *)(const void *)c->out_type,
                        .in_count = c->in_count,
                        .out_count = c->out_count,
                        .scratch = c->scratch,
                        .node = &node};
  Status s = answer(&own, row_of(c->node)->foreign->eval(&host, &x.foreign));
  return s == OK ? OK : fail_at(c->error, c->source, s, "%s: %s", c->node->op->name, own.message);
}

static const size_t SCRATCH_LIMIT = (size_t)1 << 47; /* sums of it don't wrap */

static size_t scratch(const Node *n) {
  Error own = {0};
  IpuNode node = {&own, n, NULL};
  size_t bytes = row_of(n)->foreign->scratch(&host, &node);
  return bytes < SCRATCH_LIMIT ? bytes : SCRATCH_LIMIT; /* which no machine has */
}

static void grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Row *row = row_of(n);
  IpuNode node = {&g->error, n, NULL};
  IpuGraph builder = {g, row->library};
  answer(&g->error, row->foreign->grad(&host, &builder, &node, (IpuValue *const *)(const void *)dy,
                                       (IpuValue **)(void *)dx));
  for (int i = 0; i < n->in_count && g->error.status == OK; i++)
    if (dx[i] && !type_equal(&dx[i]->type, &n->in[i]->type))
      fail_at(&g->error, n->source, ERR_INTERNAL,
              "%s: the library's gradient of input %d has another type than the input", n->op->name,
              i);
}

static void cost_function(const Target *t, const Node *n, Cost *c) {
  const Type *y = &n->out[0].type;
  *c = cost_elementwise(t, y->dtype, type_count(y), n->in_count, VECTOR(FUNCTION, y->dtype));
}

static bool is_cost(double x) { return isfinite(x) && x >= 0; }

static void cost(const Target *t, const Node *n, Cost *c) {
  Error own = {0};
  IpuNode node = {&own, n, NULL};
  IpuTile tile = {(double)t->tiles, (double)t->workers};
  IpuCost foreign = {0};
  row_of(n)->foreign->cost(&host, &node, &tile, &foreign);
  if (!is_cost(foreign.compute_cycles) || !is_cost(foreign.exchange_bytes) ||
      !is_cost(foreign.temporary_bytes)) {
    cost_function(t, n, c);
    return;
  }
  *c = cost_free();
  cost_step(c, t, "library", foreign.exchange_bytes, foreign.compute_cycles);
  c->bytes[MEMORY_TEMPORARY] = foreign.temporary_bytes;
  c->temporary_total = foreign.temporary_bytes * tile.tiles;
}

/* mark: the character that may end it. */
static bool is_name(const char *s, char mark) {
  if (!isalpha((unsigned char)*s) && *s != '_') return false;
  while (isalnum((unsigned char)*s) || *s == '_') s++;
  return !*s || (*s == mark && !s[1]);
}

/* A row of ours says so in its traits, for which an IpuOp has no room. */
static bool is_named_index(const char *name) {
  return name &&
         (!strncmp(name, "ind", 3) || !strncmp(name, "ids", 3) || !strncmp(name, "label", 5) ||
          !strncmp(name, "segment", 7) || strstr(name, "length"));
}

/* The name of operand or argument number i: no other one of the op has it. */
static Status check_name(Error *e, const char *path, const IpuOp *op, const char *const *names,
                         int i) {
  bool good = is_name(names[i], i < MAX_INPUTS && op->inputs[i] == names[i] ? '?' : 0);
  for (int k = 0; k < i && good; k++)
    good = strcspn(names[k], "?") != strcspn(names[i], "?") ||
           strncmp(names[k], names[i], strcspn(names[i], "?"));
  if (good) return OK;
  return fail(e, ERR_VALUE,
              "load_op_library: '%s': op '%s': '%s' is no valid name, or stands there twice", path,
              op->name, names[i]);
}

static Status fill_attributes(Error *e, const char *path, OpDef *def, const IpuOp *op) {
  static const AttrKind kinds[] = {ATTR_NONE,   ATTR_INT,  ATTR_FLOAT, ATTR_BOOL,
                                   ATTR_STRING, ATTR_INTS, ATTR_DTYPE};
  const char *names[MAX_INPUTS + MAX_ATTRS];
  int count = 0;
  while (count < MAX_INPUTS && op->inputs[count]) names[count] = op->inputs[count], count++;
  for (int i = 0; i < count; i++)
    if (check_name(e, path, op, names, i) != OK) return e->status;
  for (int i = 0; i < MAX_ATTRS && op->attributes[i].name; i++) {
    const IpuAttribute *a = &op->attributes[i];
    names[count] = a->name;
    if (check_name(e, path, op, names, count++) != OK) return e->status;
    if (a->kind <= IPU_ATTR_NONE || a->kind > IPU_ATTR_DTYPE)
      return fail(e, ERR_VALUE, "load_op_library: '%s': argument '%s' of '%s' has no kind", path,
                  a->name, op->name);
    if (a->fallback && !library_is_literal(kinds[a->kind], a->fallback))
      return fail(e, ERR_VALUE, "load_op_library: '%s': argument '%s' of '%s' can't be %s", path,
                  a->name, op->name, a->fallback);
    def->attrs[i] =
        (AttrDef){.name = a->name, .kind = kinds[a->kind], .fallback = a->fallback, .summary = ""};
  }
  return OK;
}

static Status fill_row(Error *e, const char *path, Row *row, const OpLibrary *l, const IpuOp *op) {
  if (!is_name(op->name, 0))
    return fail(e, ERR_VALUE, "load_op_library: '%s' has an op with no valid name: '%s'", path,
                op->name);
  bool is_taken = op_find(op->name) != NULL;
  for (const Row *before = l->row; before < row; before++)
    is_taken = is_taken || !strcmp(before->def.name, op->name);
  if (is_taken)
    return fail(e, ERR_VALUE, "load_op_library: '%s' has an op '%s', which there is already", path,
                op->name);
  if (!op->infer || !op->eval || op->outputs < 0 || op->outputs > MAX_OUTPUTS)
    return fail(e, ERR_VALUE,
                "load_op_library: '%s': op '%s' needs infer, eval and 1 to %d outputs", path,
                op->name, MAX_OUTPUTS);
  *row = (Row){.foreign = op, .library = l};
  row->def = (OpDef){.name = op->name,
                     .summary = op->summary ? op->summary : "",
                     .shapes = op->shapes ? op->shapes : "",
                     .source = path,
                     .outputs = op->outputs,
                     .infer = infer,
                     .eval = eval,
                     .scratch = op->scratch ? scratch : NULL,
                     .grad = op->grad ? grad : NULL,
                     .cost = op->cost ? cost : cost_function};
  for (int i = 0; i < MAX_INPUTS; i++) row->def.inputs[i] = op->inputs[i];
  for (int i = 0; i < INDEX_INPUTS && i < MAX_INPUTS; i++)
    if (is_named_index(op->inputs[i])) row->def.traits |= INDICES(i);
  return fill_attributes(e, path, &row->def, op);
}

static Status fill_rows(Error *e, const char *path, OpLibrary *l) {
  const IpuOpLibrary *(*open_library)(const IpuHost *);
  if (!library_find(l->handle, "ipulua_op_library", &open_library))
    return fail(e, ERR_VALUE,
                "load_op_library: '%s' is no library of ops: it exports no ipulua_op_library",
                path);
  const IpuOpLibrary *foreign = open_library(&host);
  if (!foreign)
    return fail(e, ERR_VALUE, "load_op_library: '%s' refuses this version of ipulua (ABI %d)", path,
                IPU_OP_ABI);
  if (foreign->abi != IPU_OP_ABI || foreign->op_bytes != sizeof(IpuOp))
    return fail(
        e, ERR_VALUE,
        "load_op_library: '%s' was built for ABI %d, this is ABI %d; compile it again with this ipulua_op.h",
        path, foreign->abi, IPU_OP_ABI);
  if (!foreign->ops) return fail(e, ERR_VALUE, "load_op_library: '%s' has no ops", path);
  while (foreign->ops[l->count].name) l->count++;
  l->row = calloc((size_t)l->count + 1, sizeof *l->row);
  if (!l->row) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status s = OK;
  for (int i = 0; i < l->count && s == OK; i++)
    s = fill_row(e, path, &l->row[i], l, &foreign->ops[i]);
  return s;
}

OpLibrary *op_library_open(Error *e, const char *path) {
  OpLibrary *l = calloc(1, sizeof *l);
  if (!l) {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  /* a name without a slash would be searched for elsewhere */
  char *plain = malloc(strlen(path) + 3);
  if (plain) {
    strcpy(plain, strchr(path, '/') ? "" : "./");
    l->handle = dlopen(strcat(plain, path), RTLD_NOW | RTLD_LOCAL);
  }
  free(plain);
  const char *why = l->handle ? NULL : dlerror();
  if (!l->handle) fail(e, ERR_NOT_FOUND, "load_op_library: %s", why ? why : "out of memory");
  if (l->handle && fill_rows(e, path, l) == OK) return l;
  op_library_close(l);
  return NULL;
}

void op_library_close(OpLibrary *l) {
  if (!l) return;
  if (l->handle) dlclose(l->handle);
  free(l->row);
  free(l);
}

const OpDef *op_library_row(const OpLibrary *l, int i) {
  return i < l->count ? &l->row[i].def : NULL;
}
