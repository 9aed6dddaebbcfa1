"""Ops of one and two operands."""
import numpy as np

from .common import UNIT, erf, erfc, exactly, integral, op, relative, sigmoid, softplus


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
