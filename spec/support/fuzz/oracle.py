"""Calls of ops against NumPy in float64. usage: oracle.py CALLS.jsonl VALUES.npz

Each line of CALLS names an op, its attributes and dtype; VALUES has its operands ("7.in1") and results ("7.out1"). Each op here
gives (expected, bound) pairs: the bound is what rounding may do to the computation as it is defined, in units u of the dtype that it
is done in: n u sum|terms| for a sum of n terms in any order, a few u for a function. Nothing is tuned to what the results are.
Prints what is wrong, then "N passed, N failed".
"""
import json
import sys

import numpy as np

np.seterr(all="ignore")
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LARGEST = {"float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38}
# What is subnormal may be flushed to zero.
SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6.2e-5, "bfloat16": 1.2e-38}


class Call:
    """One call: attributes with defaults, unit roundoffs of the results (u) and of the computation (w)."""

    def __init__(self, line, values):
        self.name, self.dtype = line["op"], line["dtype"]
        self.attributes = {k: [] if v == {} else v for k, v in (line["attributes"] or {}).items()}
        self.given = [values[f"{line['id']}.in{k + 1}"] for k in range(line["operands"])]
        self.wide = [self.widened(x) if x.dtype.kind == "f" else x for x in self.given]
        self.results = [values[f"{line['id']}.out{k + 1}"] for k in range(line["results"])]
        self.u = max((UNIT.get(d, 0.0) for d in line["result_dtypes"]), default=0.0)
        self.w = min(self.u, UNIT["float32"])

    @staticmethod
    def widened(x):
        """In float64; numbers below the normal range count as zero while tensors are computed, 16 bits in float32."""
        smallest = np.finfo(np.float64 if x.dtype == np.float64 else np.float32).tiny
        wide = x.astype(np.float64)
        return np.where(np.abs(wide) < smallest, 0 * wide, wide)

    def get(self, name, default=None):
        value = self.attributes.get(name)
        return default if value is None else value

    def axes(self, rank, name="axis", default=None):
        """Axes as a sorted tuple of numbers from the front; without any: all."""
        axis = self.get(name, default)
        if axis is None or axis == []:
            return tuple(range(rank))
        axis = axis if isinstance(axis, list) else [axis]
        return tuple(sorted(a % rank for a in axis))

    def axis(self, rank, default=-1):
        return int(self.get("axis", default)) % rank


OPS = {}


def op(*names):
    def enter(f):
        for name in names:
            OPS[name] = f
        return f
    return enter


def exactly(y):
    return [(y, np.zeros(np.shape(y)))]


def relative(c, y, units):
    """A function that is right to so many units of the computation, rounded to the result's dtype."""
    return [(y, (units * c.w + c.u) * np.abs(y))]


# ---- one operand ----
def erf(x):
    import math
    return np.vectorize(math.erf, otypes=[float])(x) if x.size else x


def erfc(x):
    import math
    return np.vectorize(math.erfc, otypes=[float])(x) if x.size else x


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


UNARY = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "sigmoid": sigmoid, "erf": erf, "reciprocal": lambda x: 1 / x, "nn.softplus": softplus,
    "nn.softsign": lambda x: x / (1 + np.abs(x)), "nn.swish": lambda x: x * sigmoid(x),
}
for _name, _f in UNARY.items():
    op(_name)(lambda c, f=_f: relative(c, f(c.wide[0]), 8))

EXACT = {
    "abs": np.abs, "neg": np.negative, "sign": np.sign, "ceil": np.ceil, "floor": np.floor, "round": np.round,
    "identity": lambda x: x, "stop_gradient": lambda x: x, "recomputation_checkpoint": lambda x: x, "zeros_like": np.zeros_like, "ones_like": np.ones_like,
    "logical_not": np.logical_not, "nn.relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
    "nn.relu6": lambda x: np.where(np.isnan(x), x, np.clip(x, 0, 6)),
    "is_nan": np.isnan, "is_inf": np.isinf, "is_finite": np.isfinite, "assume_equal_across_replicas": lambda x: x,
}
for _name, _f in EXACT.items():
    op(_name)(lambda c, f=_f: exactly(f(c.wide[0])))


@op("square")
def square(c):
    x = c.given[0] if c.given[0].dtype.kind != "f" else c.wide[0]
    return relative(c, x * x, 1) if x.dtype.kind == "f" else exactly(x * x)


@op("nn.elu")
def elu(c):
    x, alpha = c.wide[0], c.get("alpha", 1.0)
    return relative(c, np.where(x > 0, x, alpha * np.expm1(x)), 8)


@op("nn.selu")
def selu(c):
    x, scale, alpha = c.wide[0], 1.0507009873554805, 1.6732632423543772
    return relative(c, scale * np.where(x > 0, x, alpha * np.expm1(x)), 8)


@op("nn.leaky_relu")
def leaky_relu(c):
    x = c.wide[0]
    return relative(c, np.where(x > 0, x, c.get("alpha", 0.2) * x), 3)


@op("nn.hard_sigmoid")
def hard_sigmoid(c):
    y = np.clip(0.2 * c.wide[0] + 0.5, 0, 1)
    return [(y, 4 * c.w + c.u * y)]


@op("nn.gelu")
def gelu(c):
    x = c.wide[0]
    if c.get("approximate", True):
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        y, slope = x * sigmoid(2 * inner), np.abs(inner)
    else:
        y, slope = 0.5 * x * erfc(-x / np.sqrt(2)), x * x
    # 1 + tanh cancels for negative x: what is lost there is a unit of x, not of y.
    return [(y, 8 * c.w * (np.abs(x) + np.abs(y) * np.minimum(slope, 100)) + c.u * np.abs(y))]


@op("cast")
def cast(c):
    x, to = c.given[0], c.get("dtype")
    if to in UNIT:
        return [(c.wide[0] if x.dtype.kind == "f" else x.astype(np.float64), UNIT[to] * np.abs(x.astype(np.float64)))]
    if to == "bool":
        return exactly(x != 0)
    info = np.iinfo(to)
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    inside = np.isfinite(wide) & (np.abs(wide) < min(info.max, 2.0**62))
    if x.dtype.kind == "f" and not inside.all():
        return None
    return exactly(np.trunc(wide) if x.dtype.kind == "f" else wide.astype(to))


@op("clip_by_value")
def clip_by_value(c):
    x = c.wide[0]
    low, high = c.get("min"), c.get("max")
    y = np.where(np.isnan(x), x, np.clip(x, low, high))
    return [(y, c.u * np.abs(y))]


# ---- two operands ----
def integral(c):
    return c.given[0].dtype.kind != "f"


@op("add", "accumulate")
def add(c):
    return exactly(c.given[0] + c.given[1]) if integral(c) else relative(c, c.wide[0] + c.wide[1], 1)


@op("sub")
def sub(c):
    return exactly(c.given[0] - c.given[1]) if integral(c) else relative(c, c.wide[0] - c.wide[1], 1)


@op("mul")
def mul(c):
    return exactly(c.given[0] * c.given[1]) if integral(c) else relative(c, c.wide[0] * c.wide[1], 1)


@op("div")
def div(c):
    y = c.wide[0] / c.wide[1]
    return [(y, 3 * c.u * np.abs(y))]


@op("floordiv")
def floordiv(c):
    a, b = c.wide
    if integral(c):
        return exactly(np.floor_divide(a, b)) if (b != 0).all() else None
    q = a / b
    near = np.abs(q - np.round(q)) <= 2 * c.w * np.abs(q)
    return [(np.floor(q), near + (c.u + c.w) * np.abs(q))]


@op("mod")
def mod(c):
    a, b = c.wide
    if integral(c):
        return exactly(np.mod(a, b)) if (b != 0).all() else None
    q = a / b
    near = np.abs(q - np.round(q)) <= 2 * c.w * np.abs(q)
    return [(np.mod(a, b), near * np.abs(b) + c.u * np.abs(b) + 2 * c.w * np.abs(a))]


@op("pow")
def power(c):
    if integral(c):
        return exactly(np.power(c.given[0], c.given[1])) if (c.given[1] >= 0).all() else None
    a, b = c.wide
    y = np.power(a, b)
    return [(y, np.abs(y) * (c.u + c.w * (8 + 2 * np.abs(b * np.log(np.abs(a))))))]


@op("maximum")
def maximum(c):
    return exactly(np.maximum(c.wide[0], c.wide[1]))


@op("minimum")
def minimum(c):
    return exactly(np.minimum(c.wide[0], c.wide[1]))


@op("squared_difference")
def squared_difference(c):
    if integral(c):
        return exactly((c.given[0] - c.given[1]) ** 2)
    return relative(c, (c.wide[0] - c.wide[1]) ** 2, 4)


@op("atan2")
def atan2(c):
    return relative(c, np.arctan2(c.wide[0], c.wide[1]), 8)


COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
           "greater_equal": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
for _name, _f in COMPARE.items():
    op(_name)(lambda c, f=_f: exactly(f(c.given[0], c.given[1])))


@op("where")
def where(c):
    return exactly(np.where(*c.given))


# ---- reductions ----
def summed(c, y, terms, n):
    """A sum of n terms in any order, whose magnitudes sum to `terms`: where those overflow, so may a part of the sum."""
    largest = LARGEST["float64" if c.dtype == "float64" else "float32"]
    return [(y, np.where(terms < largest, n * c.w * terms + c.u * np.abs(y), np.inf))]


def reduced(c):
    x = c.wide[0]
    axes = c.axes(x.ndim)
    n = int(np.prod([x.shape[a] for a in axes])) if axes else 1
    return x, axes, bool(c.get("keepdims", False)), n


@op("reduce_sum")
def reduce_sum(c):
    x, axes, keep, n = reduced(c)
    if integral(c):
        return exactly(c.given[0].sum(axis=axes, keepdims=keep, dtype=c.given[0].dtype))
    return summed(c, x.sum(axis=axes, keepdims=keep), np.abs(x).sum(axis=axes, keepdims=keep), n)


@op("reduce_mean")
def reduce_mean(c):
    x, axes, keep, n = reduced(c)
    if not n or integral(c):
        return None
    return summed(c, x.mean(axis=axes, keepdims=keep), np.abs(x).mean(axis=axes, keepdims=keep), n + 1)


@op("reduce_prod")
def reduce_prod(c):
    x, axes, keep, n = reduced(c)
    if integral(c):
        return exactly(c.given[0].prod(axis=axes, keepdims=keep, dtype=c.given[0].dtype))
    y = x.prod(axis=axes, keepdims=keep)
    magnitude = np.log2(np.maximum(np.abs(x), 1e-300))
    if (np.abs(magnitude).sum(axis=axes) > 100).any():  # an intermediate may overflow or vanish
        return None
    return relative(c, y, n)


@op("reduce_max")
def reduce_max(c):
    x, axes, keep, n = reduced(c)
    return exactly(x.max(axis=axes, keepdims=keep)) if n else None


@op("reduce_min")
def reduce_min(c):
    x, axes, keep, n = reduced(c)
    return exactly(x.min(axis=axes, keepdims=keep)) if n else None


@op("reduce_any")
def reduce_any(c):
    x, axes, keep, _ = reduced(c)
    return exactly(x.any(axis=axes, keepdims=keep))


@op("reduce_all")
def reduce_all(c):
    x, axes, keep, _ = reduced(c)
    return exactly(x.all(axis=axes, keepdims=keep))


def spread_of(c, x, axes, n):
    """Mean and variance with their bounds: the mean's error is squared into the variance."""
    mean, magnitude = x.mean(axis=axes, keepdims=True), np.abs(x).mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    mean_error = (n + 1) * c.w * magnitude
    deviation = np.abs(x - mean).mean(axis=axes, keepdims=True)
    return mean, mean_error, variance, (n + 6) * c.w * variance + mean_error**2 + 4 * c.w * np.abs(mean) * deviation


@op("reduce_variance")
def reduce_variance(c):
    x, axes, keep, n = reduced(c)
    if not n:
        return None
    _, _, y, bound = spread_of(c, x, axes, n)
    y, bound = (y, bound) if keep else (y.reshape(x.var(axis=axes).shape), bound.reshape(x.var(axis=axes).shape))
    return [(y, bound + c.u * y)]


@op("reduce_std")
def reduce_std(c):
    x, axes, keep, n = reduced(c)
    if not n:
        return None
    _, _, y, bound = spread_of(c, x, axes, n)
    root = np.sqrt(y)
    bound = np.minimum(np.sqrt(bound), bound / np.maximum(root, 1e-300)) + (c.u + 4 * c.w) * root
    shape = x.var(axis=axes, keepdims=keep).shape
    return [(root.reshape(shape), bound.reshape(shape))]


@op("nn.moments")
def moments(c):
    x = c.wide[0]
    axes, keep = c.axes(x.ndim, "axes"), bool(c.get("keepdims", False))
    n = int(np.prod([x.shape[a] for a in axes]))
    if not n:
        return None
    mean, mean_error, variance, bound = spread_of(c, x, axes, n)
    shape = x.var(axis=axes, keepdims=keep).shape
    return [(mean.reshape(shape), (mean_error + c.u * np.abs(mean)).reshape(shape)),
            (variance.reshape(shape), (bound + c.u * variance).reshape(shape))]


@op("reduce_logsumexp")
def reduce_logsumexp(c):
    x, axes, keep, n = reduced(c)
    if not n:
        return None
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    y = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
    bound = c.w * (n + 16 + 2 * np.abs(top) + np.abs(y)) + c.u * np.abs(y)
    shape = x.sum(axis=axes, keepdims=keep).shape
    return [(y.reshape(shape), bound.reshape(shape))]


@op("argmax", "argmin")
def argmax(c):
    x = c.given[0]
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    axis = c.get("axis", 0)
    return exactly((np.argmax if c.name == "argmax" else np.argmin)(c.wide[0], axis=axis)) if x.size else None


def running(c, f):
    x = c.wide[0] if not integral(c) else c.given[0]
    axis = int(c.get("axis", 0))
    x = np.flip(x, axis) if c.get("reverse", False) else x
    y = f(x, axis)
    if c.get("exclusive", False):
        first = np.full_like(np.take(y, [0], axis), 1 if f is product_along else 0) if y.shape[axis] else np.take(y, [], axis)
        y = np.concatenate([first, np.take(y, range(y.shape[axis] - 1), axis)], axis) if y.shape[axis] else y
    return np.flip(y, axis) if c.get("reverse", False) else y


def sum_along(x, axis):
    return np.cumsum(x, axis, dtype=x.dtype)


def product_along(x, axis):
    return np.cumprod(x, axis, dtype=x.dtype)


@op("cumsum")
def cumsum(c):
    y = running(c, sum_along)
    if integral(c):
        return exactly(y)
    n, wide = y.shape[int(c.get("axis", 0))], c.wide[0]
    c.wide = [np.abs(wide)]
    return summed(c, y, running(c, sum_along), n)


@op("cumprod")
def cumprod(c):
    y = running(c, product_along)
    if integral(c):
        return exactly(y)
    if not np.isfinite(y).all() or (np.abs(y[y != 0]) < 1e-30).any():
        return None
    return relative(c, y, y.shape[int(c.get("axis", 0))])


# ---- shapes and places: exact ----
@op("reshape")
def reshape(c):
    return exactly(c.given[0].reshape(c.results[0].shape))


@op("transpose")
def transpose(c):
    perm = c.get("perm")
    return exactly(np.transpose(c.given[0], perm or None))


@op("expand_dims")
def expand_dims(c):
    return exactly(np.expand_dims(c.given[0], c.get("axis")))


@op("squeeze")
def squeeze(c):
    axis = c.get("axis")
    return exactly(np.squeeze(c.given[0], tuple(axis) if isinstance(axis, list) and axis else axis or None)) if axis != 0 else exactly(np.squeeze(c.given[0], 0))


@op("broadcast_to")
def broadcast_to(c):
    return exactly(np.broadcast_to(c.given[0], c.results[0].shape))


@op("tile")
def tile(c):
    return exactly(np.tile(c.given[0], c.get("multiples")))


@op("repeat_n")
def repeat_n(c):
    return exactly(np.repeat(c.given[0], c.get("repeats"), c.get("axis")))


@op("concat")
def concat(c):
    return exactly(np.concatenate(c.given, c.get("axis")))


@op("stack")
def stack(c):
    return exactly(np.stack(c.given, c.get("axis", 0)))


@op("unstack")
def unstack(c):
    axis = c.get("axis", 0)
    return [pair for part in range(c.given[0].shape[axis]) for pair in exactly(np.take(c.given[0], part, axis))]


@op("split")
def split(c):
    sizes, axis = c.get("count_or_sizes"), c.get("axis", 0)
    parts = sizes if not isinstance(sizes, list) else list(np.cumsum(sizes)[:-1])
    return [pair for part in np.split(c.given[0], parts, axis) for pair in exactly(part)]


@op("reverse")
def reverse(c):
    axis = c.get("axis")
    return exactly(np.flip(c.given[0], tuple(axis) if isinstance(axis, list) else axis))


@op("slice")
def slice_(c):
    begin, size = (v if isinstance(v, list) else [v] for v in (c.get("begin"), c.get("size")))
    return exactly(c.given[0][tuple(slice(b, None if s == -1 else b + s) for b, s in zip(begin, size))])


@op("strided_slice")
def strided_slice(c):
    lists = [v if isinstance(v, list) else [v] for v in (c.get("begins"), c.get("ends"))]
    strides = c.get("strides", 1)
    strides = strides if isinstance(strides, list) else [strides] * len(lists[0])
    parts = [slice(None if b is False else b, None if e is False else e, s) for b, e, s in zip(*lists, strides)]
    return exactly(c.given[0][tuple(parts)])


@op("pad")
def pad(c):
    paddings = c.get("paddings")
    paddings = paddings if isinstance(paddings[0], list) else [paddings]
    mode = c.get("mode", "CONSTANT").lower()
    if mode == "constant":
        return exactly(np.pad(c.given[0], paddings, constant_values=c.get("constant_values", 0)))
    return exactly(np.pad(c.given[0], paddings, mode=mode))


@op("gather")
def gather(c):
    axis = c.get("axis", 0)
    inside = ((c.given[1] >= 0) & (c.given[1] < c.given[0].shape[axis])).all()
    return exactly(np.take(c.given[0], c.given[1], axis)) if inside else None


@op("embedding_lookup")
def embedding_lookup(c):
    return exactly(np.take(c.given[0], c.given[1], 0)) if (c.given[1] < c.given[0].shape[0]).all() else None


@op("take_along")
def take_along(c):
    axis = c.get("axis", -1)
    return exactly(np.take_along_axis(c.given[0], c.given[1], axis)) if (c.given[1] < c.given[0].shape[axis]).all() else None


@op("gather_nd")
def gather_nd(c):
    where_to = np.moveaxis(c.given[1], -1, 0)
    if any((where_to[k] >= c.given[0].shape[k]).any() for k in range(len(where_to))):
        return None
    rest = c.given[0].shape[c.given[1].shape[-1]:]
    return exactly(np.broadcast_to(c.given[0][tuple(where_to)], c.given[1].shape[:-1] + rest))


@op("scatter_nd")
def scatter_nd(c):
    indices, updates = c.given[0], c.wide[1]
    shape = c.results[0].shape
    where_to = np.moveaxis(indices, -1, 0)
    if any((where_to[k] >= shape[k]).any() for k in range(len(where_to))):
        return None
    y, terms = np.zeros(shape), np.zeros(shape)
    np.add.at(y, tuple(where_to), updates)
    np.add.at(terms, tuple(where_to), np.abs(updates))
    return summed(c, y, terms, max(indices[..., 0].size, 1))


@op("segment_sum")
def segment_sum(c):
    data, ids = c.wide[0], c.given[1]
    if (ids >= c.results[0].shape[0]).any():
        return None
    y, terms = np.zeros(c.results[0].shape), np.zeros(c.results[0].shape)
    np.add.at(y, ids, data)
    np.add.at(terms, ids, np.abs(data))
    return exactly(y) if integral(c) else summed(c, y, terms, max(len(ids), 1))


@op("one_hot")
def one_hot(c):
    depth, axis = c.get("depth"), c.get("axis", -1)
    on, off = c.get("on_value", 1), c.get("off_value", 0)
    y = np.where(c.given[0][..., None] == np.arange(depth), on, off)
    return exactly(np.moveaxis(y, -1, axis))


@op("sort")
def sort(c):
    x, axis = c.given[0], c.get("axis", -1)
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    y = np.sort(x, axis)
    return exactly(np.flip(y, axis) if c.get("direction", "ASCENDING") == "DESCENDING" else y)


@op("argsort")
def argsort(c):
    x, axis = c.wide[0], c.get("axis", -1)
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    key = x if c.get("direction", "ASCENDING") == "ASCENDING" else -x.astype(np.float64)
    return exactly(np.argsort(key, axis, kind="stable"))


@op("top_k")
def top_k(c):
    x = c.wide[0]
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    order = np.argsort(-x.astype(np.float64), -1, kind="stable")[..., :c.get("k", 1)]
    return exactly(np.take_along_axis(c.given[0], order, -1)) + exactly(order)


# ---- products ----
@op("matmul", "serialized_matmul")
def matmul(c):
    a, b = c.wide
    a = np.swapaxes(a, -1, -2) if c.get("transpose_a", False) else a
    b = np.swapaxes(b, -1, -2) if c.get("transpose_b", False) else b
    if integral(c):
        return exactly(np.matmul(a, b))
    return summed(c, np.matmul(a, b), np.matmul(np.abs(a), np.abs(b)), a.shape[-1])


@op("einsum")
def einsum(c):
    equation = c.get("equation")
    y = np.einsum(equation, *c.wide)
    terms = np.einsum(equation, *[np.abs(x) for x in c.wide])
    n = max(np.prod([x.size for x in c.given]) // max(np.size(y), 1), 1)
    return summed(c, y, terms, min(int(n), 10**6) + 4)


@op("nn.bias_add")
def bias_add(c):
    return exactly(c.given[0] + c.given[1]) if integral(c) else relative(c, c.wide[0] + c.wide[1], 1)


def spatial(value, n):
    return [value] * n if not isinstance(value, list) else list(value)


def finite(*tensors):
    return all(np.isfinite(x).all() for x in tensors)


def windows(c, x, extents, strides, dilations, padding):
    """x padded, and its windows: [batch, out..., channels, window...]."""
    n = len(extents)
    reach = [(e - 1) * d + 1 for e, d in zip(extents, dilations)]
    pads = [(0, 0)]
    for i in range(n):
        total = max((-(-x.shape[1 + i] // strides[i]) - 1) * strides[i] + reach[i] - x.shape[1 + i], 0)
        pads.append({"SAME": (total // 2, total - total // 2), "CAUSAL": (reach[i] - 1, 0), "VALID": (0, 0)}[padding])
    fill = c if np.isscalar(c) else 0.0
    padded = np.pad(x, pads + [(0, 0)], constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(1, n + 1)))
    outer = tuple([slice(None)] + [slice(None, None, s) for s in strides] + [slice(None)])
    return view[outer + tuple(slice(None, None, d) for d in dilations)]


@op("nn.conv1d", "nn.conv2d", "nn.conv3d")
def conv(c):
    x, kernel = c.wide
    n = x.ndim - 2
    if not x.size or not finite(kernel):  # whether padding times infinity counts is left open
        return None
    groups = c.get("groups", 1)
    parts, bound = [], []
    view = windows(c, x, kernel.shape[:n], spatial(c.get("strides", 1), n), spatial(c.get("dilations", 1), n), c.get("padding", "VALID"))
    inner, outer = x.shape[-1] // groups, kernel.shape[-1] // groups
    for g in range(groups):
        w = np.moveaxis(view[(slice(None),) * (n + 1) + (slice(g * inner, (g + 1) * inner),)], n + 1, -1)
        k = kernel[..., g * outer:(g + 1) * outer]
        parts.append(np.tensordot(w, k, n + 1))
        bound.append(np.tensordot(np.abs(w), np.abs(k), n + 1))
    return summed(c, np.concatenate(parts, -1), np.concatenate(bound, -1), int(np.prod(kernel.shape[:-1])))


@op("nn.depthwise_conv2d")
def depthwise(c):
    x, kernel = c.wide
    if not x.size or not finite(kernel):
        return None
    view = windows(c, x, kernel.shape[:2], spatial(c.get("strides", 1), 2), spatial(c.get("dilations", 1), 2), c.get("padding", "VALID"))
    y, terms = np.einsum("bhwcij,ijcm->bhwcm", view, kernel), np.einsum("bhwcij,ijcm->bhwcm", np.abs(view), np.abs(kernel))
    shape = y.shape[:3] + (-1,) if y.size else c.results[0].shape
    return summed(c, y.reshape(shape), terms.reshape(shape), kernel.shape[0] * kernel.shape[1])


@op("nn.max_pool", "nn.avg_pool")
def pooling(c):
    x = c.wide[0]
    if not x.size:
        return None
    n = x.ndim - 2
    ksize = spatial(c.get("ksize", 2), n)
    strides = spatial(c.get("strides", ksize), n)
    ones, padding = [1] * n, c.get("padding", "VALID")
    window = tuple(range(-n, 0))
    if c.name == "nn.max_pool":
        return exactly(windows(-np.inf, x, ksize, strides, ones, padding).max(axis=window))
    count = windows(0.0, np.ones_like(x), ksize, strides, ones, padding).sum(axis=window)
    total = windows(0.0, x, ksize, strides, ones, padding).sum(axis=window)
    terms = windows(0.0, np.abs(x), ksize, strides, ones, padding).sum(axis=window)
    return summed(c, total / count, terms / count, int(np.prod(ksize)) + 2)


# ---- softmax, losses ----
def soft(x, axis):
    top = np.max(x, axis, keepdims=True)
    shifted = x - np.where(np.isfinite(top), top, 0)
    total = np.exp(shifted).sum(axis, keepdims=True)
    return shifted, total, np.abs(top)


@op("nn.softmax")
def softmax(c):
    x, axis = c.wide[0], c.axes(c.wide[0].ndim, default=-1)
    n = int(np.prod([x.shape[a] for a in axis]))
    if not n:
        return None
    shifted, total, _ = soft(x, axis)
    y = np.exp(shifted) / total
    return [(y, y * (c.u + c.w * (n + 16 + 2 * np.minimum(np.abs(shifted), 1e6))))]


@op("nn.log_softmax")
def log_softmax(c):
    x, axis = c.wide[0], c.axes(c.wide[0].ndim, default=-1)
    n = int(np.prod([x.shape[a] for a in axis]))
    if not n:
        return None
    shifted, total, _ = soft(x, axis)
    y = shifted - np.log(total)
    return [(y, c.u * np.abs(y) + c.w * (n + 16 + 2 * np.abs(shifted)))]


@op("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy(c):
    labels, x = c.wide
    if not x.shape[-1]:
        return None
    shifted, total, _ = soft(x, -1)
    y = -(labels * (shifted - np.log(total))).sum(-1)
    n = x.shape[-1]
    terms = (np.abs(labels) * (np.abs(shifted) + np.log(total) + 1)).sum(-1)
    return [(y, c.u * np.abs(y) + (2 * n + 24) * c.w * terms)]


@op("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_cross_entropy(c):
    labels, x = c.given[0], c.wide[1]
    if not x.size or (labels >= x.shape[-1]).any() or (labels < 0).any():
        return None
    shifted, total, _ = soft(x, -1)
    picked = np.take_along_axis(shifted, labels[..., None], -1)
    y = (np.log(total) - picked)[..., 0]
    return [(y, c.u * np.abs(y) + (x.shape[-1] + 24) * c.w * (1 + np.abs(picked[..., 0]) + np.log(total[..., 0])))]


@op("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy(c):
    labels, x = c.wide
    y = np.maximum(x, 0) - x * labels + np.log1p(np.exp(-np.abs(x)))
    product = np.abs(x * labels)  # where it overflows, so may the whole
    return [(y, np.where(product < LARGEST[c.dtype], c.u * np.abs(y) + 8 * c.w * (np.abs(x) * (1 + np.abs(labels)) + 1), np.inf))]


@op("nn.l2_loss")
def l2_loss(c):
    return summed(c, (c.wide[0] ** 2).sum() / 2, (c.wide[0] ** 2).sum() / 2, c.wide[0].size + 3)


@op("nn.l2_normalize")
def l2_normalize(c):
    x = c.wide[0]
    axes = c.axes(x.ndim)
    norm = np.sqrt(np.maximum((x * x).sum(axis=axes, keepdims=True), c.get("epsilon", 1e-12)))
    n = int(np.prod([x.shape[a] for a in axes])) if axes else 1
    return relative(c, x / norm, n + 8)


# ---- normalisation ----
def normalised(c, x, axes, gamma, beta, epsilon):
    n = int(np.prod([x.shape[a] for a in axes]))
    mean, mean_error, variance, error = spread_of(c, x, axes, n)
    scale = 1 / np.sqrt(variance + epsilon)
    y = (x - mean) * scale * gamma + beta
    centre = (mean_error + 4 * c.w * (np.abs(x) + np.abs(mean))) * scale * np.abs(gamma)
    slope = np.abs((x - mean) * scale * gamma) * (error / (2 * (variance + epsilon)) + 16 * c.w)
    return [(y, centre + slope + 4 * c.w * np.abs(beta) + c.u * np.abs(y))]


@op("nn.layer_norm")
def layer_norm(c):
    x = c.wide[0]
    axes = c.axes(x.ndim, default=-1)
    shape = [e if i in axes else 1 for i, e in enumerate(x.shape)]
    gamma = c.wide[1].reshape(shape) if len(c.wide) > 1 else 1.0
    beta = c.wide[2].reshape(shape) if len(c.wide) > 2 else 0.0
    return normalised(c, x, axes, gamma, beta, c.get("epsilon", 1e-3)) if x.size else None


@op("nn.instance_norm")
def instance_norm(c):
    x = c.wide[0]
    channel = c.get("channels_axis", -1) % x.ndim
    axes = tuple(i for i in range(1, x.ndim) if i != channel)
    shape = [e if i == channel else 1 for i, e in enumerate(x.shape)]
    gamma = c.wide[1].reshape(shape) if len(c.wide) > 1 else 1.0
    beta = c.wide[2].reshape(shape) if len(c.wide) > 2 else 0.0
    return normalised(c, x, axes, gamma, beta, c.get("epsilon", 1e-3))[:1] if x.size else None


@op("nn.batch_norm")
def batch_norm(c):
    x, gamma, beta = c.wide[:3]
    axis = c.axis(x.ndim)
    axes = tuple(i for i in range(x.ndim) if i != axis)
    n = int(np.prod([x.shape[a] for a in axes]))
    if not n:
        return None
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    gamma, beta, epsilon = gamma.reshape(shape), beta.reshape(shape), c.get("epsilon")
    if len(c.wide) == 5 and not c.get("training"):
        mean, variance = (v.reshape(shape) for v in c.wide[3:])
        scale = gamma / np.sqrt(variance + epsilon)
        bound = 16 * c.w * (np.abs(scale) * (np.abs(x) + np.abs(mean)) + np.abs(beta))
        y = (x - mean) * scale + beta
        return [(y, bound + c.u * np.abs(y))]
    mean, mean_error, variance, error = spread_of(c, x, axes, n)
    (y, bound), = normalised(c, x, axes, gamma, beta, epsilon)
    return [(y, bound), (mean.ravel(), (mean_error + c.u * np.abs(mean)).ravel()),
            (variance.ravel(), (error + c.u * variance).ravel())]


@op("nn.group_norm")
def group_norm(c):
    x = c.wide[0]
    axis, groups = c.get("channels_axis", -1) % x.ndim, c.get("groups")
    if not x.size:
        return None
    last = np.moveaxis(x, axis, -1)
    channels, split = last.shape[-1], (last.shape[-1] // groups, groups)
    strided = c.get("strided_channel_grouping")
    parts = last.reshape(last.shape[:-1] + (split if strided else split[::-1]))
    axes = tuple(i for i in range(1, parts.ndim) if i != (parts.ndim - 1 if strided else parts.ndim - 2))
    form = parts.shape[-2:]
    gamma = c.wide[1].reshape(form) if len(c.wide) > 1 else 1.0
    beta = c.wide[2].reshape(form) if len(c.wide) > 2 else 0.0
    (y, bound), = normalised(c, parts, axes, gamma, beta, c.get("epsilon"))
    assert channels == split[0] * split[1]
    return [(np.moveaxis(y.reshape(last.shape), -1, axis), np.moveaxis(bound.reshape(last.shape), -1, axis))]


@op("clip_by_norm")
def clip_by_norm(c):
    x = c.wide[0]
    axes = c.axes(x.ndim, "axes")
    norm = np.sqrt((x * x).sum(axis=axes, keepdims=True))
    return relative(c, x * (c.get("clip_norm") / np.maximum(norm, c.get("clip_norm"))), x.size + 8)


@op("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
def conv_transpose(c):
    x, kernel = c.wide
    n = x.ndim - 2
    strides, dilations = spatial(c.get("strides", 1), n), spatial(c.get("dilations", 1), n)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel.shape[:n], dilations)]
    extra = c.get("output_padding")
    shape, before = [], []
    for i in range(n):
        same = c.get("padding") == "SAME"
        if extra in (None, []):
            extent = x.shape[1 + i] * strides[i] + (0 if same else max(reach[i] - strides[i], 0))
        else:
            extent = (x.shape[1 + i] - 1) * strides[i] + reach[i] - (2 * (reach[i] // 2) if same else 0) + spatial(extra, n)[i]
        total = max((x.shape[1 + i] - 1) * strides[i] + reach[i] - extent, 0)
        shape.append(extent)
        before.append(total // 2 if same else 0)  # of the convolution whose adjoint it is
    if not x.size or not finite(x, kernel):
        return None
    wide = [e + r + (m - 1) * s + 1 for e, r, m, s in zip(shape, reach, x.shape[1:], strides)]
    y, terms = np.zeros([x.shape[0]] + wide + [kernel.shape[n]]), np.zeros([x.shape[0]] + wide + [kernel.shape[n]])
    for tap in np.ndindex(*kernel.shape[:n]):
        at = tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilations, x.shape[1:], strides))
        y[(slice(None),) + at] += np.tensordot(x, kernel[tap], ((-1,), (-1,)))
        terms[(slice(None),) + at] += np.tensordot(np.abs(x), np.abs(kernel[tap]), ((-1,), (-1,)))
    cut = (slice(None),) + tuple(slice(b, b + e) for b, e in zip(before, shape))
    return summed(c, y[cut], terms[cut], int(np.prod(kernel.shape[:n])) * x.shape[-1])


@op("nn.dot_product_attention")
def attention(c):
    q, k, v = c.wide[:3]
    if not k.shape[1] or not finite(q, k, v):
        return None
    scale = c.get("scale", 1 / np.sqrt(q.shape[-1]))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * scale
    slack = np.einsum("bqhd,bkhd->bhqk", np.abs(q), np.abs(k)) * abs(scale) * (q.shape[-1] + 4) * c.w
    allowed = np.ones(scores.shape, bool) if len(c.given) < 4 else np.broadcast_to(c.given[3], scores.shape)
    if c.get("is_causal"):
        allowed = allowed & np.tri(q.shape[1], k.shape[1], dtype=bool)
    if not allowed.any(-1).all():
        return None
    weights = np.where(allowed, np.exp(scores - np.max(np.where(allowed, scores, -np.inf), -1, keepdims=True)), 0)
    weights = weights / weights.sum(-1, keepdims=True)
    y, terms = np.einsum("bhqk,bkhe->bqhe", weights, v), np.einsum("bhqk,bkhe->bqhe", weights, np.abs(v))
    off = 2 * np.max(np.where(allowed, slack, 0), -1) + (2 * k.shape[1] + 32) * c.w
    return [(y, np.moveaxis(off, 1, 2)[..., None] * terms + 2 * c.u * terms)]


# ---- recurrence: the error of a state is carried through the steps ----
class Recurrence:
    def __init__(self, c, gates, states):
        self.c, (self.x, self.kernel, self.recurrent) = c, c.wide[:3]
        self.units = self.recurrent.shape[0]
        rest = list(c.wide[3:])
        self.mask = rest.pop() if rest and rest[-1].dtype == bool else None
        self.bias = rest.pop(0) if rest else np.zeros(gates * self.units)
        zero = np.zeros((self.x.shape[0], self.units))
        self.states = [rest.pop(0) if rest else zero for _ in range(states)]
        self.errors = [zero for _ in range(states)]

    def product(self, t, h, error):
        """x kernel and h recurrent with what rounding and the error of h may do to them."""
        c, x, n = self.c, self.x[:, t], self.x.shape[2] + self.units + 4
        terms = np.abs(x) @ np.abs(self.kernel), np.abs(h) @ np.abs(self.recurrent)
        return x @ self.kernel, h @ self.recurrent, n * c.w * (terms[0] + terms[1]), (error + c.u * np.abs(h)) @ np.abs(self.recurrent)

    def run(self, step):
        outputs, errors, last = [], [], np.zeros_like(self.states[0])
        last_error = last
        for t in range(self.x.shape[1]):
            states, state_errors = step(t, self.states, self.errors)
            keep = np.ones((len(last), 1), bool) if self.mask is None else self.mask[:, t:t + 1]
            self.states = [np.where(keep, new, old) for new, old in zip(states, self.states)]
            self.errors = [np.where(keep, new, old) for new, old in zip(state_errors, self.errors)]
            idle = np.zeros_like(last) if self.c.get("zero_output_for_mask") else last
            last, last_error = np.where(keep, states[0], idle), np.where(keep, state_errors[0], last_error)
            outputs.append(last)
            errors.append(last_error)
        pairs = [(np.stack(outputs, 1), np.stack(errors, 1))] + list(zip(self.states, self.errors))
        return [(y, bound + 2 * self.c.u * np.abs(y)) for y, bound in pairs]


def usable(c):
    return c.given[0].size and finite(*[x for x in c.wide if x.dtype != bool])


@op("nn.simple_rnn")
def simple_rnn(c):
    if not usable(c):
        return None
    r = Recurrence(c, 1, 1)
    f = {"tanh": np.tanh, "sigmoid": sigmoid, "relu": lambda z: np.maximum(z, 0), "linear": lambda z: z}[c.get("activation")]

    def step(t, states, errors):
        a, b, rounding, carried = r.product(t, states[0], errors[0])
        z = a + b + r.bias
        return [f(z)], [rounding + carried + 8 * c.w * (np.abs(z) + np.abs(f(z)))]
    return r.run(step)


@op("nn.lstm")
def lstm(c):
    if not usable(c):
        return None
    r, u = Recurrence(c, 4, 2), c.wide[2].shape[0]

    def step(t, states, errors):
        a, b, rounding, carried = r.product(t, states[0], errors[0])
        z = a + b + r.bias
        off = rounding + carried + 8 * c.w * (1 + np.abs(z))
        i, f, o = (sigmoid(z[:, k * u:(k + 1) * u]) for k in (0, 1, 3))
        g = np.tanh(z[:, 2 * u:3 * u])
        ei, ef, eg, eo = (off[:, k * u:(k + 1) * u] * (1 if k == 2 else 0.25) for k in range(4))
        cell = f * states[1] + i * g
        ec = f * errors[1] + np.abs(states[1]) * ef + np.abs(g) * ei + i * eg + (c.u + 4 * c.w) * (np.abs(cell) + 1)
        h = o * np.tanh(cell)
        return [h, cell], [o * ec + np.abs(np.tanh(cell)) * eo + 8 * c.w * np.abs(h), ec]
    return r.run(step)


@op("nn.gru")
def gru(c):
    if not usable(c):
        return None
    r, u = Recurrence(c, 3, 1), c.wide[2].shape[0]
    after = c.get("reset_after")
    bias = np.broadcast_to(r.bias, (2, 3 * u)) if r.bias.ndim == 2 else np.stack([r.bias, np.zeros(3 * u)])

    def step(t, states, errors):
        h, e = states[0], errors[0]
        a, b, rounding, carried = r.product(t, h, e)
        a, b = a + bias[0], b + bias[1]
        off = rounding + carried + 8 * c.w * (1 + np.abs(a) + np.abs(b))
        z, reset = sigmoid(a + b)[:, :u], sigmoid(a + b)[:, u:2 * u]
        ez, er, last = off[:, :u] / 4, off[:, u:2 * u] / 4, slice(2 * u, 3 * u)
        if after:
            inner, slack = reset * b[:, last], off[:, last] + np.abs(b[:, last]) * er
        else:
            inner = (reset * h) @ r.recurrent[:, last]
            slack = off[:, last] + (np.abs(h) * er + e + c.u * np.abs(h)) @ np.abs(r.recurrent[:, last])
        candidate = np.tanh(a[:, last] + inner)
        new = z * h + (1 - z) * candidate
        return [new], [z * e + (1 - z) * slack + np.abs(h - candidate) * ez + (c.u + 8 * c.w) * (np.abs(h) + 1)]
    return r.run(step)


@op("cholesky")
def cholesky(c):
    a = (c.wide[0] + np.swapaxes(c.wide[0], -1, -2)) / 2
    n = a.shape[-1]
    if not a.size:
        return exactly(a)
    y, spread = np.linalg.cholesky(a), np.linalg.cond(a)[..., None, None]
    return [(y, 4 * n * (c.w + c.u) * spread * np.sqrt(np.max(np.abs(a), (-1, -2), keepdims=True)))]


@op("triangular_solve")
def triangular_solve(c):
    a, b = c.wide
    a = np.tril(a) if c.get("lower") else np.triu(a)
    a = np.swapaxes(a, -1, -2) if c.get("adjoint") else a
    if not b.size:
        return None
    y, n = np.linalg.solve(a, b), a.shape[-1]
    return [(y, 4 * n * (c.w + c.u) * np.matmul(np.abs(np.linalg.inv(a)), np.matmul(np.abs(a), np.abs(y))))]


@op("normalise_image")
def normalise_image(c):
    image, offsets, scales = (x.astype(np.float64) for x in c.wide)
    y = (image * c.get("scale") - offsets) * scales
    bound = (c.u + 4 * c.w) * (np.abs(image * c.get("scale")) + np.abs(offsets)) * np.abs(scales)
    fourth = np.zeros(y.shape[:-1] + (1,))
    return [(np.concatenate([y, fourth], -1), np.concatenate([bound, fourth], -1))]


@op("histogram")
def histogram(c):
    x, levels = c.wide[0], c.wide[1]
    if not (np.diff(levels) >= 0).all() or not finite(x):
        return None
    bins = np.searchsorted(levels, np.abs(x) if c.get("absolute_of_input") else x, side="right")
    return exactly(np.bincount(bins, minlength=len(levels) + 1).astype(float))


@op("fixed_width_bins")
def fixed_width_bins(c):
    x, n = c.wide[0], c.get("n_bins")
    if not x.size or not finite(x):
        return None
    y = np.linspace(x.min(), x.max(), n)
    return [(y, (8 * c.w + c.u) * max(abs(x.min()), abs(x.max())))]


# ---- comparing ----
def wrong_with(name, got, expected, bound, dtype):
    if got.shape != np.shape(expected):
        return f"shape {list(got.shape)} instead of {list(np.shape(expected))}"
    if not got.size:
        return None
    expected, bound = np.broadcast_to(np.asarray(expected), got.shape), np.broadcast_to(np.asarray(bound), got.shape)
    if got.dtype.kind != "f":
        bad = got != expected.astype(got.dtype)
    else:
        largest, tiny = LARGEST[dtype], SMALLEST[dtype]
        got64, known = got.astype(np.float64), np.isfinite(expected) & np.isfinite(bound)
        bad = known & (np.abs(got64 - expected) > bound * 1.001 + tiny)
        over = known & (np.abs(expected) + bound >= largest) & (np.abs(got64) >= largest * 0.99) & (np.sign(got64) == np.sign(expected))
        bad &= ~over
        bad |= np.isnan(expected) & ~np.isnan(got64)
        bad |= np.isinf(expected) & np.isfinite(got64) & (np.abs(got64) < largest * 0.99)
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {got.size} differ, first at {list(at)}: {got[at]!r} instead of {expected[at]!r} within {bound[at]:.3g}"


def main(calls, values):
    values, passed, failed = np.load(values), 0, 0
    for text in open(calls, encoding="utf-8"):
        line = json.loads(text)
        c = Call(line, values)
        try:
            pairs = OPS[c.name](c) if c.name in OPS else None
        except Exception:
            print(f"the oracle itself fails at {line['source']}")
            raise
        if pairs is None:
            continue
        words = None
        for k, (expected, bound) in enumerate(pairs[:len(c.results)]):
            words = words or wrong_with(c.name, c.results[k], expected, bound, line["result_dtypes"][k])
        if words:
            failed += 1
            print(f"FAIL {line['source']}\n  {words}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:3]) else 0)
