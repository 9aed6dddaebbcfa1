"""Writes weights in the layouts of Keras 2 and 3, and hostile files: h5_files.py FOLDER."""
import struct
import sys

import h5py
import numpy as np

folder = sys.argv[1]


def numbers(*shape, start):
    return (np.arange(np.prod(shape), dtype=np.float32) / 8 + start).reshape(shape)


dense = [numbers(3, 2, start=0), numbers(2, start=-1)]
norm = [numbers(2, start=k) for k in range(4)]
last = [numbers(2, 1, start=5), numbers(1, start=7)]


def keras2(group, layers, split=False):
    group.attrs["layer_names"] = [name.encode() for name, _ in layers]
    group.attrs["backend"] = b"tensorflow"
    for name, weights in layers:
        g = group.create_group(name)
        paths = [f"{name}/w{i}:0".encode() for i in range(len(weights))]
        if split:
            for i, path in enumerate(paths):
                g.attrs[f"weight_names{i}"] = [path]
        else:
            g.attrs["weight_names"] = paths
        for path, w in zip(paths, weights):
            g[path.decode()] = w


layers = [("first", dense), ("middle", norm), ("flat", []), ("last", last)]

# Normalization of Keras 2 and 3 has weights: mean, variance and the number of samples.
learnt = [np.array([1, 2, 5], np.float32), np.array([4, 16, 25], np.float32), np.array(10, np.int64)]
with h5py.File(folder + "/learnt.h5", "w") as f:
    keras2(f, [("scaled", learnt), ("first", dense)])
with h5py.File(folder + "/learnt3.weights.h5", "w") as f:
    for layer, values in (("normalization", learnt), ("dense", dense)):
        for i, value in enumerate(values):
            f[f"layers/{layer}/vars/{i}"] = value
with h5py.File(folder + "/learnt_short.h5", "w") as f:
    keras2(f, [("scaled", learnt[:2]), ("first", dense)])
with h5py.File(folder + "/keras2.h5", "w") as f:
    keras2(f, layers)
with h5py.File(folder + "/model.h5", "w") as f:
    keras2(f.create_group("model_weights"), layers, split=True)
with h5py.File(folder + "/short.h5", "w") as f:
    keras2(f, layers[:2])
with h5py.File(folder + "/shape.h5", "w") as f:
    keras2(f, [("first", [dense[0].T, dense[1]]), ("middle", norm), ("last", last)])

# More than a buffer holds, between small ones; a number that int64 lacks, in the last place; eight axes and nine.
large = (np.arange(300 * 200) % 1021 / 4).astype(np.float32).reshape(300, 200)
with h5py.File(folder + "/large.h5", "w") as f:
    keras2(f, [("first", [large, large[0]]), ("last", [large[0][:, None], np.ones(1, np.float32)])])
with h5py.File(folder + "/unsigned.h5", "w") as f:
    keras2(f, [("first", [dense[0], np.array([1, 2**63], np.uint64)])])
with h5py.File(folder + "/fitting.h5", "w") as f:
    keras2(f, [("first", [dense[0], np.array([1, 2**63 - 1], np.uint64)])])
for axes in (8, 9):
    with h5py.File(f"{folder}/axes{axes}.h5", "w") as f:
        keras2(f, [("first", [dense[0].reshape((1,) * (axes - 2) + (3, 2)), dense[1]])])

# What is no number, in place of the first weight, in both layouts.
others = {"complex64": np.ones((3, 2), np.complex64), "complex128": np.ones((3, 2), np.complex128), "text": np.array([[b"a", b"b"]] * 3),
          "records": np.zeros((3, 2), [("x", "f4"), ("y", "f4")]), "opaque bytes": np.zeros((3, 2), "V4")}
for kind, other in others.items():
    with h5py.File(f"{folder}/{kind}.h5", "w") as f:
        keras2(f, [("first", [other, dense[1]])])
    with h5py.File(f"{folder}/{kind}.weights.h5", "w") as f:
        f["layers/dense/vars/0"], f["layers/dense/vars/1"] = other, dense[1]
for kind, dtype in {"references": h5py.ref_dtype, "lists of several lengths": h5py.vlen_dtype(np.float32), "elements that are arrays": np.dtype(("f4", (2,)))}.items():
    with h5py.File(f"{folder}/{kind}.weights.h5", "w") as f:
        f.create_dataset("layers/dense/vars/0", (3, 2), dtype=dtype)
        f["layers/dense/vars/1"] = dense[1]
with h5py.File(folder + "/no elements and no shape.weights.h5", "w") as f:
    f["layers/dense/vars/0"], f["layers/dense/vars/1"] = h5py.Empty("f4"), dense[1]
with h5py.File(folder + "/beside.weights.h5", "w") as f:
    f["layers/dense/vars/0"], f["layers/dense/vars/1"], f["notes"] = dense[0], dense[1], "of 2021"

with h5py.File(folder + "/keras3.weights.h5", "w") as f:
    for path, weights in (("dense", dense), ("batch_normalization", norm), ("dense_1", last)):
        for i, w in enumerate(weights):
            f[f"layers/{path}/vars/{i}"] = w.astype(np.float64) if path == "dense" else w
    f["optimizer/vars/0"] = np.int64(7)
# A model in a model. Keras 2 wrote trainable_weights + non_trainable_weights of each layer (hdf5_format._legacy_weights).
inner = [numbers(2, 2, start=10), numbers(2, start=11)] + [numbers(2, start=12 + i) for i in range(4)] + [numbers(2, 2, start=20), numbers(2, start=21)]
with h5py.File(folder + "/nested.hdf5", "w") as f:
    keras2(f, [("first", dense), ("inner", inner[:4] + inner[6:] + inner[4:6]), ("last", last)])
with h5py.File(folder + "/frozen.h5", "w") as f:
    keras2(f, [("first", dense), ("inner", inner), ("last", last)])
for kind in ("sequential", "functional"):
    with h5py.File(folder + f"/{kind}.weights.h5", "w") as f:
        for path, weights in (("dense", dense), (f"{kind}/layers/dense", inner[:2]), (f"{kind}/layers/batch_normalization", inner[2:6]),
                              (f"{kind}/layers/dense_1", inner[6:]), ("dense_1", last)):
            for i, w in enumerate(weights):
                f[f"layers/{path}/vars/{i}"] = w

# Lists of cells, as Keras 3's saving_lib._save_container_state names them: the second of a class is simple_rnn_cell_1.
with h5py.File(folder + "/cells.weights.h5", "w") as f:
    for i in range(12):
        path = "layers/rnn/cell/cells/simple_rnn_cell" + (f"_{i}" if i else "")
        for k, shape in enumerate(((2, 2), (2, 2), (2,))):
            f[f"{path}/vars/{k}"] = numbers(*shape, start=i)
with h5py.File(folder + "/mixed.weights.h5", "w") as f:
    for i, name in enumerate(("simple_rnn_cell", "gru_cell", "simple_rnn_cell_1")):
        gates = 3 if name == "gru_cell" else 1
        for k, shape in enumerate(((2, 2 * gates), (2, 2 * gates), (2, 6) if gates == 3 else (2,))):
            f[f"layers/rnn/cell/cells/{name}/vars/{k}"] = numbers(*shape, start=i)

with h5py.File(folder + "/linked.h5", "w") as f:
    f["x"] = h5py.ExternalLink("/etc/passwd", "/")
with h5py.File(folder + "/outside.h5", "w") as f:
    f.create_dataset("x", (4,), "f4", external=[("/etc/passwd", 0, 16)])
layout = h5py.VirtualLayout((3, 2), "f4")
layout[:] = h5py.VirtualSource(folder + "/keras2.h5", "first/first/w0:0", (3, 2))
with h5py.File(folder + "/virtual.h5", "w") as f:
    f.create_virtual_dataset("x", layout)
with h5py.File(folder + "/claims.h5", "w") as f:
    f.create_dataset("layers/dense/vars/0", (1 << 34,), "f4", chunks=(1024,))
data = bytearray(open(folder + "/keras3.weights.h5", "rb").read())
open(folder + "/cut.h5", "wb").write(data[: len(data) // 2])
open(folder + "/none.h5", "wb").write(b"not HDF5")

# The names' text lies in a heap of its own, and its number is one that the heap doesn't have: libhdf5 1.10 reads what is behind it.
with h5py.File(folder + "/heap.h5", "w") as f:
    f.attrs["layer_names"] = ["first"]
    f.create_group("first").attrs["weight_names"] = ["first/w0:0", "first/w1:0"]
    for i, w in enumerate(dense):
        f[f"first/first/w{i}:0"] = w
data = bytearray(open(folder + "/heap.h5", "rb").read())
heap = struct.pack("<Q", data.index(b"GCOL"))
at = data.index(heap + struct.pack("<I", 1)) + len(heap)
data[at + 1] = 1
open(folder + "/heap_damaged.h5", "wb").write(data)
