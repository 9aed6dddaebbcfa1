/* The communication plug-in over MPI: one source, built against Open MPI and against MPICH. Nothing
 * in here waits; no type or constant of MPI leaves. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/comm.h"

/* MPI counts in int. A check builds the plug-in with less. */
#ifndef COMM_PIECE_BYTES
#define COMM_PIECE_BYTES ((int64_t)1 << 30)
#endif
enum { MAX_PIECES = 1024 };
static const int64_t piece_bytes = COMM_PIECE_BYTES;

struct CommRequest {
  CommRequest *next, *former; /* of the free requests, or of those under way */
  bool receives;
  int count;
  MPI_Request *part; /* [count] */
  MPI_Request first; /* where part points to, if one is enough */
};

/* The library has one state for the process, and so has its plug-in. */
static struct {
  MPI_Comm channel[2]; /* data, control */
  MPI_Comm host;       /* of the instances that share memory */
  MPI_Win window;
  bool shares;
  CommRequest *spare, *active;
  int begun;
  char words[MPI_MAX_ERROR_STRING + 1];
} mpi;

/* ---- begin and end ---- */

static int duplicate(MPI_Comm *out) {
  int code = MPI_Comm_dup(MPI_COMM_WORLD, out);
  return code == MPI_SUCCESS ? MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN) : code;
}

static void name_library(char *library, size_t n) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) version[0] = 0;
  version[strcspn(version, ",\n")] = 0;
  for (char *c = version; *c; c++)
    if (*c == '\t') *c = ' ';
  snprintf(library, n, "%s", version);
}

static int begin(int32_t *rank, int32_t *size, char *library, size_t n) {
  int provided = MPI_THREAD_SINGLE, before = 0, code = MPI_Initialized(&before);
  if (code != MPI_SUCCESS) return code;
  if (before) code = MPI_Query_thread(&provided);
  else code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_SERIALIZED) return MPI_ERR_OTHER;
  if ((code = duplicate(&mpi.channel[0])) != MPI_SUCCESS) return code;
  if ((code = duplicate(&mpi.channel[1])) != MPI_SUCCESS) return code;
  int r = 0, s = 0;
  if ((code = MPI_Comm_rank(MPI_COMM_WORLD, &r)) != MPI_SUCCESS) return code;
  if ((code = MPI_Comm_size(MPI_COMM_WORLD, &s)) != MPI_SUCCESS) return code;
  *rank = r, *size = s;
  name_library(library, n);
  mpi.begun = 1;
  return 0;
}

static void abort_all(int32_t status) { MPI_Abort(MPI_COMM_WORLD, status); }

static const char *words(int code) {
  int length = 0;
  if (MPI_Error_string(code, mpi.words, &length) != MPI_SUCCESS || length <= 0)
    return "an unknown error";
  mpi.words[length] = 0;
  return mpi.words;
}

/* ---- requests ---- */

static CommRequest *new_request(int64_t bytes) {
  int64_t count = bytes <= piece_bytes ? 1 : (bytes + piece_bytes - 1) / piece_bytes;
  if (count > MAX_PIECES) return NULL;
  CommRequest *r = mpi.spare;
  if (r) mpi.spare = r->next;
  else if (!(r = malloc(sizeof *r))) return NULL;
  r->count = (int)count;
  r->part = count == 1 ? &r->first : malloc((size_t)count * sizeof *r->part);
  r->receives = false;
  r->former = NULL;
  r->next = mpi.active;
  if (!r->part) {
    free(r);
    return NULL;
  }
  if (mpi.active) mpi.active->former = r;
  mpi.active = r;
  return r;
}

static void free_request(CommRequest *r) {
  if (r->part != &r->first) free(r->part);
  if (r->next) r->next->former = r->former;
  if (r->former) r->former->next = r->next;
  else mpi.active = r->next;
  r->next = mpi.spare;
  mpi.spare = r;
}

static int send(const void *data, int64_t bytes, int32_t to, int32_t tag, int32_t control,
                CommRequest **out) {
  CommRequest *r = new_request(bytes);
  if (!r) return MPI_ERR_NO_MEM;
  int code = MPI_SUCCESS;
  for (int i = 0; i < r->count; i++) {
    int64_t from = i * piece_bytes, n = bytes - from < piece_bytes ? bytes - from : piece_bytes;
    r->part[i] = MPI_REQUEST_NULL;
    if (code == MPI_SUCCESS)
      code = MPI_Isend((const char *)data + from, (int)n, MPI_BYTE, to, tag, mpi.channel[control],
                       &r->part[i]);
  }
  *out = r;
  return code;
}

static int receive(void *data, int64_t bytes, int32_t from, int32_t tag, int32_t control,
                   CommRequest **out) {
  CommRequest *r = new_request(bytes);
  if (!r) return MPI_ERR_NO_MEM;
  r->receives = true;
  int code = MPI_SUCCESS;
  for (int i = 0; i < r->count; i++) {
    int64_t at = i * piece_bytes, n = bytes - at < piece_bytes ? bytes - at : piece_bytes;
    r->part[i] = MPI_REQUEST_NULL;
    if (code == MPI_SUCCESS)
      code = MPI_Irecv((char *)data + at, (int)n, MPI_BYTE, from, tag, mpi.channel[control],
                       &r->part[i]);
  }
  *out = r;
  return code;
}

/* Parts that are done before are null requests, which always are. */
static int test_one(CommRequest *r, int *finished) {
  *finished = 1;
  for (int i = 0; i < r->count; i++) {
    int part = 0, code = MPI_Test(&r->part[i], &part, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    *finished = *finished && part;
  }
  return 0;
}

static int test(CommRequest **requests, int32_t count, int32_t *done) {
  *done = 1;
  for (int32_t i = 0; i < count; i++) {
    int finished = 0, code = 0;
    if (!requests[i]) continue;
    if ((code = test_one(requests[i], &finished)) != 0) return code;
    if (!finished) {
      *done = 0;
      continue;
    }
    free_request(requests[i]);
    requests[i] = NULL;
  }
  return 0;
}

static int look(int32_t *from, int32_t *bytes) {
  MPI_Status status;
  int found = 0, n = 0, code;
  *from = -1, *bytes = 0;
  code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.channel[1], &found, &status);
  if (code != MPI_SUCCESS || !found) return code;
  if ((code = MPI_Get_count(&status, MPI_BYTE, &n)) != MPI_SUCCESS) return code;
  *from = status.MPI_SOURCE, *bytes = n;
  return 0;
}

/* ---- memory of a host ---- */

static int make_window(int64_t bytes, void **mine) {
  MPI_Info info;
  int code = MPI_Info_create(&info);
  if (code != MPI_SUCCESS) return code;
  MPI_Info_set(info, "alloc_shared_noncontig", "true");
  code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, mpi.host, mine, &mpi.window);
  MPI_Info_free(&info);
  mpi.shares = code == MPI_SUCCESS;
  return code;
}

/* All come here, and before they compute: the library has no other way to make a window. */
static int share(int64_t bytes, void **mine, void **all) {
  int rank = 0, size = 0, of_all = 0, code;
  *mine = NULL;
  if ((code = MPI_Comm_rank(mpi.channel[0], &rank)) != MPI_SUCCESS ||
      (code = MPI_Comm_size(mpi.channel[0], &of_all)) != MPI_SUCCESS)
    return code;
  code = MPI_Comm_split_type(mpi.channel[0], MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &mpi.host);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(mpi.host, MPI_ERRORS_RETURN);
  if ((code = MPI_Comm_size(mpi.host, &size)) != MPI_SUCCESS || size != of_all) return code;
  if ((code = make_window(bytes, mine)) != MPI_SUCCESS) *mine = NULL;
  for (int q = 0; q < size && code == MPI_SUCCESS; q++) {
    MPI_Aint there = 0;
    int unit = 1;
    code = MPI_Win_shared_query(mpi.window, q, &there, &unit, &all[q]);
  }
  return code;
}

/* ---- the end ---- */

/* Requests that will not be answered, since instances failed: the library must not wait for
 * them. */
static void take_back_receives(void) {
  for (CommRequest *r = mpi.active; r; r = r->next)
    for (int i = 0; r->receives && i < r->count; i++)
      if (r->part[i] != MPI_REQUEST_NULL && MPI_Cancel(&r->part[i]) == MPI_SUCCESS)
        MPI_Request_free(&r->part[i]);
}

/* Messages that have not been received. */
static void drain(MPI_Comm channel) {
  for (;;) {
    MPI_Status status;
    MPI_Request request;
    int found = 0, bytes = 0, done = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, channel, &found, &status) != MPI_SUCCESS || !found)
      return;
    if (MPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS) return;
    char *data = malloc((size_t)bytes + 1);
    if (!data) return;
    if (MPI_Irecv(data, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, channel, &request) !=
        MPI_SUCCESS)
      return;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) continue;
    free(data);
  }
}

static int end(void) {
  take_back_receives();
  for (int i = 0; i < 2; i++) drain(mpi.channel[i]);
  for (CommRequest *r = mpi.spare; r;) {
    CommRequest *next = r->next;
    free(r);
    r = next;
  }
  mpi.spare = NULL;
  if (mpi.shares) MPI_Win_free(&mpi.window);
  return MPI_Finalize();
}

extern const Comm comm_table;
__attribute__((visibility("default"))) const Comm comm_table = {
    .version = COMM_VERSION,
    .struct_size = (int32_t)sizeof(Comm),
    .begin = begin,
    .send = send,
    .receive = receive,
    .test = test,
    .look = look,
    .share = share,
    .words = words,
    .abort = abort_all,
    .end = end,
};
