"""Keras layers by the formulas of their documentation, without convolutions and recurrence."""
import numpy as np

from . import rounded as r
from .rounded import Rounded, rounded

LAYERS = {}


def layer(*names):
    def enter(f):
        for name in names:
            LAYERS[name] = f
        return f
    return enter


ACTIVATIONS = {
    "linear": lambda x: x, "relu": lambda x: r.maximum(x, 0), "tanh": r.tanh, "sigmoid": r.sigmoid, "softplus": r.softplus,
    "softsign": lambda x: x / (r.absolute(x) + 1), "swish": lambda x: x * r.sigmoid(x),
    "elu": lambda x: r.where_positive(x, x, r.exp(r.minimum(x, 0)) - 1),
    "hard_sigmoid": lambda x: r.minimum(r.maximum(x * 0.2 + 0.5, 0), 1),
}


def activation(c, name="activation"):
    return ACTIVATIONS[c.o.get(name) or "linear"]


def channels_last(f):
    """Of a layer that takes data_format, where the channels are last."""
    def applied(c):
        first = c.o.get("data_format") == "channels_first"
        x = c.x[0].each(lambda v: np.moveaxis(v, 1, -1)) if first else c.x[0]
        y = f(c, x)
        if y is None or not first:
            return y if y is None else [y]
        return [y.each(lambda v: np.moveaxis(v, -1, 1)) if y.ndim == x.ndim else y]
    return applied


@layer("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
       "ActivityRegularization", "AssumeEqualAcrossReplicas", "RecomputationCheckpoint", "RandomBrightness", "RandomContrast", "RandomFlip", "RandomRotation",
       "RandomTranslation", "RandomZoom")
def unchanged(c):
    return [c.x[0]]


@layer("Activation")
def activate(c):
    return [activation(c)(c.x[0])]


@layer("ELU")
def elu(c):
    x = c.x[0]
    return [r.where_positive(x, x, (r.exp(r.minimum(x, 0)) - 1) * c.o["alpha"])]


@layer("LeakyReLU")
def leaky_relu(c):
    return [r.where_positive(c.x[0], c.x[0], c.x[0] * c.o["alpha"])]


@layer("PReLU")
def prelu(c):
    return [r.where_positive(c.x[0], c.x[0], c.x[0] * c.weight("alpha"))]


@layer("ReLU")
def relu(c):
    x, threshold = c.x[0], c.o.get("threshold") or 0.0
    y = r.choose(x.value >= np.float32(threshold), x, (x - threshold) * (c.o.get("negative_slope") or 0.0))
    return [y if c.o.get("max_value") is None else r.minimum(y, Rounded(c.o["max_value"], 2 * r.UNIT))]


@layer("ThresholdedReLU")
def thresholded(c):
    return [r.choose(c.x[0].value > np.float32(c.o["theta"]), c.x[0], 0.0)]


@layer("Softmax")
def softmax(c):
    axis = c.o["axis"]
    return [r.softmax(c.x[0], tuple(axis) if isinstance(axis, list) else axis)]


# ---- several inputs ----
MERGES = {"Add": lambda a, b: a + b, "Subtract": lambda a, b: a - b, "Multiply": lambda a, b: a * b, "Maximum": r.maximum,
          "Minimum": r.minimum, "Average": lambda a, b: (a + b) / 2}
for _name, _f in MERGES.items():
    layer(_name)(lambda c, f=_f: [f(*c.x)])


@layer("Concatenate")
def concatenate(c):
    return [r.concatenate(c.x, c.o["axis"])]


def unit(x, axis):
    return x / r.sqrt(r.maximum((x * x).sum(axis, True), 1e-12))


@layer("Dot")
def dot(c):
    axes = c.o["axes"]
    a, b = axes if isinstance(axes, list) else (axes, axes)
    x, y = c.x
    if c.o["normalize"]:
        x, y = unit(x, a), unit(y, b)
    x, y = x.each(lambda v: np.moveaxis(v, a, -1)), y.each(lambda v: np.moveaxis(v, b, -1))
    letters = "mno"
    left, right = "b" + letters[:x.ndim - 2], "b" + "pqs"[:y.ndim - 2]
    result = r.product(f"{left}k,{right}k->{left}{right[1:]}", x, y)
    return [result if result.ndim > 1 else result[:, None]]


# ---- products ----
@layer("Dense", "SerialDense", "CaptureUpstreamGradients", "CaptureActivationGradients", "TimeDistributed")
def dense(c):
    o = c.o["layer"]["config"] if "layer" in c.o else c.o
    x, kernel = c.x[0], c.weight("kernel")
    y = r.product("nk,km->nm", x.each(lambda v: v.reshape(-1, v.shape[-1])), kernel)
    y = y.each(lambda v: v.reshape(x.shape[:-1] + v.shape[-1:]))
    y = y + c.weight("bias") if o["use_bias"] else y
    return [ACTIVATIONS[o.get("activation") or "linear"](y)]


@layer("Embedding")
def embedding(c):
    return [c.weight("embeddings").each(lambda v: v[c.given[0]])]


# ---- shapes ----
@layer("Flatten")
def flatten(c):
    first = c.o["data_format"] == "channels_first" and c.x[0].ndim > 2
    return [c.x[0].each(lambda v: (np.moveaxis(v, 1, -1) if first else v).reshape(len(v), -1))]


@layer("Reshape")
def reshape(c):
    return [c.x[0].each(lambda v: v.reshape(c.results[0].shape))]


@layer("Permute")
def permute(c):
    return [c.x[0].each(lambda v: np.transpose(v, [0] + c.o["dims"]))]


@layer("RepeatVector")
def repeat_vector(c):
    return [c.x[0].each(lambda v: np.repeat(v[:, None], c.o["n"], 1))]


@layer("Rescaling")
def rescaling(c):
    return [c.x[0] * c.o["scale"] + c.o.get("offset", 0)]


@layer("Lambda")
def twice(c):
    return [c.x[0] * 2]


def around(name, change):
    @layer(name + "1D", name + "2D", name + "3D")
    @channels_last
    def applied(c, x):
        return change(c, x)


def cropped(c, x):
    cut = tuple(slice(a, n - b) for (a, b), n in zip(c.o["cropping"], x.shape[1:]))
    return x[(slice(None),) + cut]


around("Cropping", cropped)
around("ZeroPadding", lambda c, x: x.each(lambda v: np.pad(v, [(0, 0)] + [tuple(p) for p in c.o["padding"]] + [(0, 0)])))


def enlarged(c, x):
    if c.o.get("interpolation", "nearest") != "nearest":
        return None
    size = c.o["size"]
    for axis, n in enumerate(size if isinstance(size, list) else [size] * (x.ndim - 2)):
        x = x.each(lambda v, a=axis + 1, k=n: np.repeat(v, k, a))
    return x


around("UpSampling", enlarged)


def middle(x, height, width):
    _, rows, columns, _ = x.shape
    top, left = (rows - height) // 2, (columns - width) // 2
    return x[:, top:top + height, left:left + width]


def covering(x, height, width):
    """The middle, after resizing in proportion to the window's height or width."""
    _, rows, columns, _ = x.shape
    size = (height, int(height * columns / rows))
    if rows / columns > height / width:
        size = (int(width * rows / columns), width)
    return middle(resized(x, size), height, width)


@layer("CenterCrop")
def center_crop(c):
    height, width = c.o["height"], c.o["width"]
    _, rows, columns, _ = c.x[0].shape
    return None if height > rows or width > columns else [middle(c.x[0], height, width)]


@layer("RandomCrop")
def random_crop(c):
    """In training one window for the whole batch, which place it has is free. Draws have seeds: forms agree on it."""
    height, width, (_, rows, columns, _) = c.o["height"], c.o["width"], c.x[0].shape
    if not c.training or height > rows or width > columns:
        return [covering(c.x[0], height, width)]
    windows = [c.x[0][:, top:top + height, left:left + width]
               for top, left in np.ndindex(rows - height + 1, columns - width + 1)]
    return [next((w for w in windows if np.array_equal(w.value, c.results[0])), windows[0])]


def half_pixels(extent, wanted):
    """Places in the source, of the centres of so many pixels."""
    return (np.arange(wanted) + 0.5) * extent / wanted - 0.5


def resized(x, size):
    """Bilinear, without antialiasing."""
    for axis, wanted in enumerate(size, 1):
        extent = x.shape[axis]
        at = half_pixels(extent, wanted)
        low = np.floor(at).astype(int)
        shape = [1] * x.ndim
        shape[axis] = wanted
        share = Rounded((at - low).reshape(shape), extent * 4 * r.UNIT)
        a, b = (x.each(lambda v, k=k: np.take(v, np.clip(k, 0, extent - 1), axis)) for k in (low, low + 1))
        x = a * (1 - share) + b * share
    return x


def nearest(x, size):
    for axis, wanted in enumerate(size, 1):
        extent = x.shape[axis]
        at = half_pixels(extent, wanted) + 0.5
        if (np.abs(at - np.round(at)) < 1e-5).any() and extent % wanted and wanted % extent:
            return None  # rounding may decide
        x = x.each(lambda v: np.take(v, np.clip(np.floor(at + 1e-9).astype(int), 0, extent - 1), axis))
    return x


@layer("Resizing")
def resizing(c):
    how = {"bilinear": resized, "nearest": nearest}.get(c.o.get("interpolation", "bilinear"))
    if not how or c.o.get("crop_to_aspect_ratio"):
        return None
    found = how(c.x[0], (c.o["height"], c.o["width"]))
    return None if found is None else [found]


@layer("IntegerLookup")
def integer_lookup(c):
    """0 is the mask's, where there is one; then what isn't known; then the vocabulary."""
    mode, oov, mask = c.o["output_mode"], c.o.get("num_oov_indices", 1), c.o.get("mask_token")
    if c.o.get("invert") or oov != 1 or mode not in ("int", "multi_hot", "count") or (mode != "int" and mask is not None):
        return None
    first = oov + (mask is not None)
    numbers = {v: k + first for k, v in enumerate(c.o["vocabulary"])}
    if mask is not None:
        numbers[mask] = 0
    found = np.vectorize(lambda v: numbers.get(int(v), first - 1))(c.given[0])
    if mode == "int":
        return [rounded(found)]
    size = c.o["max_tokens"] if c.o.get("pad_to_max_tokens") else len(c.o["vocabulary"]) + first
    counts = np.stack([np.bincount(row, minlength=size) for row in found.reshape(len(found), -1)])
    return [rounded(counts > 0 if mode == "multi_hot" else counts)]


@layer("Masking")
def masking(c):
    x = np.floor(c.x[0].value * 1.5) / 2
    return [rounded(np.where((x != c.o["mask_value"]).any(-1, keepdims=True), x, 0))]


# ---- categories ----
@layer("Discretization")
def discretization(c):
    bins = np.digitize(c.x[0].value, np.float32(c.o["bin_boundaries"]))
    mode, ones = c.o.get("output_mode", "int"), np.eye(len(c.o["bin_boundaries"]) + 1)
    if mode == "int":
        return [rounded(bins)]
    if mode == "one_hot":
        return [rounded(ones[bins[..., 0] if bins.shape[-1] == 1 else bins])]
    counts = ones[bins].sum(-2)
    return {"count": [rounded(counts)], "multi_hot": [rounded(counts > 0)]}.get(mode)


@layer("CategoryEncoding")
def category_encoding(c):
    counts = np.stack([np.bincount(row, minlength=c.o["num_tokens"]) for row in c.given[0].reshape(len(c.given[0]), -1)])
    mode = c.o["output_mode"]
    return None if mode not in ("multi_hot", "count") else [rounded(counts > 0 if mode == "multi_hot" else counts)]


# ---- pools ----
def planes(c, name, n):
    value = c.o.get(name, 1)
    return [value] * n if not isinstance(value, list) else value


def padding_of(c, shape, windows, strides):
    mode = c.o["padding"]
    pads = [(0, 0)]
    for extent, window, stride in zip(shape, windows, strides):
        total = max((-(-extent // stride) - 1) * stride + window - extent, 0)
        pads.append({"valid": (0, 0), "causal": (window - 1, 0), "same": (total // 2, total - total // 2)}[mode])
    return pads + [(0, 0)]


def windows_of(v, pads, size, strides, dilations, fill=0.0):
    """[batch, out..., channels, window...]."""
    n = len(size)
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(np.pad(v, pads, constant_values=fill), reach, tuple(range(1, n + 1)))
    outer = tuple([slice(None)] + [slice(None, None, s) for s in strides] + [slice(None)])
    return view[outer + tuple(slice(None, None, d) for d in dilations)]


def pooled(average):
    def applied(c, x):
        n = x.ndim - 2
        size, strides, ones = planes(c, "pool_size", n), planes(c, "strides", n), [1] * n
        pads, inner = padding_of(c, x.shape[1:-1], size, strides), tuple(range(-n, 0))
        if not average:
            return x.each(lambda v: windows_of(v, pads, size, strides, ones, -np.inf).max(inner))
        total = x.each(lambda v: windows_of(v, pads, size, strides, ones)).sum(inner)
        return total / windows_of(np.ones(x.shape), pads, size, strides, ones).sum(inner)
    return applied


around("MaxPooling", pooled(False))
around("AveragePooling", pooled(True))


def of_all(name, f):
    @layer(name + "1D", name + "2D", name + "3D")
    def applied(c):
        first = c.o["data_format"] == "channels_first"
        axes = tuple(range(2, c.x[0].ndim)) if first else tuple(range(1, c.x[0].ndim - 1))
        return [f(c.x[0], axes, c.o["keepdims"])]


of_all("GlobalMaxPooling", r.greatest)
of_all("GlobalAveragePooling", lambda x, axes, keep: x.mean(axes, keep))


# ---- normalisation ----
def along(c, name, shape):
    w = c.weight(name)
    return None if w is None else w.each(lambda v: v.reshape(shape))


def scaled(c, y, shape):
    gamma, beta = along(c, "gamma", shape), along(c, "beta", shape)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def centred(x, axes, epsilon):
    return (x - x.mean(axes, True)) / r.sqrt(x.var(axes, True) + epsilon)


@layer("BatchNormalization")
def batch_normalization(c):
    x, axis = c.x[0], c.o["axis"]
    axis = (axis[0] if isinstance(axis, list) else axis) % x.ndim
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    others = tuple(i for i in range(x.ndim) if i != axis)
    mean, variance = along(c, "moving_mean", shape), along(c, "moving_variance", shape)
    if not c.training:
        return [scaled(c, (x - mean) / r.sqrt(variance + c.o["epsilon"]), shape)]
    y = [scaled(c, centred(x, others, c.o["epsilon"]), shape)]
    m, n = c.o["momentum"], x.size // x.shape[axis]
    fused = x.ndim == 4 and c.o.get("fused") is not False
    unbiased = n / (n - 1) if fused and n > 1 else 1.0  # of what Keras' fused path feeds the moving variance with
    moved = {"moving_mean": mean * m + x.mean(others, True) * (1 - m),
             "moving_variance": variance * m + x.var(others, True) * unbiased * (1 - m)}
    return y + [moved[n].each(np.ravel) if n in moved else c.weight(n) for n in c.names]


@layer("LayerNormalization")
def layer_normalization(c):
    x, axis = c.x[0], c.o["axis"]
    axes = tuple(a % x.ndim for a in (axis if isinstance(axis, list) else [axis]))
    return [scaled(c, centred(x, axes, c.o["epsilon"]), [e if i in axes else 1 for i, e in enumerate(x.shape)])]


@layer("InstanceNormalization")
def instance_normalization(c):
    x = c.x[0]
    channel = c.o["channels_axis"] % x.ndim
    axes = tuple(i for i in range(1, x.ndim) if i != channel)
    return [scaled(c, centred(x, axes, c.o["epsilon"]), [-1 if i == channel else 1 for i in range(x.ndim)])]


@layer("GroupNormalization")
def group_normalization(c):
    channel = c.o["channels_axis"] if c.o.get("channels_axis") is not None else c.o["axis"]
    x = c.x[0].each(lambda v: np.moveaxis(v, channel, -1))
    groups = c.o["groups"]
    strided = c.o["strided_channel_grouping"]
    split = (-1, groups) if strided else (groups, x.shape[-1] // groups)
    parts = x.each(lambda v: v.reshape(v.shape[:-1] + (split if strided else split)))
    kept = parts.ndim - 1 if strided else parts.ndim - 2
    y = centred(parts, tuple(i for i in range(1, parts.ndim) if i != kept), c.o["epsilon"]).each(lambda v: v.reshape(x.shape))
    return [scaled(c, y, [1] * (x.ndim - 1) + [-1]).each(lambda v: np.moveaxis(v, -1, channel))]


@layer("UnitNormalization")
def unit_normalization(c):
    axis = c.o["axis"]
    return [unit(c.x[0], tuple(axis) if isinstance(axis, list) else axis)]


@layer("Normalization")
def normalization(c):
    mean, variance = np.float64(c.o["mean"]), np.float64(c.o["variance"])
    return [(c.x[0] - mean) / r.maximum(r.sqrt(rounded(variance)), 1e-7)]


# ---- attention ----
def attended(c, scores, v):
    if c.o.get("causal"):
        seen = np.tri(scores.shape[-2], scores.shape[-1], dtype=bool)
        scores = r.choose(np.broadcast_to(seen, scores.shape), scores, -1e9)
    return r.product("bqk,bkd->bqd", r.softmax(scores), v)


@layer("Attention")
def attention(c):
    q, v = c.x
    scores = r.product("bqd,bkd->bqk", q, v)
    return [attended(c, scores * c.weight("scale") if c.o["use_scale"] else scores, v)]


@layer("AdditiveAttention")
def additive_attention(c):
    q, v = c.x
    inner = r.tanh(q[:, :, None] + v[:, None])
    return [attended(c, (inner * c.weight("scale") if c.o["use_scale"] else inner).sum(-1), v)]


@layer("MultiHeadAttention")
def multi_head_attention(c):
    if c.o.get("attention_axes") or c.o.get("output_shape"):
        return None
    kernels, x = c.all("kernel"), c.x[0]
    biases = c.all("bias") or [0.0] * 4
    q, k, v = (r.product("bti,ihd->bthd", x, w) + b for w, b in zip(kernels[:3], biases))
    q = q * (1 / np.sqrt(c.o["key_dim"]))
    heads = [r.product("bqk,bkd->bqd", r.softmax(r.product("bqd,bkd->bqk", q[:, :, h], k[:, :, h])), v[:, :, h])
             for h in range(q.shape[2])]
    y = r.stack(heads, 2).each(lambda a: a.reshape(a.shape[0] * a.shape[1], -1))
    y = r.product("ni,io->no", y, kernels[3].each(lambda a: a.reshape(-1, a.shape[-1])))
    return [y.each(lambda a: a.reshape(x.shape[0], x.shape[1], -1)) + biases[3]]
