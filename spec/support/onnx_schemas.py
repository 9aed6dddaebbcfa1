"""Writes what ONNX's pages say of the operators that keras.onnx.import knows as lua/ipulua/keras/onnx/schemas.lua has it:
onnx_schemas.py OPERATOR…, from the tables of python3-onnx, up to opset 22. The first line is a comment that
says up to which opset they go: an older python3-onnx knows less. Each version is a line of

    inputs outputs name:kind[=default] …

inputs and outputs "least-most" (most may be "n"), kinds i f s t I F S T g (integer, float, string, tensor, their lists, graph), a "!"
behind those that must be there. A version that says what the one before it says is left out, and so is consumed_inputs, by which the
first versions said whose memory may be reused."""
import math
import sys
import textwrap

import onnx
import onnx.defs

NEWEST = min(22, onnx.defs.onnx_opset_version())
KINDS = {"INT": "i", "FLOAT": "f", "STRING": "s", "TENSOR": "t", "INTS": "I", "FLOATS": "F", "STRINGS": "S", "TENSORS": "T",
         "GRAPH": "g", "SPARSE_TENSOR": "p", "SPARSE_TENSORS": "P", "TYPE_PROTO": "y", "GRAPHS": "G"}


def count(least, most):
    return f"{least}-{'n' if most > 1000 else most}"


def default(a):
    value = onnx.helper.get_attribute_value(a.default_value) if a.default_value.name else None
    if value is None:
        return ""
    if isinstance(value, bytes):
        return "=" + value.decode()
    if isinstance(value, float):
        return "=" + (f"{value:.9g}" if math.isfinite(value) else str(value))
    if isinstance(value, int):
        return f"={value}"
    return "=" + ",".join(v.decode() if isinstance(v, bytes) else str(v) for v in value)


def line(schema):
    parts = [count(schema.min_input, schema.max_input), count(schema.min_output, schema.max_output)]
    for name, a in sorted(schema.attributes.items()):
        if name == "consumed_inputs":
            continue
        parts.append(f"{name}:{KINDS[str(a.type).split('.')[-1]]}{'!' if a.required else ''}{default(a)}")
    return " ".join(parts)


wanted, found = set(sys.argv[1:]), {}
for s in onnx.defs.get_all_schemas_with_history():
    if s.name in wanted and s.domain == "" and s.since_version <= NEWEST:
        found.setdefault(s.name, []).append((s.since_version, line(s)))
print(f"  -- opset {NEWEST}")
for name in sorted(found):
    versions, last = [], None
    for since, text in sorted(found[name]):
        if text != last:
            versions.append((since, text))
        last = text
    print(f"  {name} = {{")
    for since, text in versions:
        words = textwrap.wrap(text, 76)
        print(f"    [{since}] = " + '\n      .. '.join(f'"{w}{" " if w is not words[-1] else ""}"' for w in words) + ",")
    print("  },")
missing = wanted - set(found)
if missing:
    sys.exit("no such operators: " + " ".join(sorted(missing)))
