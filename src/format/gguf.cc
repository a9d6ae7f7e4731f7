#include "format/gguf.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/bytes.h"
#include "base/str.h"
#include "format/message.h"

namespace evros::format {
namespace {

/// Far above any real header (the largest known have 250,000 tokens and as many merges in 11 MB), far below a machine's
/// memory.
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 28;
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;

}  // namespace

/// Parses one header front to back. Every step checks the bytes that are left before it allocates or reads.
class GgufHeaderReader {
 public:
  explicit GgufHeaderReader(const io::File& file) : file_(file), end_(std::min(file.size(), kMaxHeaderBytes)) {}

  Result<GgufHeader> read() {
    EVROS_TRY(read_start());
    EVROS_TRY(read_metadata());
    EVROS_TRY(read_tensors());
    if (all_known_) EVROS_TRY(place_tensors());
    return std::move(header_);
  }

 private:
  Error bad(std::string what) const { return {Code::bad_file, cat(file_.path(), ": ", what)}; }
  uint64_t left() const { return end_ - position_; }

  Error too_short(std::string_view what, uint64_t bytes) const {
    if (end_ < file_.size())
      return bad(cat("the header is longer than the ", kMaxHeaderBytes, " bytes that are accepted, at ", what));
    return bad(cat("the file ends inside its header: ", what, " needs ", bytes, " bytes at offset ", position_, ", ",
                   left(), " are left"));
  }

  /// The next `bytes` bytes into `out`.
  Status take(void* out, size_t bytes, std::string_view what) {
    if (bytes > left()) return too_short(what, bytes);
    auto* to = static_cast<char*>(out);
    while (bytes > 0) {
      if (position_ < buffer_start_ || position_ >= buffer_start_ + buffer_.size()) EVROS_TRY(refill());
      const size_t at = static_cast<size_t>(position_ - buffer_start_);
      const size_t part = std::min(bytes, buffer_.size() - at);
      std::copy_n(buffer_.data() + at, part, to);
      to += part;
      bytes -= part;
      position_ += part;
    }
    return {};
  }

  Status refill() {
    buffer_start_ = position_;
    buffer_.resize(static_cast<size_t>(std::min<uint64_t>(kBufferBytes, left())));
    return file_.read_at(buffer_start_, std::as_writable_bytes(std::span(buffer_)));
  }

  template <typename T>
  Status take_number(T& out, std::string_view what) {
    return take(&out, sizeof out, what);
  }

  Status take_string(std::string& out, std::string_view what) {
    uint64_t length = 0;
    EVROS_TRY(take_number(length, what));
    if (length > left()) return too_short(what, length);
    out.resize(static_cast<size_t>(length));
    return take(out.data(), out.size(), what);
  }

  Status read_start() {
    char magic[4];
    EVROS_TRY(take(magic, sizeof magic, "the magic"));
    if (std::string_view(magic, 4) != "GGUF") {
      return bad(cat("not a GGUF file: it starts with ", quoted(std::string_view(magic, 4)), ", wanted \"GGUF\""));
    }
    EVROS_TRY(take_number(header_.version, "the version"));
    const uint32_t version = header_.version;
    if (version != 0 && (version & 0xffff) == 0) {
      return Error{Code::unsupported,
                   cat(file_.path(), ": this GGUF file is big-endian; only little-endian files are supported")};
    }
    if (version == 1)
      return Error{Code::unsupported, cat(file_.path(), ": GGUF version 1 is not supported; wanted 2 or 3")};
    if (version != 2 && version != 3)
      return Error{Code::unsupported, cat(file_.path(), ": GGUF version ", version, "; wanted 2 or 3")};
    EVROS_TRY(take_number(tensor_count_, "the tensor count"));
    EVROS_TRY(take_number(key_count_, "the key count"));
    // The smallest tensor info: empty name, one dimension. The smallest pair: a key of one byte, a value of one byte.
    static constexpr uint64_t kLeastTensor = 8 + 4 + 8 + 4 + 8, kLeastPair = 8 + 1 + 4 + 1;
    if (key_count_ > left() / kLeastPair)
      return bad(cat("the header counts ", key_count_, " keys; the file has room for at most ", left() / kLeastPair));
    if (tensor_count_ > left() / kLeastTensor)
      return bad(
          cat("the header counts ", tensor_count_, " tensors; the file has room for at most ", left() / kLeastTensor));
    return {};
  }

  Status read_metadata() {
    for (uint64_t i = 0; i < key_count_; ++i) {
      std::string key;
      EVROS_TRY(take_string(key, cat("key ", i)));
      if (key.empty()) return bad(cat("key ", i, " is empty"));
      if (key.size() > kMaxKeyBytes)
        return bad(cat("key ", i, " has ", key.size(), " bytes; at most ", kMaxKeyBytes, " are accepted"));
      GgufValue value;
      EVROS_TRY(read_value(value, quoted(key)));
      const std::string shown = quoted(key);
      if (!header_.metadata.add(std::move(key), std::move(value)))
        return bad(cat("key ", shown, " stands twice in the header"));
    }
    return read_alignment();
  }

  Status read_alignment() {
    const GgufValue* value = header_.metadata.find("general.alignment");
    if (value == nullptr) return {};
    const auto alignment = value->is_array() ? std::nullopt : value->unsigned_integer();
    if (!alignment || !std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
      return bad(cat("general.alignment is ", value->short_text(), "; wanted a power of two up to ", kMaxAlignment));
    }
    header_.alignment = *alignment;
    return {};
  }

  Result<GgufType> read_type(std::string_view key) {
    uint32_t id = 0;
    EVROS_TRY(take_number(id, cat("the type of ", key)));
    if (!gguf_type_name(id)) return bad(cat("key ", key, " has value type ", id, "; wanted 0 to 12"));
    return static_cast<GgufType>(id);
  }

  Status read_value(GgufValue& value, const std::string& key) {
    EVROS_ASSIGN(value.type_, read_type(key));
    if (value.type_ == GgufType::array) {
      value.is_array_ = true;
      EVROS_ASSIGN(value.type_, read_type(key));
      if (value.type_ == GgufType::array)
        return bad(cat("key ", key, " is an array of arrays; nested arrays are not supported"));
      EVROS_TRY(take_number(value.count_, cat("the length of ", key)));
    }
    if (value.type_ != GgufType::string) return read_numbers(value, key);
    if (!value.is_array_) return take_string(value.bytes_, cat("the text of ", key));
    if (value.count_ > left() / sizeof(uint64_t))
      return too_short(cat("the array ", key, " of ", value.count_, " strings"), value.count_);
    for (uint64_t i = 0; i < value.count_; ++i)
      EVROS_TRY(take_string(value.strings_.emplace_back(), cat("an element of ", key)));
    return {};
  }

  Status read_numbers(GgufValue& value, const std::string& key) {
    const size_t size = gguf_type_bytes(value.type_);
    if (value.count_ > left() / size)
      return too_short(cat("the value of ", key, " with ", value.count_, " elements"), size);
    value.bytes_.resize(static_cast<size_t>(value.count_ * size));
    EVROS_TRY(take(value.bytes_.data(), value.bytes_.size(), key));
    if (value.type_ != GgufType::boolean) return {};
    for (const char c : value.bytes_) {
      if (c != 0 && c != 1)
        return bad(cat("key ", key, " holds the byte ", static_cast<int>(static_cast<unsigned char>(c)),
                       " as a bool; wanted 0 or 1"));
    }
    return {};
  }

  Status read_tensors() {
    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      GgufTensor& tensor = header_.tensors.emplace_back();
      EVROS_TRY(take_string(tensor.name, cat("the name of tensor ", i)));
      if (tensor.name.empty()) return bad(cat("tensor ", i, " has no name"));
      if (tensor.name.size() > kMaxNameBytes) {
        return bad(cat("tensor ", i, ", ", quoted(tensor.name), ", has a name of ", tensor.name.size(),
                       " bytes; at most ", kMaxNameBytes, " are allowed"));
      }
      if (!names.insert(tensor.name).second)
        return bad(cat("tensor ", quoted(tensor.name), " stands twice in the header"));
      EVROS_TRY(read_dims(tensor));
      uint32_t type = 0;
      EVROS_TRY(take_number(type, cat("the type of tensor ", quoted(tensor.name))));
      EVROS_TRY(take_number(tensor.offset, cat("the offset of tensor ", quoted(tensor.name))));
      if (const auto info = type_info(type)) {
        tensor.type = info->type;
      } else {
        tensor.unknown_type = type;
        all_known_ = false;
      }
    }
    return {};
  }

  Status read_dims(GgufTensor& tensor) {
    uint32_t dims = 0;
    EVROS_TRY(take_number(dims, cat("the dimensions of tensor ", quoted(tensor.name))));
    if (dims < 1 || dims > tensor.ne.size())
      return bad(cat("tensor ", quoted(tensor.name), " has ", dims, " dimensions; wanted 1 to 4"));
    tensor.dims = static_cast<int>(dims);
    EVROS_TRY(take(tensor.ne.data(), dims * sizeof(uint64_t), cat("the shape of tensor ", quoted(tensor.name))));
    for (uint32_t d = 0; d < dims; ++d) {
      if (tensor.ne[d] == 0)
        return bad(cat("tensor ", quoted(tensor.name), " has shape ", shape_text(std::span(tensor.ne).first(dims)),
                       "; no dimension may be 0"));
    }
    return {};
  }

  /// Bytes of the tensor, or an error when its shape cannot be.
  Result<uint64_t> bytes_of(const GgufTensor& tensor) const {
    const TypeInfo& info = type_info(tensor.type);
    const auto shape = shape_text(std::span(tensor.ne).first(static_cast<size_t>(tensor.dims)));
    if (tensor.ne[0] % info.block_elements != 0) {
      return bad(cat("tensor ", quoted(tensor.name), " has shape ", shape, "; rows of ", info.name,
                     " are multiples of ", info.block_elements));
    }
    std::optional<uint64_t> elements = tensor.ne[0];
    for (size_t d = 1; d < tensor.ne.size() && elements; ++d) elements = checked_mul(*elements, tensor.ne[d]);
    std::optional<uint64_t> bytes =
        elements ? checked_mul(*elements / info.block_elements, info.block_bytes) : std::nullopt;
    if (!bytes)
      return bad(cat("tensor ", quoted(tensor.name), " has shape ", shape, ", more bytes than 64 bits can count"));
    return *bytes;
  }

  /// Turns offsets within the data into offsets within the file. Data without tensors may be absent altogether.
  Status place_tensors() {
    header_.data_offset = align_up(position_, header_.alignment);
    uint64_t expected = 0;  // from the start of the data; stays below the file's size plus one alignment
    for (GgufTensor& tensor : header_.tensors) {
      EVROS_ASSIGN(tensor.bytes, bytes_of(tensor));
      if (tensor.offset != expected) {
        return bad(cat("tensor ", quoted(tensor.name), " is at data offset ", tensor.offset, "; wanted ", expected,
                       ", right after the tensor before it, aligned to ", header_.alignment));
      }
      const uint64_t start = header_.data_offset + expected;
      if (start > file_.size() || tensor.bytes > file_.size() - start) {
        return bad(cat("tensor ", quoted(tensor.name), " needs ", tensor.bytes, " bytes at offset ", start,
                       "; the file ends at ", file_.size()));
      }
      tensor.offset = start;
      expected = align_up(expected + tensor.bytes, header_.alignment);
    }
    return {};
  }

  const io::File& file_;
  const uint64_t end_;
  uint64_t position_ = 0;
  uint64_t buffer_start_ = 0;
  std::vector<char> buffer_;
  uint64_t tensor_count_ = 0, key_count_ = 0;
  bool all_known_ = true;  // the types of all tensors
  GgufHeader header_;
};

Result<GgufHeader> read_gguf_header(const io::File& file) { return GgufHeaderReader(file).read(); }

}  // namespace evros::format
