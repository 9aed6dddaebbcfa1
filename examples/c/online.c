/* A program that learns while it runs: a model predicts the next reading of a drifting sensor, then
 * trains on the reading itself. Halfway the signal changes its shape, and the model learns the new
 * one. Only the newest readings are stored.
 *
 *   cc online.c $(pkg-config --cflags --libs ipulua) -lm -o online
 *   ./online                          or, to keep the weights: ./online weights.safetensors */
#include <ipulua.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW = 8, BATCH = 16, STEPS = 1200, REPORT = 200 };

static const char architecture[] =
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"online\", \"layers\": ["
    "{\"class_name\": \"Dense\", \"config\": {\"units\": 16, \"activation\": \"tanh\"}},"
    "{\"class_name\": \"Dense\", \"config\": {\"units\": 1}}]}}";
static const char training[] =
    "{\"optimizer\": {\"class_name\": \"Adam\", \"config\": {\"learning_rate\": 0.01}}, \"loss\": \"mse\"}";

static ipu_context *context;

static void check(int status) {
  if (status == IPU_OK) return;
  fprintf(stderr, "%s: %s\n", ipu_status_name(status), ipu_last_error(context));
  exit(EXIT_FAILURE);
}

/* The sensor at time t: an oscillation whose shape changes in the middle of the run. */
static float reading(int t) {
  double x = 0.2 * t;
  return (float)(t < STEPS * BATCH / 2 ? sin(x) : 0.6 * sin(1.7 * x) + 0.3 * cos(3 * x));
}

int main(int argc, char **argv) {
  static float x[BATCH][WINDOW], y[BATCH];
  const int64_t x_shape[] = {BATCH, WINDOW}, y_shape[] = {BATCH, 1};
  ipu_tensor *inputs, *targets;
  ipu_model *model;
  double sum = 0;

  if (ipu_abi_version() != IPU_ABI_VERSION) return EXIT_FAILURE;
  check(ipu_context_new(&context));
  check(ipu_set_seed(context, 1));
  check(ipu_tensor_new(context, "float32", 2, x_shape, NULL, &inputs));
  check(ipu_tensor_new(context, "float32", 2, y_shape, NULL, &targets));
  check(ipu_model_from_json(context, architecture, &model));
  check(ipu_model_build(model, 2, x_shape));
  check(ipu_model_compile(model, training));

  for (int step = 0; step < STEPS; step++) {
    for (int row = 0; row < BATCH; row++) {
      int t = step * BATCH + row;
      for (int k = 0; k < WINDOW; k++) x[row][k] = reading(t - WINDOW + k);
      y[row] = reading(t);
    }
    check(ipu_tensor_write(context, inputs, x, sizeof x));
    check(ipu_tensor_write(context, targets, y, sizeof y));
    double loss; /* before the update: how well the model foresaw this batch */
    check(ipu_model_train_on_batch(model, &inputs, 1, &targets, 1, NULL));
    check(ipu_model_log(model, "loss", &loss));
    sum += loss;
    if ((step + 1) % REPORT == 0) {
      printf("%5d readings  error %.6f%s\n", (step + 1) * BATCH, sum / REPORT,
             step + 1 == STEPS / 2 ? "  (the sensor changes)" : "");
      sum = 0;
    }
  }

  if (argc > 1) check(ipu_model_save_weights(model, argv[1]));
  ipu_model_free(model);
  ipu_tensor_free(inputs);
  ipu_tensor_free(targets);
  ipu_context_free(context);
  return EXIT_SUCCESS;
}
