"""GGUF files rewritten with the gguf package: other values, other tensors, everything else as it was."""
import gguf
import numpy as np

# Where a block has its half precision scales.
HALF_SCALES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
               "TQ1_0": (52,), "TQ2_0": (64,), "IQ1_M": (), "MXFP4": (), "NVFP4": ()}


def random_blocks(rng, name, shape, deviation):
    """Random weights of any quantised type, of about this deviation: [..., elements] as bytes [..., bytes of a row]."""
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (int(np.prod(shape)) // elements, size), dtype=np.uint8)

    def scaled(scale):
        made = blocks.copy()
        half = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        for at in HALF_SCALES.get(name, (0,)):
            made[:, at:at + 2] = half
        if name == "IQ1_M":
            bits = int(half.view(np.uint16)[0])
            for i in range(4):
                made[:, 49 + 2 * i] = (made[:, 49 + 2 * i] & 15) | ((bits >> (4 * i)) & 15) << 4
        if name == "MXFP4":
            made[:, 0] = np.clip(128 + np.round(np.log2(scale)), 1, 254)
        if name == "NVFP4":  # the largest scales are eight times the smallest
            made[:, :4] = np.clip(((7 + np.round(np.log2(scale))) * 8).astype(int), 8, 96) + made[:, :4] % 24
        return made

    size_of_one = gguf.dequantize(scaled(1.0), kind).std()
    return scaled(deviation / size_of_one).reshape(*shape[:-1], shape[-1] // elements * size)


def rewrite(source, target, keys=None, drop=(), leave_out=(), dequantise=False, changed=None, retyped=None, added=None):
    """Copies `source` to `target`.

    keys: name -> new value (the type stays); drop: keys left out; leave_out: tensors left out; dequantise: every tensor as
    F32, by the package's own reading of its format; changed: tensor name -> function of the array; retyped: function of name
    and shape that gives (bytes, type), or None for a tensor that stays; added: name -> array of a new tensor.
    """
    keys, changed = keys or {}, changed or {}
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or name in drop:
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, keys.get(name, field.contents()), field.types[0], sub_type=sub_type)
    missing = set(keys) - set(reader.fields)
    assert not missing, missing
    for tensor in reader.tensors:
        if tensor.name in leave_out:
            continue
        data, raw = tensor.data, tensor.tensor_type
        if dequantise and raw != gguf.GGMLQuantizationType.F32:
            data, raw = gguf.dequantize(data, raw), gguf.GGMLQuantizationType.F32
        if tensor.name in changed:
            data = changed[tensor.name](data.copy())
        if retyped and (made := retyped(tensor.name, data.shape)) is not None:
            data, raw = made
        writer.add_tensor(tensor.name, data, raw_dtype=None if raw == gguf.GGMLQuantizationType.F32 else raw)
    for name, data in (added or {}).items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def patch(path, tensor, dims=None, type_id=None, offset=None):
    """Overwrites fields of one tensor's info in place: values that no honest writer would write."""
    reader = gguf.GGUFReader(path, "r+")
    info = next(t for t in reader.tensors if t.name == tensor).field.parts
    if dims is not None:
        info[3][:] = dims
    if type_id is not None:
        info[4][0] = type_id
    if offset is not None:
        info[5][0] = offset
    reader.data.flush()
