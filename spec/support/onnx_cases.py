"""Writes ONNX's own test cases of single nodes: onnx_cases.py FOLDER. Each is a file and an entry of cases.json {name, op,
file, inputs: [{data, shape, dtype}], outputs: [...]}. Operands that models hold as constants (shapes, axes, limits) are
made constants."""
import json
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

for old, new in (("float", float), ("int", int), ("bool", bool), ("object", object)):  # names that NumPy has dropped
    if not hasattr(np, old):
        setattr(np, old, new)
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

folder = sys.argv[1]
DTYPES = {"float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"}
CONSTANT = {"Clip", "Pad", "OneHot", "TopK", "Range", "ConstantOfShape", "Slice", "Split", "CumSum", "PRelu", "BatchNormalization",
            "InstanceNormalization", "LayerNormalization", "LSTM", "GRU", "RNN", "Conv", "ConvTranspose"}


def entry(a):
    a = np.asarray(a)
    data = [str(x) if isinstance(x, float) and not np.isfinite(x) else x for x in a.ravel().tolist()]
    return {"data": data, "shape": list(a.shape), "dtype": a.dtype.name}


cases = []
for case in collect_testcases(None):
    graph = case.model.graph
    if len(graph.node) != 1 or not case.data_sets:
        continue
    node, (inputs, outputs) = graph.node[0], case.data_sets[0]
    arrays = list(inputs) + list(outputs)
    if any(not isinstance(a, (np.ndarray, np.generic)) or np.asarray(a).dtype.name not in DTYPES for a in arrays):
        continue
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = []
    for i, (info, a) in enumerate(zip(graph.input, inputs)):
        a = np.asarray(a)
        if (i > 0 or node.op_type in ("ConstantOfShape", "Range")) and (a.dtype == np.int64 or node.op_type in CONSTANT):
            model.graph.initializer.append(numpy_helper.from_array(a, info.name))
        else:
            kept.append(a)
    if not kept or any(a.ndim == 0 or 0 in a.shape for a in kept):
        continue
    name = f"{len(cases)}.onnx"
    onnx.save(model, os.path.join(folder, name))
    cases.append({"name": case.name, "op": node.op_type, "file": name, "inputs": [entry(a) for a in kept],
                  "outputs": [entry(a) for a in outputs]})
with open(os.path.join(folder, "cases.json"), "w") as f:
    json.dump(cases, f)
