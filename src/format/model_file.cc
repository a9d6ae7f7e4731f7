#include "format/model_file.h"

#include <algorithm>

#include "base/str.h"
#include "format/message.h"
#include "format/stored_model.h"

namespace evros::format {
namespace {

class StoredModel final : public ModelFile {
 public:
  explicit StoredModel(ModelParts parts) : parts_(std::move(parts)) {
    for (const auto& file : parts_.files) paths_.push_back(file->path());
    starts_.reserve(parts_.tensors.size());
    for (size_t i = 0; i < parts_.tensors.size(); ++i) {
      const Tensor& tensor = parts_.tensors[i];
      CHECK(index_.emplace(tensor.name, i).second);
      uint64_t start = 0;
      std::vector<uint64_t>& starts = starts_.emplace_back();
      for (const Piece& piece : tensor.pieces) {
        CHECK(piece.file < parts_.files.size());
        starts.push_back(start);
        start += piece.bytes;
      }
      CHECK(start == tensor.bytes());
    }
  }

  const std::string& path() const override { return parts_.path; }
  std::string_view container() const override { return parts_.container; }
  const std::string& name() const override { return parts_.name; }
  const HyperParams& hyper() const override { return parts_.hyper; }
  std::span<const Tensor> tensors() const override { return parts_.tensors; }
  const Tensor* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &parts_.tensors[found->second];
  }
  const TextAssets& text() const override { return parts_.text; }
  const SamplingDefaults& sampling() const override { return parts_.sampling; }
  std::span<const MetadataEntry> metadata() const override { return parts_.metadata; }
  std::span<const std::string> files() const override { return paths_; }

  Status read(const Tensor& tensor, uint64_t offset, std::span<std::byte> out) const override {
    CHECK(offset <= tensor.bytes() && out.size() <= tensor.bytes() - offset);
    EVROS_TRY(read_pieces(tensor, offset, out));
    if (tensor.columns.block_elements != 0) reorder_columns(tensor, offset, out);
    return {};
  }

  void will_read(const Tensor& tensor, uint64_t offset, uint64_t bytes) const override {
    CHECK(offset <= tensor.bytes() && bytes <= tensor.bytes() - offset);
    const Status status =
        for_parts(tensor, offset, bytes, [](const io::File& file, uint64_t at, uint64_t, uint64_t part) {
          file.will_read(at, part);
          return Status{};
        });
    CHECK(status.ok());
  }

 private:
  Status read_pieces(const Tensor& tensor, uint64_t offset, std::span<std::byte> out) const {
    return for_parts(
        tensor, offset, out.size(), [&](const io::File& file, uint64_t at, uint64_t done, uint64_t part) -> Status {
          const Status status = file.read_at(at, out.subspan(done, part));
          if (status.ok()) return {};
          return Error{status.error().code, cat("tensor ", quoted(tensor.name), ": ", status.error().message)};
        });
  }

  /// use(file, offset in it, bytes before, bytes) for what [offset, offset + bytes) of a tensor has in each of its pieces.
  template <typename Use>
  Status for_parts(const Tensor& tensor, uint64_t offset, uint64_t bytes, const Use& use) const {
    const auto found = index_.find(tensor.name);
    CHECK(found != index_.end());
    const std::vector<uint64_t>& starts = starts_[found->second];
    size_t i = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) - 1;
    for (uint64_t done = 0; done < bytes; ++i) {
      const Piece& piece = tensor.pieces[i];
      const uint64_t skip = offset + done - starts[i];
      const uint64_t part = std::min(piece.bytes - skip, bytes - done);
      EVROS_TRY(use(*parts_.files[piece.file], piece.offset + skip, done, part));
      done += part;
    }
    return {};
  }

  /// Stored block g * repeat + i becomes block i * key_heads + g, row by row (docs/model.md 2.5).
  static void reorder_columns(const Tensor& tensor, uint64_t offset, std::span<std::byte> out) {
    const uint64_t row = row_bytes(tensor.type, tensor.ne[0]);
    const auto [key_heads, repeat, block_elements] = tensor.columns;
    const uint64_t block = row_bytes(tensor.type, block_elements);
    CHECK(offset % row == 0 && out.size() % row == 0 && block * key_heads * repeat == row);
    std::vector<std::byte> stored(static_cast<size_t>(row));
    for (auto at = out.begin(); at != out.end(); at += static_cast<ptrdiff_t>(row)) {
      std::copy_n(at, row, stored.begin());
      for (uint64_t i = 0; i < repeat; ++i) {
        for (uint64_t g = 0; g < key_heads; ++g) {
          std::copy_n(stored.begin() + static_cast<ptrdiff_t>((g * repeat + i) * block), block,
                      at + static_cast<ptrdiff_t>((i * key_heads + g) * block));
        }
      }
    }
  }

  ModelParts parts_;
  std::vector<std::string> paths_;
  std::unordered_map<std::string_view, size_t> index_;  // keys live in parts_.tensors
  std::vector<std::vector<uint64_t>> starts_;           // of each tensor, where its pieces begin in it
};

}  // namespace

std::unique_ptr<ModelFile> make_model(ModelParts parts) { return std::make_unique<StoredModel>(std::move(parts)); }

std::string json_list(uint64_t count, const std::function<std::string(uint64_t i)>& element) {
  constexpr uint64_t kShown = 16;
  std::string list = "[";
  for (uint64_t i = 0; i < std::min(count, kShown); ++i) list += cat(i == 0 ? "" : ", ", element(i));
  list += ']';
  return count <= kShown ? list : cat("{\"count\": ", count, ", \"first\": ", list, '}');
}

void append_piece(std::vector<Piece>& pieces, Piece piece) {
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    if (last.file == piece.file && last.offset + last.bytes == piece.offset) {
      last.bytes += piece.bytes;
      return;
    }
  }
  pieces.push_back(piece);
}

Result<std::unique_ptr<ModelFile>> open_model(io::Io& io, const std::string& path) {
  if (!io.exists(path))
    return Error{
        Code::not_found,
        cat(path,
            ": there is no such file or folder; wanted a .gguf file or a folder with config.json and *.safetensors")};
  if (io.is_folder(path)) {
    EVROS_ASSIGN(ModelParts parts, open_safetensors_model(io, path));
    return make_model(std::move(parts));
  }
  EVROS_ASSIGN(ModelParts parts, open_gguf_model(io, path));
  return make_model(std::move(parts));
}

}  // namespace evros::format
