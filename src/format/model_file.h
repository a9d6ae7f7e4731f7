// A model on disk, whatever its container: a GGUF file or split set, or a safetensors folder. Tensors carry their GGUF
// names and shapes (docs/model.md 4.1) in both cases; a safetensors tensor that GGUF stores differently (experts in one
// tensor, value heads reordered, eh_proj, table shards) is described as byte ranges of the files. No arithmetic here: a
// gain that still lacks its +1, or an A_log, says so in `derive` and model/weights applies it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/hyper_params.h"
#include "format/tensor_type.h"
#include "io/io.h"

namespace evros::format {

enum class Derive : uint8_t {
  none,
  plus_one,  // stored zero-centred: the gain is 1 + w
  neg_exp,   // stored as A_log: the value is -exp(w)
};

/// A run of bytes of one file of the model.
struct Piece {
  uint32_t file;
  uint64_t offset;
  uint64_t bytes;
};

/// The column reorder of ssm_out from a safetensors file (model.md 2.5): canonical column block i*key_heads + g is the
/// stored block g*repeat + i. All zero: stored order is canonical order.
struct ColumnBlocks {
  uint32_t key_heads = 0, repeat = 0, block_elements = 0;
};

struct Tensor {
  std::string name;  // GGUF name: "blk.3.attn_q.weight"
  TensorType type;
  std::array<uint64_t, 4> ne{1, 1, 1, 1};  // ne[0] contiguous (input dimension)
  int dims = 1;
  Derive derive = Derive::none;
  ColumnBlocks columns;
  std::vector<Piece> pieces;  // concatenated, they are the tensor in canonical order (before `columns`)
  std::string stored_name;    // what the file calls it (the first of several); for messages

  uint64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  uint64_t rows() const { return ne[1] * ne[2] * ne[3]; }
  uint64_t bytes() const { return rows() * row_bytes(type, ne[0]); }
};

/// What the text folder needs, as found in the file; empty where the file has nothing.
struct TextAssets {
  std::string tokenizer_json;       // a folder's tokenizer.json, or GGUF tokenizer.huggingface.json, unparsed
  std::string pre;                  // GGUF tokenizer.ggml.pre, e.g. "qwen35"
  std::string model;                // GGUF tokenizer.ggml.model, e.g. "gpt2"
  std::vector<std::string> tokens;  // GGUF arrays
  std::vector<int32_t> token_types;
  std::vector<std::string> merges;
  std::string chat_template;  // Jinja source
  /// Ends of a reply: generation_config's, then config's; in a GGUF evros.eos_token_ids, then eos, eot and eom.
  std::vector<int64_t> eos_ids;
  /// The first end of a reply that no id of the vocabulary can be: a sentence with file, key, value and what is wanted.
  /// Such a file can be run with token ids, but no text: where a reply ends is not known.
  std::string wrong_end;
  int64_t bos_id = -1, pad_id = -1;
  std::optional<bool> nfc;  // evros.tokenizer.nfc when the GGUF says so
};

/// general.sampling.* or generation_config.json; unset where the file has nothing.
struct SamplingDefaults {
  std::optional<float> temperature, top_p;
  std::optional<int32_t> top_k;
};

/// A metadata value in a form for people: inspect prints it.
struct MetadataEntry {
  std::string key, type, value;  // shortened: "[4096 x str]"
  /// The value as JSON, whole; of an array with more than 16 elements {"count": N, "first": [the first 16]}.
  std::string json;
};

/// Immutable after open; every method may be called from any thread.
class ModelFile {
 public:
  virtual ~ModelFile() = default;
  virtual const std::string& path() const = 0;
  virtual std::string_view container() const = 0;  // "GGUF v3", "safetensors"
  virtual const std::string& name() const = 0;     // general.name or the folder's name
  virtual const HyperParams& hyper() const = 0;
  /// A GGUF's in file order, a folder's in the order of expected_tensors().
  virtual std::span<const Tensor> tensors() const = 0;
  virtual const Tensor* find(std::string_view name) const = 0;
  virtual const TextAssets& text() const = 0;
  virtual const SamplingDefaults& sampling() const = 0;
  virtual std::span<const MetadataEntry> metadata() const = 0;
  virtual std::span<const std::string> files() const = 0;  // paths, indexed by Piece::file

  /// Bytes [offset, offset + out.size()) of the tensor in canonical order, `columns` applied (then the range must cover
  /// whole rows). `derive` is NOT applied. Out of range is CHECKed; a file that ends early or a failed read is an error
  /// that names file and tensor.
  virtual Status read(const Tensor& tensor, uint64_t offset, std::span<std::byte> out) const = 0;
  /// File::will_read() for these bytes.
  virtual void will_read(const Tensor& /*tensor*/, uint64_t /*offset*/, uint64_t /*bytes*/) const {}
};

/// Opens a .gguf (any file of a split set opens the whole set) or a folder with config.json and *.safetensors. Reads
/// headers only: time and memory do not depend on the size of the tensors. All structural rules are checked (offsets in
/// the file, no overlap, no wrap-around, required tensors present with the right shapes, hyper-parameters valid);
/// every unsupported or missing tensor is listed in one message.
Result<std::unique_ptr<ModelFile>> open_model(io::Io& io, const std::string& path);

}  // namespace evros::format
