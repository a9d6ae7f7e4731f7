// Writes GGUF version 3, as one file or as a split set: metadata and tensor infos first, then the header, then tensor
// data by positional writes in any order. What is never written stays a hole of zeros, so a file far larger than the
// disk can be made.
//
//   GgufWriter writer(io, "model.gguf");
//   writer.set("general.architecture", GgufValue::string("qwen4exp"));
//   const size_t t = writer.add({"token_embd.weight", TensorType::q8_0, {2560, 248320, 1, 1}, 2});
//   EVROS_TRY(writer.begin());
//   EVROS_TRY(writer.write(t, 0, bytes));
//   EVROS_TRY(writer.finish());
//
// Nothing is visible under the final names before finish(): files grow as NAME.partial, are flushed, and are renamed
// last file first, so that the file by which a set is opened appears when the others are there. A writer that is
// destroyed without a successful finish() removes its partial files, unless it began with resume().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "format/gguf.h"
#include "io/io.h"

namespace evros::format {

struct GgufTensorInfo {
  std::string name;  // 1 to 63 bytes, unique
  TensorType type = TensorType::f32;
  std::array<uint64_t, 4> ne{1, 1, 1, 1};  // ne[0] a multiple of the type's block; none 0
  int dims = 1;
};

/// How far a file is written, in the order of its tensors: all tensors before `number`, and `offset` bytes of that one.
struct GgufMark {
  uint64_t number = 0, offset = 0;
};

/// One thread sets up, begins and finishes; between begin() and finish() write() may be called from any thread.
class GgufWriter {
 public:
  /// `path` ends in ".gguf". With `max_file_bytes` above 0 and more tensor data than that, the set
  /// PREFIX-0000N-of-0000C.gguf is written instead of `path`, each file holding at most that much data (a single larger
  /// tensor gets its own file). With `metadata_file` the set's first file holds no tensor, as published sets have it.
  GgufWriter(io::Io& io, std::string path, uint64_t max_file_bytes = 0, bool metadata_file = false);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  /// Adds or replaces a key. Keys in "split." are the writer's own: ignored. general.alignment is obeyed.
  void set(std::string key, GgufValue value);
  /// Adds a tensor and returns its number. The rules of GgufTensorInfo are CHECKed.
  size_t add(GgufTensorInfo info);

  /// Creates the partial files with their headers and final lengths.
  Status begin();
  /// Instead of begin(), for long work on one file that may be stopped: goes on with a partial file in which a writer of the
  /// same header and the same `source` left a mark, and says where; else starts anew, with the mark {0, 0}. From here on
  /// the partial file stays when the writer is destroyed.
  Result<GgufMark> resume(std::string_view source);
  /// After resume(): brings everything written to stable storage, then notes that all before `mark` is there.
  Status note(const GgufMark& mark);
  /// Bytes [offset, offset + bytes.size()) of tensor `number`, CHECKed to lie inside it.
  Status write(size_t number, uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes and renames everything. On failure the final names may hold some files of the set, never a torn one.
  Status finish();

  /// The final names, known after begin().
  std::span<const std::string> paths() const { return paths_; }
  /// Length of all files together, known after begin().
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  struct Placed {
    GgufTensorInfo info;
    uint64_t bytes = 0;
    uint32_t file = 0;
    uint64_t offset = 0;  // in the data of its file; of the file once begin() ran
  };

  Status prepare();
  void place();
  Status begin_file(uint32_t file);
  uint64_t set_offsets(uint32_t file, uint64_t header_bytes);
  std::string header_of(uint32_t file) const;

  io::Io& io_;
  std::string path_;
  uint64_t max_file_bytes_;
  bool metadata_file_;
  uint64_t alignment_ = 32;
  GgufMetadata metadata_;
  std::vector<Placed> tensors_;
  std::unordered_set<std::string> names_;
  std::vector<std::string> paths_;
  std::vector<uint64_t> data_bytes_;              // of each file
  std::vector<std::unique_ptr<io::File>> files_;  // partial files
  uint64_t total_bytes_ = 0;
  bool finished_ = false;
  bool resumable_ = false;
  Digest identity_;  // of header and source, in the marks of a resumable file
};

}  // namespace evros::format
