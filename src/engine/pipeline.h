/* The pipelined loop. Internal to the engine. */
#ifndef IPULUA_ENGINE_PIPELINE_H
#define IPULUA_ENGINE_PIPELINE_H
#include "engine/control.h"

/* All micro-batches of a pipeline, row by row of its timetable. The lanes of a row share no values.
 * One instance alone runs them side by side, each on one thread; a lane that is alone has the whole
 * team. Otherwise they run one after the other. */
Status run_pipeline(Control *c);
#endif
