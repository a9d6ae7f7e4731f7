#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"
#include "base/str.h"
#include "format/gguf.h"
#include "format/message.h"

namespace evros::format {

std::optional<std::string_view> gguf_type_name(uint32_t id) {
  static constexpr std::string_view kNames[] = {"u8",   "i8",  "u16", "i16", "u32", "i32", "f32",
                                                "bool", "str", "arr", "u64", "i64", "f64"};
  if (id >= std::size(kNames)) return std::nullopt;
  return kNames[id];
}

size_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

GgufValue GgufValue::string(std::string v) {
  GgufValue value;
  value.type_ = GgufType::string;
  value.bytes_ = std::move(v);
  return value;
}

GgufValue GgufValue::array(std::vector<std::string> v) {
  GgufValue value;
  value.type_ = GgufType::string;
  value.is_array_ = true;
  value.count_ = v.size();
  value.strings_ = std::move(v);
  return value;
}

GgufValue GgufValue::numbers(GgufType type, std::span<const std::byte> bytes, uint64_t count) {
  GgufValue value;
  value.type_ = type;
  value.is_array_ = true;
  value.count_ = count;
  value.bytes_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return value;
}

std::optional<int64_t> GgufValue::integer(uint64_t i) const {
  if (i >= count_) return std::nullopt;
  const char* at = bytes_.data() + i * gguf_type_bytes(type_);
  switch (type_) {
    case GgufType::u8:
      return load<uint8_t>(at);
    case GgufType::i8:
      return load<int8_t>(at);
    case GgufType::u16:
      return load<uint16_t>(at);
    case GgufType::i16:
      return load<int16_t>(at);
    case GgufType::u32:
      return load<uint32_t>(at);
    case GgufType::i32:
      return load<int32_t>(at);
    case GgufType::i64:
      return load<int64_t>(at);
    case GgufType::u64: {
      const auto wide = load<uint64_t>(at);
      if (wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(wide);
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> GgufValue::unsigned_integer(uint64_t i) const {
  if (type_ == GgufType::u64 && i < count_) return load<uint64_t>(bytes_.data() + i * sizeof(uint64_t));
  const std::optional<int64_t> value = integer(i);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> GgufValue::number(uint64_t i) const {
  if (i >= count_) return std::nullopt;
  const char* at = bytes_.data() + i * gguf_type_bytes(type_);
  if (type_ == GgufType::f32) return static_cast<double>(load<float>(at));
  if (type_ == GgufType::f64) return load<double>(at);
  if (const auto value = integer(i)) return static_cast<double>(*value);
  if (const auto value = unsigned_integer(i)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> GgufValue::truth() const {
  if (is_array_ || type_ != GgufType::boolean) return std::nullopt;
  return bytes_[0] != 0;
}

const std::string* GgufValue::text() const { return !is_array_ && type_ == GgufType::string ? &bytes_ : nullptr; }

const std::vector<std::string>* GgufValue::texts() const {
  return is_array_ && type_ == GgufType::string ? &strings_ : nullptr;
}

std::string GgufValue::type_text() const {
  const std::string_view name = *gguf_type_name(static_cast<uint32_t>(type_));
  return is_array_ ? cat("arr[", name, ']') : std::string(name);
}

std::string GgufValue::short_text() const {
  static constexpr uint64_t kShownElements = 16;
  if (const std::string* s = text()) return quoted(*s);
  if (is_array_ && (count_ > kShownElements || type_ == GgufType::string)) {
    return cat('[', count_, " x ", *gguf_type_name(static_cast<uint32_t>(type_)), ']');
  }
  std::string out;
  for (uint64_t i = 0; i < count_; ++i) {
    if (i > 0) out += ", ";
    if (type_ == GgufType::boolean) {
      out += bytes_[i] != 0 ? "true" : "false";
    } else if (type_ == GgufType::f32) {
      out += cat(load<float>(bytes_.data() + i * sizeof(float)));
    } else if (type_ == GgufType::f64) {
      out += cat(*number(i));
    } else if (const auto value = integer(i)) {
      out += cat(*value);
    } else {
      out += cat(*unsigned_integer(i));
    }
  }
  return is_array_ ? cat('[', out, ']') : out;
}

void append_value(std::string& out, const GgufValue& value) {
  const auto append_u64 = [&](uint64_t n) { out.append(reinterpret_cast<const char*>(&n), sizeof n); };
  const auto append_u32 = [&](uint32_t n) { out.append(reinterpret_cast<const char*>(&n), sizeof n); };
  if (value.is_array_) {
    append_u32(static_cast<uint32_t>(value.type_));
    append_u64(value.count_);
  } else if (value.type_ == GgufType::string) {
    append_u64(value.bytes_.size());
  }
  out += value.bytes_;
  for (const std::string& s : value.strings_) {
    append_u64(s.size());
    out += s;
  }
}

bool GgufMetadata::add(std::string key, GgufValue value) {
  if (!index_.emplace(key, entries_.size()).second) return false;
  entries_.emplace_back(std::move(key), std::move(value));
  return true;
}

void GgufMetadata::set(std::string key, GgufValue value) {
  const auto found = index_.find(key);
  if (found == index_.end()) {
    add(std::move(key), std::move(value));
  } else {
    entries_[found->second].second = std::move(value);
  }
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = index_.find(std::string(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

}  // namespace evros::format
