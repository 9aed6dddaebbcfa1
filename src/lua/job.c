/* A program that runs on a thread while the script goes on, and may read outfeeds. One job runs at
 * a time. Calls that use its variables, or run another program, wait for it. Only the script's
 * thread uses Lua. It serves the job's requests whenever it waits. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"
#include "engine/run.h"
#include "lua/bind.h"

#define JOB_NAME "ipulua.Job" /* the userdata of the script */
/* The job itself. The registry keeps it, and all that it uses, while it runs. */
#define RUN_NAME "ipulua.Job.run"
enum { POLL_NANOSECONDS = 200000 };

typedef struct Job {
  /* it ends later, because it was dropped inside of a function that it may wait for */
  HostDeferred deferred;
  int self; /* its key in the registry */
  State *state;
  Program *program; /* kept alive, with its arguments, by the userdata's values */
  Tensor **in, **out;
  Error error;
  Thread thread;
  _Atomic bool finished;
  bool started, joined, dropped;
} Job;

static void *job_main(void *argument) {
  Job *j = argument;
  program_run(j->state->engine, j->program, j->in, j->out, &j->error);
  HostCalls *host = j->state->host;
  atomic_store(&j->finished, true);
  host_calls_notify(host);
  return NULL;
}

static bool is_finished(void *context) { return atomic_load(&((Job *)context)->finished); }

static bool is_over(const Job *j) { return !j->started || j->joined; }
static void let_go(const Job *j) { luaL_unref(j->state->callbacks, LUA_REGISTRYINDEX, j->self); }

static void finish(Job *j) {
  if (is_over(j)) return;
  host_calls_wait(j->state->host, is_finished, j);
  if (j->joined) return; /* a call that the wait ran has joined it */
  pthread_join(j->thread.id, NULL);
  j->joined = true;
  if (j->state->job == j) j->state->job = NULL;
  if (!j->dropped) let_go(j);
}

static bool uses(const Program *p, const Variable *v) {
  for (int i = 0; i < p->variable_count; i++)
    if (p->variable[i] == v) return true;
  return false;
}

static HostAsker asker(const Job *j) {
  return is_over(j) || atomic_load(&j->finished) ? ASKED_BY_NOBODY
                                                 : host_calls_asker(j->state->host, j->thread.id);
}

/* Is the script's thread inside of something that the job has called? */
static bool called_by(const Job *j) { return asker(j) == ASKED_BY_IT; }

/* A function that a reading thread has called can't wait for a job: the job may be fed by that
 * thread. */
static void check_may_wait(lua_State *L, const Job *j, const char *what) {
  if (asker(j) == ASKED_BY_ANOTHER)
    bind_fail(
        L, ERR_FAILED_PRECONDITION,
        "%s would wait for the program that runs in the background, which may wait for this function: it is called ahead of "
        "time, by a thread that reads a dataset",
        what);
}

void bind_settle(lua_State *L, const Variable *v) {
  Job *j = bind_state(L)->job;
  if (!j || called_by(j) || (v && !uses(j->program, v))) return;
  check_may_wait(L, j, v ? "this use of one of its variables" : "this");
  finish(j);
}

void bind_settle_queue(lua_State *L, const Object *queue) {
  Job *j = bind_state(L)->job;
  if (j && bind_job_uses(L, queue) && asker(j) == ASKED_BY_NOBODY) finish(j);
}

void bind_refuse_inside(lua_State *L, const char *what) {
  const State *s = bind_state(L);
  bind_settle(L, NULL);
  if (s->job || atomic_load(&s->engine->running))
    bind_fail(L, ERR_FAILED_PRECONDITION,
              "%s can't be done inside of a callback of a program that is running", what);
}

void bind_check_steady(lua_State *L, const Variable *v) {
  const State *s = bind_state(L);
  if (s->job && called_by(s->job) && !s->in_callback && v->writers)
    bind_fail(
        L, ERR_FAILED_PRECONDITION,
        "variable '%s' is being changed by the job that this feeds; read it before the job begins, or in a "
        "host callback",
        v->name);
}

static bool graph_uses(const Graph *g, const Object *o) {
  for (int i = 0; i < g->object_count; i++)
    if (g->object[i] == o) return true;
  for (int i = 0; i < g->region_count; i++)
    if (graph_uses(g->region[i], o)) return true;
  return false;
}

bool bind_job_uses(lua_State *L, const Object *o) {
  const Job *j = bind_state(L)->job;
  return j && !atomic_load(&j->finished) && graph_uses(j->program->graph, o);
}

/* (program, arguments) → job */
static int start(lua_State *L) {
  Program *p = bind_check_program(L, 1);
  State *s = bind_state(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  bind_refuse_inside(L, "run_async");
  bind_initialise_all(L, p);
  Job *j = lua_newuserdatauv(L, sizeof *j, 3);
  *j = (Job){.state = s, .program = p};
  luaL_setmetatable(L, RUN_NAME);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 3, 1);
  j->in = bind_arguments(L, 2, p);
  j->out = j->in + p->argument_count + 1;
  lua_setiuservalue(L, 3, 2);
  lua_setiuservalue(L, 3, 3);
  for (int i = 0; i < p->result_count; i++) j->out[i] = NULL;
  engine_pool(s->engine); /* made here, so that only this thread ever makes it */
  atomic_store(&p->cancelled, false);
  Job **held = lua_newuserdatauv(L, sizeof *held, 1);
  *held = j;
  luaL_setmetatable(L, JOB_NAME);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, 3);
  j->self = luaL_ref(L, LUA_REGISTRYINDEX);
  if (thread_create(&j->thread, job_main, j)) {
    let_go(j);
    return bind_fail(L, ERR_RUNTIME, "run_async: no thread could be started");
  }
  j->started = true;
  s->job = j;
  return 1;
}

static Job *check(lua_State *L) { return *(Job **)luaL_checkudata(L, 1, JOB_NAME); }

static int done(lua_State *L) {
  Job *j = check(L);
  host_calls_serve(j->state->host);
  lua_pushboolean(L, atomic_load(&j->finished));
  return 1;
}

/* → list of results; raises the job's error */
static int wait_for(lua_State *L) {
  Job *j = check(L);
  check_may_wait(L, j, "job:wait()");
  if (called_by(j))
    return bind_fail(L, ERR_FAILED_PRECONDITION, "job:wait() is called by the job itself");
  finish(j);
  if (j->error.status != OK) {
    Error e = j->error;
    return bind_raise(L, &e);
  }
  bind_push_results(L, j->out, j->program->result_count);
  return 1;
}

static int cancel(lua_State *L) {
  Job *j = check(L);
  if (!j->joined) atomic_store(&j->program->cancelled, true);
  return 0;
}

/* Serve the job for a moment. */
static int poll_job(lua_State *L) {
  Job *j = check(L);
  if (asker(j) != ASKED_BY_NOBODY)
    return bind_fail(L, ERR_FAILED_PRECONDITION,
                     "outfeed:iter(job) waits for the job, which may wait for this function");
  host_calls_serve(j->state->host);
  struct timespec moment = {.tv_nsec = POLL_NANOSECONDS};
  if (!atomic_load(&j->finished)) nanosleep(&moment, NULL);
  return 0;
}

static int settle(lua_State *L) {
  const Job *j = bind_state(L)->job;
  if (j && called_by(j))
    return bind_fail(L, ERR_FAILED_PRECONDITION,
                     "the job that this function feeds can't be waited for in it");
  bind_settle(L, NULL);
  return 0;
}

static void end_dropped(HostDeferred *d) {
  Job *j = (Job *)((char *)d - offsetof(Job, deferred));
  finish(j);
  let_go(j);
}

/* A job that was collected ends as soon as it can. If it was dropped inside of a function that it
 * waits for, it ends after that function. */
static int drop_job(lua_State *L) {
  Job *j = check(L);
  if (is_over(j)) return 0;
  atomic_store(&j->program->cancelled, true);
  j->dropped = true;
  j->deferred.run = end_dropped;
  host_calls_defer(j->state->host, &j->deferred);
  return 0;
}

static int free_run(lua_State *L) {
  Job *j = lua_touserdata(L, 1);
  finish(j);
  for (int i = 0; j->out && i < j->program->result_count; i++) {
    tensor_release(j->out[i]);
    j->out[i] = NULL;
  }
  return 0;
}

void bind_open_job(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"done", done}, {"wait", wait_for}, {"cancel", cancel}, {"poll", poll_job}, {NULL, NULL}};
  lua_pushcfunction(L, start);
  lua_setfield(L, -2, "start_job");
  lua_pushcfunction(L, settle);
  lua_setfield(L, -2, "settle");
  bind_type(L, RUN_NAME, free_run, NULL);
  bind_type(L, JOB_NAME, drop_job, methods);
}
