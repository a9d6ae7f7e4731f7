"""Reads and writes safetensors checkpoint folders with NumPy alone, bfloat16 included.

The safetensors package cannot give bfloat16 to NumPy; the container is a length, a JSON header and bytes.
"""
import json
import os
import struct

import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8, "F64": np.float64}


def to_bf16(values):
    """float32 -> the 16 bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read_file(path):
    """name -> array (bfloat16 widened to float32)."""
    with open(path, "rb") as f:
        blob = f.read()
    length = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:8 + length])
    arrays = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in info["data_offsets"])
        if info["dtype"] == "BF16":
            flat = from_bf16(np.frombuffer(blob[begin:end], np.uint16))
        else:
            flat = np.frombuffer(blob[begin:end], DTYPES[info["dtype"]])
        arrays[name] = flat.reshape(info["shape"])
    return arrays


def write_file(path, arrays):
    """arrays: name -> (dtype name, array)."""
    header, blobs, offset = {}, [], 0
    for name, (dtype, array) in arrays.items():
        blob = to_bf16(array).tobytes() if dtype == "BF16" else np.ascontiguousarray(array, DTYPES[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for blob in blobs:
            f.write(blob)


def read_folder(folder):
    """(config as it stands in the file, name -> array)."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    arrays = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            arrays.update(read_file(os.path.join(folder, name)))
    return config, arrays


def write_folder(folder, config, arrays, files=1):
    """files > 1: a sharded checkpoint with model.safetensors.index.json, tensors dealt out in turn."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)
    if files == 1:
        write_file(os.path.join(folder, "model.safetensors"), arrays)
        return
    where = {}
    for part in range(files):
        file = f"model-{part + 1:05d}-of-{files:05d}.safetensors"
        mine = {name: value for i, (name, value) in enumerate(arrays.items()) if i % files == part}
        where.update({name: file for name in mine})
        write_file(os.path.join(folder, file), mine)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)
