// Any bytes as a snapshot: refused, or a whole image; never a crash, and memory in proportion to file and store. What is
// restored must be able to be saved again as the same bytes. Each input is tried as it is and with every digest made right,
// as the digests would stop almost everything else.
#include "base/bytes.h"
#include "io/memory_io.h"
#include "state/canonical.h"
#include "state/snapshot_format.h"
#include "state/toy_testing.h"

namespace {

using namespace evros;

state::SnapshotIdentity toy_identity() { return {{}, "toy"}; }

void restore(io::MemoryIo& io, const state::Snapshot& snapshot) {
  const auto device = device::make_host_device(1);
  const state::Limits limits{.slots = 1, .checkpoints = 0, .banks = 3, .pages = 9, .max_tokens = 64, .records = 4};
  const auto store = state::Store::create(*device, state::toy::layout(), limits);
  const state::SlotId slot = *(*store)->open();
  const Status status = snapshot.restore(**store, slot, toy_identity());
  (*store)->check_consistency();
  if (!status.ok()) {
    CHECK(*(*store)->frontier(slot) == 0);
    return;
  }
  const auto attachment = snapshot.attachment();
  if (!attachment.ok()) return;
  const auto view = (*store)->view(slot);
  CHECK(save_snapshot(io, "again", **store, *view, toy_identity(), std::as_bytes(std::span(*attachment))).ok());
  CHECK(io.get("again") == io.get("snapshot"));
}

void try_file(std::string content) {
  io::MemoryIo io;
  io.put("snapshot", std::move(content));
  const auto snapshot = state::Snapshot::open(io, "snapshot");
  if (!snapshot.ok()) return;
  (void)snapshot->verify();
  restore(io, *snapshot);
}

// Everything but sizes and content as a writer would have written it.
std::string repaired(std::string content) {
  if (content.size() < state::header_bytes(0)) return content;
  auto* bytes = reinterpret_cast<std::byte*>(content.data());
  const auto sections = load<uint32_t>(bytes + state::kAtSections) % state::kOwnerCount;
  const uint64_t header = state::header_bytes(sections);
  if (content.size() < header) return content;
  content.replace(0, state::kSnapshotMagic.size(), state::kSnapshotMagic);
  store(bytes + state::kAtVersion, state::kSnapshotVersion);
  store(bytes + state::kAtSections, sections);
  store(bytes + state::kAtModel, toy_identity().model);
  std::fill_n(bytes + state::kAtNumerics, state::kNumericsBytes, std::byte{0});
  content.replace(state::kAtNumerics, 3, "toy");
  store(bytes + state::kAtLayout, state::layout_digest(state::toy::layout()));
  store(bytes + state::kAtFileBytes, static_cast<uint64_t>(content.size()));
  store(bytes + state::kAtReserved, uint64_t{0});
  uint64_t at = header;
  const auto fix = [&](uint64_t size, uint64_t digest_at) {
    const uint64_t have = std::min(size, content.size() - at);
    TreeDigest tree;
    tree.update({bytes + at, have});
    store(bytes + digest_at, tree.root());
    at += have;
  };
  for (uint32_t i = 0; i < sections; ++i) {
    const uint64_t entry = state::kFixedHeaderBytes + i * state::kSectionBytes;
    fix(load<uint64_t>(bytes + entry + 8), entry + 16);
  }
  fix(load<uint64_t>(bytes + state::kAtAttachmentBytes), state::kAtAttachment);
  const uint64_t body = header - state::kHeaderDigestBytes;
  store(bytes + body, digest({bytes, body}));
  return content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  try_file(content);
  try_file(repaired(content));
  return 0;
}
