"""What cases.lua wrote, beside NumPy in float64. usage: cases.py CASES.jsonl VALUES.npz

Formulas with the bounds of their rounding are in oracles; what has none there is named. Prints what is wrong, then "N passed, M failed".
"""
import json
import sys

sys.dont_write_bytecode = True
import numpy as np  # noqa: E402

from oracles import ctc_layers, keras_losses, keras_metrics, keras_optimizers, recurrent_layers  # noqa: E402,F401
from oracles import stages  # noqa: E402
from oracles.layers import LAYERS  # noqa: E402
from oracles.rounded import Rounded  # noqa: E402

ORACLES = {"layers": LAYERS, "losses": keras_losses.LOSSES, "metrics": keras_metrics.METRICS,
           "optimizers": keras_optimizers.OPTIMIZERS, "stages": stages.STAGES}


class Case:
    """o: its configuration; x: its inputs as Rounded; given: as they are; weights by name; results."""

    def __init__(self, line, values):
        self.o = {k: v for k, v in (line.get("o") or {}).items() if v != {}}
        self.family, self.name, self.source = line["family"], line["name"], line["source"]
        self.training, self.call, self.line = line.get("training", False), line.get("call"), line

        def those(letter, count):
            return [values[f"{line['id']}.{letter}{k + 1}"] for k in range(count)]
        self.given, self.weights = those("x", line["inputs"]), those("w", line["weights"])
        self.results = those("y", line["results"])
        self.x = [Rounded(v) for v in self.given]
        self.names = [n.split("/")[-1].split(":")[0] for n in line.get("weight_names") or []]

    def all(self, name):
        return [Rounded(w) for n, w in zip(self.names, self.weights) if n == name]

    def weight(self, name):
        found = self.all(name)
        return found[0] if found else None


def wrong_with(got, expected):
    value, error = np.asarray(expected.value), np.asarray(expected.error)
    if got.shape != value.shape:
        return f"shape {list(got.shape)} instead of {list(value.shape)}"
    wide = got.astype(np.float64)
    bad = np.isfinite(value) & np.isfinite(error) & ~(np.abs(wide - value) <= error * 1.001 + 1e-37)
    if got.dtype.kind != "f":
        bad = wide != value
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {got.size} differ, first at {list(at)}: {got[at]!r} instead of {value[at]!r} within {error[at]:.3g}"


def judge(case):
    """None: nothing to compare with; "": right; else what is wrong."""
    oracle = ORACLES[case.family].get(case.name)
    expected = oracle(case) if oracle else None
    if expected is None:
        return None
    if len(expected) != len(case.results):
        return f"{len(case.results)} results instead of {len(expected)}"
    for k, (got, want) in enumerate(zip(case.results, expected)):
        words = wrong_with(got, want)
        if words:
            return f"result {k + 1}: {words}"
    return ""


def main(cases, values):
    values, passed, failed, unasked = np.load(values), 0, 0, {}
    with open(cases, encoding="utf-8") as file:
        lines = [text for text in file if text.strip()]
    for text in lines:
        case = Case(json.loads(text), values)
        try:
            words = judge(case)
        except Exception:
            print(f"the oracle itself fails at {case.source}")
            raise
        if words is None:
            unasked[case.name] = unasked.get(case.name, 0) + 1
        elif words:
            failed += 1
            print(f"FAIL {case.source}\n  {words}")
        else:
            passed += 1
    if "--unasked" in sys.argv:
        print("not asked of NumPy: " + ", ".join(f"{name} ({n})" for name, n in sorted(unasked.items())))
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:3]) else 0)
