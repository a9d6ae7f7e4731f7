"""Writes ggml_types.txt: id, name, block elements and block bytes of every tensor type, from the gguf package (pip install gguf).

Q8_1 is left out: the package still counts two f32 scales (40 bytes), ggml stores two f16 (36). It never stands in a file.
"""
import pathlib

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

lines = [f"{int(t)} {t.name} {n} {size}" for t, (n, size) in sorted(GGML_QUANT_SIZES.items()) if t != GGMLQuantizationType.Q8_1]
pathlib.Path(__file__).with_name("ggml_types.txt").write_text("\n".join(lines) + "\n")
