// Images in files: one sequence, whole, with everything that says whose it is (docs/state.md "Snapshots" has the
// format).
//
// Writing: the file grows under PATH.partial, is flushed, renamed and its folder flushed, so that PATH is the old file
// or the new one, whole, whatever happens in between (S9). Reading: nothing is believed that is not checked. Every byte
// of a file is under a digest, sizes are compared with what the layout demands before anything is allocated, and the
// image becomes public with one store after the last digest was right. Digests are against accidents, not against
// somebody who makes files.
//
// Thread rule: the thread that drives the device.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "io/io.h"
#include "state/store.h"

namespace evros::state {

/// Whose bits a snapshot holds. Equal identities: a restored sequence goes on with the same bits.
struct SnapshotIdentity {
  std::array<std::byte, 32> model{};  // engine/identity.h; opaque here
  std::string numerics;               // at most kNumericsBytes
  bool operator==(const SnapshotIdentity&) const = default;
};

struct SnapshotSection {
  Owner owner;
  uint64_t bytes;
  Digest digest;  // tree digest of the canonical form
};

struct SnapshotHeader {
  uint32_t version = 0;
  SnapshotIdentity identity;
  Digest layout;  // layout_digest()
  int64_t frontier = 0;
  std::vector<SnapshotSection> sections;  // in the file's order: every owner but `frontier`
  uint64_t attachment_bytes = 0;
  Digest attachment;
};

constexpr uint32_t kSnapshotVersion = 1;
constexpr uint64_t kNumericsBytes = 64;
constexpr uint64_t kAttachmentLimit = 64u << 20;

/// Writes the view's image and `attachment` (bytes of the caller's, given back by attachment()) to `path`. An error
/// leaves what was at `path` and no PATH.partial, except after the rename: when the folder cannot be flushed, the new
/// file is in place and the error says that it may not survive a power failure. invalid_argument for a sequence without
/// tokens.
Status save_snapshot(io::Io& io, const std::string& path, const Store& store, const View& view,
                     const SnapshotIdentity& identity, std::span<const std::byte> attachment);

/// An open snapshot with a sound header.
class Snapshot {
 public:
  /// bad_file for whatever is not a whole snapshot header or has not exactly the length that it says; unsupported for
  /// another version.
  static Result<Snapshot> open(io::Io& io, const std::string& path);

  const SnapshotHeader& header() const { return header_; }
  /// Digests all sections and the attachment: bad_file names the first that is damaged.
  Status verify() const;
  Result<std::string> attachment() const;
  Result<std::vector<int32_t>> tokens() const;

  /// Puts the image into `slot`, an empty sequence, with one publication. Refused, and nothing happened: another model,
  /// other numerics or another layout (unsupported, with both), more tokens than the store's longest sequence
  /// (invalid_argument), damage (bad_file), no free bank or page.
  Status restore(Store& store, SlotId slot, const SnapshotIdentity& identity) const;

 private:
  explicit Snapshot(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  Error damaged(std::string_view what) const;
  Status parse();
  Status parse_sections(std::span<const std::byte> bytes);
  Status check_fit(const Store& store, const SnapshotIdentity& identity) const;
  /// Place of a section in the file.
  uint64_t offset(size_t section) const;
  /// Reads a section into the private image, digesting on the way.
  Status fill(const Store& store, size_t section, const Image& image) const;

  std::unique_ptr<io::File> file_;
  SnapshotHeader header_;
};

}  // namespace evros::state
