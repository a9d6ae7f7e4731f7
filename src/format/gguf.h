// The GGUF container (versions 2 and 3, little-endian) without any knowledge of models: typed metadata, tensor infos,
// split sets. Layout: the public GGUF document, docs/model.md 6.1 and 6.2.
//
// Nothing in a file is trusted: a count or length is compared with the bytes that are left before anything is
// allocated, sizes are computed with overflow checks, and what ggml demands is demanded here (unique non-empty keys,
// unique tensor names below 64 bytes, 1 to 4 dimensions, rows of whole blocks, offsets exactly cumulative). Errors are
// Code::bad_file or Code::unsupported and name the file and the key or tensor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/tensor_type.h"
#include "io/io.h"

namespace evros::format {

enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// "u32", "str", "arr"; nothing for an unknown id.
std::optional<std::string_view> gguf_type_name(uint32_t id);
/// Bytes of a number or bool; 0 for strings and arrays.
size_t gguf_type_bytes(GgufType type);

/// One metadata value: a scalar, a string, or an array of scalars or strings.
class GgufValue {
 public:
  static GgufValue u16(uint16_t v) { return scalar(GgufType::u16, v); }
  static GgufValue u32(uint32_t v) { return scalar(GgufType::u32, v); }
  static GgufValue i32(int32_t v) { return scalar(GgufType::i32, v); }
  static GgufValue u64(uint64_t v) { return scalar(GgufType::u64, v); }
  static GgufValue f32(float v) { return scalar(GgufType::f32, v); }
  static GgufValue boolean(bool v) { return scalar(GgufType::boolean, static_cast<uint8_t>(v)); }
  static GgufValue string(std::string v);
  static GgufValue array(std::span<const int32_t> v) { return numbers(GgufType::i32, std::as_bytes(v), v.size()); }
  static GgufValue array(std::span<const uint32_t> v) { return numbers(GgufType::u32, std::as_bytes(v), v.size()); }
  static GgufValue array(std::span<const uint64_t> v) { return numbers(GgufType::u64, std::as_bytes(v), v.size()); }
  static GgufValue array(std::span<const float> v) { return numbers(GgufType::f32, std::as_bytes(v), v.size()); }
  static GgufValue array(std::vector<std::string> v);
  /// An array of bools, one byte each, 0 or 1.
  static GgufValue booleans(std::span<const uint8_t> v) {
    return numbers(GgufType::boolean, std::as_bytes(v), v.size());
  }

  /// Type of the elements for an array, of the value itself otherwise.
  GgufType type() const { return type_; }
  bool is_array() const { return is_array_; }
  /// Elements of an array; 1 otherwise.
  uint64_t size() const { return count_; }

  /// Element i (0 for a scalar) as an integer whatever its stored width; nothing for other types or values that do not
  /// fit.
  std::optional<int64_t> integer(uint64_t i = 0) const;
  std::optional<uint64_t> unsigned_integer(uint64_t i = 0) const;
  /// Element i as a number: integers too.
  std::optional<double> number(uint64_t i = 0) const;
  std::optional<bool> truth() const;
  /// Element i of an array of bools or integers: whether it is other than zero.
  bool flag(uint64_t i) const { return type_ == GgufType::boolean ? bytes_[i] != 0 : integer(i).value_or(0) != 0; }
  /// The text of a string value; nothing for other types.
  const std::string* text() const;
  /// The elements of a string array; nothing for other types.
  const std::vector<std::string>* texts() const;

  /// "u32", "arr[str]" and a short form of the value, for people.
  std::string type_text() const;
  std::string short_text() const;

 private:
  friend class GgufHeaderReader;
  friend void append_value(std::string& out, const GgufValue& value);
  template <typename T>
  static GgufValue scalar(GgufType type, T v) {
    GgufValue value = numbers(type, std::as_bytes(std::span(&v, 1)), 1);
    value.is_array_ = false;
    return value;
  }
  static GgufValue numbers(GgufType type, std::span<const std::byte> bytes, uint64_t count);

  GgufType type_ = GgufType::u8;
  bool is_array_ = false;
  uint64_t count_ = 1;
  std::string bytes_;                 // numbers as stored, back to back; or the text of a scalar string
  std::vector<std::string> strings_;  // elements of a string array
};

/// Appends the value (without its type) as GGUF stores it; for writers.
void append_value(std::string& out, const GgufValue& value);

/// Key and value pairs in file order, keys unique.
class GgufMetadata {
 public:
  /// False, and nothing changes, when the key is there already.
  bool add(std::string key, GgufValue value);
  /// Adds or replaces.
  void set(std::string key, GgufValue value);
  /// Null when absent. Valid until the next add or set.
  const GgufValue* find(std::string_view key) const;
  std::span<const std::pair<std::string, GgufValue>> entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, GgufValue>> entries_;
  std::unordered_map<std::string, size_t> index_;
};

struct GgufTensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::optional<uint32_t> unknown_type;  // the id, when no type has it; then type and bytes say nothing
  std::array<uint64_t, 4> ne{1, 1, 1, 1};
  int dims = 1;
  uint32_t file = 0;    // index in GgufSet::files
  uint64_t offset = 0;  // in that file, from its first byte
  uint64_t bytes = 0;
};

/// The header of one file.
struct GgufHeader {
  uint32_t version = 3;
  uint64_t alignment = 32;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // their data lies inside the file, does not overlap, in order
  uint64_t data_offset = 0;
};

/// Reads the header with buffered positional reads; time and memory follow the header's size, not the file's. Unknown types are
/// no error here, so that they can be named together with all else that keeps the tensors from running; where there is one,
/// offsets are as stored and unchecked, and no tensor may be read.
Result<GgufHeader> read_gguf_header(const io::File& file);

/// A file, or all files of a split set in order.
struct GgufSet {
  std::vector<std::unique_ptr<io::File>> files;
  uint32_t version = 3;
  GgufMetadata metadata;            // the first file's
  std::vector<GgufTensor> tensors;  // of all files, in set order; names unique
};

/// An error that names every tensor with a type that is unknown or cannot run, if a type is unknown.
Status check_known_types(const GgufSet& set, const std::string& path);

/// Opens the file and, when it belongs to a split set, all its siblings (PREFIX-00001-of-00003.gguf). Any file of the
/// set opens the set. split.no, split.count and split.tensors.count must agree with what is found; a missing sibling is
/// named.
Result<GgufSet> open_gguf_set(io::Io& io, const std::string& path);

/// PREFIX-0000N-of-0000C.gguf, `number` from 1.
std::string gguf_split_path(std::string_view prefix, uint32_t number, uint32_t count);

}  // namespace evros::format
