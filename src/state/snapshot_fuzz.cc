// Any bytes as a snapshot: refused, or a whole image; never a crash, and memory in proportion to the store. What is restored
// must be able to be saved again as the same bytes.
#include "io/memory_io.h"
#include "state/snapshot.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  io::MemoryIo io;
  io.put("snapshot", std::string(reinterpret_cast<const char*>(data), size));
  const auto snapshot = state::Snapshot::open(io, "snapshot");
  if (!snapshot.ok()) return 0;
  (void)snapshot->verify();
  restore(io, *snapshot);
  return 0;
}
