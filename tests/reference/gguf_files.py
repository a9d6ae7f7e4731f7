"""GGUF files rewritten with the gguf package: other values, other tensors, everything else as it was."""
import gguf


def rewrite(source, target, keys=None, drop=(), leave_out=(), dequantise=False, changed=None):
    """Copies `source` to `target`.

    keys: name -> new value (the type stays); drop: keys left out; leave_out: tensors left out; dequantise: every tensor as
    F32, by the package's own reading of its format; changed: tensor name -> function of the array.
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
        writer.add_tensor(tensor.name, data, raw_dtype=None if raw == gguf.GGMLQuantizationType.F32 else raw)
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
