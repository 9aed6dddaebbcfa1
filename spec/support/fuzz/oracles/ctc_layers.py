"""Keras layers that decode connectionist temporal classification."""
import numpy as np

from . import rounded as r
from .layers import layer
from .rounded import Rounded
from .sequences import beam_search

MOST_WORK = 200000  # steps of the search in Python


def decoded(c):
    """Scores of paths, their lengths and labels, -1 behind them; None where the search is long or rounding may choose another path."""
    x, blank = c.x[0] * 4, c.o["blank_index"]
    time, batch, classes = x.shape
    width, paths = c.o["beam_width"], c.o["top_paths"]
    if blank >= classes or time * batch * classes * width * min(width, classes) > MOST_WORK:
        return None
    if c.o["from_logits"]:
        x = r.log(r.softmax(x))
    scores, errors = np.full((batch, paths), -np.inf), np.zeros((batch, paths))
    counts, labels = np.zeros((batch, paths)), np.full((batch, paths, time), -1.0)
    for n in range(batch):
        rows = x[:max(time - n % 3, 0), n]  # the lengths of the examples' call
        beams, gap = beam_search(rows.value, blank, width)
        ranked = sorted(beams, key=lambda p: -np.logaddexp(*beams[p]))
        totals = [np.logaddexp(*beams[p]) for p in ranked][:paths + 1]
        # a sum over alignments is off by no more than its worst row is at each step, and its own rounding
        error = rows.error.max(-1).sum() + 8 * r.UNIT * (np.abs(rows.value).max(-1).sum() + len(rows.value))
        if min([gap] + [a - b for a, b in zip(totals, totals[1:])]) <= 2 * error:
            return None
        for k, path in enumerate(ranked[:paths]):
            scores[n, k], errors[n, k] = totals[k], error
            counts[n, k], labels[n, k, :len(path)] = len(path), path
    return Rounded(scores, errors), Rounded(counts), Rounded(labels)


@layer("CTCInferenceLayer")
def inference(c):
    return decoded(c)


@layer("CTCPredictionsLayer")
def predictions(c):
    """The best path, filled up with the blank index."""
    found = decoded(c)
    if found is None:
        return None
    best = found[2].value[:, 0]
    return [Rounded(np.where(best < 0, c.o["blank_index"], best))]
