"""Recurrent layers, where the error of a state is carried through the steps; solvers, histograms."""
import numpy as np

from .common import LARGEST, exactly, finite, op, sigmoid


class Recurrence:
    def __init__(self, c, gates, states):
        self.c, (self.x, self.kernel, self.recurrent) = c, c.wide[:3]
        self.units = self.recurrent.shape[0]
        rest = list(c.wide[3:])
        self.mask = rest.pop() if rest and rest[-1].dtype == bool else None
        self.bias = rest.pop(0) if rest else np.zeros(gates * self.units)
        zero = np.zeros((self.x.shape[0], self.units))
        self.states = [rest.pop(0) if rest else zero for _ in range(states)]
        self.errors = [zero for _ in range(states)]

    def product(self, t, h, error):
        """x kernel and h recurrent with what rounding and the error of h may do to them."""
        c, x, n = self.c, self.x[:, t], self.x.shape[2] + self.units + 4
        terms = np.abs(x) @ np.abs(self.kernel) + np.abs(h) @ np.abs(self.recurrent)
        largest = LARGEST["float64" if c.dtype == "float64" else "float32"]  # where they overflow, so may a part of the sum
        rounding = np.where(terms < largest, n * c.w * terms, np.inf)
        return x @ self.kernel, h @ self.recurrent, rounding, (error + c.u * np.abs(h)) @ np.abs(self.recurrent)

    def run(self, step):
        outputs, errors, last = [], [], np.zeros_like(self.states[0])
        last_error = last
        for t in range(self.x.shape[1]):
            states, state_errors = step(t, self.states, self.errors)
            keep = np.ones((len(last), 1), bool) if self.mask is None else self.mask[:, t:t + 1]
            self.states = [np.where(keep, new, old) for new, old in zip(states, self.states)]
            self.errors = [np.where(keep, new, old) for new, old in zip(state_errors, self.errors)]
            idle = np.zeros_like(last) if self.c.get("zero_output_for_mask") else last
            last, last_error = np.where(keep, states[0], idle), np.where(keep, state_errors[0], last_error)
            outputs.append(last)
            errors.append(last_error)
        pairs = [(np.stack(outputs, 1), np.stack(errors, 1))] + list(zip(self.states, self.errors))
        return [(y, bound + 2 * self.c.u * np.abs(y)) for y, bound in pairs]


def usable(c):
    return c.given[0].size and finite(*[x for x in c.wide if x.dtype != bool])


@op("nn.simple_rnn")
def simple_rnn(c):
    if not usable(c):
        return None
    r = Recurrence(c, 1, 1)
    f = {"tanh": np.tanh, "sigmoid": sigmoid, "relu": lambda z: np.maximum(z, 0), "linear": lambda z: z}[c.get("activation")]

    def step(t, states, errors):
        a, b, rounding, carried = r.product(t, states[0], errors[0])
        z = a + b + r.bias
        return [f(z)], [rounding + carried + 8 * c.w * (np.abs(z) + np.abs(f(z)))]
    return r.run(step)


@op("nn.lstm")
def lstm(c):
    if not usable(c):
        return None
    r, u = Recurrence(c, 4, 2), c.wide[2].shape[0]

    def step(t, states, errors):
        a, b, rounding, carried = r.product(t, states[0], errors[0])
        z = a + b + r.bias
        off = rounding + carried + 8 * c.w * (1 + np.abs(z))
        i, f, o = (sigmoid(z[:, k * u:(k + 1) * u]) for k in (0, 1, 3))
        g = np.tanh(z[:, 2 * u:3 * u])
        ei, ef, eg, eo = (off[:, k * u:(k + 1) * u] * (1 if k == 2 else 0.25) for k in range(4))
        cell = f * states[1] + i * g
        ec = f * errors[1] + np.abs(states[1]) * ef + np.abs(g) * ei + i * eg + (c.u + 4 * c.w) * (np.abs(cell) + 1)
        h = o * np.tanh(cell)
        return [h, cell], [o * ec + np.abs(np.tanh(cell)) * eo + 8 * c.w * np.abs(h), ec]
    return r.run(step)


@op("nn.gru")
def gru(c):
    if not usable(c):
        return None
    r, u = Recurrence(c, 3, 1), c.wide[2].shape[0]
    after = c.get("reset_after")
    bias = np.broadcast_to(r.bias, (2, 3 * u)) if r.bias.ndim == 2 else np.stack([r.bias, np.zeros(3 * u)])

    def step(t, states, errors):
        h, e = states[0], errors[0]
        a, b, rounding, carried = r.product(t, h, e)
        a, b = a + bias[0], b + bias[1]
        off = rounding + carried + 8 * c.w * (1 + np.abs(a) + np.abs(b))
        z, reset = sigmoid(a + b)[:, :u], sigmoid(a + b)[:, u:2 * u]
        ez, er, last = off[:, :u] / 4, off[:, u:2 * u] / 4, slice(2 * u, 3 * u)
        if after:
            inner, slack = reset * b[:, last], off[:, last] + np.abs(b[:, last]) * er
        else:
            inner = (reset * h) @ r.recurrent[:, last]
            slack = off[:, last] + (np.abs(h) * er + e + c.u * np.abs(h)) @ np.abs(r.recurrent[:, last])
        candidate = np.tanh(a[:, last] + inner)
        new = z * h + (1 - z) * candidate
        return [new], [z * e + (1 - z) * slack + np.abs(h - candidate) * ez + (c.u + 8 * c.w) * (np.abs(h) + 1)]
    return r.run(step)


@op("cholesky")
def cholesky(c):
    a = (c.wide[0] + np.swapaxes(c.wide[0], -1, -2)) / 2
    n = a.shape[-1]
    if not a.size:
        return exactly(a)
    y, spread = np.linalg.cholesky(a), np.linalg.cond(a)[..., None, None]
    return [(y, 4 * n * (c.w + c.u) * spread * np.sqrt(np.max(np.abs(a), (-1, -2), keepdims=True)))]


@op("triangular_solve")
def triangular_solve(c):
    a, b = c.wide
    a = np.tril(a) if c.get("lower") else np.triu(a)
    a = np.swapaxes(a, -1, -2) if c.get("adjoint") else a
    if not b.size or not finite(a, b):
        return None
    y, n = np.linalg.solve(a, b), a.shape[-1]
    return [(y, 4 * n * (c.w + c.u) * np.matmul(np.abs(np.linalg.inv(a)), np.matmul(np.abs(a), np.abs(y))))]


@op("normalise_image")
def normalise_image(c):
    image, offsets, scales = (x.astype(np.float64) for x in c.wide)
    y = (image * c.get("scale") - offsets) * scales
    bound = (c.u + 4 * c.w) * (np.abs(image * c.get("scale")) + np.abs(offsets)) * np.abs(scales)
    fourth = np.zeros(y.shape[:-1] + (1,))
    return [(np.concatenate([y, fourth], -1), np.concatenate([bound, fourth], -1))]


@op("histogram")
def histogram(c):
    x, levels = c.wide[0], c.wide[1]
    if not (np.diff(levels) >= 0).all() or not finite(x):
        return None
    bins = np.searchsorted(levels, np.abs(x) if c.get("absolute_of_input") else x, side="right")
    return exactly(np.bincount(bins, minlength=len(levels) + 1).astype(float))


@op("fixed_width_bins")
def fixed_width_bins(c):
    x, n = c.wide[0], c.get("n_bins")
    if not x.size or not finite(x):
        return None
    y = np.linspace(x.min(), x.max(), n)
    return [(y, (8 * c.w + c.u) * max(abs(x.min()), abs(x.max())))]
