"""What the oracles share: a call with its operands in float64, and the bounds of rounding.

Each op gives (expected, bound) pairs: the bound is what rounding may do to the computation as it is defined, in units u of the dtype
that it is done in: n u sum|terms| for a sum of n terms in any order, a few u for a function. Nothing is tuned to what the results are.
"""
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


def integral(c):
    return c.given[0].dtype.kind != "f"


def summed(c, y, terms, n):
    """A sum of n terms in any order, whose magnitudes sum to `terms`: where those overflow, so may a part of the sum."""
    largest = LARGEST["float64" if c.dtype == "float64" else "float32"]
    return [(y, np.where(terms < largest, n * c.w * terms + c.u * np.abs(y), np.inf))]


def spread_of(c, x, axes, n):
    """Mean and variance with their bounds: the mean's error is squared into the variance. Sums may overflow."""
    mean, magnitude = x.mean(axis=axes, keepdims=True), np.abs(x).mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    largest = LARGEST["float64" if c.dtype == "float64" else "float32"]
    mean_error = np.where(n * magnitude < largest, (n + 1) * c.w * magnitude, np.inf)
    deviation = np.abs(x - mean).mean(axis=axes, keepdims=True)
    error = (n + 6) * c.w * variance + mean_error**2 + 4 * c.w * np.abs(mean) * deviation
    return mean, mean_error, variance, np.where(n * variance < largest, error, np.inf)


def finite(*tensors):
    return all(np.isfinite(x).all() for x in tensors)


def spatial(value, n):
    return [value] * n if not isinstance(value, list) else list(value)


def soft(x, axis):
    top = np.max(x, axis, keepdims=True)
    shifted = x - np.where(np.isfinite(top), top, 0)
    total = np.exp(shifted).sum(axis, keepdims=True)
    return shifted, total, np.abs(top)
