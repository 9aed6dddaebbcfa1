#!/usr/bin/env python3
"""Write what NumPy prints for many arrays: print_cases.py SEED COUNT > spec/tensor/print_cases.txt

A case is a line "dtype extents data", data being little-endian hex or "range" (0, 1, 2 ...), then the lines of
str(array), each after "|", then those of repr(array), each after ">", in the words of ipulua: "tensor" for
"array", the dtype always named, shapes in square brackets, where the array is empty or not shown whole.
"""
import sys

import numpy as np

DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"]


def prompt_form(a):
    """NumPy's repr with the prefix tensor( and the dtype spelt out, broken by NumPy's rule for long last lines."""
    if a.size:
        body = np.array2string(a, separator=", ", prefix="tensor(", suffix=",")
    elif a.ndim == 1:
        body = "[]"
    else:
        body = "[], shape=" + str(list(a.shape))
    text = "tensor(" + body + ","
    last = len(text) - (text.rfind("\n") + 1)
    shape = f"shape={list(a.shape)}, " if a.size > 1000 else ""
    dtype = f"{shape}dtype={a.dtype.name})"
    return text + (" " if last + len(dtype) + 1 <= 75 else "\n" + " " * 7) + dtype


def show(a, data=None):
    a = np.asarray(a)
    hexadecimal = a.astype(a.dtype.newbyteorder("<")).tobytes().hex()
    print(a.dtype.name, "x".join(map(str, a.shape)) or "-", data or hexadecimal or "none")
    for line in str(a).split("\n"):
        print("|" + line)
    for line in prompt_form(a).split("\n"):
        print(">" + line)


def hand_picked():
    f = np.float32
    for t in ("float32", "float64", "float16"):
        for v in (0, -0.0, 1, -1, 0.1, 1 / 3, 1e-4, 9.9e-5, 1.5, 100, 1000.5, 65504, 6e-8, 1e7, 99999999, 1e8, 1e15,
                  1e16, 1.5e16, 1e-5, 1.234e-7, 1e30, 3.4e38, 1e-45, 2.0 ** -44, 5e-324, 1.7e308, 2.2250738585072014e-308,
                  9007199254740993, 33554432, 16777217, 0.3, 2 / 3, np.nan, np.inf, -np.inf):
            with np.errstate(all="ignore"):
                show(np.array(v, t))
                show(np.array([v, 1], t))
                show(np.array([v], t))
        show(np.array([4, 14], t))
        show(np.array([0.5, -1.25, 3], t))
        show(np.array([np.nan, np.inf, -np.inf], t))
        show(np.array([np.nan, np.nan], t))
        show(np.array([np.inf, 1, 2.5], t))
        show(np.array([-np.inf, 1], t))
        show(np.array([[np.nan, 1e-5], [1, 2]], t))
        show(np.array([1, 1000], t))
        show(np.array([1, 1001], t))
        show(np.array([0.001, 1], t))
        show(np.array([0.1, 0.25, 0.123456789], t))
        show(np.array([0.99999999, 0.999999999, 0.9999999999], t))
    show(f([[1, 2], [3, 4]]))
    show(f([0.1, 123456.789]))
    show(np.float64([1e100, 1e-100, 0]))
    show(np.float64([1.5e-300, -2.5e300]))
    show(f([-1, -10, -100]))
    show(np.float64([0.5, 1.5, 2.5]) + 1e-8 / 2)
    for shape in ((0,), (2, 0), (0, 3), (1, 0, 2)):
        for t in ("float32", "int32", "bool"):
            show(np.zeros(shape, t))
    for v in (0, 1, -5, 127):
        show(np.array(v, "int8"))
    show(np.array([-128, 127, 0], "int8"))
    show(np.array([0, 255], "uint8"))
    show(np.array([np.iinfo("int64").min, np.iinfo("int64").max, 0]))
    show(np.array([np.iinfo("int32").min, 7], "int32"))
    show(np.array(True))
    show(np.array([True, False]))
    show(np.array([True, True]))
    show(np.array([[False], [True]]))
    for t in ("float32", "int64"):
        for shape in ((1000,), (1001,), (10, 100), (11, 100), (7, 144), (6, 200), (200, 6), (7, 7, 21), (3, 350), (350, 3),
                      (2, 2, 300), (6, 6, 30), (1, 1, 1200), (1, 2, 3, 4, 50), (5, 5, 5, 5, 5), (60,), (25, 2), (4, 30)):
            show(np.arange(np.prod(shape)).astype(t).reshape(shape), "range")
    for n in range(14, 22):
        show(np.zeros((2, n), "float32"))
        show(np.zeros((1, 1, n), "int8"))


def values(rng, t, n):
    kind = rng.integers(8)
    if t == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if t.startswith("int") or t.startswith("uint"):
        limits = np.iinfo(t)
        small = int(10 ** rng.integers(1, 10))
        low, high = max(limits.min, -small), min(limits.max, small)
        if kind == 0:
            low, high = limits.min, limits.max
        return rng.integers(low, high, n, dtype="int64", endpoint=True).astype(t)
    bits = {"float16": "uint16", "float32": "uint32", "float64": "uint64"}[t]
    with np.errstate(all="ignore"):
        if kind == 0:
            return rng.integers(0, np.iinfo(bits).max, n, dtype=bits, endpoint=True).view(t)
        if kind == 1:
            return (rng.integers(-1000, 1000, n) / 2 ** rng.integers(0, 10)).astype(t)
        if kind == 2:
            return np.round(rng.normal(size=n) * 10.0 ** rng.integers(-3, 6), rng.integers(0, 6)).astype(t)
        if kind == 3:
            x = rng.normal(size=n).astype(t)
            x[rng.random(n) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
            return x
        if kind == 4:
            return (2.0 ** rng.integers(-40, 40, n)).astype(t)
        if kind == 5:
            return (10.0 ** rng.integers(-9, 9, n) * rng.choice([1, -1, 3], n)).astype(t)
        if kind == 6:
            return rng.random(n).astype(t)
        return (rng.normal(size=n) * 10.0 ** rng.integers(-8, 9)).astype(t)


def random_cases(seed, count):
    rng = np.random.default_rng(seed)
    for i in range(count):
        t = DTYPES[i % len(DTYPES)] if i % 3 else DTYPES[i % 9 // 3]
        shape = tuple(int(x) for x in rng.integers(1, rng.choice([3, 5, 9]), rng.integers(0, 4)))
        if rng.random() < 0.1:
            shape = (int(rng.integers(5, 60)),)
        show(values(rng, t, int(np.prod(shape))).reshape(shape))


hand_picked()
random_cases(int(sys.argv[1]), int(sys.argv[2]))
