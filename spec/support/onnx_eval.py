"""Runs ONNX files with NumPy, by the operators' definitions: what keras.onnx.export is compared with.

usage: onnx_eval.py FOLDER: for each case of cases.json {file, inputs: [{name, shape, dtype, data}]} prints a line of
JSON, the outputs' elements. The files' form is checked by onnx itself."""
import json
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def windows(x, size, strides, dilations, pads, value):
    """(position, patch [n, c, *size]) of every window."""
    n = len(size)
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[n + i]) for i in range(n)], constant_values=value)
    cover = [(k - 1) * d + 1 for k, d in zip(size, dilations)]
    counts = [(x.shape[2 + i] - cover[i]) // strides[i] + 1 for i in range(n)]
    for at in np.ndindex(*counts):
        cut = [slice(p * s, p * s + c, d) for p, s, c, d in zip(at, strides, cover, dilations)]
        yield at, x[(slice(None), slice(None), *cut)]


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def conv(x, a):
    image, kernel = x[0], x[1]
    groups, out = a["group"], {}
    for at, patch in windows(image, kernel.shape[2:], a["strides"], a["dilations"], a["pads"], 0):
        parts = [np.tensordot(p, k, (range(1, p.ndim), range(1, p.ndim)))
                 for p, k in zip(np.split(patch, groups, 1), np.split(kernel, groups, 0))]
        out[at] = np.concatenate(parts, 1)
    return gather_windows(out)


def gather_windows(out):
    counts = np.array(list(out)).max(0) + 1
    any_value = next(iter(out.values()))
    y = np.zeros(any_value.shape + tuple(counts), any_value.dtype)
    for at, value in out.items():
        y[(slice(None), slice(None), *at)] = value
    return y


def max_pool(x, a):
    n = len(a["kernel_shape"])
    return gather_windows({at: p.max(tuple(range(2, p.ndim)))
                           for at, p in windows(x[0], a["kernel_shape"], a["strides"], [1] * n, a["pads"], -np.inf)})


def lstm(x, a):
    sequence, w, r, b = x[0], x[1][0], x[2][0], x[3][0]
    u = a["hidden_size"]
    h = c = np.zeros((sequence.shape[1], u), np.float32)
    out = []
    for step in sequence:
        i, o, f, g = np.split(step @ w.T + h @ r.T + b[:4 * u] + b[4 * u:], 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out)[:, None], h[None], c[None]


def gru(x, a):
    sequence, w, r, b = x[0], x[1][0], x[2][0], x[3][0]
    u = a["hidden_size"]
    h = np.zeros((sequence.shape[1], u), np.float32)
    out = []
    for step in sequence:
        xz, xr, xh = np.split(step @ w.T + b[:3 * u], 3, 1)
        rz, rr, rh = np.split(r, 3, 0)
        bz, br, bh = np.split(b[3 * u:], 3)
        z, reset = sigmoid(xz + h @ rz.T + bz), sigmoid(xr + h @ rr.T + br)
        if a.get("linear_before_reset"):
            new = np.tanh(xh + reset * (h @ rh.T + bh))
        else:
            new = np.tanh(xh + (reset * h) @ rh.T + bh)
        h = (1 - z) * new + z * h
        out.append(h)
    return np.stack(out)[:, None], h[None]


def layer_norm(x, a):
    d = x[0] - x[0].mean(-1, keepdims=True)
    y = d / np.sqrt((d * d).mean(-1, keepdims=True) + a["epsilon"]) * x[1]
    return y + x[2] if len(x) > 2 else y


def slice_(x, a):
    cut = [slice(None)] * x[0].ndim
    for i, axis in enumerate(x[3]):
        cut[axis] = slice(int(x[1][i]), None if x[2][i] > 1 << 40 else int(x[2][i]))
    return x[0][tuple(cut)]


OPS = {
    "Add": lambda x, a: x[0] + x[1], "Sub": lambda x, a: x[0] - x[1], "Mul": lambda x, a: x[0] * x[1],
    "Div": lambda x, a: x[0] / x[1], "Relu": lambda x, a: np.maximum(x[0], 0), "Tanh": lambda x, a: np.tanh(x[0]),
    "Sigmoid": lambda x, a: sigmoid(x[0]), "Identity": lambda x, a: x[0], "MatMul": lambda x, a: x[0] @ x[1],
    "Sqrt": lambda x, a: np.sqrt(x[0]), "Softmax": lambda x, a: softmax(x[0], a["axis"]),
    "Transpose": lambda x, a: x[0].transpose(a["perm"]), "Reshape": lambda x, a: x[0].reshape(x[1]),
    "Gather": lambda x, a: np.take(x[0], x[1], a.get("axis", 0)), "Concat": lambda x, a: np.concatenate(x, a["axis"]),
    "Squeeze": lambda x, a: np.squeeze(x[0], tuple(x[1])), "Unsqueeze": lambda x, a: np.expand_dims(x[0], tuple(x[1])),
    "ReduceMean": lambda x, a: x[0].mean(tuple(a["axes"]), keepdims=bool(a.get("keepdims", 1))),
    "Cast": lambda x, a: x[0].astype(onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[a["to"]]), "Slice": slice_,
    "Conv": conv, "MaxPool": max_pool, "LSTM": lstm, "GRU": gru, "LayerNormalization": layer_norm,
}


def run(model, feeds):
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values.update(feeds)
    for node in model.graph.node:
        x = [values[name] if name else None for name in node.input]
        results = OPS[node.op_type](x, attributes(node))
        values.update(zip(node.output, results if isinstance(results, tuple) else (results,)))
    return [values[v.name].ravel().tolist() for v in model.graph.output]


folder = sys.argv[1]
for case in json.load(open(os.path.join(folder, "cases.json"))):
    model = onnx.load(os.path.join(folder, case["file"]))
    onnx.checker.check_model(model, full_check=True)
    feeds = {i["name"]: np.array(i["data"], i["dtype"]).reshape(i["shape"]) for i in case["inputs"]}
    print(json.dumps(run(model, feeds) if case["evaluate"] else []))
