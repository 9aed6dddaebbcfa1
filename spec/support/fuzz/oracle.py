"""Calls of ops against NumPy in float64. usage: oracle.py CALLS.jsonl VALUES.npz

Each line of CALLS names an op, its attributes and dtype; VALUES has its operands ("7.in1") and results ("7.out1"). What is expected,
and within what bounds, is in the folder oracles. Prints what is wrong, then "N passed, N failed".
"""
import json
import sys

sys.dont_write_bytecode = True
import numpy as np  # noqa: E402

from oracles import elementwise, linear_algebra, losses, normalisation, products, recurrence, reductions, sequences, shapes  # noqa: E402,F401
from oracles.common import LARGEST, OPS, SMALLEST, Call  # noqa: E402


def wrong_with(name, got, expected, bound, dtype):
    if got.shape != np.shape(expected):
        return f"shape {list(got.shape)} instead of {list(np.shape(expected))}"
    if not got.size:
        return None
    expected, bound = np.broadcast_to(np.asarray(expected), got.shape), np.broadcast_to(np.asarray(bound), got.shape)
    if got.dtype.kind != "f":
        bad = got != expected.astype(got.dtype)
    else:
        largest, tiny = LARGEST[dtype], SMALLEST[dtype]
        got64, known = got.astype(np.float64), np.isfinite(expected) & np.isfinite(bound)
        bad = known & (np.abs(got64 - expected) > bound * 1.001 + tiny)
        over = known & (np.abs(expected) + bound >= largest) & (np.abs(got64) >= largest * 0.99) & (np.sign(got64) == np.sign(expected))
        bad &= ~over
        bad |= np.isnan(expected) & ~np.isnan(got64)
        bad |= np.isinf(expected) & np.isfinite(got64) & (np.abs(got64) < largest * 0.99)
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {got.size} differ, first at {list(at)}: {got[at]!r} instead of {expected[at]!r} within {bound[at]:.3g}"


def main(calls, values):
    values, passed, failed = np.load(values), 0, 0
    for text in open(calls, encoding="utf-8"):
        line = json.loads(text)
        c = Call(line, values)
        try:
            pairs = OPS[c.name](c) if c.name in OPS else None
        except Exception:
            print(f"the oracle itself fails at {line['source']}")
            raise
        if pairs is None:
            continue
        words = None
        for k, (expected, bound) in enumerate(pairs[:len(c.results)]):
            words = words or wrong_with(c.name, c.results[k], expected, bound, line["result_dtypes"][k])
        if words:
            failed += 1
            print(f"FAIL {line['source']}\n  {words}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:3]) else 0)