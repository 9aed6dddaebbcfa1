"""Keras metrics by the formulas of their documentation, over all updates at once."""
import numpy as np

from . import rounded as r
from .keras_losses import ROWS, cosine
from .rounded import Rounded, rounded

METRICS = {}


def updates(c):
    """(labels, predictions, weights or None) of each update, as given."""
    each = c.line["each"]
    for i in range(0, len(c.given), each):
        part = c.given[i:i + each]
        yield part[0], part[1] if each - c.line["weighted"] > 1 else None, part[-1] if c.line["weighted"] else None


def spread(weights, shape):
    if weights is None:
        return np.ones(shape)
    return np.broadcast_to(weights.reshape(weights.shape + (1,) * (len(shape) - weights.ndim)), shape).astype(np.float64)


def ratio(top, bottom):
    return top / bottom if bottom.value > 0 else rounded(0.0)


def averaged(each):
    """The weighted mean of each(o, labels, predictions), arrays or Rounded."""
    def applied(c):
        sums, counts = [], []
        for y, p, w in updates(c):
            values = each(c.o, Rounded(y), None if p is None else Rounded(p))
            weights = spread(w, values.shape)
            sums.append((values * Rounded(weights)).sum())
            counts.append(Rounded(weights).sum())
        return [ratio(r.stack(sums, 0).sum(), r.stack(counts, 0).sum())]
    return applied


OF_LOSSES = {"LogCoshError": "LogCosh", "MeanMetricWrapper": "MeanAbsoluteError"}
for _name in ("MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "Hinge", "SquaredHinge",
              "CategoricalHinge", "LogCoshError", "KLDivergence", "Poisson", "BinaryCrossentropy", "CategoricalCrossentropy",
              "SparseCategoricalCrossentropy", "MeanMetricWrapper"):
    METRICS[_name] = averaged(ROWS[OF_LOSSES.get(_name, _name)])


def metric(*names):
    def enter(f):
        for name in names:
            METRICS[name] = f
        return f
    return enter


def equal(a, b):
    return rounded((a == b).astype(float))


METRICS["CosineSimilarity"] = averaged(cosine)
METRICS["Mean"] = averaged(lambda o, y, p: y)
METRICS["Accuracy"] = averaged(lambda o, y, p: equal(y.value, p.value))
METRICS["BinaryAccuracy"] = averaged(
    lambda o, y, p: equal(p.value > np.float32(o["threshold"]), y.value > 0.5).mean(-1))
METRICS["CategoricalAccuracy"] = averaged(lambda o, y, p: equal(y.value.argmax(-1), p.value.argmax(-1)))
METRICS["SparseCategoricalAccuracy"] = averaged(lambda o, y, p: equal(y.value, p.value.argmax(-1)))


def within_top(labels, p, k):
    mine = np.take_along_axis(p, labels[..., None].astype(int), -1)
    return rounded(((p > mine).sum(-1) < k).astype(float))


METRICS["TopKCategoricalAccuracy"] = averaged(lambda o, y, p: within_top(y.value.argmax(-1), p.value, o["k"]))
METRICS["SparseTopKCategoricalAccuracy"] = averaged(lambda o, y, p: within_top(y.value, p.value, o["k"]))


@metric("RootMeanSquaredError")
def root_mean_squared(c):
    return [r.sqrt(averaged(lambda o, y, p: (y - p) * (y - p))(c)[0])]


@metric("MeanRelativeError")
def mean_relative(c):
    by = np.array(c.o["normalizer"], np.float64)
    return averaged(lambda o, y, p: r.absolute(y - p) / np.broadcast_to(by, y.shape))(c)


@metric("Sum")
def total(c):
    return [r.stack([(Rounded(y) * Rounded(spread(w, y.shape))).sum() for y, _, w in updates(c)], 0).sum()]


@metric("MeanTensor")
def mean_tensor(c):
    parts = [(Rounded(y) * Rounded(spread(w, y.shape)), Rounded(spread(w, y.shape))) for y, _, w in updates(c)]
    return [r.stack([a for a, _ in parts], 0).sum(0) / r.stack([b for _, b in parts], 0).sum(0)]


@metric("MeanIoU")
def mean_iou(c):
    n = c.o["num_classes"]
    table = np.zeros((n, n))
    for y, p, w in updates(c):
        y = y if c.o["sparse_y_true"] else y.argmax(-1)
        p = p if c.o["sparse_y_pred"] else p.argmax(-1)
        counts = spread(w, y.shape) * (y != c.o.get("ignore_class", n))
        np.add.at(table, (y.ravel(), p.ravel()), counts.ravel())
    union = table.sum(0) + table.sum(1) - np.diag(table)
    seen = union > 0
    if not seen.any():
        return [rounded(0.0)]
    return [Rounded(np.mean(np.diag(table)[seen] / union[seen]), 1e-5)]


# ---- counts at thresholds: exact, as weights are sixty-fourths; quotients of two hundred of them add up to the bounds here ----
def confusion(c, thresholds, class_id=None, top_k=None, label_weights=None):
    """tp, fp, tn, fn at each threshold: sums of weights that are sixty-fourths."""
    counts = np.zeros((4, len(thresholds)))
    for y, p, w in updates(c):
        weights = spread(w, y.shape) * (1 if label_weights is None else np.array(label_weights))
        p = p.astype(np.float64)
        if top_k:
            order = np.argsort(-p, -1, kind="stable")
            rank = np.empty_like(order)
            np.put_along_axis(rank, order, np.broadcast_to(np.arange(p.shape[-1]), p.shape).copy(), -1)
            p = np.where(rank < top_k, p, -np.inf)
        if class_id is not None:
            y, p, weights = y[..., class_id], p[..., class_id], weights[..., class_id]
        for k, t in enumerate(thresholds):
            said, is_so = p > t, y > 0.5
            for i, which in enumerate((said & is_so, said & ~is_so, ~said & ~is_so, ~said & is_so)):
                counts[i, k] += weights[which].sum()
    return counts


def thresholds_of(c, default):
    t = c.o.get("thresholds")
    t = default if t is None else t
    return [float(np.float32(x)) for x in (t if isinstance(t, list) else [t])]


def shown(c, values):
    """One number where one threshold was given."""
    values = Rounded(values, 1e-5 * np.abs(values))
    return [values] if c.results[0].ndim else [values[0]]


for _i, _name in enumerate(("TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives")):
    METRICS[_name] = lambda c, i=_i: shown(c, confusion(c, thresholds_of(c, 0.5))[i])


def divided(a, b):
    return np.where(b > 0, a / np.where(b > 0, b, 1), 0.0)


@metric("Precision", "Recall")
def precision(c):
    top_k = c.o.get("top_k")
    limits = thresholds_of(c, -np.inf if top_k else 0.5)
    tp, fp, _, fn = confusion(c, limits, c.o.get("class_id"), top_k)
    return shown(c, divided(tp, tp + (fp if c.name == "Precision" else fn)))


def evenly(n):
    return [-1e-7] + [float(np.float32((i + 1) / (n - 1))) for i in range(n - 2)] + [1 + 1e-7]


CONSTRAINTS = {
    "PrecisionAtRecall": ("recall", "recall", "precision"), "RecallAtPrecision": ("precision", "precision", "recall"),
    "SensitivityAtSpecificity": ("specificity", "specificity", "recall"),
    "SpecificityAtSensitivity": ("sensitivity", "recall", "specificity"),
}


@metric(*CONSTRAINTS)
def constrained(c):
    argument, constraint, result = CONSTRAINTS[c.name]
    n, wanted = c.o["num_thresholds"], c.o[argument]
    tp, fp, tn, fn = confusion(c, [0.5] if n == 1 else evenly(n), c.o.get("class_id"))
    rates = {"recall": divided(tp, tp + fn), "precision": divided(tp, tp + fp), "specificity": divided(tn, tn + fp)}
    if (np.abs(rates[constraint] - wanted) < 1e-6).any():  # rounding may decide
        return None
    feasible = rates[result][rates[constraint] >= wanted]
    return [Rounded(feasible.max() if feasible.size else 0.0, 1e-5)]


def area_under(c, tp, fp, tn, fn):
    method = c.o["summation_method"]
    if c.o["curve"] == "PR" and method == "interpolation":
        steps, p = tp[:-1] - tp[1:], tp + fp
        slope = divided(steps, np.maximum(p[:-1] - p[1:], 0))
        both = (p[:-1] > 0) & (p[1:] > 0)
        shares = np.where(both, p[:-1] / np.where(both, p[1:], 1), 1.0)
        return divided(slope * (steps + (tp[1:] - slope * p[1:]) * np.log(shares)), tp[1:] + fn[1:]).sum()
    x = divided(fp, fp + tn) if c.o["curve"] == "ROC" else divided(tp, tp + fn)
    y = divided(tp, tp + fn) if c.o["curve"] == "ROC" else divided(tp, tp + fp)
    heights = {"interpolation": (y[:-1] + y[1:]) / 2, "minoring": np.minimum(y[:-1], y[1:]), "majoring": np.maximum(y[:-1], y[1:])}[method]
    return ((x[:-1] - x[1:]) * heights).sum()


@metric("AUC")
def auc(c):
    if c.o.get("from_logits"):
        return None
    limits, by_label = c.o.get("thresholds"), c.o.get("label_weights")
    inner = evenly(c.o["num_thresholds"]) if limits is None else [-1e-7] + [float(np.float32(t)) for t in limits if 0 < t < 1] + [1 + 1e-7]
    if not c.o.get("multi_label"):
        return [Rounded(area_under(c, *confusion(c, inner, label_weights=by_label)), 1e-4)]
    areas = [area_under(c, *confusion(c, inner, class_id=k)) for k in range(c.given[0].shape[-1])]
    return [Rounded(np.average(areas, weights=by_label), 1e-4)]


# ---- scores: of columns of all updates together ----
def columns(c):
    """Labels, predictions and weights of all samples, [samples, columns]; ranks of 1 are one column."""
    parts = []
    for y, p, w in updates(c):
        y, p = (v.astype(np.float64).reshape(len(v), -1) for v in (y, p))
        parts.append((y, p, np.ones(y.shape) if w is None else np.broadcast_to(w.reshape(-1, 1), y.shape)))
    return [np.concatenate(part) for part in zip(*parts)]


@metric("F1Score", "FBetaScore")
def f_score(c):
    y, p, w = columns(c)
    threshold, squared = c.o.get("threshold"), np.float64(c.o.get("beta", 1.0)) ** 2
    said = p > np.float32(threshold) if threshold is not None else (p >= p.max(-1, keepdims=True)) & (np.abs(p) > 1e-9)
    axis = None if c.o.get("average") == "micro" else 0
    tp, fp, fn = (np.asarray((w * (a & b)).sum(axis)) for a, b in ((said, y != 0), (said, y == 0), (~said, y != 0)))
    precision, recall = divided(tp, tp + fp), divided(tp, tp + fn)
    score = divided(precision * recall * (1 + squared), precision * squared + recall)
    if c.o.get("average") == "weighted":
        support = (w * (y != 0)).sum(0)
        score = (score * divided(support, support.sum())).sum()
    elif c.o.get("average") == "macro":
        score = score.mean()
    return [Rounded(score, 1e-5 * np.abs(score))]


@metric("R2Score")
def r2_score(c):
    y, p, w = columns(c)
    total = (w * y * y).sum(0) - (w * y).sum(0) ** 2 / np.maximum(w.sum(0), 1e-300)
    errors = (w * (y - p) ** 2).sum(0)
    if (total < 1e-3 * (w * y * y).sum(0)).any():  # a difference of sums that are nearly equal
        return None
    score, n, regressors = 1 - errors / total, y.size, c.o.get("num_regressors", 0)
    how = c.o["class_aggregation"]
    if how != "none":
        score = score.mean() if how == "uniform_average" else (score * total).sum() / total.sum()
    if regressors and n - regressors - 1 > 0:
        score = 1 - (1 - score) * (n - 1) / (n - regressors - 1)
    return [Rounded(score, 1e-3 * (1 + np.abs(score)))]
