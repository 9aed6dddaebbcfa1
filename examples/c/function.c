/* A function built, differentiated and compiled in C: it fits a line to points by gradient descent.
 * No Lua is loaded.
 *
 *   cc function.c $(pkg-config --cflags --libs ipulua) -o function && ./function */
#include <ipulua.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, STEPS = 400 };

static ipu_context *context;

static void check(int status) {
  if (status == IPU_OK) return;
  fprintf(stderr, "%s: %s\n", ipu_status_name(status), ipu_last_error(context));
  exit(EXIT_FAILURE);
}

static ipu_value *apply(ipu_builder *b, const char *op, ipu_value *x, ipu_value *y) {
  ipu_value *in[] = {x, y}, *out;
  check(ipu_builder_apply(b, op, in, y ? 2 : 1, NULL, &out, 1, NULL));
  return out;
}

/* variable <- variable - rate * gradient */
static void descend(ipu_builder *b, ipu_variable *v, ipu_value *value, ipu_value *gradient,
                    ipu_value *rate) {
  check(ipu_builder_assign(b, v, apply(b, "sub", value, apply(b, "mul", gradient, rate))));
}

/* (x, y) -> the loss before the step that it makes */
static ipu_function *training_step(ipu_variable *slope, ipu_variable *offset) {
  const int64_t shape[] = {POINTS};
  const float rate = 0.1f;
  ipu_builder *b;
  ipu_value *x, *y, *w, *c, *step, *loss, *gradients[2];
  ipu_tensor *t;
  ipu_function *f;

  check(ipu_builder_new(context, &b));
  check(ipu_builder_argument(b, "float32", 1, shape, &x));
  check(ipu_builder_argument(b, "float32", 1, shape, &y));
  check(ipu_builder_read(b, slope, &w));
  check(ipu_builder_read(b, offset, &c));
  check(ipu_tensor_new(context, "float32", 0, NULL, &rate, &t));
  check(ipu_builder_constant(b, t, &step));

  loss = apply(b, "reduce_mean",
               apply(b, "squared_difference", apply(b, "add", apply(b, "mul", x, w), c), y), NULL);
  ipu_value *trained[] = {w, c};
  check(ipu_builder_gradients(b, loss, trained, 2, gradients));
  descend(b, slope, w, gradients[0], step);
  descend(b, offset, c, gradients[1], step);
  check(ipu_builder_finish(b, &loss, 1, &f));
  ipu_tensor_free(t);
  ipu_builder_free(b);
  return f;
}

static float value_of(ipu_variable *v) {
  ipu_tensor *t;
  check(ipu_variable_read(context, v, &t));
  float value = *(const float *)ipu_tensor_data(t);
  ipu_tensor_free(t);
  return value;
}

int main(void) {
  float x[POINTS], y[POINTS], zero = 0;
  const int64_t shape[] = {POINTS};
  ipu_tensor *data[2], *start, *loss = NULL;
  ipu_variable *slope, *offset;

  for (int i = 0; i < POINTS; i++) {
    x[i] = (float)i / POINTS - 0.5f;
    y[i] = 3 * x[i] + 0.25f;
  }
  check(ipu_context_new(&context));
  check(ipu_tensor_new(context, "float32", 1, shape, x, &data[0]));
  check(ipu_tensor_new(context, "float32", 1, shape, y, &data[1]));
  check(ipu_tensor_new(context, "float32", 0, NULL, &zero, &start));
  check(ipu_variable_new(context, "slope", start, &slope));
  check(ipu_variable_new(context, "offset", start, &offset));

  ipu_function *step = training_step(slope, offset);
  for (int i = 0; i < STEPS; i++) {
    ipu_tensor_free(loss);
    check(ipu_function_call(step, data, 2, &loss, 1, NULL));
  }
  printf("slope %.3f offset %.3f loss %.6f\n", value_of(slope), value_of(offset),
         *(const float *)ipu_tensor_data(loss));

  ipu_function_free(step);
  ipu_variable_free(slope);
  ipu_variable_free(offset);
  ipu_tensor_free(start);
  ipu_tensor_free(loss);
  ipu_tensor_free(data[0]);
  ipu_tensor_free(data[1]);
  ipu_context_free(context);
  return EXIT_SUCCESS;
}
