"""Keras losses by the formulas of their documentation: one number a row, then weights and a reduction."""
import numpy as np

from . import rounded as r
from .rounded import rounded

EPSILON = 1e-7


def log_softmax(x):
    shifted = x - r.greatest(x, -1, True)
    return shifted - r.log(r.exp(shifted).sum(-1, True))


def clipped(p):
    return r.minimum(r.maximum(p, EPSILON), 1 - EPSILON)


def smoothed(o, y, share):
    s = o.get("label_smoothing") or 0.0
    return y * (1 - s) + s * share if s else y


def axis_of(o):
    return o.get("axis", -1)


def to_last(o, x):
    return x.each(lambda v: np.moveaxis(v, axis_of(o), -1))


def binary_entropies(o, y, p):
    if o.get("from_logits"):
        return r.maximum(p, 0) - p * y + r.log1p(r.exp(-r.absolute(p)))
    q = clipped(p)
    return -(y * r.log(q + EPSILON) + (1 - y) * r.log(1 - q + EPSILON))


def binary_crossentropy(o, y, p):
    return binary_entropies(o, smoothed(o, y, 0.5), p).mean(axis_of(o))


def binary_focal(o, y, p):
    y, q = smoothed(o, y, 0.5), r.sigmoid(p) if o.get("from_logits") else p
    rest = r.maximum(1 - (y * q + (1 - y) * (1 - q)), 0)
    focal = r.power(rest, o["gamma"]) * binary_entropies(o, y, p)
    if o.get("apply_class_balancing"):
        focal = focal * (y * o["alpha"] + (1 - y) * (1 - o["alpha"]))
    return focal.mean(axis_of(o))


def categorical_focal(o, y, p):
    y, p = to_last(o, smoothed(o, y, 1 / y.shape[-1])), to_last(o, p)
    q = r.softmax(p) if o.get("from_logits") else p
    q = clipped(q / q.sum(-1, True))
    return (r.power(1 - q, o["gamma"]) * o["alpha"] * -(y * r.log(q))).sum(-1)


def categorical_crossentropy(o, y, p):
    y, p = to_last(o, smoothed(o, y, 1 / y.shape[-1])), to_last(o, p)
    return -(y * (log_softmax(p) if o.get("from_logits") else r.log(clipped(p / p.sum(-1, True))))).sum(-1)


def sparse_categorical_crossentropy(o, y, p):
    scores = log_softmax(p if o.get("from_logits") else r.log(clipped(p)))
    each = -scores.each(lambda v: np.take_along_axis(v, y.value[..., None].astype(int), -1)[..., 0])
    return each * counted(o, y)


def counted(o, y):
    """1 for each label that counts, 0 for labels of the ignored class."""
    return np.ones(y.value.shape) if o.get("ignore_class") is None else (y.value != o["ignore_class"]) * 1.0


def unit(x, axis):
    return x / r.sqrt(r.maximum((x * x).sum(axis, True), 1e-12))


def cosine(o, y, p):
    return (unit(y, axis_of(o)) * unit(p, axis_of(o))).sum(axis_of(o))


def signs(y):
    """Labels of a batch that are all 0 or 1 become -1 and 1."""
    return y * 2 - 1 if np.isin(y.value, (0, 1)).all() else y


def hinge(o, y, p):
    return r.maximum(1 - signs(y) * p, 0)


def log_cosh(_, y, p):
    x = p - y
    return (x + r.softplus(x * -2) - np.log(2)).mean(-1)


def kl_divergence(_, y, p):
    y, p = (r.minimum(r.maximum(x, EPSILON), 1) for x in (y, p))
    return (y * r.log(y / p)).sum(-1)


def huber(o, y, p):
    off, delta = r.absolute(p - y), o.get("delta", 1.0)
    return r.where_positive(off - delta, off * delta - 0.5 * delta**2, off * off * 0.5).mean(-1)


def logarithmic(_, y, p):
    a, b = (r.log(r.maximum(x, EPSILON) + 1) for x in (y, p))
    return ((a - b) * (a - b)).mean(-1)


ROWS = {
    "MeanSquaredError": lambda o, y, p: ((y - p) * (y - p)).mean(-1),
    "MeanAbsoluteError": lambda o, y, p: r.absolute(y - p).mean(-1),
    "FunctionLoss": lambda o, y, p: r.absolute(y - p).mean(-1),
    "MeanAbsolutePercentageError": lambda o, y, p: r.absolute((y - p) / r.maximum(r.absolute(y), EPSILON)).mean(-1) * 100,
    "MeanSquaredLogarithmicError": logarithmic,
    "Hinge": lambda o, y, p: hinge(o, y, p).mean(-1),
    "SquaredHinge": lambda o, y, p: (hinge(o, y, p) * hinge(o, y, p)).mean(-1),
    "CategoricalHinge": lambda o, y, p: r.maximum(r.greatest((1 - y) * p, -1) - (y * p).sum(-1) + 1, 0),
    "LogCosh": log_cosh, "KLDivergence": kl_divergence, "Huber": huber,
    "Poisson": lambda o, y, p: (p - y * r.log(p + EPSILON)).mean(-1),
    "CosineSimilarity": lambda o, y, p: -cosine(o, y, p),
    "BinaryCrossentropy": binary_crossentropy, "CategoricalCrossentropy": categorical_crossentropy,
    "SparseCategoricalCrossentropy": sparse_categorical_crossentropy,
    "BinaryFocalCrossentropy": binary_focal, "CategoricalFocalCrossentropy": categorical_focal,
}


def loss(name):
    def applied(c):
        each = ROWS[name](c.o, *c.x[:2])
        if len(c.x) > 2:
            each = each * c.x[2]
        reduction = c.o["reduction"]
        size = counted(c.o, c.x[0]).sum() if "ignore_class" in c.o else each.size
        return [each if reduction == "none" else each.sum() if reduction == "sum" else each.sum() / rounded(float(max(size, 1)))]
    return applied


LOSSES = {name: loss(name) for name in ROWS}
