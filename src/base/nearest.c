#include "base/nearest.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

int nearest_distance(const char *a, const char *b) {
  enum { MAX = 40 };
  int row[MAX + 1];
  size_t n = strlen(a), m = strlen(b);
  if (n > MAX || m > MAX) return INT_MAX;
  for (size_t j = 0; j <= m; j++) row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int corner = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = corner + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      corner = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

int nearest_limit(const char *given) { return (int)strlen(given) / 2 + 1; }

/* std, of stddev: a name that is a beginning of another is no further from it than a slip. */
static bool begins(const char *given, const char *name) {
  return strlen(given) >= 3 && !strncmp(given, name, strlen(given));
}

const char *nearest_name(const char *given, const char *const *names) {
  const char *best = NULL;
  int min = nearest_limit(given);
  for (int i = 0; names[i]; i++) {
    int d = begins(given, names[i]) ? 1 : nearest_distance(given, names[i]);
    if (d < min) min = d, best = names[i];
  }
  return best;
}
