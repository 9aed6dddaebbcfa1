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
  void *data;       /* CONSTANT; else the bound address */
  int argument;     /* ARGUMENT: its number */
  const Node *node; /* its maker, for reports */
  int lane;         /* ARENA: used by this lane alone, while others run beside it; -1: by all */
  /* ARENA: the micro-batches that need one at once; bytes is the size of all copies */
  int copies;
  bool remote; /* it is in streaming memory */
} Buffer;

/* A pointer inside a step that has to be set when its buffer is bound. */
typedef struct Link {
  int buffer;
  void **where;
  Pass *pass; /* of a pipeline that the step belongs to; NULL: none */
} Link;

typedef struct Binding {
  int buffer;
  void *bound; /* the links' current value */
} Binding;

typedef struct Program {
  Arena *arena;       /* of steps, chains, links */
  Graph *graph;       /* the graph that it was lowered from; steps refer to its nodes */
  bool borrows_graph; /* in a copy: the graph is not freed with it */
  /* The graph as it was traced, for tapes: simplifications keep values bit for bit, but not
   * derivatives. NULL in copies and outlines. */
  Graph *traced;
  /* the tensors that traced held are its inputs now, after the others (program_lift) */
  bool is_lifted;
  TensorList lifted; /* these tensors, held by the graph */
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
  /* replicas were to share these, but hold different values */
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
  int64_t rounding_epoch; /* the engine's rounding_epoch when its rounding was last seeded */
  /* the part of the engine's random numbers for its rounding; 0: the whole, shared by all
   * programs */
  uint64_t rounding_part;
  uint64_t rounding_seed; /* of that part */
  bool changes_found;     /* Step.changes has been set */
  /* its memory is in use: it may not be run again, not even by its own callback */
  _Atomic bool running;
  _Atomic bool cancelled; /* loops stop after the iteration they are in */
  char *name;
  /* the number of replicas; the one that this instance belongs to */
  int replicas, replica;
  /* of all instances; 0: the program belongs to this process alone */
  int all_replicas, first_replica;
  bool has_collectives;            /* with replicas of other instances */
  size_t window_bytes;             /* of memory that each instance shares with all others */
  bool agreed;                     /* the others run the same program */
  bool uniform;                    /* replicas can't be told apart in it */
  struct Replication *replication; /* owned; NULL: none yet (replicas.h) */
} Program;

/* Compile a finished root trace (trace_end_root has been called; takes its graph). threads: the
 * team that will run it. NULL with e filled on failure. The trace is still the caller's to free. */
Program *program_compile(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         int threads, const char *name);
/* A program of the same graph that may run beside p on another thread. p must outlive it. */
Program *program_copy(Error *e, const Program *p, int threads);
/* The same as the instance of a replica. */
Program *program_instance(Error *e, const Program *p, int threads, int replica);
/* A program for pricing alone: graph and variables without steps and memory, so that it may have
 * any size. Running it fails. */
Program *program_outline(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         const char *name);
void program_free(Program *p);
/* Prepares p->traced to be differentiated by tapes. Its floating-point constants become inputs,
 * with the values in p->lifted. */
Status program_lift(Error *e, Program *p);
#endif
