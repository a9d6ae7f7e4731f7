// What a snapshot holds, without a model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "io/io.h"

namespace evros::engine {

struct SnapshotInfo {
  uint32_t version = 0;
  std::string model;  // Engine::model_identity() of the model that it was taken with
  std::vector<int32_t> tokens;
  uint64_t attachment_bytes = 0;
  Digests digests;  // those that Engine::digests() gave for the session
};

/// Reads the whole file and checks every digest; the errors are those of state::Snapshot.
Result<SnapshotInfo> inspect_snapshot(io::Io& io, const std::string& path);

}  // namespace evros::engine
