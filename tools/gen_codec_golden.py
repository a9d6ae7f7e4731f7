#!/usr/bin/env python3
"""Writes tests/data/codec_golden.bin: what PyPI gguf makes of weight blocks, to hold our codecs against.

Needs `pip install gguf numpy`. The file is a list of records, little-endian:
  u32 ggml type id, u32 direction (0 dequantise, 1 quantise), u32 elements, u32 encoded bytes, encoded bytes, f32 elements
In a dequantise record the floats are gguf's result, in a quantise record the encoded bytes are. Deterministic.
"""
import pathlib
import struct

import gguf
import numpy as np

TYPES = {"F16": (1, 2), "Q4_0": (32, 18), "Q8_0": (32, 34), "BF16": (1, 2)}
SUPER_TYPES = {"Q4_K": 144, "Q6_K": 210}  # gguf decodes these and does not encode them
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "codec_golden.bin"


def record(kind, direction, encoded, floats):
    encoded, floats = encoded.tobytes(), np.ascontiguousarray(floats, dtype="<f4")
    return struct.pack("<4I", int(kind), direction, floats.size, len(encoded)) + encoded + floats.tobytes()


def blocks(rng, name):
    """Encoded blocks: random bits, and the corners of scale and integer."""
    if name in ("F16", "BF16"):
        corners = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0x7C00, 0xFC00, 0x7F7F, 0x007F, 0x0080]
        values = np.concatenate([np.array(corners, "<u2"), rng.integers(0, 65536, 1000).astype("<u2")])
        exponent = 0x7C00 if name == "F16" else 0x7F80
        fraction = 0x7FFF ^ exponent
        nan = ((values & exponent) == exponent) & ((values & fraction) != 0)
        return values[~nan].view(np.uint8)
    scales = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0x2E66], "<u2")
    body = TYPES[name][1] - 2
    fills = [rng.integers(0, 256, body), np.full(body, 0x80), np.full(body, 0x7F), np.zeros(body), np.full(body, 0xFF)]
    out = [np.concatenate([np.array([s]).view(np.uint8), np.asarray(f).astype(np.uint8)]) for s in scales for f in fills]
    for _ in range(30):
        scale = np.array([rng.normal() * 10.0 ** rng.integers(-6, 3)], "<f2").view(np.uint8)
        out.append(np.concatenate([scale, rng.integers(0, 256, body).astype(np.uint8)]))
    return np.concatenate(out)


def super_blocks(rng, name):
    """Q4_K and Q6_K: few blocks, for each costs a kilobyte of floats; the same corners."""
    scales = [0x0000, 0x8000, 0x0001, 0x83FF, 0x2E66, 0x7BFF, 0xFBFF, 0x3C00]
    size = SUPER_TYPES[name]
    fills = [np.full(size, v, np.uint8) for v in (0x00, 0xFF, 0x80, 0x7F)]
    out = []
    for i in range(len(scales)):
        block = fills[i].copy() if i < len(fills) else rng.integers(0, 256, size).astype(np.uint8)
        d = np.array([scales[i], scales[(i * 3 + 1) % len(scales)]], "<u2").view(np.uint8)
        if name == "Q4_K":
            block[:4] = d
        else:
            block[-2:] = d[:2]
        out.append(block)
    return np.stack(out)


def weights(rng):
    """Rows of 32 floats of many sizes, ties, zeros, values that overflow or vanish in half precision."""
    rows = [np.zeros(32), -np.zeros(32), np.arange(32) - 16.0, (np.arange(32) - 16.0) / 2, np.full(32, -0.37),
            np.where(np.arange(32) % 2, 1.0, -1.0), np.linspace(-127, 127, 32), np.arange(32) * 2.0 ** -24]
    rows += [rng.normal(size=32) * 10.0 ** e for e in range(-9, 6) for _ in range(4)]
    rows += [np.round(rng.normal(size=32) * 8) / 2 for _ in range(20)]
    return np.stack(rows).astype(np.float32)


def halfway(rng):
    """Floats whose rounding to 16 bits is exactly between two values, and their neighbours."""
    base = rng.integers(0, 2 ** 32, 300, dtype=np.uint64).astype(np.uint32)
    base = base[(base & 0x7F800000) != 0x7F800000]
    picks = [base, (base & 0xFFFF0000) | 0x8000, (base & 0xFFFF0000) | 0x7FFF, (base & 0xFFFF0000) | 0x8001]
    near = (rng.integers(0x33000000, 0x47800000, 300, dtype=np.uint64)).astype(np.uint32)
    picks += [(near & 0xFFFFE000) | d for d in (0x0FFF, 0x1000, 0x1001)]
    return np.concatenate(picks).astype("<u4").view("<f4")


def main():
    rng = np.random.default_rng(20261129)
    out = b""
    with np.errstate(all="ignore"):
        for name in TYPES:
            kind = gguf.GGMLQuantizationType[name]
            encoded = blocks(rng, name)
            out += record(kind, 0, encoded, gguf.quants.dequantize(encoded, kind))
            x = halfway(rng) if name in ("F16", "BF16") else weights(rng)
            out += record(kind, 1, gguf.quants.quantize(x, kind), x)
        for name in SUPER_TYPES:
            kind = gguf.GGMLQuantizationType[name]
            encoded = super_blocks(rng, name)
            out += record(kind, 0, encoded, gguf.quants.dequantize(encoded, kind))
    OUT.write_bytes(out)
    print(f"{OUT}: {len(out)} bytes")


if __name__ == "__main__":
    main()
