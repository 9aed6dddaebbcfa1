#include "base/text.h"

#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for count more bytes and the final zero. */
static bool reserve(Text *t, size_t count) {
  if (t->failed) return false;
  if (count < t->capacity - t->used) return true;
  size_t capacity = t->capacity ? t->capacity : 64;
  while (capacity - t->used <= count && capacity < SIZE_MAX / 4) capacity *= 2;
  char *data = capacity - t->used > count ? realloc(t->data, capacity) : NULL;
  if (!data) return t->failed = true, false;
  t->data = data;
  t->capacity = capacity;
  return true;
}

void text_add_bytes(Text *t, const char *bytes, size_t count) {
  if (!reserve(t, count)) return;
  memcpy(t->data + t->used, bytes, count);
  t->used += count;
  t->data[t->used] = 0;
}

void text_add(Text *t, const char *s) { text_add_bytes(t, s, strlen(s)); }

void text_fill(Text *t, char c, size_t count) {
  if (!reserve(t, count)) return;
  memset(t->data + t->used, c, count);
  t->used += count;
  t->data[t->used] = 0;
}

void text_print(Text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  if (n < 0) t->failed = true;
  else if (reserve(t, (size_t)n)) {
    vsnprintf(t->data + t->used, (size_t)n + 1, format, again);
    t->used += (size_t)n;
  }
  va_end(again);
  va_end(args);
}

static const char *json_escape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
  }
  return NULL;
}

int text_utf8_length(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  int n = *s < 0x80                 ? 1
          : *s >= 0xc2 && *s < 0xe0 ? 2
          : *s >= 0xe0 && *s < 0xf0 ? 3
          : *s >= 0xf0 && *s < 0xf5 ? 4
                                    : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f)) return 0;
  if ((*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f)) return 0;
  return n;
}

void text_add_json(Text *t, const char *s) {
  text_add(t, "\"");
  while (*s) {
    const char *escape = json_escape(*s);
    int length = text_utf8_length(s);
    if (escape) text_add(t, escape);
    else if (!length) text_add(t, "\\ufffd");
    else if ((unsigned char)*s < 0x20 || *s == 0x7f) text_print(t, "\\u%04x", (unsigned)*s);
    else text_add_bytes(t, s, (size_t)length);
    s += length ? length : 1;
  }
  text_add(t, "\"");
}

void text_trim_end(Text *t, size_t from) {
  while (t->used > from && t->data[t->used - 1] == ' ') t->data[--t->used] = 0;
}

char *text_take(Text *t) {
  if (!t->data && !t->failed) text_add(t, "");
  char *data = t->data;
  if (t->failed) free(data), data = NULL;
  *t = (Text){.data = NULL};
  return data;
}

void text_free(Text *t) {
  free(t->data);
  *t = (Text){.data = NULL};
}

/* ---- numbers ---- */

static locale_t plain_locale;
static void make_plain_locale(void) { plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double text_number(const char *s, char **end) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_plain_locale);
  return plain_locale ? strtod_l(s, end, plain_locale) : strtod(s, end);
}

void text_use_point(char *number) {
  const char *sign = nl_langinfo(RADIXCHAR);
  char *at = *sign ? strstr(number, sign) : NULL;
  if (!at) return;
  *at = '.';
  memmove(at + 1, at + strlen(sign), strlen(at + strlen(sign)) + 1);
}

int text_order(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}
