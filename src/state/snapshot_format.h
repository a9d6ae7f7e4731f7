// The bytes of a snapshot's header, for the writer and the reader. Internal to state/; docs/state.md "Snapshots"
// describes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "state/snapshot.h"

namespace evros::state {

constexpr std::string_view kSnapshotMagic = "EVROSNAP";
constexpr size_t kFixedHeaderBytes = 176, kSectionBytes = 32, kHeaderDigestBytes = 16;
// Where the fixed fields lie.
constexpr size_t kAtVersion = 8, kAtSections = 12, kAtModel = 16, kAtNumerics = 48, kAtLayout = 112, kAtFrontier = 128,
                 kAtAttachmentBytes = 136, kAtAttachment = 144, kAtFileBytes = 160, kAtReserved = 168;
static_assert(kAtReserved + sizeof(uint64_t) == kFixedHeaderBytes && kAtLayout - kAtNumerics == kNumericsBytes);

constexpr uint64_t header_bytes(size_t sections) {
  return kFixedHeaderBytes + sections * kSectionBytes + kHeaderDigestBytes;
}

/// The header with its digest at the end.
std::vector<std::byte> encode_header(const SnapshotHeader& header);

}  // namespace evros::state
