-- The sections of layers in docs/reference/keras.md, in their order, and their first words. The
-- sentences about each layer stand beside its class, in lua/ipulua/keras/layers.
return {
  {"Core"},
  {"Dropout and noise"},
  {"Activations as layers"},
  {"Convolutions", words = "An extent n becomes, of a kernel k = (kernel_size − 1) · dilation_rate "
    .. "+ 1: ⌈(n − k + 1) / strides⌉ for \"valid\", ⌈n / strides⌉ for \"same\" and \"causal\"; of "
    .. "a transposed one n · strides + max(k − strides, 0) for \"valid\", n · strides for "
    .. "\"same\"; ZeroPadding adds, Cropping takes off what it says on both sides. Channels come "
    .. "last unless data_format is \"channels_first\": then they come after the batch."},
  {"Pooling", words = "An extent n becomes ⌈(n − pool_size + 1) / strides⌉ for \"valid\", ⌈n / "
    .. "strides⌉ for \"same\"; strides are pool_size unless they are given."},
  {"Normalisation"},
  {"Recurrent"},
  {"Attention"},
  {"Merging"},
  {"Pictures"},
  {"Sequences of labels, captured gradients"},
}
