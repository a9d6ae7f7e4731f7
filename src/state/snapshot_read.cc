#include <algorithm>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "base/str.h"
#include "state/canonical.h"
#include "state/snapshot_format.h"

namespace evros::state {

Error Snapshot::damaged(std::string_view what) const {
  return {Code::bad_file, cat(file_->path(), " is not a whole snapshot: ", what)};
}

Result<Snapshot> Snapshot::open(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(std::unique_ptr<io::File> file, io.open(path));
  Snapshot snapshot(std::move(file));
  EVROS_TRY(snapshot.parse());
  return snapshot;
}

Status Snapshot::parse() {
  if (file_->size() < header_bytes(0)) {
    return damaged(cat("it has ", file_->size(), " bytes, less than a header of ", header_bytes(0)));
  }
  std::vector<std::byte> bytes(kFixedHeaderBytes);
  EVROS_TRY(file_->read_at(0, bytes));
  if (std::memcmp(bytes.data(), kSnapshotMagic.data(), kSnapshotMagic.size()) != 0) {
    return damaged(cat("it does not begin with ", kSnapshotMagic));
  }
  header_.version = load<uint32_t>(&bytes[kAtVersion]);
  if (header_.version != kSnapshotVersion) {
    return Error{Code::unsupported, cat(file_->path(), " is a snapshot of version ", header_.version,
                                        "; this program reads ", kSnapshotVersion)};
  }
  const auto sections = load<uint32_t>(&bytes[kAtSections]);
  if (sections >= kOwnerCount)
    return damaged(cat("it says that it has ", sections, " sections; there are ", kOwnerCount - 1));
  bytes.resize(header_bytes(sections));
  EVROS_TRY(file_->read_at(0, bytes));
  const auto body = std::span(bytes).first(bytes.size() - kHeaderDigestBytes);
  if (load<Digest>(&bytes[body.size()]) != digest(body)) return damaged("the digest of its header is wrong");
  header_.identity.model = load<decltype(header_.identity.model)>(&bytes[kAtModel]);
  header_.identity.numerics.assign(reinterpret_cast<const char*>(&bytes[kAtNumerics]), kNumericsBytes);
  header_.identity.numerics.resize(std::min(header_.identity.numerics.find('\0'), header_.identity.numerics.size()));
  header_.layout = load<Digest>(&bytes[kAtLayout]);
  header_.frontier = load<int64_t>(&bytes[kAtFrontier]);
  header_.attachment_bytes = load<uint64_t>(&bytes[kAtAttachmentBytes]);
  header_.attachment = load<Digest>(&bytes[kAtAttachment]);
  if (header_.frontier < 1 || header_.frontier > INT32_MAX) return damaged(cat("its frontier is ", header_.frontier));
  if (header_.attachment_bytes > kAttachmentLimit)
    return damaged(cat("its attachment has ", header_.attachment_bytes, " bytes"));
  EVROS_TRY(parse_sections(body));
  // Nothing in a header is redundant but this: it must be what the writer would have written.
  if (encode_header(header_) != bytes) return damaged("its header has values where none belong");
  return {};
}

Status Snapshot::parse_sections(std::span<const std::byte> bytes) {
  std::optional<uint64_t> end = bytes.size() + kHeaderDigestBytes + header_.attachment_bytes;
  for (size_t at = kFixedHeaderBytes; at < bytes.size(); at += kSectionBytes) {
    const auto owner = load<uint64_t>(&bytes[at]);
    if (owner >= static_cast<uint64_t>(Owner::frontier)) return damaged(cat("section ", owner, " is unknown"));
    header_.sections.push_back(
        {static_cast<Owner>(owner), load<uint64_t>(&bytes[at + 8]), load<Digest>(&bytes[at + 16])});
    const SnapshotSection& section = header_.sections.back();
    if (section.owner == Owner::tokens && section.bytes != static_cast<uint64_t>(header_.frontier) * sizeof(int32_t)) {
      return damaged(cat("its tokens take ", section.bytes, " bytes at frontier ", header_.frontier));
    }
    end = checked_add(*end, section.bytes);
    if (!end) return damaged("its sections exceed 64-bit sizes");
  }
  if (*end != file_->size()) return damaged(cat("it has ", file_->size(), " bytes where its header says ", *end));
  return {};
}

uint64_t Snapshot::offset(size_t section) const {
  uint64_t at = header_bytes(header_.sections.size());
  for (size_t i = 0; i < section; ++i) at += header_.sections[i].bytes;
  return at;
}

Status Snapshot::verify() const {
  std::vector<std::byte> buffer;
  const auto check = [&](std::string_view name, uint64_t begin, uint64_t bytes, const Digest& wanted) -> Status {
    TreeDigest tree;
    for (uint64_t done = 0; done < bytes; done += buffer.size()) {
      buffer.resize(std::min(kRunBytes, bytes - done));
      EVROS_TRY(file_->read_at(begin + done, buffer));
      tree.update(buffer);
    }
    return tree.root() == wanted ? Status{} : damaged(cat("the digest of ", name, " is wrong"));
  };
  for (size_t i = 0; i < header_.sections.size(); ++i) {
    const SnapshotSection& section = header_.sections[i];
    EVROS_TRY(check(owner_name(section.owner), offset(i), section.bytes, section.digest));
  }
  return check("its attachment", offset(header_.sections.size()), header_.attachment_bytes, header_.attachment);
}

Result<std::string> Snapshot::attachment() const {
  std::string out(header_.attachment_bytes, '\0');
  EVROS_TRY(file_->read_at(offset(header_.sections.size()), std::as_writable_bytes(std::span(out))));
  TreeDigest tree;
  tree.update(std::as_bytes(std::span(out)));
  if (tree.root() != header_.attachment) return damaged("the digest of its attachment is wrong");
  return out;
}

Status Snapshot::check_fit(const Store& store, const SnapshotIdentity& identity) const {
  const auto refuse = [&](std::string_view what) { return Error{Code::unsupported, cat(file_->path(), ": ", what)}; };
  if (header_.identity.model != identity.model) return refuse("the snapshot was taken with another model");
  if (header_.identity.numerics != identity.numerics) {
    return refuse(cat("the snapshot was taken under numerics ", header_.identity.numerics, "; here they are ",
                      identity.numerics));
  }
  std::vector<Owner> wanted = owners(store.layout());
  std::erase(wanted, Owner::frontier);
  const bool same = header_.layout == layout_digest(store.layout()) &&
                    std::equal(wanted.begin(), wanted.end(), header_.sections.begin(), header_.sections.end(),
                               [&](Owner owner, const SnapshotSection& section) {
                                 return owner == section.owner &&
                                        owner_bytes(store.layout(), owner, header_.frontier) == section.bytes;
                               });
  if (!same) return refuse("the snapshot's owners have other sizes than those of this model");
  if (header_.frontier > store.limits().max_tokens) {
    return Error{Code::invalid_argument, cat(file_->path(), ": the snapshot holds ", header_.frontier,
                                             " tokens; the context here holds ", store.limits().max_tokens)};
  }
  return {};
}

Result<std::vector<int32_t>> Snapshot::tokens() const {
  const auto is_tokens = [](const SnapshotSection& section) { return section.owner == Owner::tokens; };
  const auto found = std::find_if(header_.sections.begin(), header_.sections.end(), is_tokens);
  if (found == header_.sections.end()) return damaged("it has no tokens");
  std::vector<int32_t> ids(static_cast<size_t>(header_.frontier));  // the file has that many: parse_sections()
  const auto bytes = std::as_writable_bytes(std::span(ids));
  EVROS_TRY(file_->read_at(offset(static_cast<size_t>(found - header_.sections.begin())), bytes));
  TreeDigest tree;
  tree.update(bytes);
  if (tree.root() != found->digest) return damaged("the digest of tokens is wrong");
  return ids;
}

Status Snapshot::fill(const Store& store, size_t section, const Image& image) const {
  std::vector<std::byte> buffer;
  TreeDigest tree;
  uint64_t at = offset(section);
  const Owner owner = header_.sections[section].owner;
  const Status filled = for_runs(store.layout(), owner, header_.frontier, [&](const Run& run) -> Status {
    buffer.resize(run.bytes);
    EVROS_TRY(file_->read_at(at, buffer));
    at += run.bytes;
    tree.update(buffer);
    return store.device().upload((run.page < 0 ? image.bank_out : image.pages[run.page]) + run.offset, buffer);
  });
  EVROS_TRY(filled);
  return tree.root() == header_.sections[section].digest
             ? Status{}
             : damaged(cat("the digest of ", owner_name(owner), " is wrong"));
}

Status Snapshot::restore(Store& store, SlotId slot, const SnapshotIdentity& identity) const {
  EVROS_TRY(check_fit(store, identity));
  EVROS_ASSIGN(const int64_t held, store.frontier(slot));
  CHECK(held == 0);
  EVROS_ASSIGN(const std::vector<int32_t> ids, tokens());
  const Append append{slot, ids};
  EVROS_ASSIGN(Transaction transaction, store.begin({&append, 1}));
  for (size_t i = 0; i < header_.sections.size(); ++i) {
    if (header_.sections[i].owner != Owner::tokens) EVROS_TRY(fill(store, i, transaction.images()[0]));
  }
  EVROS_TRY(store.device().finish());
  const bool clean = true;
  store.publish(std::move(transaction), {&clean, 1});
  return {};
}

}  // namespace evros::state
