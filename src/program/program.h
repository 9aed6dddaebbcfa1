/* A compiled program: its steps, the buffers that they work on, and how it is made. */
#ifndef IPULUA_PROGRAM_PROGRAM_H
#define IPULUA_PROGRAM_PROGRAM_H
#include "program/step.h"
#include "transform/lift.h"

typedef enum BufferKind {
  BUFFER_ARENA,    /* at offset in the program's memory, or in its streaming memory */
  BUFFER_CONSTANT, /* a tensor's data */
  BUFFER_ARGUMENT, /* bound for each run: an argument, a variable, a result */
} BufferKind;

typedef struct Buffer {
  BufferKind kind;
  size_t bytes;
  int first, last;  /* steps at which it is live; -1: never touched */
  int64_t offset;   /* ARENA */
  void *data;       /* CONSTANT; else where it is bound now */
  int argument;     /* ARGUMENT: its number */
  const Node *node; /* who made it, for reports */
  int lane;         /* ARENA: only this lane's, while others run beside it; -1: everybody's */
  /* ARENA: as many as micro-batches may need at once, bytes being that of all */
  int copies;
  bool remote; /* its home is streaming memory */
} Buffer;

/* A pointer inside a step that has to be set when its buffer is bound. */
typedef struct Link {
  int buffer;
  void **where;
  Pass *pass; /* of a pipeline that the step belongs to; NULL: none */
} Link;

typedef struct Binding {
  int buffer;
  void *bound; /* what the links hold now */
} Binding;

typedef struct Program {
  Arena *arena;       /* of steps, chains, links */
  Graph *graph;       /* what it was lowered from; its nodes are named by steps */
  bool borrows_graph; /* a copy's: not freed with it */
  /* As it was traced, for tapes: what is simplified bit for bit has another derivative. NULL: of
   * a copy, or of an outline. */
  Graph *traced;
  /* traced takes the tensors that it held as inputs, behind the others (program_lift) */
  bool is_lifted;
  TensorList lifted; /* those, held by the graph */
  bool outline;      /* without steps: it can't run */
  Block main;
  Buffer *buffer;
  int buffer_count, buffer_capacity;
  Link *link;
  int link_count, link_capacity;
  int step_count;
  /* Arguments in the order: the function's arguments, variables, results. */
  int argument_count, variable_count, result_count;
  Variable **variable; /* [variable_count], retained */
  bool *writes;        /* [variable_count]: the program changes it */
  bool *shared;        /* [variable_count]: replicas have a share each of one value */
  /* replicas were to share these out, but don't agree on them */
  bool unshared_state, unshared_weights;
  Type *result_type;   /* [result_count] */
  Binding *binding;    /* [argument_count + variable_count + result_count] */
  int *link_begin;     /* [binding count + 1]: links sorted by argument */
  size_t memory_bytes; /* of the planned memory */
  size_t remote_bytes; /* of the planned streaming memory; variables have memory of their own */
  size_t slot_bytes;   /* scratch for each thread of the team */
  char *memory, *remote, *slots;
  int slot_count, lanes;   /* the widest pipeline's */
  PipelineStep **pipeline; /* [pipeline_count] */
  int pipeline_count, pipeline_capacity;
  ReadAhead **ahead; /* [ahead_count] */
  int ahead_count, ahead_capacity;
  const Kernels *kernels;
  Numerics numerics;
  int64_t executions;
  int64_t rounding_epoch; /* of the engine's seed, when stochastic rounding last began */
  /* which part of the engine's numbers it rounds by; 0: the whole, which all programs share */
  uint64_t rounding_part;
  uint64_t rounding_seed; /* of that part */
  bool changes_found;     /* which steps do is known */
  /* its memory is in use: not even a callback of its own may run it again */
  _Atomic bool running;
  _Atomic bool cancelled; /* loops stop after the iteration they are in */
  char *name;
  int replicas, replica;           /* how many there are; whose instance this is */
  int all_replicas, first_replica; /* of all instances; 0: it is of this process alone */
  bool has_collectives;            /* with replicas of other instances */
  size_t window_bytes;             /* of memory that each instance shares with all others */
  bool agreed;                     /* the others run the same program */
  bool uniform;                    /* nothing in it tells replicas apart */
  struct Replication *replication; /* owned; NULL: none yet (replicas.h) */
} Program;

/* Compile a finished root trace (trace_end_root has been called; takes its graph). threads: the
 * team that will run it. NULL with e filled on failure. The trace is still the caller's to free. */
Program *program_compile(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         int threads, const char *name);
/* Another one of the same graph, to run beside p on another thread; p must outlive it. */
Program *program_copy(Error *e, const Program *p, int threads);
/* The same as the instance of a replica. */
Program *program_instance(Error *e, const Program *p, int threads, int replica);
/* Only to be priced: the graph and the variables, no steps and no memory, so that its size
 * doesn't matter. Running it fails. */
Program *program_outline(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         const char *name);
void program_free(Program *p);
/* What tapes differentiate: p->traced with its floating-point constants as inputs, those of
 * p->lifted. */
Status program_lift(Error *e, Program *p);
#endif
