-- Facts of ONNX's pages about the operators that keras.onnx.import knows. The keys are the opsets
-- since which they hold. spec/support/onnx_schemas.py writes this file, and explains its lines.
-- attributes.lua reads it.

return {
  Abs = {
    [1] = "1-1 1-1",
  },
  Acos = {
    [7] = "1-1 1-1",
  },
  Acosh = {
    [9] = "1-1 1-1",
  },
  Add = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  And = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  ArgMax = {
    [1] = "1-1 1-1 axis:i=0 keepdims:i=1",
    [12] = "1-1 1-1 axis:i=0 keepdims:i=1 select_last_index:i=0",
  },
  ArgMin = {
    [1] = "1-1 1-1 axis:i=0 keepdims:i=1",
    [12] = "1-1 1-1 axis:i=0 keepdims:i=1 select_last_index:i=0",
  },
  Asin = {
    [7] = "1-1 1-1",
  },
  Asinh = {
    [9] = "1-1 1-1",
  },
  Atan = {
    [7] = "1-1 1-1",
  },
  Atanh = {
    [9] = "1-1 1-1",
  },
  AveragePool = {
    [1] = "1-1 1-1 auto_pad:s=NOTSET kernel_shape:I! pads:I strides:I",
    [7] = "1-1 1-1 auto_pad:s=NOTSET count_include_pad:i=0 kernel_shape:I! pads:I "
      .. "strides:I",
    [10] = "1-1 1-1 auto_pad:s=NOTSET ceil_mode:i=0 count_include_pad:i=0 "
      .. "kernel_shape:I! pads:I strides:I",
    [19] = "1-1 1-1 auto_pad:s=NOTSET ceil_mode:i=0 count_include_pad:i=0 dilations:I "
      .. "kernel_shape:I! pads:I strides:I",
  },
  BatchNormalization = {
    [1] = "5-5 1-5 epsilon:f=9.99999975e-06 is_test:i=0 momentum:f=0.899999976 "
      .. "spatial:i=1",
    [7] = "5-5 1-5 epsilon:f=9.99999975e-06 momentum:f=0.899999976 spatial:i=1",
    [9] = "5-5 1-5 epsilon:f=9.99999975e-06 momentum:f=0.899999976",
    [14] = "5-5 1-3 epsilon:f=9.99999975e-06 momentum:f=0.899999976 training_mode:i=0",
  },
  Cast = {
    [1] = "1-1 1-1 to:s!",
    [6] = "1-1 1-1 to:i!",
    [19] = "1-1 1-1 saturate:i=1 to:i!",
  },
  CastLike = {
    [15] = "2-2 1-1",
    [19] = "2-2 1-1 saturate:i=1",
  },
  Ceil = {
    [1] = "1-1 1-1",
  },
  Celu = {
    [12] = "1-1 1-1 alpha:f=1",
  },
  Clip = {
    [1] = "1-1 1-1 max:f min:f",
    [6] = "1-1 1-1 max:f=3.40282347e+38 min:f=-3.40282347e+38",
    [11] = "1-3 1-1",
  },
  Concat = {
    [1] = "1-n 1-1 axis:i",
    [4] = "1-n 1-1 axis:i!",
  },
  Constant = {
    [1] = "0-0 1-1 value:t!",
    [11] = "0-0 1-1 sparse_value:p value:t",
    [12] = "0-0 1-1 sparse_value:p value:t value_float:f value_floats:F value_int:i "
      .. "value_ints:I value_string:s value_strings:S",
  },
  ConstantOfShape = {
    [9] = "1-1 1-1 value:t",
  },
  Conv = {
    [1] = "2-3 1-1 auto_pad:s=NOTSET dilations:I group:i=1 kernel_shape:I pads:I "
      .. "strides:I",
  },
  ConvTranspose = {
    [1] = "2-3 1-1 auto_pad:s=NOTSET dilations:I group:i=1 kernel_shape:I "
      .. "output_padding:I output_shape:I pads:I strides:I",
  },
  Cos = {
    [7] = "1-1 1-1",
  },
  Cosh = {
    [9] = "1-1 1-1",
  },
  CumSum = {
    [11] = "2-2 1-1 exclusive:i=0 reverse:i=0",
  },
  DepthToSpace = {
    [1] = "1-1 1-1 blocksize:i!",
    [11] = "1-1 1-1 blocksize:i! mode:s=DCR",
  },
  Div = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  Dropout = {
    [1] = "1-1 1-2 is_test:i=0 ratio:f=0.5",
    [7] = "1-1 1-2 ratio:f=0.5",
    [12] = "1-3 1-2 seed:i",
  },
  Einsum = {
    [12] = "1-n 1-1 equation:s!",
  },
  Elu = {
    [1] = "1-1 1-1 alpha:f=1",
  },
  Equal = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  Erf = {
    [9] = "1-1 1-1",
  },
  Exp = {
    [1] = "1-1 1-1",
  },
  Expand = {
    [8] = "2-2 1-1",
  },
  Flatten = {
    [1] = "1-1 1-1 axis:i=1",
  },
  Floor = {
    [1] = "1-1 1-1",
  },
  GRU = {
    [1] = "3-6 2-2 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=foward hidden_size:i output_sequence:i=0",
    [3] = "3-6 0-2 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=forward hidden_size:i linear_before_reset:i=0 "
      .. "output_sequence:i=0",
    [7] = "3-6 0-2 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=forward hidden_size:i linear_before_reset:i=0",
    [14] = "3-6 0-2 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=forward hidden_size:i layout:i=0 linear_before_reset:i=0",
  },
  Gather = {
    [1] = "2-2 1-1 axis:i=0",
  },
  GatherND = {
    [11] = "2-2 1-1",
    [12] = "2-2 1-1 batch_dims:i=0",
  },
  Gemm = {
    [1] = "3-3 1-1 alpha:f=1 beta:f=1 broadcast:i=0 transA:i=0 transB:i=0",
    [7] = "3-3 1-1 alpha:f=1 beta:f=1 transA:i=0 transB:i=0",
    [11] = "2-3 1-1 alpha:f=1 beta:f=1 transA:i=0 transB:i=0",
  },
  GlobalAveragePool = {
    [1] = "1-1 1-1",
  },
  GlobalMaxPool = {
    [1] = "1-1 1-1",
  },
  Greater = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  GreaterOrEqual = {
    [12] = "2-2 1-1",
  },
  HardSigmoid = {
    [1] = "1-1 1-1 alpha:f=0.200000003 beta:f=0.5",
  },
  HardSwish = {
    [14] = "1-1 1-1",
  },
  Identity = {
    [1] = "1-1 1-1",
  },
  InstanceNormalization = {
    [1] = "3-3 1-1 epsilon:f=9.99999975e-06",
  },
  IsInf = {
    [10] = "1-1 1-1 detect_negative:i=1 detect_positive:i=1",
  },
  IsNaN = {
    [9] = "1-1 1-1",
  },
  LSTM = {
    [1] = "3-8 0-3 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=forward hidden_size:i input_forget:i=0 output_sequence:i=0",
    [7] = "3-8 0-3 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=forward hidden_size:i input_forget:i=0",
    [14] = "3-8 0-3 activation_alpha:F activation_beta:F activations:S clip:f "
      .. "direction:s=forward hidden_size:i input_forget:i=0 layout:i=0",
  },
  LayerNormalization = {
    [17] = "2-3 1-3 axis:i=-1 epsilon:f=9.99999975e-06 stash_type:i=1",
  },
  LeakyRelu = {
    [1] = "1-1 1-1 alpha:f=0.00999999978",
  },
  Less = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  LessOrEqual = {
    [12] = "2-2 1-1",
  },
  Log = {
    [1] = "1-1 1-1",
  },
  LogSoftmax = {
    [1] = "1-1 1-1 axis:i=1",
    [13] = "1-1 1-1 axis:i=-1",
  },
  MatMul = {
    [1] = "2-2 1-1",
  },
  Max = {
    [1] = "1-n 1-1",
  },
  MaxPool = {
    [1] = "1-1 1-1 auto_pad:s=NOTSET kernel_shape:I! pads:I strides:I",
    [8] = "1-1 1-2 auto_pad:s=NOTSET kernel_shape:I! pads:I storage_order:i=0 strides:I",
    [10] = "1-1 1-2 auto_pad:s=NOTSET ceil_mode:i=0 dilations:I kernel_shape:I! pads:I "
      .. "storage_order:i=0 strides:I",
  },
  Mean = {
    [1] = "1-n 1-1",
  },
  Min = {
    [1] = "1-n 1-1",
  },
  Mod = {
    [10] = "2-2 1-1 fmod:i=0",
  },
  Mul = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  Neg = {
    [1] = "1-1 1-1",
  },
  Not = {
    [1] = "1-1 1-1",
  },
  OneHot = {
    [9] = "3-3 1-1 axis:i=-1",
  },
  Or = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  PRelu = {
    [1] = "2-2 1-1",
  },
  Pad = {
    [1] = "1-1 1-1 mode:s=constant paddings:I! value:f=0",
    [2] = "1-1 1-1 mode:s=constant pads:I! value:f=0",
    [11] = "2-3 1-1 mode:s=constant",
    [18] = "2-4 1-1 mode:s=constant",
  },
  Pow = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  RNN = {
    [1] = "3-6 0-2 activation_alpha:F activation_beta:F activations:S=Tanh,Tanh clip:f "
      .. "direction:s=forward hidden_size:i output_sequence:i=0",
    [7] = "3-6 0-2 activation_alpha:F activation_beta:F activations:S=Tanh,Tanh clip:f "
      .. "direction:s=forward hidden_size:i",
    [14] = "3-6 0-2 activation_alpha:F activation_beta:F activations:S=Tanh,Tanh clip:f "
      .. "direction:s=forward hidden_size:i layout:i=0",
  },
  Range = {
    [11] = "3-3 1-1",
  },
  Reciprocal = {
    [1] = "1-1 1-1",
  },
  ReduceL1 = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceL2 = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceLogSum = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceLogSumExp = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceMax = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceMean = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceMin = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceProd = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceSum = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [13] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  ReduceSumSquare = {
    [1] = "1-1 1-1 axes:I keepdims:i=1",
    [18] = "1-2 1-1 keepdims:i=1 noop_with_empty_axes:i=0",
  },
  Relu = {
    [1] = "1-1 1-1",
  },
  Reshape = {
    [1] = "1-1 1-1 shape:I",
    [5] = "2-2 1-1",
    [14] = "2-2 1-1 allowzero:i=0",
  },
  Round = {
    [11] = "1-1 1-1",
  },
  Selu = {
    [1] = "1-1 1-1 alpha:f=1.67320001 gamma:f=1.05069995",
    [6] = "1-1 1-1 alpha:f=1.67326319 gamma:f=1.05070102",
  },
  Shape = {
    [1] = "1-1 1-1",
    [15] = "1-1 1-1 end:i start:i=0",
  },
  Shrink = {
    [9] = "1-1 1-1 bias:f=0 lambd:f=0.5",
  },
  Sigmoid = {
    [1] = "1-1 1-1",
  },
  Sign = {
    [9] = "1-1 1-1",
  },
  Sin = {
    [7] = "1-1 1-1",
  },
  Sinh = {
    [9] = "1-1 1-1",
  },
  Size = {
    [1] = "1-1 1-1",
  },
  Slice = {
    [1] = "1-1 1-1 axes:I ends:I! starts:I!",
    [10] = "3-5 1-1",
  },
  Softmax = {
    [1] = "1-1 1-1 axis:i=1",
    [13] = "1-1 1-1 axis:i=-1",
  },
  Softplus = {
    [1] = "1-1 1-1",
  },
  Softsign = {
    [1] = "1-1 1-1",
  },
  SpaceToDepth = {
    [1] = "1-1 1-1 blocksize:i!",
  },
  Split = {
    [1] = "1-2 1-n axis:i split:I",
    [2] = "1-1 1-n axis:i=0 split:I",
    [13] = "1-2 1-n axis:i=0",
    [18] = "1-2 1-n axis:i=0 num_outputs:i",
  },
  Sqrt = {
    [1] = "1-1 1-1",
  },
  Squeeze = {
    [1] = "1-1 1-1 axes:I",
    [13] = "1-2 1-1",
  },
  Sub = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
  Sum = {
    [1] = "1-n 1-1",
  },
  Tan = {
    [7] = "1-1 1-1",
  },
  Tanh = {
    [1] = "1-1 1-1",
  },
  ThresholdedRelu = {
    [10] = "1-1 1-1 alpha:f=1",
  },
  Tile = {
    [1] = "3-3 1-1",
    [6] = "2-2 1-1",
  },
  TopK = {
    [1] = "1-1 2-2 axis:i=-1 k:i!",
    [10] = "2-2 2-2 axis:i=-1",
    [11] = "2-2 2-2 axis:i=-1 largest:i=1 sorted:i=1",
  },
  Transpose = {
    [1] = "1-1 1-1 perm:I",
  },
  Unsqueeze = {
    [1] = "1-1 1-1 axes:I!",
    [13] = "2-2 1-1",
  },
  Where = {
    [9] = "3-3 1-1",
  },
  Xor = {
    [1] = "2-2 1-1 axis:i broadcast:i=0",
    [7] = "2-2 1-1",
  },
}
