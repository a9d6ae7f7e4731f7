#include <algorithm>
#include <cstring>
#include <new>

#include "base/bytes.h"
#include "base/str.h"
#include "state/canonical.h"
#include "state/snapshot_format.h"

namespace evros::state {

std::vector<std::byte> encode_header(const SnapshotHeader& header) {
  CHECK(header.identity.numerics.size() <= kNumericsBytes);
  std::vector<std::byte> out(header_bytes(header.sections.size()));
  uint64_t file_bytes = out.size() + header.attachment_bytes;
  for (const SnapshotSection& section : header.sections) file_bytes += section.bytes;
  std::memcpy(out.data(), kSnapshotMagic.data(), kSnapshotMagic.size());
  evros::store(&out[kAtVersion], kSnapshotVersion);
  evros::store(&out[kAtSections], static_cast<uint32_t>(header.sections.size()));
  evros::store(&out[kAtModel], header.identity.model);
  std::memcpy(&out[kAtNumerics], header.identity.numerics.data(), header.identity.numerics.size());
  evros::store(&out[kAtLayout], header.layout);
  evros::store(&out[kAtFrontier], header.frontier);
  evros::store(&out[kAtAttachmentBytes], header.attachment_bytes);
  evros::store(&out[kAtAttachment], header.attachment);
  evros::store(&out[kAtFileBytes], file_bytes);
  std::byte* at = &out[kFixedHeaderBytes];
  for (const SnapshotSection& section : header.sections) {
    evros::store(at, static_cast<uint64_t>(section.owner));
    evros::store(at + 8, section.bytes);
    evros::store(at + 16, section.digest);
    at += kSectionBytes;
  }
  evros::store(at, digest(std::span(out).first(out.size() - kHeaderDigestBytes)));
  return out;
}

namespace {

// Appends to a file and digests what it appends.
class SectionWriter {
 public:
  SectionWriter(io::File& file, uint64_t offset) : file_(file), offset_(offset) {}
  Status append(std::span<const std::byte> bytes) {
    tree_.update(bytes);
    EVROS_TRY(file_.write_at(offset_, bytes));
    offset_ += bytes.size();
    return {};
  }
  /// The digest since the last call.
  Digest take() {
    const Digest root = tree_.root();
    tree_ = TreeDigest();
    return root;
  }

 private:
  io::File& file_;
  uint64_t offset_;
  TreeDigest tree_;
};

Status append_tokens(const View& view, SectionWriter& out) {
  std::vector<int32_t> ids(kRunBytes / sizeof(int32_t));
  for (int64_t first = 0; first < view.frontier(); first += static_cast<int64_t>(ids.size())) {
    const auto count = std::min<int64_t>(static_cast<int64_t>(ids.size()), view.frontier() - first);
    const auto part = std::span(ids).first(static_cast<size_t>(count));
    view.tokens(first, part);
    EVROS_TRY(out.append(std::as_bytes(part)));
  }
  return {};
}

Status append_owner(const Store& store, const View& view, Owner owner, SectionWriter& out) {
  if (owner == Owner::tokens) return append_tokens(view, out);
  std::vector<std::byte> buffer;
  return for_runs(store.layout(), owner, view.frontier(), [&](const Run& run) -> Status {
    buffer.resize(run.bytes);
    EVROS_TRY(store.device().download(buffer, (run.page < 0 ? view.bank() : view.pages()[run.page]) + run.offset));
    return out.append(buffer);
  });
}

// The content first and the header last: a file that was left in the middle has no magic.
Status write_file(io::File& file, const Store& store, const View& view, SnapshotHeader header,
                  std::span<const std::byte> attachment) {
  std::vector<Owner> stored = owners(store.layout());
  std::erase(stored, Owner::frontier);
  SectionWriter out(file, header_bytes(stored.size()));
  for (const Owner owner : stored) {
    EVROS_TRY(append_owner(store, view, owner, out));
    header.sections.push_back({owner, owner_bytes(store.layout(), owner, view.frontier()), out.take()});
  }
  EVROS_TRY(out.append(attachment));
  header.attachment_bytes = attachment.size();
  header.attachment = out.take();
  EVROS_TRY(file.write_at(0, encode_header(header)));
  return file.sync();
}

// A file under its temporary name, removed unless it was kept: also when memory runs out on the way.
class Partial {
 public:
  Partial(io::Io& io, const std::string& path) : io_(io), path_(path) {}
  ~Partial() {
    if (kept_) return;
    try {
      (void)io_.remove(path_);  // the error that counts is the one that led here
    } catch (const std::bad_alloc&) {
    }
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  void keep() { kept_ = true; }

 private:
  io::Io& io_;
  const std::string& path_;
  bool kept_ = false;
};

}  // namespace

Status save_snapshot(io::Io& io, const std::string& path, const Store& store, const View& view,
                     const SnapshotIdentity& identity, std::span<const std::byte> attachment) {
  if (view.frontier() == 0)
    return Error{Code::invalid_argument, cat(path, ": a sequence without tokens has nothing to save")};
  if (attachment.size() > kAttachmentLimit) {
    return Error{Code::invalid_argument, cat(path, ": the attachment has ", attachment.size(), " bytes; at most ",
                                             kAttachmentLimit, " can be saved")};
  }
  SnapshotHeader header;
  header.identity = identity;
  header.layout = layout_digest(store.layout());
  header.frontier = view.frontier();
  const std::string temporary = path + ".partial";
  Partial partial(io, temporary);  // before create(), which may run out of memory when the file is already there
  auto file = io.create(temporary);
  if (!file.ok()) {
    partial.keep();  // it was not made, or is another's that is being written
    return file.error();
  }
  EVROS_TRY(write_file(**file, store, view, std::move(header), attachment));
  EVROS_TRY(io.rename(temporary, path));
  partial.keep();
  const size_t slash = path.rfind('/');
  return io.sync_folder(slash == std::string::npos ? "" : path.substr(0, std::max<size_t>(slash, 1)));
}

}  // namespace evros::state
