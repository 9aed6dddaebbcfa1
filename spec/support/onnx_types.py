"""What onnx's own tables say of ONNX files: onnx_types.py FILE… prints a line of JSON for each, a list of what is wrong with it.

Looked at are the file's form, the shapes and types that follow from the inputs, and for each node whether the operator takes operands of
their types: the checker and shape inference let a Conv of bfloat16 pass, which no opset up to 21 has."""
import json
import sys

import onnx
import onnx.defs
import onnx.shape_inference


def type_name(number):
    return f"tensor({onnx.TensorProto.DataType.Name(number).lower()})"


def types_of(model):
    found = {t.name: t.data_type for t in model.graph.initializer}
    for v in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
        found.setdefault(v.name, v.type.tensor_type.elem_type)
    return found


def operands(schema_side, names):
    """(what the schema says, name) for each operand; the last one that the schema has stands for all that follow."""
    for i, name in enumerate(names):
        if name:
            yield schema_side[min(i, len(schema_side) - 1)], name


def member(formal, name, older):
    """A formal parameter's member: onnx has renamed these."""
    return getattr(formal, name) if hasattr(formal, name) else getattr(formal, older)


def problems_of_node(node, opset, types):
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound = {}
    for side, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for formal, name in operands(side, names):
            number = types.get(name)
            if not number:
                yield f"{node.op_type}: the type of '{name}' is not known"
                continue
            word, variable = type_name(number), member(formal, "type_str", "typeStr")
            if word not in allowed.get(variable, [variable]):
                yield f"{node.op_type}: {formal.name} is {word}"
            elif member(formal, "is_homogeneous", "isHomogeneous") and bound.setdefault(variable, word) != word:
                yield f"{node.op_type}: {formal.name} is {word}, {variable} is {bound[variable]}"


def problems_of(path):
    model = onnx.load(path)
    try:
        onnx.checker.check_model(model, full_check=True)
        told = {v.name: v.type for v in model.graph.output}
        for v in model.graph.output:
            if v.type.tensor_type.HasField("shape"):
                v.type.tensor_type.ClearField("shape")
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except Exception as e:  # what the checker raises has several classes, in each version others
        return [str(e).strip()]
    types, opset = types_of(inferred), model.opset_import[0].version
    found = [p for node in inferred.graph.node for p in problems_of_node(node, opset, types)]
    for v in inferred.graph.output:
        for mine, theirs in zip(told[v.name].tensor_type.shape.dim, v.type.tensor_type.shape.dim):
            if mine.HasField("dim_value") and theirs.HasField("dim_value") and mine.dim_value != theirs.dim_value:
                found.append(f"output '{v.name}': the file says {mine.dim_value}, the nodes give {theirs.dim_value}")
    return sorted(set(found))


for path in sys.argv[1:]:
    print(json.dumps(problems_of(path)))
