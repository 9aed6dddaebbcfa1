/* Replicas of a program, in step. */
#ifndef IPULUA_ENGINE_REPLICAS_H
#define IPULUA_ENGINE_REPLICAS_H
#include "engine/engine.h"

/* A program of several replicas on bound arguments and results. */
Status run_replicas(Engine *g, Pool *pool, Program *p, Error *e);
#endif
