"""Writes ONNX's own test cases of nodes: onnx_cases.py FOLDER. cases.json has all of them, by name:
{name, ops, types, file}, ops being the operators of its nodes, types those of its inputs and
outputs that ipulua doesn't have ("sequence" and "optional", too). A case without such types has
its numbers as well: {…, inputs: [{data, shape, dtype}], outputs: [...]}. Operands that models
hold as constants (shapes, axes, limits, scalars) are made constants; a graph without inputs gets
one that nobody reads."""
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
np.random.seed(1)  # the cases draw their numbers while they are collected
NAMES = {"float": "float32", "double": "float64"}
DTYPES = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"}
CONSTANT = {"Clip", "Pad", "OneHot", "TopK", "Range", "ConstantOfShape", "Slice", "Split", "CumSum", "PRelu", "BatchNormalization",
            "InstanceNormalization", "LayerNormalization", "LSTM", "GRU", "RNN", "Conv", "ConvTranspose",
            "Dropout"}


def type_name(number):
    name = onnx.TensorProto.DataType.Name(number).lower()
    return NAMES.get(name, name)


def type_of(info):
    kind = info.type.WhichOneof("value")
    if kind == "tensor_type":
        return type_name(info.type.tensor_type.elem_type)
    return kind[:-len("_type")]


def array(value, dtype):
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    a = np.asarray(value)
    if dtype == "bfloat16" and a.dtype == np.uint16:  # its bits
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a


def entry(a, dtype):
    data = [str(x) if isinstance(x, float) and not np.isfinite(x) else x for x in a.ravel().tolist()]
    return {"data": data, "shape": list(a.shape), "dtype": dtype}


def is_constant(ops, i, a):
    if a.ndim == 0 or 0 in a.shape:
        return True
    may_be = i > 0 or bool(ops & {"ConstantOfShape", "Range"})
    return may_be and (a.dtype == np.int64 or bool(ops & CONSTANT))


def set_shape(info, shape):  # onnx 1.12 declares another one than it gives in a few cases
    dims = info.type.tensor_type.shape.dim
    if [d.dim_value for d in dims] != list(shape):
        del dims[:]
        for extent in shape:
            dims.add().dim_value = extent


def fill(model, case, entries, ops):
    graph, kept = case.model.graph, []
    for i, (info, value) in enumerate(zip(graph.input, case.data_sets[0][0])):
        a = array(value, type_of(info))
        if is_constant(ops, i, a):
            tensor = numpy_helper.from_array(a, info.name)
            if type_of(info) == "bfloat16":
                tensor = onnx.helper.make_tensor(info.name, onnx.TensorProto.BFLOAT16, a.shape,
                                                 a.ravel().tolist())
            model.graph.initializer.append(tensor)
        else:
            kept.append(entry(a, type_of(info)))
            set_shape(model.graph.input[i], a.shape)
    if not kept:
        unread = onnx.helper.make_tensor_value_info("unread", onnx.TensorProto.FLOAT, [1])
        model.graph.input.append(unread)
        kept.append(entry(np.zeros(1, np.float32), "float32"))
    entries["inputs"] = kept
    entries["outputs"] = [entry(array(v, type_of(o)), type_of(o))
                          for v, o in zip(case.data_sets[0][1], graph.output)]


cases = []
for case in sorted(collect_testcases(None), key=lambda case: case.name):
    graph = case.model.graph
    ops = {n.domain + "." + n.op_type if n.domain else n.op_type for n in graph.node}
    types = {type_of(v) for v in list(graph.input) + list(graph.output)} - DTYPES
    cases.append({"name": case.name, "ops": sorted(ops), "types": sorted(types),
                  "file": f"{len(cases)}.onnx"})
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    if not types:
        fill(model, case, cases[-1], ops)
    onnx.save(model, os.path.join(folder, cases[-1]["file"]))
with open(os.path.join(folder, "cases.json"), "w") as f:
    json.dump({"opset": onnx.defs.onnx_opset_version(), "cases": cases}, f)
