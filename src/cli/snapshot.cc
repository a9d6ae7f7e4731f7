// evros snapshot: sessions as files, and what is in them.
#include <algorithm>
#include <cstdio>

#include "base/json_writer.h"
#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/session_lock.h"
#include "engine/engine.h"
#include "engine/snapshot_info.h"
#include "engine/text_kit.h"
#include "io/io.h"

namespace evros::cli {
namespace {

/// `file`: what the file alone says; null: the session is the engine's.
void print(const SnapshotArguments& a, const engine::Digests& digests, std::span<const int32_t> tokens,
           const engine::SnapshotInfo* file = nullptr) {
  if (a.json) {
    JsonWriter json(1);
    json.begin_object();
    if (file != nullptr) {
      json.key("file").begin_object().key("version").value(file->version).key("model").value(file->model);
      json.key("attachment_bytes").value(file->attachment_bytes).end_object();
    }
    json.key("numerics").value(digests.numerics).key("tokens").begin_array();
    for (const int32_t id : tokens) json.value(id);
    json.end_array().key("digests").begin_object();
    for (const auto& [owner, hex] : digests.owners) json.key(owner).value(hex);
    std::printf("%s\n", json.end_object().key("combined").value(digests.combined).end_object().take().c_str());
    return;
  }
  std::printf("%s under %s\n", counted(tokens.size(), "token").c_str(), printable(digests.numerics).c_str());
  for (size_t i = 0; i < tokens.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", tokens[i]);
  std::printf("\n");
  for (const auto& [owner, hex] : digests.owners) std::printf("  %-14s %s\n", owner.c_str(), hex.c_str());
  std::printf("  %-14s %s\n", "together", digests.combined.c_str());
}

Status print_session(const SnapshotArguments& a, const engine::Engine& engine, engine::SessionId session) {
  EVROS_ASSIGN(const engine::Digests digests, engine.digests(session));
  EVROS_ASSIGN(const std::vector<int32_t> tokens, engine.tokens(session));
  print(a, digests, tokens);
  return {};
}

Result<std::vector<int32_t>> wanted_tokens(const SnapshotArguments& a, const engine::Engine& engine) {
  if (!a.tokens.empty()) return a.tokens;
  EVROS_ASSIGN(const auto tokenizer, engine::load_tokenizer(engine.file()));
  return tokenizer.encode(a.prompt);
}

Status save(const SnapshotArguments& a, engine::Engine& engine) {
  EVROS_ASSIGN(const std::vector<int32_t> tokens, wanted_tokens(a, engine));
  EVROS_ASSIGN(const engine::SessionId session, engine.open());
  EVROS_TRY(engine.append(session, tokens));
  EVROS_TRY(engine.save(io::real_io(), session, a.file));
  return print_session(a, engine, session);
}

Status restore(const SnapshotArguments& a, engine::Engine& engine) {
  EVROS_ASSIGN(const auto restored, engine.restore(io::real_io(), a.file));
  std::vector<float> logits(static_cast<size_t>(engine.model().hyper.vocab));
  for (int64_t i = 0; i < a.greedy; ++i) {
    EVROS_TRY(engine.logits(restored.session, logits));
    const auto id = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    EVROS_TRY(engine.append(restored.session, {&id, 1}));
  }
  return print_session(a, engine, restored.session);
}

Status inspect_file(const SnapshotArguments& a) {
  EVROS_ASSIGN(const engine::SnapshotInfo info, engine::inspect_snapshot(io::real_io(), a.file));
  if (!a.json) {
    std::printf("%s\n  version        %u\n  model          %s\n  attachment     %s\n", a.file.c_str(), info.version,
                info.model.c_str(), human_bytes(info.attachment_bytes).c_str());
  }
  print(a, info.digests, info.tokens, &info);
  return {};
}

Status run_snapshot(const SnapshotArguments& a) {
  using Action = SnapshotArguments::Action;
  if (a.action == Action::inspect) return inspect_file(a);
  SessionLock lock;
  if (a.action == Action::save) {
    EVROS_TRY(io::real_io().check_target(a.file));
    EVROS_ASSIGN(lock, SessionLock::take(a.file));
  }
  EVROS_ASSIGN(const std::string path, model_path(a.model.model));
  EVROS_ASSIGN(const auto engine, engine::Engine::load(io::real_io(), path, engine_options(a.model)));
  return a.action == Action::save ? save(a, *engine) : restore(a, *engine);
}

}  // namespace

int snapshot(const SnapshotArguments& a) {
  const Status status = run_snapshot(a);
  return status.ok() ? 0 : fail(status.error());
}

}  // namespace evros::cli
