"""Computes what keras_cases.lua wrote again, in float64 with NumPy alone, from the formulas of Keras' documentation.

keras_oracle.py FOLDER prints what differs, then "N cases, M wrong".
"""
import json
import sys

import numpy as np

EPSILON = 1e-7


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


ACTIVATIONS = {
    "linear": lambda x: x, "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": sigmoid,
    "softsign": lambda x: x / (1 + np.abs(x)), "softplus": lambda x: np.logaddexp(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "swish": lambda x: x * sigmoid(x),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
}


# ------------------------------------------------ recurrent

def step(kind, o, weights, x, states):
    act, gate = ACTIVATIONS[o["activation"]], ACTIVATIONS.get(o.get("recurrent_activation"))
    kernel, recurrent = weights[0], weights[1]
    n = recurrent.shape[0]
    bias = weights[2] if o["use_bias"] else np.zeros((2, 3 * n) if kind == "GRU" and o["reset_after"] else kernel.shape[1])
    h = states[0]
    if kind == "SimpleRNN":
        y = act(x @ kernel + bias + h @ recurrent)
        return y, [y]
    if kind == "LSTM":
        i, f, c, out = np.split(x @ kernel + h @ recurrent + bias, 4, axis=1)
        c = gate(f) * states[1] + gate(i) * act(c)
        y = gate(out) * act(c)
        return y, [y, c]
    if o["reset_after"]:
        a, b = x @ kernel + bias[0], h @ recurrent + bias[1]
        z, r = gate(a[:, :n] + b[:, :n]), gate(a[:, n:2 * n] + b[:, n:2 * n])
        candidate = act(a[:, 2 * n:] + r * b[:, 2 * n:])
    else:
        a = x @ kernel + bias
        b = h @ recurrent[:, :2 * n]
        z, r = gate(a[:, :n] + b[:, :n]), gate(a[:, n:2 * n] + b[:, n:])
        candidate = act(a[:, 2 * n:] + (r * h) @ recurrent[:, 2 * n:])
    y = z * h + (1 - z) * candidate
    return y, [y]


def run(kind, o, weights, x, mask, backwards):
    """x [batch, time, features]: the sequence of outputs in the order of reading, the last output, the states."""
    n = weights[1].shape[0]
    states = [np.zeros((x.shape[0], n)) for _ in range(2 if kind == "LSTM" else 1)]
    order = range(x.shape[1] - 1, -1, -1) if backwards else range(x.shape[1])
    last, outputs = np.zeros((x.shape[0], n)), []
    for t in order:
        y, new = step(kind, o, weights, x[:, t], states)
        if mask is None:
            last, states = y, new
            outputs.append(y)
        else:
            keep = mask[:, t:t + 1] > 0
            states = [np.where(keep, a, b) for a, b in zip(new, states)]
            last = np.where(keep, y, last)
            outputs.append(np.where(keep, y, 0) if o["zero_output_for_mask"] else last)
    return np.stack(outputs, 1), outputs[-1] if mask is not None and o["zero_output_for_mask"] else last, states


def recurrent(case, x, weights, mask):
    kind, o = case["kind"], case["o"]
    if o["time_major"]:
        x, mask = x.swapaxes(0, 1), None if mask is None else mask.T

    def one(ws, backwards):
        sequence, last, states = run(kind, o, ws, x, mask, backwards)
        return sequence if o["return_sequences"] else last, states

    def order(y):
        return y.swapaxes(0, 1) if o["time_major"] and o["return_sequences"] else y

    if "merge" not in case:
        y, states = one(weights, o["go_backwards"])
        return [order(y)] + (states if o["return_state"] else [])
    half = len(weights) // 2
    a, _ = one(weights[:half], o["go_backwards"])
    b, _ = one(weights[half:], not o["go_backwards"])
    if o["return_sequences"]:
        b = b[:, ::-1]
    merge = {"concat": lambda: [np.concatenate([a, b], -1)], "sum": lambda: [a + b], "mul": lambda: [a * b],
             "ave": lambda: [(a + b) / 2], "none": lambda: [a, b]}[case["merge"]]()
    return [order(y) for y in merge]


# ------------------------------------------------ convolutions and pools, in two dimensions

def pads(size, window, stride, padding):
    if padding == "valid":
        return 0, 0
    if padding == "causal":
        return window - 1, 0
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def windows(x, size, stride, dilation, padding, fill):
    """[batch, rows, columns, channels] → [batch, rows, columns, size, size, channels]."""
    extents = [(s - 1) * d + 1 for s, d in zip(size, dilation)]
    around = [(0, 0)] + [pads(n, e, s, p) for n, e, s, p in zip(x.shape[1:3], extents, stride, padding)] + [(0, 0)]
    x = np.pad(x, around, constant_values=fill)
    out = [(n - e) // s + 1 for n, e, s in zip(x.shape[1:3], extents, stride)]
    y = np.empty((x.shape[0], *out, *size, x.shape[3]))
    for i in range(out[0]):
        for j in range(out[1]):
            r, c = i * stride[0], j * stride[1]
            y[:, i, j] = x[:, r:r + extents[0]:dilation[0], c:c + extents[1]:dilation[1]]
    return y


def channels_last(case, x):
    if case["o"]["data_format"] == "channels_first":
        x = np.moveaxis(x, 1, -1)
    return x[:, None] if case["rank"] == 1 else x


def restored(case, y):
    if case["rank"] == 1:
        y = y[:, 0]
    return np.moveaxis(y, -1, 1) if case["o"]["data_format"] == "channels_first" else y


def planes(case, name):
    n = case["o"].get(name, 1)
    return (1, n) if case["rank"] == 1 else (n, n)


def conv(case, x, weights, _):
    o, kind = case["o"], case["kind"]
    x = channels_last(case, x)
    padding = ("valid", o["padding"]) if case["rank"] == 1 else (o["padding"],) * 2
    w = windows(x, planes(case, "kernel_size"), planes(case, "strides"), planes(case, "dilation_rate"), padding, 0)
    kernel = weights[0][None] if case["rank"] == 1 else weights[0]
    if kind == "Conv":
        each = kernel.shape[2]
        parts = []
        for g in range(o["groups"]):
            filters = kernel.shape[3] // o["groups"]
            parts.append(np.einsum("brcijk,ijkf->brcf", w[..., g * each:(g + 1) * each],
                                   kernel[..., g * filters:(g + 1) * filters]))
        y = np.concatenate(parts, -1)
    else:
        y = np.einsum("brcijk,ijkm->brckm", w, kernel)
        y = y.reshape(*y.shape[:3], -1)
        if kind == "SeparableConv":
            y = y @ weights[1].reshape(weights[1].shape[-2:])
    if o["use_bias"]:
        y = y + weights[-1]
    return [restored(case, ACTIVATIONS[o["activation"]](y))]


def pool(case, x, _, __):
    o = case["o"]
    x = channels_last(case, x)
    padding = ("valid", o["padding"]) if case["rank"] == 1 else (o["padding"],) * 2
    w = windows(x, planes(case, "pool_size"), planes(case, "strides"), (1, 1), padding, np.nan)
    f = np.nanmax if case["kind"] == "MaxPooling" else np.nanmean
    return [restored(case, f(w, axis=(3, 4)))]


# ------------------------------------------------ normalization, attention

def norm(case, x, weights, _):
    o = case["o"]
    axis = o["axis"] % 3
    along = [1, 1, 1]
    along[axis] = x.shape[axis]
    weights = list(weights)
    gamma = weights.pop(0).reshape(along) if o["scale"] else 1
    beta = weights.pop(0).reshape(along) if o["center"] else 0
    if case["kind"] == "LayerNormalization":
        mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    elif case["training"]:
        others = tuple(a for a in range(3) if a != axis)
        mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    else:
        mean, variance = weights[0].reshape(along), weights[1].reshape(along)
    return [(x - mean) / np.sqrt(variance + o["epsilon"]) * gamma + beta]


def attention(case, inputs, weights, mask):
    q, v, k = inputs
    o = case["o"]
    scale = weights[0] if o["use_scale"] else 1
    if case["kind"] == "Attention":
        scores = q @ k.swapaxes(1, 2) * scale
    else:
        scores = (np.tanh(q[:, :, None] + k[:, None]) * scale).sum(-1)
    seen = np.ones(scores.shape, bool)
    if mask is not None:
        seen &= mask[:, None] > 0
    if o["causal"]:
        seen &= np.tril(np.ones(scores.shape[1:], bool))
    scores = np.where(seen.any(-1, keepdims=True), scores, 0)  # all lowered by 1e9, float32 has no differences left
    return [softmax(scores - 1e9 * ~seen) @ v]


# ------------------------------------------------ losses

def per_sample(case, y, p):
    kind, o = case["kind"], case["o"]
    mean = lambda x: x.mean(-1)
    if kind in ("Hinge", "SquaredHinge") and np.isin(y, (0, 1)).all():
        y = 2 * y - 1
    if "entropy" in kind and kind != "SparseCategoricalCrossentropy" and o["label_smoothing"]:
        s = o["label_smoothing"]
        y = y * (1 - s) + (0.5 * s if kind[0] == "B" else s / y.shape[-1])
    if kind == "BinaryCrossentropy":
        q = sigmoid(p) if o["from_logits"] else np.clip(p, EPSILON, 1 - EPSILON)
        e = 0 if o["from_logits"] else EPSILON
        return mean(-(y * np.log(q + e) + (1 - y) * np.log(1 - q + e)))
    if "entropy" in kind:
        if o["from_logits"]:
            q = softmax(p)
        elif kind == "CategoricalCrossentropy":
            q = np.clip(p / p.sum(-1, keepdims=True), EPSILON, 1 - EPSILON)
        else:
            q = softmax(np.log(np.clip(p, EPSILON, 1 - EPSILON)))
        if kind == "CategoricalCrossentropy":
            return -(y * np.log(q)).sum(-1)
        return -np.log(np.take_along_axis(q, y[..., None].astype(int), -1))[..., 0]
    log1 = lambda x: np.log(np.maximum(x, EPSILON) + 1)
    unit = lambda x: x / np.sqrt(np.maximum((x * x).sum(-1, keepdims=True), 1e-12))
    return {
        "MeanSquaredError": lambda: mean((p - y) ** 2), "MeanAbsoluteError": lambda: mean(abs(p - y)),
        "MeanAbsolutePercentageError": lambda: 100 * mean(abs((y - p) / np.maximum(abs(y), EPSILON))),
        "MeanSquaredLogarithmicError": lambda: mean((log1(p) - log1(y)) ** 2),
        "Hinge": lambda: mean(np.maximum(1 - y * p, 0)), "SquaredHinge": lambda: mean(np.maximum(1 - y * p, 0) ** 2),
        "CategoricalHinge": lambda: np.maximum(((1 - y) * p).max(-1) - (y * p).sum(-1) + 1, 0),
        "LogCosh": lambda: mean(np.log(np.cosh(p - y))),
        "KLDivergence": lambda: (np.clip(y, EPSILON, 1) * np.log(np.clip(y, EPSILON, 1) / np.clip(p, EPSILON, 1))).sum(-1),
        "Poisson": lambda: mean(p - y * np.log(p + EPSILON)),
        "Huber": lambda: mean(np.where(abs(p - y) <= o["delta"], 0.5 * (p - y) ** 2,
                                       o["delta"] * abs(p - y) - 0.5 * o["delta"] ** 2)),
        "CosineSimilarity": lambda: -(unit(y) * unit(p)).sum(-1),
    }[kind]()


def loss(case, inputs, _, weight):
    each = per_sample(case, *inputs)
    if weight is not None:
        while weight.ndim > each.ndim:
            weight = weight[..., 0]
        each = each * weight.reshape(weight.shape + (1,) * (each.ndim - weight.ndim))
    return [{"none": lambda: each, "sum": each.sum, "sum_over_batch_size": each.mean}[case["o"]["reduction"]]()]


FAMILIES = {"recurrent": recurrent, "conv": conv, "pool": pool, "norm": norm, "attention": attention, "loss": loss}


def main(folder):
    with open(folder + "/cases.json") as file:
        cases = json.load(file)
    wrong = 0
    for i, case in enumerate(cases, 1):
        with np.load(f"{folder}/case-{i}.npz") as data:
            def named(letter):
                names = sorted((k for k in data if k[0] == letter and k[1:].isdigit()), key=lambda k: int(k[1:]))
                return [data[k].astype(np.float64) for k in names]
            inputs, weights, got = named("x"), named("w"), named("y")
            mask = data["mask"].astype(np.float64) if "mask" in data else None
        single = case["family"] not in ("attention", "loss")
        want = FAMILIES[case["family"]](case, inputs[0] if single else inputs, weights, mask)
        shapes = [y.shape for y in got], [np.shape(y) for y in want]
        close = shapes[0] == shapes[1] and all(np.allclose(a, b, rtol=2e-4, atol=2e-5) for a, b in zip(got, want))
        if not close:
            wrong += 1
            worst = max(np.abs(a - b).max() for a, b in zip(got, want)) if shapes[0] == shapes[1] else shapes
            print(f"case {i}: {json.dumps(case)}{'' if mask is None else ', masked'}: {worst}")
    print(f"{len(cases)} cases, {wrong} wrong")


main(sys.argv[1])
