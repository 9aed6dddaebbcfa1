#!/usr/bin/env python3
"""Compare file formats with NumPy and a safetensors reader and writer of its own: tensor_files.py TENSOR_CHECK FOLDER

Files written here are converted by `tensor_check convert` and read back here, for each pair of formats."""
import gzip
import json
import os
import struct
import subprocess
import sys

import numpy as np

tool, folder = sys.argv[1:]
rng = np.random.default_rng(3)
NAMES = {"float32": "F32", "float64": "F64", "float16": "F16", "int8": "I8", "uint8": "U8", "int32": "I32",
         "int64": "I64", "bool": "BOOL", "uint16": "U16", "int16": "I16", "uint32": "U32", "uint64": "U64"}
WIDER = {"uint16": "int32", "int16": "int32", "uint32": "int64", "uint64": "int64"}


def at(name):
    return os.path.join(folder, name)


def convert(source, target):
    subprocess.run([tool, "convert", at(source), at(target)], check=True)


def write_safetensors(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, a in tensors.items():
        raw = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": NAMES[a.dtype.name], "shape": list(a.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as f:
        content = f.read()
    length, = struct.unpack_from("<Q", content)
    assert (8 + length) % 64 == 0, "data begin at a multiple of 64"
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", None)
    types = {v: k for k, v in NAMES.items()}
    data, out, order, reached = content[8 + length:], {}, [], 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin == reached
        reached = end
        a = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
        out[name] = a
        order.append((-a.dtype.itemsize, name.encode()))
    assert reached == len(data) and order == sorted(order)
    return out, metadata


def same(a, b):
    b = b.astype(WIDER.get(b.dtype.name, b.dtype.name))
    assert a.dtype == b.dtype.newbyteorder("=") and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def random_array(dtype):
    shape = tuple(rng.integers(0, 6, rng.integers(0, 5)))
    if np.dtype(dtype).kind == "f":
        return np.array(rng.normal(size=shape), dtype)
    if dtype == "bool":
        return np.array(rng.integers(0, 2, shape), bool)
    return np.array(rng.integers(0, 100, shape), dtype)


def check_named(count):
    for _ in range(count):
        tensors = {f"{dtype}/é {i}": random_array(dtype) for i, dtype in enumerate(rng.permutation(list(NAMES)))}
        write_safetensors(at("a.safetensors"), tensors, {"format": "np", "line\n": "\"x\""})
        convert("a.safetensors", "b.safetensors")
        back, metadata = read_safetensors(at("b.safetensors"))
        assert metadata == {"format": "np", "line\n": "\"x\""} and back.keys() == tensors.keys()
        for name in tensors:
            same(back[name], tensors[name])
        tensors = {"x" + str(i): a for i, a in enumerate(tensors.values())}
        (np.savez if rng.random() < 0.5 else np.savez_compressed)(at("a.npz"), **tensors)
        convert("a.npz", "b.npz")
        convert("a.npz", "c.safetensors")
        with np.load(at("b.npz")) as back:
            assert set(back) == set(tensors)
            for name in tensors:
                same(back[name], tensors[name])
        for name, a in read_safetensors(at("c.safetensors"))[0].items():
            same(a, tensors[name])


def check_npy(count):
    for _ in range(count):
        a = random_array(rng.choice(list(NAMES)))
        if rng.random() < 0.5:
            a = np.asfortranarray(a)
        if rng.random() < 0.3:
            a = a.astype(a.dtype.newbyteorder(">"))
        np.save(at("a.npy"), a)
        convert("a.npy", "b.npy")
        same(np.load(at("b.npy")), a)


def check_idx(count):
    codes = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    for i in range(count):
        code = list(codes)[i % 6]
        a = random_array(np.dtype(codes[code]).newbyteorder("=").name).astype(codes[code])
        content = struct.pack(">BBBB", 0, 0, code, a.ndim) + struct.pack(f">{a.ndim}I", *a.shape) + a.tobytes()
        with (gzip.open if i % 2 else open)(at("a.idx"), "wb") as f:
            f.write(content)
        convert("a.idx", "b.npy")
        same(np.load(at("b.npy")), a)


os.makedirs(folder, exist_ok=True)
check_named(20)
check_npy(60)
check_idx(24)
for file in os.listdir(folder):
    os.remove(at(file))
os.rmdir(folder)
print("formats agree")
