"""Normalisation, transposed convolutions and attention."""
import numpy as np

from .common import LARGEST, finite, op, relative, spatial, spread_of, summed


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
    if (norm * norm > LARGEST["float64" if c.dtype == "float64" else "float32"]).any():  # squares may overflow
        return None
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
