#include "format/safetensors.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/bytes.h"
#include "base/str.h"
#include "format/json.h"
#include "format/message.h"

namespace evros::format {

namespace json = boost::json;

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the safetensors library's own limit
constexpr uint64_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxDims = 8;

std::string_view view(json::string_view s) { return {s.data(), s.size()}; }

/// One entry of the header, checked on its own.
class EntryReader {
 public:
  EntryReader(const io::File& file, uint64_t data_start)
      : file_(file), data_start_(data_start), data_bytes_(file.size() - data_start) {}

  Result<SafeTensor> read(std::string_view name, const json::value& value) const {
    SafeTensor tensor;
    tensor.name = name;
    if (!value.is_object()) return bad(name, cat("is ", json_short(value), "; wanted an object"));
    const json::object& entry = value.get_object();
    const json::value* dtype = entry.if_contains("dtype");
    if (dtype == nullptr || !dtype->is_string()) return bad(name, "has no dtype");
    tensor.dtype = view(dtype->get_string());
    EVROS_TRY(shape(entry, tensor));
    EVROS_TRY(offsets(entry, tensor));
    EVROS_TRY(length(tensor));
    return tensor;
  }

 private:
  Error bad(std::string_view name, std::string_view what) const {
    return {Code::bad_file, cat(file_.path(), ": tensor ", quoted(name), ' ', what)};
  }

  Status shape(const json::object& entry, SafeTensor& tensor) const {
    const json::value* value = entry.if_contains("shape");
    if (value == nullptr || !value->is_array()) return bad(tensor.name, "has no shape");
    if (value->get_array().size() > kMaxDims)
      return bad(tensor.name,
                 cat("has ", value->get_array().size(), " dimensions; at most ", kMaxDims, " are accepted"));
    for (const json::value& dim : value->get_array()) {
      const auto n = json_unsigned(dim);
      if (!n) return bad(tensor.name, cat("has the dimension ", json_short(dim), "; wanted a non-negative integer"));
      tensor.shape.push_back(*n);
    }
    return {};
  }

  Status offsets(const json::object& entry, SafeTensor& tensor) const {
    const json::value* value = entry.if_contains("data_offsets");
    if (value == nullptr || !value->is_array() || value->get_array().size() != 2)
      return bad(tensor.name, "has no data_offsets pair");
    const auto begin = json_unsigned(value->get_array()[0]), end = json_unsigned(value->get_array()[1]);
    if (!begin || !end || *begin > *end) {
      return bad(tensor.name, cat("has data_offsets [", json_short(value->get_array()[0]), ", ",
                                  json_short(value->get_array()[1]), "]; wanted two ascending integers"));
    }
    if (*end > data_bytes_)
      return bad(tensor.name,
                 cat("has data_offsets [", *begin, ", ", *end, "]; the data is ", data_bytes_, " bytes long"));
    tensor.offset = data_start_ + *begin;
    tensor.bytes = *end - *begin;
    return {};
  }

  Status length(const SafeTensor& tensor) const {
    const uint64_t element = safetensors_element_bytes(tensor.dtype);
    if (element == 0) return {};  // of an unknown dtype only the range is known; whoever needs the tensor refuses it
    std::optional<uint64_t> bytes = element;
    for (const uint64_t n : tensor.shape) bytes = bytes ? checked_mul(*bytes, n) : bytes;
    if (bytes == tensor.bytes) return {};
    return bad(tensor.name, cat("has shape ", shape_text(tensor.shape), " of ", tensor.dtype, ", ",
                                bytes ? std::to_string(*bytes) : "more than 2^64", " bytes, but its data_offsets span ",
                                tensor.bytes));
  }

  const io::File& file_;
  const uint64_t data_start_, data_bytes_;
};

Status expect_no_overlap(const io::File& file, std::vector<SafeTensor>& tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  const SafeTensor* last = nullptr;  // with data; an empty tensor overlaps nothing
  for (const SafeTensor& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    if (last != nullptr && tensor.offset < last->offset + last->bytes) {
      return Error{Code::bad_file,
                   cat(file.path(), ": tensor ", quoted(tensor.name), " overlaps tensor ", quoted(last->name))};
    }
    last = &tensor;
  }
  return {};
}

/// Shard name -> tensors that the index puts there.
using WeightMap = std::map<std::string, std::vector<std::string>>;

Result<WeightMap> read_index(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(const std::string text, io::read_file(io, path, kMaxIndexBytes));
  EVROS_ASSIGN(const json::object index, parse_json_object(text, path));
  const json::value* map = index.if_contains("weight_map");
  if (map == nullptr || !map->is_object())
    return Error{Code::bad_file,
                 cat(path, ": key weight_map is ", map == nullptr ? "absent" : json_short(*map), "; wanted an object")};
  WeightMap shards;
  for (const auto& [tensor, shard] : map->get_object()) {
    if (!shard.is_string())
      return Error{Code::bad_file, cat(path, ": weight_map puts ", quoted(view(tensor)), " into ", json_short(shard),
                                       "; wanted a file name")};
    const std::string name(view(shard.get_string()));
    if (name.empty() || name.find('/') != std::string::npos) {
      return Error{Code::bad_file,
                   cat(path, ": weight_map names the file ", quoted(name), "; wanted a plain name in the same folder")};
    }
    shards[name].emplace_back(view(tensor));
  }
  if (shards.empty()) return Error{Code::bad_file, cat(path, ": weight_map is empty; wanted the tensors of the model")};
  return shards;
}

Result<std::vector<std::string>> files_without_index(io::Io& io, const std::string& folder) {
  if (io.exists(io::join(folder, "model.safetensors"))) return std::vector<std::string>{"model.safetensors"};
  EVROS_ASSIGN(std::vector<std::string> names, io.list(folder));
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  if (names.empty()) return Error{Code::not_found, cat(folder, ": holds no *.safetensors file")};
  return names;
}

Result<SafeTensors> open_files(io::Io& io, const std::string& folder, const std::vector<std::string>& names) {
  SafeTensors all;
  std::unordered_map<std::string, uint32_t> seen;
  for (const std::string& name : names) {
    const auto index = static_cast<uint32_t>(all.files.size());
    EVROS_ASSIGN(std::unique_ptr<io::File> file, io.open(io::join(folder, name)));
    EVROS_ASSIGN(SafeTensors one, read_safetensors_header(*file, index));
    for (SafeTensor& tensor : one.tensors) {
      const auto [first, is_new] = seen.emplace(tensor.name, index);
      if (!is_new)
        return Error{Code::bad_file, cat(file->path(), ": tensor ", quoted(tensor.name), " is in ",
                                         all.files[first->second]->path(), " too")};
      all.tensors.push_back(std::move(tensor));
    }
    std::move(one.metadata.begin(), one.metadata.end(), std::back_inserter(all.metadata));
    all.files.push_back(std::move(file));
  }
  return all;
}

Status expect_as_indexed(const SafeTensors& all, const WeightMap& shards, const std::vector<std::string>& names,
                         const std::string& index_path) {
  std::unordered_map<std::string_view, uint32_t> where;
  for (const SafeTensor& tensor : all.tensors) where.emplace(tensor.name, tensor.file);
  Problems problems;
  for (uint32_t file = 0; file < names.size(); ++file) {
    for (const std::string& tensor : shards.at(names[file])) {
      const auto found = where.find(tensor);
      if (found == where.end() || found->second != file)
        problems.add(cat("tensor ", quoted(tensor), " is not in ", quoted(names[file])));
    }
  }
  if (!problems.empty()) return problems.error(Code::bad_file, index_path);
  return {};
}

}  // namespace

uint64_t safetensors_element_bytes(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kSizes = {{
      {"F64", 8},
      {"I64", 8},
      {"U64", 8},
      {"F32", 4},
      {"I32", 4},
      {"U32", 4},
      {"F16", 2},
      {"BF16", 2},
      {"I16", 2},
      {"U16", 2},
      {"F8_E4M3", 1},
      {"F8_E5M2", 1},
      {"I8", 1},
      {"U8", 1},
      {"BOOL", 1},
  }};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

Result<SafeTensors> read_safetensors_header(const io::File& file, uint32_t index) {
  const auto bad = [&](std::string what) { return Error{Code::bad_file, cat(file.path(), ": ", what)}; };
  std::array<std::byte, sizeof(uint64_t)> prefix;
  if (file.size() < prefix.size())
    return bad(cat("is ", file.size(), " bytes long; a safetensors file starts with 8 bytes of header length"));
  EVROS_TRY(file.read_at(0, prefix));
  const auto length = load<uint64_t>(prefix.data());
  if (length > kMaxHeaderBytes)
    return bad(cat("the header claims ", length, " bytes; at most ", kMaxHeaderBytes, " are accepted"));
  if (length > file.size() - prefix.size())
    return bad(
        cat("the header claims ", length, " bytes; the file has ", file.size() - prefix.size(), " after its length"));
  std::string text(static_cast<size_t>(length), '\0');
  EVROS_TRY(file.read_at(prefix.size(), std::as_writable_bytes(std::span(text))));
  EVROS_ASSIGN(const json::object header, parse_json_object(text, file.path()));
  SafeTensors out;
  const EntryReader entries(file, prefix.size() + length);
  for (const auto& [name, value] : header) {
    if (view(name) == "__metadata__") {
      if (!value.is_object()) return bad(cat("__metadata__ is ", json_short(value), "; wanted an object"));
      for (const auto& [key, text_value] : value.get_object()) {
        if (text_value.is_string()) out.metadata.emplace_back(view(key), view(text_value.get_string()));
      }
      continue;
    }
    EVROS_ASSIGN(SafeTensor tensor, entries.read(view(name), value));
    tensor.file = index;
    out.tensors.push_back(std::move(tensor));
  }
  EVROS_TRY(expect_no_overlap(file, out.tensors));
  return out;
}

Result<SafeTensors> open_safetensors_file(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(std::unique_ptr<io::File> file, io.open(path));
  EVROS_ASSIGN(SafeTensors out, read_safetensors_header(*file, 0));
  out.files.push_back(std::move(file));
  return out;
}

Result<SafeTensors> open_safetensors_folder(io::Io& io, const std::string& folder) {
  const std::string index_path = io::join(folder, "model.safetensors.index.json");
  if (!io.exists(index_path)) {
    EVROS_ASSIGN(const std::vector<std::string> names, files_without_index(io, folder));
    return open_files(io, folder, names);
  }
  EVROS_ASSIGN(const WeightMap shards, read_index(io, index_path));
  std::vector<std::string> names;
  for (const auto& [name, tensors] : shards) names.push_back(name);
  EVROS_ASSIGN(SafeTensors all, open_files(io, folder, names));
  EVROS_TRY(expect_as_indexed(all, shards, names, index_path));
  return all;
}

}  // namespace evros::format
