#include "cli/edit.h"

#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/interrupt.h"
#include "cli/complete.h"
#include "cli/history.h"

#ifdef HAVE_LIBEDIT
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <wchar.h>

#include "base/library.h"

/* Opened when the first line is read from a terminal, unless it was linked. */
/* clang-format off */
#define LIBEDIT(X) \
  X(el_end) X(el_get) X(el_gets) X(el_init) X(el_insertstr) X(el_line) X(el_resize) X(el_set) \
  X(el_source) X(el_wset) X(history) X(history_end) X(history_init)
/* clang-format on */
#ifdef LINKED_LIBEDIT
static struct {
  LIBEDIT(LIBRARY_MEMBER)
} libedit = {LIBEDIT(LIBRARY_ADDRESS)};
static Library library = {.open = true};
#else
static struct {
  LIBEDIT(LIBRARY_MEMBER)
} libedit;
#define SYMBOL(function) LIBRARY_SYMBOL(libedit, function)
static const LibrarySymbol symbols[] = {LIBEDIT(SYMBOL){NULL, NULL}};
static Library library = {.file = LIBEDIT_FILE, .package = LIBEDIT_PACKAGE, .symbols = symbols};
#endif
#endif

struct Editor {
  lua_State *L;
  char history[PATH_MAX]; /* "" when nothing is remembered */
  bool colours;
  char *line; /* plain reading */
  size_t capacity;
  char *newest; /* the last entry of the history, NULL when none was added yet */
#ifdef HAVE_LIBEDIT
  EditLine *el; /* NULL: plain reading */
  History *entries;
  locale_t locale;  /* for the characters of a line; the script's own locale stays as it is */
  sigset_t waiting; /* the signals blocked while waiting for a key */
  const char *pending;
  char prompt[256];
#endif
};

static void on_signal(int number) {
  if (number == SIGINT) interrupt_raise();
}

/* The handling of signals before the editor began to read, to be restored afterwards. */
typedef struct Signals {
  struct sigaction interrupt, resize, resume;
  sigset_t mask;
} Signals;

static void signals_enter(Signals *before, bool block) {
  struct sigaction ours = {.sa_handler = on_signal}; /* no SA_RESTART: a waiting read ends */
  sigset_t blocked;
  sigemptyset(&ours.sa_mask);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGWINCH);
  sigaddset(&blocked, SIGCONT);
  interrupt_reset();
  pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &blocked, &before->mask);
  sigaction(SIGINT, &ours, &before->interrupt);
  if (!block) ours.sa_handler = SIG_DFL;
  sigaction(SIGWINCH, &ours, &before->resize);
  sigaction(SIGCONT, &ours, &before->resume);
}

/* Whether Ctrl-C came. */
static bool signals_leave(const Signals *before) {
  /* pending signals are still delivered to our handlers */
  pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
  bool interrupted = interrupt_take() != INTERRUPT_NONE;
  sigaction(SIGINT, &before->interrupt, NULL);
  sigaction(SIGWINCH, &before->resize, NULL);
  sigaction(SIGCONT, &before->resume, NULL);
  return interrupted;
}

bool terminal_has_colours(int descriptor) {
  const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
  return !(no && *no) && terminal && strcmp(terminal, "dumb") && isatty(descriptor);
}

int terminal_columns(int descriptor) {
  struct winsize size = {0};
  return !ioctl(descriptor, TIOCGWINSZ, &size) && size.ws_col > 10 ? size.ws_col : 80;
}

static Reading read_plain(Editor *e, const char *prompt) {
  Signals before;
  fputs(prompt, stdout);
  fflush(stdout);
  signals_enter(&before, false);
  ssize_t n = getline(&e->line, &e->capacity, stdin);
  bool interrupted = signals_leave(&before);
  if (n < 0) {
    clearerr(stdin);
    return interrupted ? READ_INTERRUPTED : READ_END;
  }
  if (n > 0 && e->line[n - 1] == '\n') n--;
  lua_pushlstring(e->L, e->line, (size_t)n);
  return READ_LINE;
}

#ifdef HAVE_LIBEDIT

enum { LISTED = 200, PROMPT_MARK = 1 };

static Editor *editor_of(EditLine *el) {
  void *e = NULL;
  libedit.el_get(el, EL_CLIENTDATA, &e);
  return e;
}

static char *prompt_of(EditLine *el) { return editor_of(el)->prompt; }

static void let_signals_in(const Editor *e) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, &e->waiting, &blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

/* One character of the terminal. The signals of signals_enter arrive here and nowhere else. Ctrl-C
 * ends the line (-1). After the others the line is drawn anew, at the window's present size. */
static int read_character(EditLine *el, wchar_t *character) {
  Editor *e = editor_of(el);
  mbstate_t state = {0};
  for (;;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = ppoll(&input, 1, NULL, &e->waiting), reason = errno;
    if (ready > 0) let_signals_in(e); /* a key typed after Ctrl-C can be there before it */
    if (interrupt_pending() != INTERRUPT_NONE) return -1;
    if (ready < 0) {
      if (reason != EINTR) return -1;
      libedit.el_set(el, EL_PREP_TERM, 0);
      libedit.el_set(el, EL_PREP_TERM, 1);
      libedit.el_resize(el);
      libedit.el_set(el, EL_REFRESH);
      continue;
    }
    char byte;
    ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return (int)n;
    bool begun = !mbsinit(&state);
    size_t used = mbrtowc(character, &byte, 1, &state);
    /* the bytes before are no character: they are dropped, and this one may begin one */
    if (used == (size_t)-1 && begun) {
      state = (mbstate_t){0};
      used = mbrtowc(character, &byte, 1, &state);
    }
    if (used == (size_t)-1) state = (mbstate_t){0}; /* not a character in this locale: drop it */
    else if (used != (size_t)-2) return 1;
  }
}

static int list_protected(lua_State *L) {
  size_t *stem = lua_touserdata(L, 2), length;
  const char *text = lua_tolstring(L, 1, &length);
  complete_push(L, text, length, stem);
  return 1;
}

static int text_protected(lua_State *L) {
  const char **parts = lua_touserdata(L, 1);
  lua_pushstring(L, parts[0]);
  lua_pushlstring(L, parts[1], (size_t)(parts[2] - parts[1]));
  lua_concat(L, 2);
  return 1;
}

/* Pushes the list of candidates for the text before the cursor; nothing on failure. The collector
 * is stopped meanwhile: a finalizer might end the program while the terminal is in this mode. */
static bool find_candidates(Editor *e, const LineInfo *line, size_t *stem) {
  lua_State *L = e->L;
  const char *parts[] = {e->pending, line->buffer, line->cursor};
  bool collecting = lua_gc(L, LUA_GCISRUNNING);
  lua_gc(L, LUA_GCSTOP);
  lua_pushcfunction(L, text_protected);
  lua_pushlightuserdata(L, parts);
  int status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK) {
    lua_pushcfunction(L, list_protected);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, stem);
    status = lua_pcall(L, 2, 1, 0);
  }
  if (collecting) lua_gc(L, LUA_GCRESTART);
  if (status != LUA_OK) lua_pop(L, 1);
  return status == LUA_OK;
}

/* Candidate i (from 1) of the list on top; it lives as long as the list. */
static const char *candidate(lua_State *L, int i) {
  lua_rawgeti(L, -1, i);
  const char *text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text ? text : "";
}

static size_t common_length(lua_State *L, int count) {
  const char *first = candidate(L, 1);
  size_t length = strlen(first);
  for (int i = 2; i <= count; i++) {
    const char *other = candidate(L, i);
    size_t n = 0;
    while (n < length && first[n] == other[n]) n++;
    length = n;
  }
  /* whole characters only */
  while (length > 0 && ((unsigned char)first[length] & 0xC0) == 0x80) length--;
  return length;
}

static void list_candidates(lua_State *L, int count) {
  int shown = int_min(count, LISTED);
  int width = 0;
  for (int i = 1; i <= shown; i++) {
    int n = (int)strlen(candidate(L, i)) + 2;
    if (n > width) width = n;
  }
  int screen = terminal_columns(STDOUT_FILENO), columns = width < screen ? screen / width : 1;
  int rows = (shown + columns - 1) / columns;
  putchar('\n');
  for (int r = 0; r < rows; r++) {
    for (int i = r + 1; i <= shown; i += rows)
      printf("%-*s", i + rows <= shown ? width : 0, candidate(L, i));
    putchar('\n');
  }
  if (shown < count) printf("... %d more\n", count - shown);
  fflush(stdout);
}

static bool only_blanks(const LineInfo *line) {
  for (const char *p = line->buffer; p < line->cursor; p++)
    if (*p != ' ' && *p != '\t') return false;
  return true;
}

static unsigned char complete_word(EditLine *el, int key) {
  (void)key;
  Editor *e = editor_of(el);
  const LineInfo *line = libedit.el_line(el);
  if (only_blanks(line)) return libedit.el_insertstr(el, "  ") ? CC_ERROR : CC_REFRESH;
  size_t stem = 0;
  if (!find_candidates(e, line, &stem)) return CC_ERROR;
  int count = (int)lua_rawlen(e->L, -1);
  unsigned char result = CC_ERROR;
  size_t common = count ? common_length(e->L, count) : 0;
  if (common > stem) {
    lua_pushlstring(e->L, candidate(e->L, 1) + stem, common - stem);
    result = libedit.el_insertstr(el, lua_tostring(e->L, -1)) ? CC_ERROR : CC_REFRESH;
    lua_pop(e->L, 1);
  } else if (count > 1) {
    list_candidates(e->L, count);
    result = CC_REDISPLAY;
  }
  lua_pop(e->L, 1);
  return result;
}

/* Ctrl-Z: the terminal as it was, while we are stopped. */
static unsigned char suspend(EditLine *el, int key) {
  (void)key;
  libedit.el_set(el, EL_PREP_TERM, 0);
  putchar('\n');
  fflush(stdout);
  raise(SIGTSTP);
  libedit.el_set(el, EL_PREP_TERM, 1);
  return CC_REDISPLAY;
}

static void bind_keys(EditLine *el) {
  static const char *const bindings[][2] = {
      {"^R", "em-inc-search-prev"}, {"^Z", "ipulua-suspend"},     {"\\e[3~", "ed-delete-next-char"},
      {"\\e[H", "ed-move-to-beg"},  {"\\e[1~", "ed-move-to-beg"}, {"\\eOH", "ed-move-to-beg"},
      {"\\e[F", "ed-move-to-end"},  {"\\e[4~", "ed-move-to-end"}, {"\\eOF", "ed-move-to-end"},
      {"\\e[1;5D", "ed-prev-word"}, {"\\e[1;5C", "em-next-word"},
  };
  libedit.el_set(el, EL_EDITOR, "emacs");
  for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++)
    libedit.el_set(el, EL_BIND, bindings[i][0], bindings[i][1], NULL);
  /* libedit's own commands, which a quote without its end crashes */
  libedit.el_set(el, EL_BIND, "\\ex", "ed-unassigned", NULL);
  libedit.el_set(el, EL_BIND, "\\eX", "ed-unassigned", NULL);
  libedit.el_source(el, NULL); /* the user's ~/.editrc */
  libedit.el_set(el, EL_BIND, "^I", "ipulua-complete", NULL);
}

static void enter_history(void *context, const char *entry) {
  HistEvent event;
  libedit.history(context, &event, H_ENTER, entry);
}

/* The characters of this terminal: the user's locale, or UTF-8 where none is set. */
static locale_t terminal_locale(void) {
  locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
  if (locale && strcmp(nl_langinfo_l(CODESET, locale), "ANSI_X3.4-1968")) return locale;
  locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  if (!utf8) return locale;
  if (locale) freelocale(locale);
  return utf8;
}

static void open_libedit(Editor *e) {
  const char *terminal = getenv("TERM");
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !terminal || !strcmp(terminal, "dumb"))
    return;
  Error error = {.status = OK};
  if (library_open(&error, &library, "line editing and completion") != OK) {
    fprintf(stderr, "%s\n", error.message);
    return;
  }
  e->locale = terminal_locale();
  locale_t before = e->locale ? uselocale(e->locale) : (locale_t)0;
  HistEvent event;
  e->entries = libedit.history_init();
  e->el = e->entries ? libedit.el_init("ipulua", stdin, stdout, stderr) : NULL;
  if (e->el) {
    libedit.el_set(e->el, EL_CLIENTDATA, e);
    libedit.el_set(e->el, EL_PROMPT_ESC, prompt_of, PROMPT_MARK);
    libedit.el_set(e->el, EL_GETCFN, read_character);
    /* The wide form, because the other copies the names and never frees them. */
    libedit.el_wset(e->el, EL_ADDFN, L"ipulua-complete", L"complete what stands before the cursor",
                    complete_word);
    libedit.el_wset(e->el, EL_ADDFN, L"ipulua-suspend", L"stop until continued", suspend);
    libedit.history(e->entries, &event, H_SETSIZE, HISTORY_LIMIT);
    libedit.history(e->entries, &event, H_SETUNIQUE, 1);
    libedit.el_set(e->el, EL_HIST, libedit.history, e->entries);
    bind_keys(e->el);
    if (e->history[0]) history_load(e->history, enter_history, e->entries);
  }
  if (e->locale) uselocale(before);
}

static void close_libedit(Editor *e) {
  if (e->el) libedit.el_end(e->el);
  if (e->entries) libedit.history_end(e->entries);
  if (e->locale) freelocale(e->locale);
}

/* Copies as many whole characters as fit. A byte that is no character in this locale becomes "?".
 * So does the mark around escape sequences in prompts, since libedit takes nothing else. */
static size_t copy_characters(char *to, size_t size, const char *from) {
  mbstate_t state = {0};
  size_t n = 0;
  for (size_t used; *from; from += used) {
    used = mbrlen(from, MB_LEN_MAX, &state);
    bool valid = used > 0 && used <= MB_LEN_MAX && *from != PROMPT_MARK;
    if (!valid) used = 1, state = (mbstate_t){0};
    if (n + used >= size) break;
    if (valid) memcpy(to + n, from, used);
    else to[n] = '?';
    n += used;
  }
  to[n] = '\0';
  return n;
}

/* The prompt in colour, but for its last character: libedit loses an escape sequence at the very
 * end. */
static void set_prompt(Editor *e, const char *prompt) {
  char text[sizeof e->prompt];
  size_t n = copy_characters(text, sizeof text, prompt);
  if (e->colours && n > 1 && n < sizeof e->prompt / 2 && text[n - 1] == ' ')
    snprintf(e->prompt, sizeof e->prompt, "\1\033[1;32m\1%.*s\1\033[0m\1 ", (int)n - 1, text);
  else memcpy(e->prompt, text, n + 1);
}

static Reading read_edited(Editor *e, const char *prompt, const char *pending) {
  int n = 0;
  Signals before;
  e->pending = pending;
  fflush(stdout);
  signals_enter(&before, true);
  e->waiting = before.mask;
  locale_t locale = e->locale ? uselocale(e->locale) : (locale_t)0;
  set_prompt(e, prompt);
  /* before the prompt shows, so that keys typed after it are echoed once */
  libedit.el_set(e->el, EL_PREP_TERM, 1);
  const char *line = libedit.el_gets(e->el, &n);
  if (e->locale) uselocale(locale);
  bool interrupted = signals_leave(&before);
  if (!line || n <= 0) {
    puts(interrupted ? "^C" : "");
    return interrupted ? READ_INTERRUPTED : READ_END;
  }
  if (line[n - 1] == '\n') n--;
  lua_pushlstring(e->L, line, (size_t)n);
  return READ_LINE;
}

const char *editor_library(void) {
  return library_open(NULL, &library, "") == OK ? "libedit" : "none; " LIBEDIT_PACKAGE " brings it";
}

#else

const char *editor_library(void) { return "none"; }

#endif

static int editor_close(lua_State *L) {
  Editor *e = lua_touserdata(L, 1);
#ifdef HAVE_LIBEDIT
  close_libedit(e);
  e->el = NULL;
  e->entries = NULL;
  e->locale = (locale_t)0;
#endif
  free(e->line);
  free(e->newest);
  e->line = e->newest = NULL;
  return 0;
}

Editor *editor_push(lua_State *L) {
  Editor *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = (Editor){.L = L, .colours = terminal_has_colours(STDOUT_FILENO)};
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, editor_close);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  if (!isatty(STDIN_FILENO) || !history_path(e->history, sizeof e->history)) e->history[0] = '\0';
#ifdef HAVE_LIBEDIT
  open_libedit(e);
#endif
  return e;
}

Reading editor_read(Editor *e, const char *prompt, const char *pending) {
#ifdef HAVE_LIBEDIT
  if (e->el) return read_edited(e, prompt, pending);
#endif
  (void)pending;
  return read_plain(e, prompt);
}

void editor_remember(Editor *e, const char *chunk) {
  if (e->newest && !strcmp(e->newest, chunk)) return;
  free(e->newest);
  e->newest = strdup(chunk);
#ifdef HAVE_LIBEDIT
  if (e->entries) enter_history(e->entries, chunk);
#endif
  if (e->history[0]) history_append(e->history, chunk);
}
