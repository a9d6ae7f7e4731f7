#!/usr/bin/env python3
"""Writes the codebooks of src/kernels/codec/codebooks.h from the tables of PyPI gguf.

usage: gen_codebooks.py QUANTS_PY OUT, QUANTS_PY being gguf/quants.py of the installed package. Only its literals are read,
nothing of it is run, so any Python will do and the package needs no other.
"""
import ast
import math
import sys


def class_literals(source):
    """class name -> {attribute: value}, for attributes that are literals."""
    found = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        values = found.setdefault(node.name, {})
        for line in node.body:
            target = line.targets[0] if isinstance(line, ast.Assign) else line.target if isinstance(line, ast.AnnAssign) else None
            if not isinstance(target, ast.Name) or line.value is None:
                continue
            try:
                values[target.id] = ast.literal_eval(line.value)
            except ValueError:
                pass  # not a literal, and none that is asked for
    return found


def grid(literals):
    """The entries of a packed grid, as lists: indices into grid_map of a power of two bits, lowest first, in hex bytes."""
    entries, width = literals["grid_shape"]
    values = literals["grid_map"]
    bits = math.ceil(math.log2(len(values)))
    per_byte = 8 // bits
    step = 8 // per_byte
    flat = [values[(byte >> (step * i)) & ((1 << bits) - 1)]
            for byte in bytes.fromhex(literals["grid_hex"].decode()) for i in range(per_byte)]
    assert len(flat) == entries * width, (len(flat), entries, width)
    return flat


def words(values):
    """Unsigned bytes, four to a little-endian word."""
    assert all(0 <= v < 256 for v in values) and len(values) % 4 == 0
    return [sum(v << (8 * i) for i, v in enumerate(values[at:at + 4])) for at in range(0, len(values), 4)]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        tables = class_literals(f.read())
    # The kernels take the eighth sign from the parity of the other seven.
    assert list(tables["IQ2_XXS"]["ksigns"]) == [i | (bin(i).count("1") % 2) << 7 for i in range(128)]
    out = [("uint32_t", f"{name}_grid", words(grid(tables[kind]))) for name, kind in
           (("iq2_xxs", "IQ2_XXS"), ("iq2_xs", "IQ2_XS"), ("iq2_s", "IQ2_S"), ("iq3_xxs", "IQ3_XXS"), ("iq3_s", "IQ3_S"))]
    out.append(("uint32_t", "iq1_grid", words([v + 1 for v in grid(tables["IQ1_S"])])))
    out.append(("uint8_t", "iq4_values", [v + 128 for v in tables["IQ4_NL"]["kvalues"]]))
    assert tables["MXFP4"]["kvalues"] == tables["NVFP4"]["kvalues"]
    out.append(("uint8_t", "fp4_values", [v + 12 for v in tables["MXFP4"]["kvalues"]]))
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        for kind, name, values in out:
            f.write(f"EVROS_CODEBOOK({kind}, {name}, {', '.join(hex(v) for v in values)})\n")


if __name__ == "__main__":
    main()
