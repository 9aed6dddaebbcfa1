"""Products, convolutions and pools."""
import numpy as np

from .common import exactly, finite, integral, op, relative, spatial, summed


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
