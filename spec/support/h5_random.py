"""Random weights in HDF5, as Keras 2 and 3 lay them out, in whatever way libhdf5 can store them: h5_random.py FOLDER SEED COUNT writes
N.h5, and cases.json: for each {layers: [[name, inputs, outputs | 0 of a norm]], weights: [[number …] …], refused: what is not held}."""
import json
import sys

import h5py
import numpy as np

folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(seed)


def pick(*choices):
    return choices[rng.integers(len(choices))]


# {dtype: the numbers that float32 holds exactly, or a word for what it doesn't}
KINDS = ["<f4", "<f2", "<f8", ">f4", ">f8", "i1", "u1", "<i4", ">i8", "<u8", "bool", "longdouble"]
TOO_LARGE = {"<f8": 1e300, "longdouble": np.longdouble(10) ** 300, ">i8": 2 ** 60 + 1, "<u8": 2 ** 63 + 5}


def numbers(shape, kind):
    x = rng.integers(0, 2, shape) if kind == "bool" else rng.integers(0, 100, shape) if kind[-2] in "iu" else rng.integers(-999, 999, shape) / 8
    return x.astype(kind)


def storage(x):
    if x.ndim == 0 or pick(0, 1):
        return {}
    return {"chunks": tuple(int(rng.integers(1, n + 1)) for n in x.shape), "compression": pick(None, "gzip"), "shuffle": bool(pick(0, 1)),
            "fletcher32": bool(pick(0, 1)), "maxshape": pick(None, tuple(None for _ in x.shape))}


def names(list_):
    return pick(np.array([n.encode() for n in list_]) if list_ else np.array([], "S1"), np.array(list_, h5py.string_dtype()),
                np.array([n.encode() for n in list_], h5py.string_dtype("ascii")))


def put_names(group, attribute, list_):
    if len(list_) > 1 and pick(0, 0, 1):
        cut = int(rng.integers(1, len(list_)))
        group.attrs[attribute + "0"], group.attrs[attribute + "1"] = names(list_[:cut]), names(list_[cut:])
    else:
        group.attrs[attribute] = names(list_)


def litter(group):
    if pick(0, 1):
        group.attrs["number"] = rng.integers(9)
        group.attrs["list"] = np.arange(5.0)
        group.attrs["nothing"] = h5py.Empty("S3")
        group.attrs["record"] = np.zeros(2, [("a", "f4"), ("b", "i2")])
    if pick(0, 0, 1):
        group["texts"] = np.array(["x", "yz"], h5py.string_dtype())
        group["empty"] = h5py.Empty("f4")
        group["no_rows"] = np.zeros((0, 3), "f4")


def keras2(root, layers, weights):
    put_names(root, "layer_names", [name for name, *_ in layers])
    for (name, *_), tensors in zip(layers, weights):
        group = root.create_group(name)
        put_names(group, "weight_names", [f"{name}/part{i}:0" for i in range(len(tensors))])
        for i, x in enumerate(tensors):
            group.create_dataset(f"{name}/part{i}:0", data=x, **storage(x))
        litter(group)


def keras3(root, layers, weights):
    used = {}
    for (_, _, outputs), tensors in zip(layers, weights):
        stem = "dense" if outputs else "batch_normalization"
        used[stem] = used.get(stem, -1) + 1
        path = f"layers/{stem}" + (f"_{used[stem]}" if used[stem] else "") + "/vars"
        for i, x in enumerate(tensors):
            root.create_dataset(f"{path}/{i}", data=x, **storage(x))
    litter(root)


def case(number):
    layers, weights, width, refused = [], [], int(rng.integers(1, 6)), None
    for i in range(int(rng.integers(1, 5))):
        outputs = pick(0, int(rng.integers(1, 6)))
        layers.append([f"{pick('dense', 'é', 'a b', 'x.y')}_{i}", width, outputs])
        shapes = [(width, outputs), (outputs,)] if outputs else [(width,)] * 4
        weights.append([numbers(s, pick(*KINDS)) for s in shapes])
        width = outputs or width
    if pick(0, 0, 0, 1):
        tensors = pick(*weights)
        kind = pick(*TOO_LARGE)
        i = int(rng.integers(len(tensors)))
        tensors[i] = numbers(tensors[i].shape, kind)
        tensors[i].flat[-1] = TOO_LARGE[kind]
        refused = kind
    with h5py.File(f"{folder}/{number}.h5", "w", libver=pick("earliest", "latest"), userblock_size=pick(0, 512),
                   track_order=bool(pick(0, 1))) as f:
        layout = pick(keras2, keras2, keras3)
        layout(f.create_group("model_weights") if layout is keras2 and pick(0, 1) else f, layers, weights)
    return {"layers": layers, "weights": [np.asarray(x, "f8").ravel().tolist() for t in weights for x in t], "refused": refused}


json.dump([case(i) for i in range(count)], open(f"{folder}/cases.json", "w"))
