"""Keras layers that convolve and those that carry a state."""
import numpy as np

from . import rounded as r
from .layers import ACTIVATIONS, activation, channels_last, layer, padding_of, planes, windows_of
from .rounded import Rounded, rounded


# ---- convolutions: windows times kernels ----
def convolve(x, kernel, pads, strides, dilations, groups=1):
    n = x.ndim - 2
    size = kernel.shape[:n]
    view = x.each(lambda v: np.moveaxis(windows_of(v, pads, size, strides, dilations), n + 1, -1))
    inner, outer, parts = x.shape[-1] // groups, kernel.shape[-1] // groups, []
    for g in range(groups):
        w = view[..., g * inner:(g + 1) * inner].each(lambda v: v.reshape(int(np.prod(v.shape[:n + 1])), -1))
        k = kernel[..., g * outer:(g + 1) * outer].each(lambda v: v.reshape(-1, v.shape[-1]))
        parts.append(r.product("nk,kf->nf", w, k).each(lambda v: v.reshape(view.shape[:n + 1] + v.shape[-1:])))
    return r.concatenate(parts, -1) if groups > 1 else parts[0]


def settings(c, n, size):
    strides, dilations = planes(c, "strides", n), planes(c, "dilation_rate", n)
    return strides, dilations, [(k - 1) * d + 1 for k, d in zip(size, dilations)]


def finished(c, y):
    return activation(c)(y + c.weight("bias") if c.o["use_bias"] else y)


@layer("Conv1D", "Conv2D", "Conv3D")
@channels_last
def conv(c, x):
    kernel, n = c.weight("kernel"), x.ndim - 2
    strides, dilations, reach = settings(c, n, kernel.shape[:n])
    pads = padding_of(c, x.shape[1:-1], reach, strides)
    return finished(c, convolve(x, kernel, pads, strides, dilations, c.o.get("groups", 1)))


def each_channel(c, x, kernel):
    n = x.ndim - 2
    strides, dilations, reach = settings(c, n, kernel.shape[:n])
    pads = padding_of(c, x.shape[1:-1], reach, strides)
    view = x.each(lambda v: windows_of(v, pads, kernel.shape[:n], strides, dilations).reshape(-1, x.shape[-1], int(np.prod(kernel.shape[:n]))))
    y = r.product("nck,kcm->ncm", view, kernel.each(lambda v: v.reshape(-1, v.shape[-2], v.shape[-1])))
    shape = windows_of(x.value, pads, kernel.shape[:n], strides, dilations).shape[:n + 1]
    return y.each(lambda v: v.reshape(shape + (-1,)))


@layer("DepthwiseConv1D", "DepthwiseConv2D")
@channels_last
def depthwise(c, x):
    return finished(c, each_channel(c, x, c.weight("depthwise_kernel")))


@layer("SeparableConv1D", "SeparableConv2D")
@channels_last
def separable(c, x):
    y = each_channel(c, x, c.weight("depthwise_kernel"))
    n = x.ndim - 2
    return finished(c, convolve(y, c.weight("pointwise_kernel"), [(0, 0)] * y.ndim, [1] * n, [1] * n))


@layer("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
@channels_last
def conv_transpose(c, x):
    kernel, n = c.weight("kernel"), x.ndim - 2  # [..., filters, channels]
    strides, dilations, reach = settings(c, n, kernel.shape[:n])
    same, extra = c.o["padding"] == "same", c.o.get("output_padding")
    shape, before = [], []
    for i in range(n):
        if extra is None:
            extent = x.shape[1 + i] * strides[i] + (0 if same else max(reach[i] - strides[i], 0))
        else:
            more = extra[i] if isinstance(extra, list) else extra
            extent = (x.shape[1 + i] - 1) * strides[i] + reach[i] - (2 * (reach[i] // 2) if same else 0) + more
        total = max((x.shape[1 + i] - 1) * strides[i] + reach[i] - extent, 0)
        shape.append(extent)
        before.append(total // 2 if same else 0)
    wide = [e + k + (m - 1) * s + 1 for e, k, m, s in zip(shape, reach, x.shape[1:], strides)]
    y, terms = np.zeros([x.shape[0]] + wide + [kernel.shape[n]]), np.zeros([x.shape[0]] + wide + [kernel.shape[n]])
    for tap in np.ndindex(*kernel.shape[:n]):
        at = (slice(None),) + tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilations, x.shape[1:], strides))
        y[at] += np.tensordot(x.value, kernel.value[tap], ((-1,), (-1,)))
        terms[at] += np.tensordot(np.abs(x.value), np.abs(kernel.value[tap]), ((-1,), (-1,)))
    cut = (slice(None),) + tuple(slice(b, b + e) for b, e in zip(before, shape))
    count = int(np.prod(kernel.shape[:n])) * x.shape[-1] + 2
    return finished(c, Rounded(y[cut], count * r.UNIT * terms[cut]))


@layer("LocallyConnected1D", "LocallyConnected2D")
@channels_last
def locally_connected(c, x):
    n = x.ndim - 2
    if c.o["implementation"] != 1 or c.o["data_format"] == "channels_first":
        return None
    size, strides = planes(c, "kernel_size", n), planes(c, "strides", n)
    view = x.each(lambda v: np.moveaxis(windows_of(v, [(0, 0)] * v.ndim, size, strides, [1] * n), n + 1, -1))
    shape = view.shape[:n + 1]
    w = view.each(lambda v: v.reshape(shape[0], int(np.prod(shape[1:])), -1))
    kernel = c.weight("kernel").each(lambda v: v.reshape(w.shape[1], w.shape[2], -1))
    return finished(c, r.product("bpk,pkf->bpf", w, kernel).each(lambda v: v.reshape(shape + (-1,))))


# ---- cells: (x, states) → states, the first of which is the output ----
def quarters(z, n):
    size = z.shape[-1] // n
    return [z[..., i * size:(i + 1) * size] for i in range(n)]


def cell(kind, o, weights):
    act = ACTIVATIONS[o.get("activation") or "linear"]
    gate = ACTIVATIONS[o.get("recurrent_activation") or "linear"]
    kernel, recurrent = weights[0], weights[1]
    bias = weights[2] if o["use_bias"] else rounded(0.0)

    def times(x, w):
        return r.product("bi,io->bo", x, w)

    def simple(x, states):
        return [act(times(x, kernel) + bias + times(states[0], recurrent))]

    def lstm(x, states):
        i, f, g, out = quarters(times(x, kernel) + times(states[0], recurrent) + bias, 4)
        inner = gate(f) * states[1] + gate(i) * act(g)
        return [gate(out) * act(inner), inner]

    def gru(x, states):
        h, after = states[0], o["reset_after"]
        first, second = (bias[0], bias[1]) if after and o["use_bias"] else (bias, rounded(0.0))
        a = quarters(times(x, kernel) + first, 3)
        if after:
            b = quarters(times(h, recurrent) + second, 3)
            z, reset = gate(a[0] + b[0]), gate(a[1] + b[1])
            candidate = act(a[2] + reset * b[2])
        else:
            ws = quarters(recurrent, 3)
            z, reset = gate(a[0] + times(h, ws[0])), gate(a[1] + times(h, ws[1]))
            candidate = act(a[2] + times(reset * h, ws[2]))
        return [z * h + (1 - z) * candidate]

    return {"SimpleRNN": simple, "LSTM": lstm, "GRU": gru}[kind], recurrent.shape[0], 2 if kind == "LSTM" else 1


def read(step, units, count, x, mask, backwards, zero_output):
    """x [batch, time, features] → outputs in the order of reading, the last one, states."""
    batch, time = x.shape[:2]
    states = [rounded(np.zeros((batch, units))) for _ in range(count)]
    last, outputs = states[0], []
    for t in range(time - 1, -1, -1) if backwards else range(time):
        new = step(x[:, t], states)
        if mask is None:
            states, last = new, new[0]
            outputs.append(last)
            continue
        keep = np.broadcast_to(mask[:, t:t + 1], last.shape)
        states = [r.choose(keep, a, b) for a, b in zip(new, states)]
        last = r.choose(keep, new[0], last)
        outputs.append(r.choose(keep, new[0], 0.0) if zero_output else last)
    return outputs, outputs[-1] if mask is not None and zero_output else last, states


def kept(c, batch, time):
    """What the examples' calls mask: the last two steps."""
    return np.broadcast_to(np.arange(time) < time - 2, (batch, time)) if c.call == "own" else None


def sequence(c, o, kind, weights, mask, backwards=None):
    step, units, count = cell(kind, o, weights)
    backwards = bool(o.get("go_backwards")) if backwards is None else backwards
    return read(step, units, count, c.x[0], mask, backwards, o.get("zero_output_for_mask", False))


def results(o, outputs, last, states):
    y = r.stack(outputs, 1) if o.get("return_sequences") else last
    return [y] + (states if o.get("return_state") else [])


def whole(kind):
    def applied(c):
        weights = [Rounded(w) for w in c.weights]
        return results(c.o, *sequence(c, c.o, kind, weights, kept(c, *c.x[0].shape[:2])))
    return applied


for _kind in ("SimpleRNN", "LSTM", "GRU"):
    layer(_kind)(whole(_kind))
layer("PopnnLSTM")(whole("LSTM"))
layer("PopnnGRU")(whole("GRU"))


@layer("RNN")
def rnn(c):
    inner = c.o["cell"]
    if isinstance(inner, list) or inner["class_name"] == "StackedRNNCells":
        return None
    o = dict(c.o, **inner["config"])
    mask = kept(c, *c.x[0].shape[:2])
    return results(c.o, *sequence(c, o, inner["class_name"][:-4], [Rounded(w) for w in c.weights], mask))


@layer("Bidirectional")
def bidirectional(c):
    o, kind = c.o["layer"]["config"], c.o["layer"]["class_name"]
    if c.o.get("backward_layer") or not o.get("return_sequences"):
        return None
    half, weights = len(c.weights) // 2, [Rounded(w) for w in c.weights]
    a = r.stack(sequence(c, o, kind, weights[:half], None)[0], 1)
    b = r.stack(sequence(c, o, kind, weights[half:], None, not o.get("go_backwards"))[0][::-1], 1)
    mode = c.o["merge_mode"]
    merges = {"concat": lambda: [r.concatenate([a, b], -1)], "sum": lambda: [a + b], "mul": lambda: [a * b], "ave": lambda: [(a + b) / 2]}
    return merges[mode]() if mode in merges else None


def one_step(kind):
    def applied(c):
        step, units, count = cell(kind, c.o, [Rounded(w) for w in c.weights])
        states = step(c.x[0], [rounded(np.full((c.x[0].shape[0], units), 0.5)) for _ in range(count)])
        return [states[0]] + states
    return applied


for _kind in ("SimpleRNN", "LSTM", "GRU"):
    layer(_kind + "Cell")(one_step(_kind))


@layer("StackedRNNCells")
def stacked(c):
    """Each cell takes what the one before it gives; the weights are those of the cells in order."""
    x, states, at = c.x[0], [], 0
    for each in c.o["cells"]:
        o, kind = each["config"], each["class_name"][:-len("Cell")]
        end = at + (3 if o["use_bias"] else 2)
        step, units, count = cell(kind, o, [Rounded(w) for w in c.weights[at:end]])
        new = step(x, [rounded(np.full((x.shape[0], units), 0.5)) for _ in range(count)])
        x, states, at = new[0], states + new, end
    return [x] + states


@layer("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def conv_lstm(c):
    first, n = c.o["data_format"] == "channels_first", c.x[0].ndim - 3
    x = c.x[0].each(lambda v: np.moveaxis(v, 2, -1)) if first else c.x[0]
    kernel, recurrent, act, gate = c.weight("kernel"), c.weight("recurrent_kernel"), activation(c), activation(c, "recurrent_activation")
    strides, dilations, reach = settings(c, n, kernel.shape[:n])
    pads = padding_of(c, x.shape[2:-1], reach, strides)
    around = [(0, 0)] + [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in recurrent.shape[:n]] + [(0, 0)]
    bias, states, outputs = c.weight("bias"), None, []
    for t in range(x.shape[1] - 1, -1, -1) if c.o["go_backwards"] else range(x.shape[1]):
        z = convolve(x[:, t], kernel, pads, strides, dilations)
        z = z if bias is None else z + bias
        if states is None:
            states = [rounded(np.zeros(z.shape[:-1] + (z.shape[-1] // 4,)))] * 2
        z = z + convolve(states[0], recurrent, around, [1] * n, [1] * n)
        i, f, g, out = quarters(z, 4)
        inner = gate(f) * states[1] + gate(i) * act(g)
        states = [gate(out) * act(inner), inner]
        outputs.append(states[0])
    y = results(c.o, outputs, states[0], states)
    if not first:
        return y
    return [v.each(lambda a: np.moveaxis(a, -1, 2 if a.ndim == n + 3 else 1)) for v in y]
