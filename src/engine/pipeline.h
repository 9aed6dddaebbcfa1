/* How a program's steps are walked, and the pipelined loop. Internal to the engine. */
#ifndef IPULUA_ENGINE_PIPELINE_H
#define IPULUA_ENGINE_PIPELINE_H
#include "engine/engine.h"

typedef struct Run {
  Engine *engine;
  Program *program;
  Pool *pool; /* NULL: what runs has one thread */
  Error *error;
} Run;

Status run_block(Run *r, Block *b);
Status run_interrupted(Run *r); /* fails when somebody asked to stop */
/* All micro-batches of a pipeline, row by row of its timetable: what lanes do in a row runs side by side, each on one thread;
 * a lane that is alone has the whole team. */
Status run_pipeline(Run *r, Step *s);
#endif
