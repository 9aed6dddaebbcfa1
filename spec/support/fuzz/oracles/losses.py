"""Softmax and losses."""
import numpy as np

from .common import LARGEST, op, relative, soft, summed


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
    if (norm * norm > LARGEST["float64" if c.dtype == "float64" else "float32"]).any():  # squares may overflow
        return None
    return relative(c, x / norm, n + 8)
