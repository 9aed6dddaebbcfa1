/* The pipelined loop. Internal to the engine. */
#ifndef IPULUA_ENGINE_PIPELINE_H
#define IPULUA_ENGINE_PIPELINE_H
#include "engine/run.h"

/* All micro-batches of a pipeline, row by row of its timetable: what lanes do in a row runs side
 * by side, each on one thread; a lane that is alone has the whole team. */
Status run_pipeline(Run *r, Step *s);

/* For whoever walks the rows himself: the timetable of that many micro-batches, and a pass
 * pointed at one of them. */
Status pipeline_find_timetable(Run *r, Step *s, int32_t micros);
void pipeline_point(Pass *p, int micro);
#endif
