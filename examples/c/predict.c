/* A trained model in a C program: reads a file of model:save, predicts, and prints the result. A Lua
 * script makes such a file by
 *
 *   model:compile{…}  model:fit{…}  model:save("model.safetensors")
 *
 *   cc predict.c $(pkg-config --cflags --libs ipulua) -o predict
 *   ./predict model.safetensors 0.5 1.5 -1       (the numbers of one sample) */
#include <ipulua.h>
#include <stdio.h>
#include <stdlib.h>

static ipu_context *context;

static void check(int status) {
  if (status == IPU_OK) return;
  fprintf(stderr, "predict: %s\n", ipu_last_error(context));
  exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
  int features = argc - 2, outputs = 0;
  const int64_t shape[] = {1, features};
  float *sample;
  ipu_model *model;
  ipu_tensor *input, *output = NULL;

  if (argc < 3) {
    fprintf(stderr, "usage: predict model.safetensors number …\n");
    return 2;
  }
  if (ipu_abi_version() != IPU_ABI_VERSION) return EXIT_FAILURE;
  sample = malloc((size_t)features * sizeof *sample);
  if (!sample) return EXIT_FAILURE;
  for (int i = 0; i < features; i++) sample[i] = strtof(argv[i + 2], NULL);

  check(ipu_context_new(&context));
  check(ipu_model_load(context, argv[1], &model));
  check(ipu_tensor_new(context, "float32", 2, shape, sample, &input));
  check(ipu_model_predict(model, &input, 1, "{\"verbose\": 0}", &output, 1, &outputs));

  /* the numbers of the first output, row by row */
  const float *value = ipu_tensor_data(output);
  for (int64_t i = 0; i < ipu_tensor_count(output); i++) printf("%g\n", (double)value[i]);

  ipu_tensor_free(output);
  ipu_tensor_free(input);
  ipu_model_free(model);
  ipu_context_free(context);
  free(sample);
  return EXIT_SUCCESS;
}
