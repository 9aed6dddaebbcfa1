"""Dataset stages on a list of (x, i) pairs."""
import itertools
from collections import Counter

import numpy as np

from .rounded import Rounded, rounded


def filled(group, width, value):
    return [np.pad(x, (0, width - len(x)), constant_values=value) for x, _ in group]


def batched(items, n, drop, make):
    groups = [items[k:k + n] for k in range(0, len(items), n)]
    return [make(g) for g in groups if len(g) == n or not drop]


def bucketed(items, a, b, sizes, drop):
    """Batches of what lies below a, below b, and beyond, as they fill; what is left comes by bucket."""
    made, waiting = [], [[], [], []]
    for item in items:
        k = int(item[1] >= a) + int(item[1] >= b)
        waiting[k].append(item)
        if len(waiting[k]) == sizes[k]:
            made.append(stacked(waiting[k]))
            waiting[k] = []
    return made + [stacked(group) for group in waiting if group and not drop]


def stacked(group):
    return np.stack([x for x, _ in group]), np.stack([i for _, i in group])


def padded(items, n, more, drop, value):
    if not items:
        return []
    width = len(items[0][0]) + more
    return batched(items, n, drop, lambda g: (np.stack(filled(g, width, value)), np.stack([i for _, i in g])))


def windows(items, size, shift, stride, drop):
    out = []
    for first in range(0, len(items), shift):
        window = items[first:first + (size - 1) * stride + 1:stride]
        if len(window) == size or not drop:
            out += window
    return out


def interleaved(items, n, cycle, block):
    """In turn `block` elements of each of up to `cycle` parts, which are n copies of an element each."""
    out, waiting, places, at = [], list(items), [None] * cycle, 0
    while waiting or any(p is not None for p in places):
        if places[at] is None and waiting:
            item = waiting.pop(0)
            places[at] = [item] * n
        if places[at] is not None:
            out += places[at][:block]
            places[at] = places[at][block:] or None
        at = (at + 1) % cycle
    return out


STAGE = {
    "map": lambda items, a, b: [(np.float32(np.float32(x * np.float32(a)) + np.float32(b)), i + b) for x, i in items],
    "filter": lambda items, m: [(x, i) for x, i in items if np.sum(i) % m != 0],
    "take_while": lambda items, m: list(itertools.takewhile(lambda each: np.sum(each[1]) % m != m - 1, items)),
    "apply": lambda items, n: items[:n],
    "take": lambda items, n: items[:n], "skip": lambda items, n: items[n:],
    "shard": lambda items, n, k: items[k::n], "repeat_n": lambda items, n: items * n,
    "concatenate": lambda items, n: items + items[:n], "cache": lambda items: items, "prefetch": lambda items: items,
    "with_options": lambda items: items,
    "batch": lambda items, n, drop: batched(items, n, drop, stacked), "padded_batch": padded,
    "bucket_by_sequence_length": bucketed,
    "unbatch": lambda items: [(x, i) for xs, js in items for x, i in zip(xs, js)], "window": windows,
    "flat_map": lambda items, n: [item for item in items for _ in range(n)], "interleave": interleaved,
    "enumerate": lambda items, start: [(x, i + k + start) for k, (x, i) in enumerate(items)],
    "zip": lambda items, n: [(x + y, i + j) for (x, i), (y, j) in zip(items, items[n:])],
}


def flat(items):
    """What stages.lua makes of the elements; numbers are exact but for a fused multiplication and addition."""
    if not items:
        return [Rounded(np.zeros(0)), rounded(np.zeros(0)), rounded(np.zeros((0, 2)))]
    xs = np.concatenate([np.ravel(x) for x, _ in items]).astype(np.float64)
    shapes = [[len(x) if np.ndim(x) > 1 else -1, np.shape(x)[-1]] for x, _ in items]
    return [Rounded(xs, 4 * 2.0**-24 * np.abs(xs)), rounded(np.concatenate([np.ravel(i) for _, i in items])),
            rounded(np.array(shapes))]


def shuffled(c, items, buffer):
    """The same elements in another order, each at most buffer - 1 places before its own."""
    if any(np.ndim(x) > 1 for x, _ in items):
        return None
    got = [int(v) for v in c.results[1]]
    if Counter(got) != Counter(int(i) for _, i in items):
        return [rounded(np.nan)]
    places = {}
    for k, (_, i) in enumerate(items):
        places.setdefault(int(i), []).append(k)
    if all(len(p) == 1 for p in places.values()):
        order = [places[v][0] for v in got]
        if any(k > p + buffer - 1 for p, k in enumerate(order)):
            return [rounded(np.nan)]
        return flat([items[k] for k in order])
    return None


def chain(c):
    x, i = c.given
    items = [(x[k], i[k]) for k in range(len(x))]
    for name, numbers in c.line["chain"] if isinstance(c.line["chain"], list) else []:
        numbers = numbers if isinstance(numbers, list) else []
        if name == "shuffle":
            return shuffled(c, items, *numbers)
        items = STAGE[name](items, *numbers)
    return flat(items)


STAGES = {"chain": chain}
