"""Numbers with a bound on what rounding may have done to them: a running error analysis.

Rounded(value, error): the exact value in float64, and how far a computation in a dtype of unit roundoff UNIT may be from it. Each
operation adds its own rounding to what its operands bring along, so a formula written with these is its own bound: n units of a sum's
magnitudes for n terms in any order, FUNCTION units for a function of a library. What flushes below the normal range adds TINY.
"""
import numpy as np

np.seterr(all="ignore")

UNIT, FUNCTION, TINY, LARGEST = 2.0**-24, 8, 1.2e-38, 3.4e38


def rounded(x):
    """Numbers of a formula are the next ones in the dtype."""
    if isinstance(x, Rounded):
        return x
    value = np.asarray(x, np.float64)
    return Rounded(value, np.abs(value - value.astype(np.float32)))


class Rounded:
    __array_priority__ = 1000

    def __init__(self, value, error=None):
        self.value = np.asarray(value, np.float64)
        self.error = np.zeros(self.value.shape) if error is None else np.broadcast_to(error, self.value.shape)

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)

    def made(self, value, error, units=1.0):
        """A result with its own rounding added; what may overflow may be anything."""
        reach = np.abs(value) + error
        return Rounded(value, np.where(reach < LARGEST, error + units * UNIT * reach + TINY, np.inf))

    def __add__(self, other):
        other = rounded(other)
        return self.made(self.value + other.value, self.error + other.error)

    def __sub__(self, other):
        other = rounded(other)
        return self.made(self.value - other.value, self.error + other.error)

    def __mul__(self, other):
        other = rounded(other)
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error + self.error * other.error
        return self.made(self.value * other.value, error)

    def __truediv__(self, other):
        other = rounded(other)
        value = self.value / other.value
        least = np.abs(other.value) - other.error
        error = np.where(least > 0, (self.error + np.abs(value) * other.error) / np.where(least > 0, least, 1), np.inf)
        return self.made(value, error, 3)

    def __neg__(self):
        return Rounded(-self.value, self.error)

    def __getitem__(self, key):
        return Rounded(self.value[key], self.error[key])

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other):
        return rounded(other) - self

    def __rtruediv__(self, other):
        return rounded(other) / self

    def each(self, f):
        """What only moves elements."""
        return Rounded(f(self.value), f(np.asarray(self.error)))

    def sum(self, axis=None, keepdims=False):
        n = self.value.size // max(self.value.sum(axis=axis).size, 1)
        value, error = self.value.sum(axis=axis, keepdims=keepdims), self.error.sum(axis=axis, keepdims=keepdims)
        terms = np.abs(self.value).sum(axis=axis, keepdims=keepdims) + error
        return Rounded(value, np.where(terms < LARGEST, error + n * UNIT * terms + TINY, np.inf))

    def mean(self, axis=None, keepdims=False):
        total = self.sum(axis, keepdims)
        return total / (self.value.size // max(total.size, 1))

    def var(self, axis=None, keepdims=False):
        off = self - self.mean(axis, True)
        return (off * off).mean(axis, keepdims)


def product(equation, a, b):
    """einsum of two operands."""
    a, b = rounded(a), rounded(b)
    value, size_a, size_b = np.einsum(equation, a.value, b.value), np.abs(a.value) + a.error, np.abs(b.value) + b.error
    terms = np.einsum(equation, size_a, size_b)
    exact = np.einsum(equation, np.abs(a.value), np.abs(b.value))
    left, result = equation.split("->")
    extents = {}
    for letters, x in zip(left.split(","), (a, b)):
        extents.update(zip(letters, x.shape))
    n = int(np.prod([extents[k] for k in extents if k not in result])) + 2
    return Rounded(value, np.where(terms < LARGEST, terms - exact + n * UNIT * terms + TINY, np.inf))


def function(f, slope):
    """f of a Rounded; slope(value, error): the greatest |f'| between value - error and value + error."""
    def applied(x):
        x = rounded(x)
        value = f(x.value)
        return x.made(value, np.where(x.error > 0, slope(x.value, x.error) * x.error, 0), FUNCTION)
    return applied


exp = function(np.exp, lambda v, e: np.exp(v + e))
log = function(np.log, lambda v, e: np.where(v > e, 1 / np.maximum(v - e, 1e-300), np.inf))
log1p = function(np.log1p, lambda v, e: np.where(1 + v > e, 1 / np.maximum(1 + v - e, 1e-300), np.inf))
tanh = function(np.tanh, lambda v, e: np.ones_like(v))
sin = function(np.sin, lambda v, e: np.ones_like(v))


def sqrt(x):
    x = rounded(x)
    value = np.sqrt(np.maximum(x.value, 0))
    error = np.minimum(x.error / np.maximum(value, 1e-300), np.sqrt(x.error))
    return x.made(value, error, FUNCTION)


def sigmoid(x):
    x = rounded(x)
    small = np.exp(-np.abs(x.value))
    return x.made(np.where(x.value >= 0, 1 / (1 + small), small / (1 + small)), x.error / 4, FUNCTION)


def softplus(x):
    x = rounded(x)
    return x.made(np.logaddexp(x.value, 0), x.error, FUNCTION)


def absolute(x):
    x = rounded(x)
    return Rounded(np.abs(x.value), x.error)


def maximum(a, b):
    a, b = rounded(a), rounded(b)
    return Rounded(np.maximum(a.value, b.value), np.maximum(*np.broadcast_arrays(a.error, b.error)))


def minimum(a, b):
    return -maximum(-rounded(a), -rounded(b))


def where_positive(x, a, b):
    """a where x > 0, else b; where rounding may decide, either."""
    x, a, b = rounded(x), rounded(a), rounded(b)
    value = np.where(x.value > 0, a.value, b.value)
    error = np.where(x.value > 0, a.error, b.error)
    other = np.abs(a.value - b.value) + np.maximum(*np.broadcast_arrays(a.error, b.error))
    return Rounded(value, np.where((np.abs(x.value) <= x.error) & (x.error > 0), np.maximum(other, error), error))


def power(x, exponent):
    """For x ≥ 0 and a number."""
    x = rounded(x)
    value = np.power(x.value, exponent)
    least = np.maximum(x.value - x.error, 1e-300)
    top = np.maximum(np.power(least, exponent - 1), np.power(x.value + x.error, exponent - 1)) * abs(exponent)
    return x.made(value, np.where(x.error > 0, top * x.error, 0), FUNCTION + 2 * np.abs(exponent * np.log(np.maximum(x.value, 1e-300))))


def sign(x):
    x = rounded(x)
    return Rounded(np.sign(x.value), np.where((np.abs(x.value) <= x.error) & (x.error > 0), 2.0, 0.0))


def greatest(x, axis=None, keepdims=False):
    x = rounded(x)
    return Rounded(x.value.max(axis=axis, keepdims=keepdims), np.asarray(x.error).max(axis=axis, keepdims=keepdims))


def softmax(x, axis=-1):
    e = exp(x - greatest(x, axis, True))
    return e / e.sum(axis, True)


def concatenate(parts, axis):
    parts = [rounded(p) for p in parts]
    return Rounded(np.concatenate([p.value for p in parts], axis), np.concatenate([p.error for p in parts], axis))


def stack(parts, axis):
    parts = [rounded(p) for p in parts]
    return Rounded(np.stack([p.value for p in parts], axis), np.stack([p.error for p in parts], axis))


def choose(mask, a, b):
    """a where the mask is set: a mask of given numbers is exact."""
    a, b = rounded(a), rounded(b)
    return Rounded(np.where(mask, a.value, b.value), np.where(mask, a.error, b.error))
