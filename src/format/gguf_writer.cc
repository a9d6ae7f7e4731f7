#include "format/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>

#include "base/bytes.h"
#include "base/str.h"
#include "format/message.h"

namespace evros::format {
namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr size_t kMaxFiles = 65535;  // split.count is a u16

std::string partial(const std::string& path) { return path + ".partial"; }

/// Behind the data of a partial file. One that is torn or of other work counts as none.
struct StoredMark {
  Digest identity;
  uint64_t number = 0, offset = 0;
  Digest check;

  Digest digest_of_rest() const { return digest(std::as_bytes(std::span(this, 1)).first(offsetof(StoredMark, check))); }
};

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append<uint64_t>(out, text.size());
  out += text;
}

void append_pair(std::string& out, std::string_view key, const GgufValue& value) {
  append_string(out, key);
  append(out, static_cast<uint32_t>(value.is_array() ? GgufType::array : value.type()));
  append_value(out, value);
}

}  // namespace

GgufWriter::GgufWriter(io::Io& io, std::string path, uint64_t max_file_bytes, bool metadata_file)
    : io_(io), path_(std::move(path)), max_file_bytes_(max_file_bytes), metadata_file_(metadata_file) {
  CHECK(path_.ends_with(kSuffix));
}

GgufWriter::~GgufWriter() {
  if (finished_ || resumable_) return;
  // Removed while they are open: closed, they could be another writer's already. One that cannot be removed, for want of
  // memory too, is litter, not damage: nothing opens it.
  try {
    for (size_t i = 0; i < files_.size(); ++i) static_cast<void>(io_.remove(partial(paths_[i])).ok());
  } catch (const std::bad_alloc&) {
  }
}

void GgufWriter::set(std::string key, GgufValue value) {
  CHECK(!key.empty() && files_.empty());
  if (key.starts_with("split.")) return;
  if (key == "general.alignment") {
    const auto alignment = value.unsigned_integer();
    CHECK(alignment && std::has_single_bit(*alignment));
    alignment_ = *alignment;
  }
  metadata_.set(std::move(key), std::move(value));
}

size_t GgufWriter::add(GgufTensorInfo info) {
  CHECK(files_.empty() && !info.name.empty() && info.name.size() < 64 && info.dims >= 1 && info.dims <= 4);
  CHECK(names_.insert(info.name).second);
  std::optional<uint64_t> bytes = row_bytes(info.type, info.ne[0]);
  for (const size_t d : {1, 2, 3}) bytes = bytes ? checked_mul(*bytes, info.ne[d]) : bytes;
  CHECK(bytes && *bytes > 0 && *bytes < uint64_t{1} << 62);
  tensors_.push_back({std::move(info), *bytes, 0, 0});
  return tensors_.size() - 1;
}

void GgufWriter::place() {
  data_bytes_.assign(metadata_file_ ? 2 : 1, 0);
  for (Placed& tensor : tensors_) {
    const uint64_t padded = align_up(tensor.bytes, alignment_);
    const bool is_full = max_file_bytes_ > 0 && data_bytes_.back() > 0 && data_bytes_.back() + padded > max_file_bytes_;
    if (is_full) data_bytes_.push_back(0);
    tensor.file = static_cast<uint32_t>(data_bytes_.size() - 1);
    tensor.offset = data_bytes_.back();
    data_bytes_.back() += padded;
  }
  paths_.clear();
  const auto count = static_cast<uint32_t>(data_bytes_.size());
  const std::string_view prefix = std::string_view(path_).substr(0, path_.size() - kSuffix.size());
  for (uint32_t i = 0; i < count; ++i) paths_.push_back(count == 1 ? path_ : gguf_split_path(prefix, i + 1, count));
}

std::string GgufWriter::header_of(uint32_t file) const {
  GgufMetadata metadata;
  if (file == 0) metadata = metadata_;
  if (paths_.size() > 1) {
    metadata.set("split.no", GgufValue::u16(static_cast<uint16_t>(file)));
    metadata.set("split.count", GgufValue::u16(static_cast<uint16_t>(paths_.size())));
    metadata.set("split.tensors.count", GgufValue::i32(static_cast<int32_t>(tensors_.size())));
    if (alignment_ != 32) metadata.set("general.alignment", GgufValue::u32(static_cast<uint32_t>(alignment_)));
  }
  const auto is_here = [&](const Placed& tensor) { return tensor.file == file; };
  std::string out = "GGUF";
  append<uint32_t>(out, 3);
  append<uint64_t>(out, static_cast<uint64_t>(std::count_if(tensors_.begin(), tensors_.end(), is_here)));
  append<uint64_t>(out, metadata.entries().size());
  for (const auto& [key, value] : metadata.entries()) append_pair(out, key, value);
  for (const Placed& tensor : tensors_) {
    if (!is_here(tensor)) continue;
    append_string(out, tensor.info.name);
    append(out, static_cast<uint32_t>(tensor.info.dims));
    for (int d = 0; d < tensor.info.dims; ++d) append(out, tensor.info.ne[static_cast<size_t>(d)]);
    append(out, static_cast<uint32_t>(tensor.info.type));
    append(out, tensor.offset);
  }
  out.resize(align_up(out.size(), alignment_), '\0');
  return out;
}

/// Tensors' places in their file; its length.
uint64_t GgufWriter::set_offsets(uint32_t file, uint64_t header_bytes) {
  for (Placed& tensor : tensors_) {
    if (tensor.file == file) tensor.offset += header_bytes;
  }
  return header_bytes + data_bytes_[file];
}

Status GgufWriter::begin_file(uint32_t file) {
  const std::string header = header_of(file);
  EVROS_ASSIGN(std::unique_ptr<io::File> out, io_.create(partial(paths_[file])));
  files_.push_back(std::move(out));
  EVROS_TRY(files_[file]->write_at(0, std::as_bytes(std::span(header))));
  const uint64_t bytes = set_offsets(file, header.size());
  EVROS_TRY(files_[file]->truncate(bytes));
  total_bytes_ += bytes;
  return {};
}

Status GgufWriter::prepare() {
  CHECK(files_.empty());
  place();
  if (paths_.size() > kMaxFiles) {
    return Error{Code::invalid_argument,
                 cat(path_, ": would be split into ", paths_.size(), " files; at most ", kMaxFiles, " are possible")};
  }
  for (const std::string& path : paths_) EVROS_TRY(io_.check_target(path));
  return {};
}

Status GgufWriter::begin() {
  EVROS_TRY(prepare());
  for (uint32_t i = 0; i < paths_.size(); ++i) EVROS_TRY(begin_file(i));
  return {};
}

Result<GgufMark> GgufWriter::resume(std::string_view source) {
  EVROS_TRY(prepare());
  CHECK(paths_.size() == 1);
  const std::string header = header_of(0), whole = cat(header, source);
  identity_ = digest(std::as_bytes(std::span(whole)));
  EVROS_ASSIGN(std::unique_ptr<io::File> out, io_.create_or_keep(partial(path_)));
  files_.push_back(std::move(out));
  resumable_ = true;
  total_bytes_ = set_offsets(0, header.size());
  io::File& file = *files_[0];
  if (file.size() == total_bytes_ + sizeof(StoredMark)) {
    StoredMark stored;
    EVROS_TRY(file.read_at(total_bytes_, std::as_writable_bytes(std::span(&stored, 1))));
    if (stored.identity == identity_ && stored.check == stored.digest_of_rest() && stored.number <= tensors_.size()) {
      return GgufMark{stored.number, stored.offset};
    }
  }
  EVROS_TRY(file.truncate(0));
  EVROS_TRY(file.write_at(0, std::as_bytes(std::span(header))));
  EVROS_TRY(file.truncate(total_bytes_));
  return GgufMark{};
}

Status GgufWriter::note(const GgufMark& mark) {
  CHECK(resumable_ && !finished_);
  EVROS_TRY(files_[0]->sync());
  StoredMark stored{identity_, mark.number, mark.offset, {}};
  stored.check = stored.digest_of_rest();
  return files_[0]->write_at(total_bytes_, std::as_bytes(std::span(&stored, 1)));
}

Status GgufWriter::write(size_t number, uint64_t offset, std::span<const std::byte> bytes) {
  CHECK(!files_.empty() && number < tensors_.size());
  const Placed& tensor = tensors_[number];
  CHECK(offset <= tensor.bytes && bytes.size() <= tensor.bytes - offset);
  return files_[tensor.file]->write_at(tensor.offset + offset, bytes);
}

Status GgufWriter::finish() {
  CHECK(!files_.empty() && !finished_);
  for (const auto& file : files_) EVROS_TRY(file->sync());
  if (resumable_) {  // the mark goes when all else is safe
    EVROS_TRY(files_[0]->truncate(total_bytes_));
    EVROS_TRY(files_[0]->sync());
  }
  for (size_t i = paths_.size(); i-- > 0;) EVROS_TRY(io_.rename(partial(paths_[i]), paths_[i]));
  finished_ = true;
  const size_t slash = path_.find_last_of('/');
  return io_.sync_folder(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
}

}  // namespace evros::format
