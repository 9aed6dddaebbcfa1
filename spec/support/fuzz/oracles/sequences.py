"""Connectionist temporal classification, runs of rows, histograms, and collectives of one replica alone."""
import numpy as np

from .common import LARGEST, exactly, finite, integral, op, relative, summed


# ---- one replica is a group of one ----
@op("cross_replica_sum", "cross_replica_mean")
def alone(c):
    return exactly(c.given[0])


@op("all_gather")
def all_gather(c):
    return exactly(c.given[0][None])


@op("all_to_all")
def all_to_all(c):
    return exactly(c.given[0])


@op("reduce_scatter")
def reduce_scatter(c):
    if c.get("op") != "SQUARE_ADD":
        return None if c.get("op", "").startswith("LOGICAL") else exactly(c.given[0])
    return exactly(c.given[0] ** 2) if integral(c) else relative(c, c.wide[0] ** 2, 1)


@op("replication_index")
def replication_index(_):
    return exactly(np.int32(0))


# ---- norms of several tensors, histograms ----
@op("clip_by_global_norm")
def clip_by_global_norm(c):
    parts = c.wide
    n = sum(x.size for x in parts)
    squares = sum((x * x).sum() for x in parts)
    if not finite(*parts) or squares > LARGEST["float64" if c.dtype == "float64" else "float32"]:
        return None
    norm, limit = np.sqrt(squares), c.get("clip_norm")
    factor = limit / max(norm, limit) if limit or norm else 0.0
    relative_error = (n + 12) * c.w
    pairs = [(x * factor, (relative_error + c.u) * np.abs(x * factor)) for x in parts]
    return pairs + [(norm, (relative_error + c.u) * norm)]


@op("histogram_update")
def histogram_update(c):
    counts, x, levels = c.wide
    if not (np.diff(levels) >= 0).all() or not finite(x):
        return None
    bins = np.searchsorted(levels, np.abs(x) if c.get("absolute_of_input") else x, side="right")
    added = np.bincount(bins, minlength=len(levels) + 1)
    return [(counts + added, 2 * c.w * (np.abs(counts) + added) + c.w * added * len(x))]


@op("histogram_normalize")
def histogram_normalize(c):
    x = c.wide[0]
    if not x.size or not finite(x) or not x.sum() > 0:
        return None
    return relative(c, x / x.sum(), x.size + 4)


# ---- runs of rows ----
def copied(y, src, counts, from_rows, to_rows):
    if not y.size:  # nothing is run for no element, so no run is looked at
        return exactly(y)
    for n, a, b in zip(counts, from_rows, to_rows):
        y[b:b + n] = src[a:a + n]
    return exactly(y)


def packed(counts):
    return np.cumsum(counts) - counts


def destination(c):
    return np.zeros_like(c.given[0]) if c.get("zero_unused", False) else c.given[0].copy()


@op("sequence_slice")
def sequence_slice(c):
    return copied(destination(c), c.given[1], *c.given[2:])


@op("sequence_slice_pack")
def sequence_slice_pack(c):
    counts = c.given[2]
    return copied(destination(c), c.given[1], counts, packed(counts), c.given[3])


@op("sequence_slice_unpack")
def sequence_slice_unpack(c):
    src, counts, offsets = c.given
    y = np.zeros(c.results[0].shape, src.dtype)
    return copied(y, src, counts, offsets, packed(counts))


# ---- connectionist temporal classification ----
def log_rows(c, scores):
    """Log probabilities of one sample [time, classes]; as they are where the op takes them so."""
    if c.name.endswith("log_probs"):
        return scores
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def log_probability(rows, labels, blank):
    """Of all alignments of labels to rows: the forward sums over blank, label, blank, ... blank."""
    states = [blank]
    for label in labels:
        states += [label, blank]
    if not len(rows):
        return 0.0 if not labels else -np.inf
    sums = np.full(len(states), -np.inf)
    sums[:2] = rows[0][states[:2]]
    for row in rows[1:]:
        before, sums = sums, sums.copy()
        for i, label in enumerate(states):
            parts = [before[i]] + ([before[i - 1]] if i else [])
            if i > 1 and label != blank and label != states[i - 2]:
                parts.append(before[i - 2])
            sums[i] = np.logaddexp.reduce(parts) + row[label]
    return np.logaddexp.reduce(sums[-2:])


def ctc_bound(c, rows, y):
    """A sum over alignments in double precision of scores that are given: the result's rounding, some of the sums'."""
    unit = 2.0**-53
    greatest = np.abs(rows[np.isfinite(rows)]).sum() if np.isfinite(rows).any() else 0
    return c.u * np.abs(y) + 8 * unit * (greatest + len(rows) * 8) + c.w * 1e-6


@op("nn.ctc_loss", "nn.ctc_loss_with_log_probs")
def ctc_loss(c):
    labels, scores, label_length, length = c.given[0], c.wide[1], c.given[2], c.given[3]
    if not finite(scores):
        return None
    blank = c.get("blank_index", 0) % scores.shape[2]
    y, bounds = np.zeros(len(labels)), np.zeros(len(labels))
    for n, row in enumerate(labels):
        picked = [int(v) for v in row[:label_length[n]]]
        if blank in picked or any(not 0 <= v < scores.shape[2] for v in picked):
            return None
        rows = log_rows(c, scores[:length[n], n])
        y[n] = -log_probability(rows, picked, blank)
        bounds[n] = ctc_bound(c, rows, y[n])
    return [(y, bounds)]


def beam_search(rows, blank, width):
    """Beams by prefix: logarithms of the probabilities of ending in a blank or not; and the least gap between what was kept and what
    was not, below which rounding may choose otherwise."""
    beams, gap = {(): (0.0, -np.inf)}, np.inf
    for row in rows:
        found = {}

        def grow(prefix, in_blank, score):
            old = found.get(prefix, (-np.inf, -np.inf))
            i = 0 if in_blank else 1
            new = list(old)
            new[i] = np.logaddexp(new[i], score)
            found[prefix] = tuple(new)

        for prefix, (ends, other) in beams.items():
            total = np.logaddexp(ends, other)
            grow(prefix, True, total + row[blank])
            if prefix:
                grow(prefix, False, other + row[prefix[-1]])
            for label in range(len(row)):
                if label != blank:
                    grow(prefix + (label,), False, (ends if prefix and prefix[-1] == label else total) + row[label])
        order = sorted(found, key=lambda p: -np.logaddexp(*found[p]))
        order = [p for p in order if np.logaddexp(*found[p]) > -np.inf]
        if len(order) > width:
            gap = min(gap, np.logaddexp(*found[order[width - 1]]) - np.logaddexp(*found[order[width]]))
        beams = {p: found[p] for p in order[:width]}
    return beams, gap


@op("nn.ctc_beam_search_decoder", "nn.ctc_beam_search_decoder_with_log_probs")
def ctc_decoder(c):
    scores, lengths = c.wide[0], c.given[1]
    time, batch, classes = scores.shape
    width, paths, blank = c.get("beam_width", 100), c.get("top_paths", 1), c.get("blank_index", -1) % classes
    if not finite(scores) or time * batch * classes * width * min(width, classes) > 200000:
        return None
    y, bounds = np.zeros((batch, paths)), np.zeros((batch, paths))
    counts, labels = c.results[1].copy(), c.results[2].copy()
    for n in range(batch):
        rows = log_rows(c, scores[:lengths[n], n])
        beams, gap = beam_search(rows, blank, width)
        ranked = sorted(beams, key=lambda p: -np.logaddexp(*beams[p]))
        totals = [np.logaddexp(*beams[p]) for p in ranked] + [-np.inf] * paths
        for k in range(paths):
            y[n, k], bounds[n, k] = totals[k], np.inf if gap < 1e-9 else ctc_bound(c, rows, totals[k])
            if gap < 1e-9 or min(abs(totals[k] - t) for i, t in enumerate(totals) if i != k) < 1e-9:
                continue
            found = ranked[k] if k < len(ranked) else ()
            counts[n, k], labels[n, k] = len(found), list(found) + [-1] * (time - len(found))
    return [(y, bounds)] + exactly(counts) + exactly(labels)
