"""Ops that move elements: exact."""
import numpy as np

from .common import exactly, integral, op, summed


@op("reshape")
def reshape(c):
    return exactly(c.given[0].reshape(c.results[0].shape))


@op("transpose")
def transpose(c):
    perm = c.get("perm")
    return exactly(np.transpose(c.given[0], perm or None))


@op("nn.depth_to_space")
def depth_to_space(c):
    x, b = c.wide[0], c.get("block_size")
    n, h, w, depth = x.shape
    blocks = x.reshape(n, h, w, b, b, depth // b // b).transpose(0, 1, 3, 2, 4, 5)
    return exactly(blocks.reshape(n, h * b, w * b, depth // b // b))


@op("nn.space_to_depth")
def space_to_depth(c):
    x, b = c.wide[0], c.get("block_size")
    n, h, w, depth = x.shape
    blocks = x.reshape(n, h // b, b, w // b, b, depth).transpose(0, 1, 3, 2, 4, 5)
    return exactly(blocks.reshape(n, h // b, w // b, b * b * depth))


@op("expand_dims")
def expand_dims(c):
    return exactly(np.expand_dims(c.given[0], c.get("axis")))


@op("squeeze")
def squeeze(c):
    axis = c.get("axis")
    return exactly(np.squeeze(c.given[0], tuple(axis) if isinstance(axis, list) and axis else axis or None)) if axis != 0 else exactly(np.squeeze(c.given[0], 0))


@op("broadcast_to")
def broadcast_to(c):
    return exactly(np.broadcast_to(c.given[0], c.results[0].shape))


@op("tile")
def tile(c):
    return exactly(np.tile(c.given[0], c.get("multiples")))


@op("repeat_n")
def repeat_n(c):
    return exactly(np.repeat(c.given[0], c.get("repeats"), c.get("axis")))


@op("concat")
def concat(c):
    return exactly(np.concatenate(c.given, c.get("axis")))


@op("stack")
def stack(c):
    return exactly(np.stack(c.given, c.get("axis", 0)))


@op("unstack")
def unstack(c):
    axis = c.get("axis", 0)
    return [pair for part in range(c.given[0].shape[axis]) for pair in exactly(np.take(c.given[0], part, axis))]


@op("split")
def split(c):
    sizes, axis = c.get("count_or_sizes"), c.get("axis", 0)
    parts = sizes if not isinstance(sizes, list) else list(np.cumsum(sizes)[:-1])
    return [pair for part in np.split(c.given[0], parts, axis) for pair in exactly(part)]


@op("reverse")
def reverse(c):
    axis = c.get("axis")
    return exactly(np.flip(c.given[0], tuple(axis) if isinstance(axis, list) else axis))


@op("slice")
def slice_(c):
    begin, size = (v if isinstance(v, list) else [v] for v in (c.get("begin"), c.get("size")))
    return exactly(c.given[0][tuple(slice(b, None if s == -1 else b + s) for b, s in zip(begin, size))])


@op("strided_slice")
def strided_slice(c):
    lists = [v if isinstance(v, list) else [v] for v in (c.get("begins"), c.get("ends"))]
    strides = c.get("strides", 1)
    strides = strides if isinstance(strides, list) else [strides] * len(lists[0])
    parts = [slice(None if b is False else b, None if e is False else e, s) for b, e, s in zip(*lists, strides)]
    return exactly(c.given[0][tuple(parts)])


@op("pad")
def pad(c):
    paddings = c.get("paddings")
    paddings = paddings if isinstance(paddings[0], list) else [paddings]
    mode = c.get("mode", "CONSTANT").lower()
    if mode == "constant":
        value = c.get("constant_values", 0)
        padded = np.pad(c.given[0], paddings, constant_values=value)
        return [(padded, np.where(padded == np.asarray(value, padded.dtype), c.u * abs(value), 0.0))]
    return exactly(np.pad(c.given[0], paddings, mode=mode))


@op("gather")
def gather(c):
    axis = c.get("axis", 0)
    inside = ((c.given[1] >= 0) & (c.given[1] < c.given[0].shape[axis])).all()
    return exactly(np.take(c.given[0], c.given[1], axis)) if inside else None


@op("embedding_lookup")
def embedding_lookup(c):
    return exactly(np.take(c.given[0], c.given[1], 0)) if (c.given[1] < c.given[0].shape[0]).all() else None


@op("take_along")
def take_along(c):
    axis = c.get("axis", -1)
    return exactly(np.take_along_axis(c.given[0], c.given[1], axis)) if (c.given[1] < c.given[0].shape[axis]).all() else None


@op("gather_nd")
def gather_nd(c):
    where_to = np.moveaxis(c.given[1], -1, 0)
    if any((where_to[k] >= c.given[0].shape[k]).any() for k in range(len(where_to))):
        return None
    rest = c.given[0].shape[c.given[1].shape[-1]:]
    return exactly(np.broadcast_to(c.given[0][tuple(where_to)], c.given[1].shape[:-1] + rest))


@op("scatter_nd")
def scatter_nd(c):
    indices, updates = c.given[0], c.wide[1]
    shape = c.results[0].shape
    where_to = np.moveaxis(indices, -1, 0)
    if any((where_to[k] >= shape[k]).any() for k in range(len(where_to))):
        return None
    y, terms = np.zeros(shape), np.zeros(shape)
    np.add.at(y, tuple(where_to), updates)
    np.add.at(terms, tuple(where_to), np.abs(updates))
    return summed(c, y, terms, max(indices[..., 0].size, 1))


@op("segment_sum")
def segment_sum(c):
    data, ids = c.wide[0], c.given[1]
    if (ids >= c.results[0].shape[0]).any():
        return None
    y, terms = np.zeros(c.results[0].shape), np.zeros(c.results[0].shape)
    np.add.at(y, ids, data)
    np.add.at(terms, ids, np.abs(data))
    return exactly(y) if integral(c) else summed(c, y, terms, max(len(ids), 1))


@op("one_hot")
def one_hot(c):
    depth, axis = c.get("depth"), c.get("axis", -1)
    on, off = c.get("on_value", 1), c.get("off_value", 0)
    y = np.where(c.given[0][..., None] == np.arange(depth), on, off)
    return exactly(np.moveaxis(y, -1, axis))


@op("sort")
def sort(c):
    x, axis = c.given[0], c.get("axis", -1)
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    y = np.sort(x, axis)
    return exactly(np.flip(y, axis) if c.get("direction", "ASCENDING") == "DESCENDING" else y)


@op("argsort")
def argsort(c):
    x, axis = c.wide[0], c.get("axis", -1)
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    key = x if c.get("direction", "ASCENDING") == "ASCENDING" else -x.astype(np.float64)
    return exactly(np.argsort(key, axis, kind="stable"))


@op("top_k")
def top_k(c):
    x = c.wide[0]
    if x.dtype.kind == "f" and np.isnan(x).any():
        return None
    order = np.argsort(-x.astype(np.float64), -1, kind="stable")[..., :c.get("k", 1)]
    return exactly(np.take_along_axis(c.given[0], order, -1)) + exactly(order)
