// Split sets: docs/model.md 6.2.
#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "base/str.h"
#include "format/gguf.h"
#include "format/message.h"

namespace evros::format {
namespace {

constexpr size_t kDigits = 5;
constexpr uint32_t kMaxFiles = 99999;

std::string five_digits(uint32_t n) {
  std::string digits = std::to_string(n);
  return digits.size() < kDigits ? std::string(kDigits - digits.size(), '0') + digits : digits;
}

/// PREFIX, N, C of PREFIX-0000N-of-0000C.gguf.
struct SplitName {
  std::string prefix;
  uint32_t number, count;
};

std::optional<SplitName> parse_split_name(std::string_view path) {
  static constexpr std::string_view kEnd = ".gguf", kOf = "-of-";
  const size_t tail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (path.size() <= tail || !path.ends_with(kEnd)) return std::nullopt;
  const std::string_view part = path.substr(path.size() - tail);
  const std::string_view number = part.substr(1, kDigits), of = part.substr(1 + kDigits, kOf.size());
  const std::string_view count = part.substr(1 + kDigits + kOf.size(), kDigits);
  const auto digits = [](std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (part[0] != '-' || of != kOf || !digits(number) || !digits(count)) return std::nullopt;
  SplitName name{std::string(path.substr(0, path.size() - tail)), 0, 0};
  std::from_chars(number.data(), number.data() + kDigits, name.number);
  std::from_chars(count.data(), count.data() + kDigits, name.count);
  return name;
}

/// An integer key of a split set; nothing when absent.
Result<std::optional<uint64_t>> split_key(const GgufHeader& header, const std::string& path, const char* key) {
  const GgufValue* value = header.metadata.find(key);
  if (value == nullptr) return std::optional<uint64_t>();
  const auto number = value->is_array() ? std::nullopt : value->unsigned_integer();
  if (!number)
    return Error{Code::bad_file,
                 cat(path, ": key ", key, " is ", value->short_text(), "; wanted a non-negative integer")};
  return number;
}

Status expect_key(const GgufHeader& header, const std::string& path, const char* key, uint64_t wanted) {
  EVROS_ASSIGN(const std::optional<uint64_t> seen, split_key(header, path, key));
  if (seen == wanted) return {};
  return Error{Code::bad_file,
               cat(path, ": key ", key, " is ", seen ? std::to_string(*seen) : "absent", "; wanted ", wanted)};
}

void append_tensors(GgufSet& set, std::vector<GgufTensor>&& tensors, uint32_t file) {
  for (GgufTensor& tensor : tensors) {
    tensor.file = file;
    set.tensors.push_back(std::move(tensor));
  }
}

Status expect_unique(const GgufSet& set) {
  std::unordered_set<std::string_view> names;
  for (const GgufTensor& tensor : set.tensors) {
    if (names.insert(tensor.name).second) continue;
    return Error{Code::bad_file, cat(set.files[tensor.file]->path(), ": tensor ", quoted(tensor.name),
                                     " is in an earlier file of the split set too")};
  }
  return {};
}

Result<GgufSet> open_split(io::Io& io, const SplitName& name) {
  GgufSet set;
  uint64_t tensors = 0;
  for (uint32_t i = 0; i < name.count; ++i) {
    const std::string path = gguf_split_path(name.prefix, i + 1, name.count);
    auto file = io.open(path);
    if (!file.ok()) {
      return Error{file.error().code,
                   cat("file ", i + 1, " of ", name.count, " of the split set is missing: ", file.error().message)};
    }
    EVROS_ASSIGN(GgufHeader header, read_gguf_header(**file));
    EVROS_TRY(expect_key(header, path, "split.no", i));
    EVROS_TRY(expect_key(header, path, "split.count", name.count));
    EVROS_ASSIGN(const std::optional<uint64_t> total, split_key(header, path, "split.tensors.count"));
    if (i == 0 && !total)
      return Error{Code::bad_file,
                   cat(path, ": key split.tensors.count is absent; wanted the number of tensors in all files")};
    if (i == 0) tensors = *total;
    if (total) EVROS_TRY(expect_key(header, path, "split.tensors.count", tensors));
    set.files.push_back(std::move(*file));
    append_tensors(set, std::move(header.tensors), i);
    if (i == 0) {
      set.version = header.version;
      set.metadata = std::move(header.metadata);
    }
  }
  if (set.tensors.size() != tensors) {
    return Error{Code::bad_file, cat(set.files[0]->path(), ": key split.tensors.count is ", tensors, "; the ",
                                     name.count, " files hold ", set.tensors.size(), " tensors")};
  }
  EVROS_TRY(expect_unique(set));
  return set;
}

}  // namespace

Status check_known_types(const GgufSet& set, const std::string& path) {
  Problems problems;
  bool all_known = true;
  for (const GgufTensor& tensor : set.tensors) {
    all_known = all_known && !tensor.unknown_type;
    if (tensor.unknown_type)
      problems.add_unknown_type(tensor.name, *tensor.unknown_type);
    else if (!can_run(tensor.type))
      problems.add_type(tensor.name, tensor.type);
  }
  return all_known ? Status{} : problems.error(Code::unsupported, path);
}

std::string gguf_split_path(std::string_view prefix, uint32_t number, uint32_t count) {
  return cat(prefix, '-', five_digits(number), "-of-", five_digits(count), ".gguf");
}

Result<GgufSet> open_gguf_set(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(std::unique_ptr<io::File> file, io.open(path));
  EVROS_ASSIGN(GgufHeader header, read_gguf_header(*file));
  EVROS_ASSIGN(const std::optional<uint64_t> count, split_key(header, path, "split.count"));
  if (count && *count > 1) {
    const auto name = parse_split_name(path);
    if (*count > kMaxFiles)
      return Error{Code::bad_file, cat(path, ": key split.count is ", *count, "; wanted at most ", kMaxFiles)};
    if (!name || name->count != *count) {
      return Error{Code::bad_file,
                   cat(path, ": key split.count is ", *count, ", so the name must end in -NNNNN-of-",
                       five_digits(static_cast<uint32_t>(*count)), ".gguf for the other files to be found")};
    }
    return open_split(io, *name);
  }
  GgufSet set;
  set.version = header.version;
  set.metadata = std::move(header.metadata);
  append_tensors(set, std::move(header.tensors), 0);
  set.files.push_back(std::move(file));
  return set;
}

}  // namespace evros::format
