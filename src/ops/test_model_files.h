// What the tests of this folder share: fixtures, comparing models, an Io that fails. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/str.h"
#include "engine/weight_loader.h"
#include "format/model_file.h"
#include "io/io.h"

namespace evros::ops::testing {

inline std::string source_path(const std::string& below_root) { return cat(EVROS_SOURCE_DIR, "/", below_root); }
inline std::string micro_gguf(const std::string& type) {
  return cat(EVROS_BINARY_DIR, "/micro/gguf/micro-", type, ".gguf");
}

inline std::unique_ptr<format::ModelFile> open_or_die(io::Io& io, const std::string& path) {
  auto model = format::open_model(io, path);
  if (!model.ok()) ADD_FAILURE() << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

/// Every field, so that two HyperParams with one description are the same.
inline std::string describe(const format::HyperParams& h) {
  std::string out;
  const auto list = [&](const char* name, const auto& values) {
    out += cat(name, " [");
    for (const auto& v : values) out += cat(static_cast<uint64_t>(v), ' ');
    out += "]\n";
  };
  out += cat("shape ", h.layers, ' ', h.hidden, ' ', h.vocab, ' ', h.context_length, ' ', h.rms_eps, ' ',
             h.tied_embeddings, '\n');
  out += cat("streams ", h.hc_count, ' ', h.hc_lowrank, " mtp ", h.mtp_layers, '\n');
  out += cat("attention ", h.heads, ' ', h.kv_heads, ' ', h.key_dim, ' ', h.value_dim, ' ', h.rope_dims, ' ',
             h.rope_theta, '\n');
  out += cat("index ", h.index_heads, ' ', h.index_dim, ' ', h.index_budget, '\n');
  out += cat("linear ", h.linear_key_heads, ' ', h.linear_value_heads, ' ', h.linear_key_dim, ' ', h.linear_value_dim,
             ' ', h.conv_kernel, ' ', static_cast<int>(h.output_gate), '\n');
  out +=
      cat("experts ", h.experts, ' ', h.experts_used, ' ', h.expert_ff, ' ', h.shared_ff, ' ', h.norm_topk_prob, '\n');
  out += cat("ple ", h.ngram_size, ' ', h.heads_per_ngram, ' ', h.ple_conv_kernel, ' ', h.ple_row_width, ' ', h.ple_eos,
             ' ', h.ple_table_rows, '\n');
  list("kinds", h.layer_kind);
  list("ratios", h.compress_ratio);
  list("sections", h.rope_sections);
  for (const format::PleLayer& p : h.ple) {
    out += cat("ple layer ", p.layer, '\n');
    list("multipliers", p.multipliers);
    list("vocab", p.head_vocab);
    list("offset", p.head_offset);
  }
  return out;
}

/// A tensor's bytes as the file gives them.
inline std::vector<std::byte> bytes_of(const format::ModelFile& model, const format::Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  const Status read = model.read(tensor, 0, bytes);
  if (!read.ok()) ADD_FAILURE() << read.error().message;
  return bytes;
}

inline std::vector<float> floats_of(const format::ModelFile& model, const format::Tensor& tensor) {
  auto values = engine::read_floats(model, tensor);
  if (!values.ok()) ADD_FAILURE() << values.error().message;
  return values.ok() ? std::move(*values) : std::vector<float>{};
}

/// An Io in front of another one that makes one call fail: the `fail_at`-th of those that change something. Notes the
/// largest transfer.
class FailingIo final : public io::Io {
 public:
  explicit FailingIo(io::Io& below) : below_(below) {}
  int64_t fail_at = -1;
  int64_t changes = 0;
  uint64_t largest_transfer = 0;
  uint64_t free = ~uint64_t{0};  // what free_bytes() says

  Result<std::unique_ptr<io::File>> open(const std::string& path) override { return wrap(below_.open(path)); }
  Result<std::unique_ptr<io::File>> create(const std::string& path) override {
    EVROS_TRY(change("create"));
    return wrap(below_.create(path));
  }
  Result<std::unique_ptr<io::File>> create_or_keep(const std::string& path) override {
    EVROS_TRY(change("create_or_keep"));
    return wrap(below_.create_or_keep(path));
  }
  Status rename(const std::string& from, const std::string& to) override {
    EVROS_TRY(change("rename"));
    return below_.rename(from, to);
  }
  Status remove(const std::string& path) override { return below_.remove(path); }
  Status sync_folder(const std::string& path) override {
    EVROS_TRY(change("sync_folder"));
    return below_.sync_folder(path);
  }
  Status make_folder(const std::string& path) override { return below_.make_folder(path); }
  bool exists(const std::string& path) const override { return below_.exists(path); }
  bool is_folder(const std::string& path) const override { return below_.is_folder(path); }
  Result<std::vector<std::string>> list(const std::string& path) const override { return below_.list(path); }
  uint64_t now_ns() const override { return below_.now_ns(); }
  uint64_t free_bytes(const std::string&) const override { return free; }

 private:
  class FailingFile final : public io::File {
   public:
    FailingFile(FailingIo& io, std::unique_ptr<io::File> below) : io_(io), below_(std::move(below)) {}
    const std::string& path() const override { return below_->path(); }
    uint64_t size() const override { return below_->size(); }
    Status read_at(uint64_t offset, std::span<std::byte> out) const override {
      io_.largest_transfer = std::max<uint64_t>(io_.largest_transfer, out.size());
      return below_->read_at(offset, out);
    }
    Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
      io_.largest_transfer = std::max<uint64_t>(io_.largest_transfer, bytes.size());
      EVROS_TRY(io_.change("write_at"));
      return below_->write_at(offset, bytes);
    }
    Status truncate(uint64_t size) override {
      EVROS_TRY(io_.change("truncate"));
      return below_->truncate(size);
    }
    Status sync() override {
      EVROS_TRY(io_.change("sync"));
      return below_->sync();
    }

   private:
    FailingIo& io_;
    std::unique_ptr<io::File> below_;
  };

  Status change(const char* what) {
    if (changes++ == fail_at) return Error{Code::io, cat("made to fail: ", what)};
    return {};
  }
  Result<std::unique_ptr<io::File>> wrap(Result<std::unique_ptr<io::File>> file) {
    if (!file.ok()) return file;
    return {std::make_unique<FailingFile>(*this, std::move(*file))};
  }

  io::Io& below_;
};

/// A folder of the machine that is empty at first and gone at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name) : path_(cat(EVROS_BINARY_DIR, "/ops_test_", name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& file) const { return cat(path_, '/', file); }

 private:
  std::string path_;
};

}  // namespace evros::ops::testing
