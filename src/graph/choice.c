#include "graph/choice.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"

enum { MAX = 24, WORDS = 512 }; /* choices of an attribute, and the bytes of their list */

/* The name without COLLECTIVE_OP_. Graphcore's TensorFlow 2.6 writes operators of collectives with
 * this prefix. */
static const char *without_prefix(const char *given) {
  static const char prefix[] = "COLLECTIVE_OP_";
  size_t n = sizeof prefix - 1;
  return strncasecmp(given, prefix, n) ? given : given + n;
}

const char *choice_find(const AttrDef *def, const char *given, size_t *length) {
  given = without_prefix(given);
  for (const char *c = def->choices; *c;) {
    size_t n = strcspn(c, " ");
    *length = n;
    if (strlen(given) == n && !strncasecmp(given, c, n)) return c;
    c += n + (c[n] == ' ');
  }
  return NULL;
}

/* The words one by one, in text, NULL after the last. */
static void cut(const char *choices, char text[WORDS], const char *words[MAX + 1]) {
  int count = 0;
  snprintf(text, WORDS, "%s", choices);
  for (char *rest = text, *word; count < MAX && (word = strtok_r(rest, " ", &rest));)
    words[count++] = word;
  words[count] = NULL;
}

/* The choice that others call given: MPI, NumPy. */
static const char *known_elsewhere(const char *given, const char *const words[]) {
  static const char *const other[][2] = {
      {"SUM", "ADD"},      {"PROD", "MUL"},        {"PRODUCT", "MUL"},   {"AVG", "MEAN"},
      {"AVERAGE", "MEAN"}, {"AND", "LOGICAL_AND"}, {"OR", "LOGICAL_OR"}, {"SUMSQ", "SQUARE_ADD"}};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    for (int k = 0; !strcasecmp(given, other[i][0]) && words[k]; k++)
      if (!strcmp(words[k], other[i][1])) return words[k];
  return NULL;
}

/* The nearest in any letter case: words are written in one. */
static const char *nearest(const char *given, const char *const words[]) {
  char same[48];
  bool upper = isupper((unsigned char)words[0][0]);
  snprintf(same, sizeof same, "%s", given);
  for (char *p = same; *p; p++)
    *p = (char)(upper ? toupper((unsigned char)*p) : tolower((unsigned char)*p));
  return nearest_name(same, words);
}

Status choice_refuse(Error *e, const OpDef *op, const AttrDef *def, const char *given) {
  char text[WORDS], list[WORDS] = "";
  const char *words[MAX + 1];
  cut(def->choices, text, words);
  for (int i = 0, at = 0; words[i] && at < WORDS; i++)
    at += snprintf(list + at, (size_t)(WORDS - at), "%s%s", i ? ", " : "", words[i]);
  const char *hint = known_elsewhere(given, words);
  if (!hint) hint = nearest(without_prefix(given), words);
  return fail(e, ERR_VALUE, "%s: '%s' must be one of %s, got '%.40s'%s%s%s", op->name, def->name,
              list, given, hint ? "; did you mean '" : "", hint ? hint : "", hint ? "'?" : "");
}
