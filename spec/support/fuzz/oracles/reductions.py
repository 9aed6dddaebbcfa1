"""Reductions and running sums."""
import numpy as np

from .common import exactly, integral, op, relative, spread_of, summed


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
    # sums that go before the division may overflow where the mean doesn't
    mean, total = x.mean(axis=axes, keepdims=keep), np.abs(x).sum(axis=axes, keepdims=keep)
    [(_, bound)] = summed(c, mean, total, n + 1)
    return [(mean, np.where(np.isfinite(bound), (n + 1) * c.w * total / n + c.u * np.abs(mean), np.inf))]


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
