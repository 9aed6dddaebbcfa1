"""Keras optimizers by the formulas of their documentation, step by step."""
import numpy as np

from . import rounded as r
from .rounded import Rounded, rounded

RULES = {}


def rule(*names):
    def enter(f):
        for name in names:
            RULES[name] = f
        return f
    return enter


class Slots(dict):
    """What is kept beside a variable; made of zeros, or of a number."""

    def of(self, name, like, first=0.0):
        if name not in self:
            self[name] = Rounded(np.full(like.shape, np.float64(np.float32(first))))
        return self[name]


def moment(s, name, beta, w, g):
    s[name] = s.of(name, w) * beta + g * (1 - beta)
    return s[name]


def square(x):
    return x * x


@rule("SGD")
def sgd(o, s, w, g, rate, _):
    if not o.get("momentum"):
        return w - g * rate
    v = s["v"] = s.of("v", w) * o["momentum"] - g * rate
    return w + (v * o["momentum"] - g * rate if o["nesterov"] else v)


@rule("Adam", "AdamW")
def adam(o, s, w, g, rate, t):
    m, v = moment(s, "m", o["beta_1"], w, g), moment(s, "v", o["beta_2"], w, square(g))
    if o.get("amsgrad"):
        v = s["greatest"] = r.maximum(s.of("greatest", w), v)
    corrected = rate * r.sqrt(1 - power(o["beta_2"], t)) / (1 - power(o["beta_1"], t))
    return w - m * corrected / (r.sqrt(v) + o["epsilon"])


def power(beta, t):
    """beta^t of the number that float32 has for beta; taken by a library or step by step."""
    value = np.float64(np.float32(beta)) ** t
    return Rounded(value, (t + 8) * r.UNIT * value)


@rule("Adamax")
def adamax(o, s, w, g, rate, t):
    m = moment(s, "m", o["beta_1"], w, g)
    u = s["u"] = r.maximum(s.of("u", w) * o["beta_2"], r.absolute(g))
    return w - m * (rate / (1 - power(o["beta_1"], t))) / (u + o["epsilon"])


@rule("Nadam")
def nadam(o, s, w, g, rate, t):
    def warmed(step):
        return rounded(o["beta_1"]) * (1 - power(0.96, step * o["schedule_decay"]) * 0.5)
    now, then = warmed(t), warmed(t + 1)
    schedule = s["schedule"] = s.get("schedule", rounded(1.0)) * now
    m, v = moment(s, "m", o["beta_1"], w, g), moment(s, "v", o["beta_2"], w, square(g))
    ahead = (1 - now) * (g / (1 - schedule)) + then * (m / (1 - schedule * then))
    return w - ahead * rate / (r.sqrt(v / (1 - power(o["beta_2"], t))) + o["epsilon"])


@rule("RMSprop")
def rmsprop(o, s, w, g, rate, _):
    spread = moment(s, "rms", o["rho"], w, square(g))
    if o["centered"]:
        spread = spread - square(moment(s, "mean", o["rho"], w, g))
    if not o.get("momentum"):
        return w - g * rate / (r.sqrt(spread) + o["epsilon"])
    v = s["v"] = s.of("v", w) * o["momentum"] + g * rate / r.sqrt(spread + o["epsilon"])
    return w - v


@rule("Adagrad")
def adagrad(o, s, w, g, rate, _):
    total = s["total"] = s.of("total", w, o["initial_accumulator_value"]) + square(g)
    return w - g * rate / (r.sqrt(total) + o["epsilon"])


@rule("Adadelta")
def adadelta(o, s, w, g, rate, _):
    e = o["epsilon"]
    grad = moment(s, "grad", o["rho"], w, square(g))
    step = g * r.sqrt(s.of("step", w) + e) / r.sqrt(grad + e)
    moment(s, "step", o["rho"], w, square(step))
    return w - step * rate


@rule("Ftrl")
def ftrl(o, s, w, g, rate, _):
    p = -o["learning_rate_power"]
    before = s.of("total", w, o["initial_accumulator_value"])
    after = s["total"] = before + square(g)
    shrunk = g + w * (2 * o["l2_shrinkage_regularization_strength"])
    linear = s["linear"] = s.of("linear", w) + shrunk - (r.power(after, p) - r.power(before, p)) / rate * w
    l2 = rounded(o["l2_regularization_strength"]) + rounded(o["beta"]) / (rate * 2)
    quadratic = r.power(after, p) / rate + l2 * 2
    l1 = rounded(o["l1_regularization_strength"])
    return r.where_positive(r.absolute(linear) - l1, (r.sign(linear) * l1 - linear) / quadratic, 0.0)


@rule("LAMB")
def lamb(o, s, w, g, rate, t):
    if o.get("weight_decay"):
        return None
    m, v = moment(s, "m", o["beta_1"], w, g), moment(s, "v", o["beta_2"], w, square(g))
    step = m / (1 - power(o["beta_1"], t)) / (r.sqrt(v / (1 - power(o["beta_2"], t))) + o["epsilon"])
    if not w.value.any():  # neither has a length to be scaled by
        return w - step * rate
    return w - step * (r.sqrt(square(w).sum()) / r.sqrt(square(step).sum())) * rate


@rule("Lion")
def lion(o, s, w, g, rate, _):
    m = s.of("m", w)
    step = r.sign(m * o["beta_1"] + g * (1 - rounded(o["beta_1"])))
    moment(s, "m", o["beta_2"], w, g)
    return w - step * rate


# ---- around the rules ----
def shortened(g, norm, limit):
    return g * (rounded(limit) / r.maximum(norm, limit))


def clipped(o, gradients):
    if o.get("clipvalue") is not None:
        limit = rounded(o["clipvalue"])
        gradients = [r.minimum(r.maximum(g, -limit), limit) for g in gradients]
    if o.get("clipnorm") is not None:
        gradients = [shortened(g, r.sqrt(square(g).sum()), o["clipnorm"]) for g in gradients]
    if o.get("global_clipnorm") is not None:
        total = r.sqrt(r.stack([square(g).sum() for g in gradients], 0).sum())
        gradients = [shortened(g, total, o["global_clipnorm"]) for g in gradients]
    return gradients


def trained(rule_of, o, variables, gradients):
    """gradients: for each step a list. The variables after the last step; None where there is no formula."""
    slots, averages = [Slots() for _ in variables], [None] * len(variables)
    for t, of_step in enumerate(gradients, 1):
        rate = rounded(o["learning_rate"])
        if o.get("decay"):
            rate = rate / (rounded(o["decay"]) * (t - 1) + 1)
        for i, g in enumerate(clipped(o, of_step)):
            w = variables[i]
            if o.get("weight_decay"):
                w = w - w * (rate * o["weight_decay"])
            w = rule_of(o, slots[i], w, g, rate, t)
            if w is None:
                return None
            if o.get("use_ema"):
                m = o["ema_momentum"]
                averages[i] = w if averages[i] is None else averages[i] * m + w * (1 - rounded(m))
                if o.get("ema_overwrite_frequency") and t % o["ema_overwrite_frequency"] == 0:
                    w = averages[i]
            variables[i] = w
    return variables


def steps_of(c):
    n = c.line["count"]
    return c.x[:n], [[x[t] for x in c.x[n:]] for t in range(c.line["steps"])]


def optimizer(name):
    def applied(c):
        variables, gradients = steps_of(c)
        return trained(RULES[name], c.o, variables, gradients)
    return applied


OPTIMIZERS = {name: optimizer(name) for name in RULES}


# ---- wrappers: the examples have an SGD with momentum inside ----
def wrapped(change):
    def applied(c):
        inner = c.o.get("opt") or c.o.get("optimizer") or c.o.get("wrapped_optimizer")
        if not inner or inner["class_name"] not in RULES:
            return None
        variables, gradients = steps_of(c)
        return trained(RULES[inner["class_name"]], inner["config"], variables, change(c, gradients))
    return applied


def accumulated(c, gradients):
    n, total = c.o["num_mini_batches"], []
    for k in range(len(gradients) // n):
        group = gradients[k * n:(k + 1) * n]
        sums = group[0]
        for more in group[1:]:
            sums = [a + b for a, b in zip(sums, more)]
        mean = c.o.get("reduction_method", "SUM") != "SUM"
        total.append([s / float(n) for s in sums] if mean else sums)
    return total


OPTIMIZERS["GradientAccumulationOptimizer"] = wrapped(accumulated)
OPTIMIZERS["CrossReplicaOptimizer"] = wrapped(lambda c, gradients: gradients)
for _name in ("MapGradientOptimizer", "MapGradientOptimizerInvertedChaining"):
    OPTIMIZERS[_name] = wrapped(lambda c, gradients: [[g * 2 for g in step] for step in gradients])
