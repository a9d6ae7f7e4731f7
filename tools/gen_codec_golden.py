#!/usr/bin/env python3
"""Writes what PyPI gguf makes of weight blocks, to hold our codecs against (src/kernels/codec_test.cc). Deterministic.

usage: gen_codec_golden.py OUT; the build runs it with the Python of build/venv. The file is a list of records, little-endian:
  u32 ggml type id, u32 direction (0 dequantise, 1 quantise), u32 elements, u32 encoded bytes, encoded bytes, f32 elements
In a dequantise record the floats are gguf's result, in a quantise record the encoded bytes are.
"""
import struct
import sys

try:
    import gguf
    import numpy as np
except ImportError as e:
    sys.exit(f"gen_codec_golden.py: {e}; 'tools/setup.sh test' makes the environment that it needs")

# Where a block has its half precision scales. IQ1_M has one in four pieces, MXFP4 and NVFP4 have bytes.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
          "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,),
          "IQ2_S": (0,), "IQ1_S": (0,), "IQ1_M": (), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": (), "NVFP4": ()}
PLAIN = ("F16", "BF16")
# Types that gguf quantises to by the rounding that is also ours.
WRITTEN = ("F16", "BF16", "Q4_0", "Q5_1", "Q8_0")
# Both zeros, subnormals of both signs and their ends, the smallest normal number, the largest of both signs, ordinary ones.
CORNERS = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0x2E66], "<u2")


def record(kind, direction, encoded, floats):
    encoded, floats = encoded.tobytes(), np.ascontiguousarray(floats, dtype="<f4")
    return struct.pack("<4I", int(kind), direction, floats.size, len(encoded)) + encoded + floats.tobytes()


def plain_numbers(rng, name):
    values = np.concatenate([CORNERS, np.array([0x7C00, 0xFC00, 0x7F7F, 0x007F, 0x0080], "<u2"),
                             rng.integers(0, 65536, 1000).astype("<u2")])
    exponent = 0x7C00 if name == "F16" else 0x7F80
    fraction = 0x7FFF ^ exponent
    nan = ((values & exponent) == exponent) & ((values & fraction) != 0)
    return values[~nan].view(np.uint8)


def set_scale(block, name, first, second):
    """Gives a block finite scales: `first`, and `second` where the format has a minimum."""
    for at, scale in zip(SCALES[name], (first, second)):
        block[at:at + 2] = np.array([scale], "<u2").view(np.uint8)
    if name == "IQ1_M":
        for i in range(4):
            block[49 + 2 * i] = (block[49 + 2 * i] & 0x0F) | ((int(first) >> (4 * i)) & 15) << 4


def blocks(rng, name):
    """Encoded blocks: every corner of the scale on blocks of one byte and on random ones, then ordinary scales."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    bodies = [np.full(size, v, np.uint8) for v in (0x00, 0x7F, 0x80, 0xFF)]
    out = []
    for i, scale in enumerate(CORNERS):
        for body in bodies + [rng.integers(0, 256, size).astype(np.uint8) for _ in range(2)]:
            block = body.copy()
            set_scale(block, name, scale, CORNERS[(i * 5 + 3) % len(CORNERS)])
            out.append(block)
    for _ in range(40):
        block = rng.integers(0, 256, size).astype(np.uint8)
        scales = (rng.normal(size=2) * 10.0 ** rng.integers(-6, 3)).astype("<f2").view("<u2")
        set_scale(block, name, *scales)
        out.append(block)
    if name == "MXFP4":
        for e in range(255):
            out.append(np.concatenate([np.array([e]), rng.integers(0, 256, size - 1)]).astype(np.uint8))
    if name == "NVFP4":
        for e in range(0, 256, 4):
            out.append(np.concatenate([np.arange(e, e + 4), rng.integers(0, 256, size - 4)]).astype(np.uint8))
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
    out = []
    with np.errstate(all="ignore"):
        for name in (*PLAIN, *SCALES):
            kind = gguf.GGMLQuantizationType[name]
            encoded = plain_numbers(rng, name) if name in PLAIN else blocks(rng, name)
            out.append(record(kind, 0, encoded, gguf.quants.dequantize(encoded, kind)))
            if name in WRITTEN:
                x = halfway(rng) if name in PLAIN else weights(rng)
                out.append(record(kind, 1, gguf.quants.quantize(x, kind), x))
    with open(sys.argv[1], "wb") as f:
        f.write(b"".join(out))


if __name__ == "__main__":
    main()
