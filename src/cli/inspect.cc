// evros inspect: what a model file holds and what running it would cost. Reads headers only.
#include <algorithm>
#include <cstdio>
#include <map>

#include "base/json_writer.h"
#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/text_kit.h"
#include "ops/plan_report.h"

namespace evros::cli {
namespace {

struct TypeTotal {
  uint64_t tensors = 0, bytes = 0;
};

std::map<std::string, TypeTotal> totals(const format::ModelFile& file) {
  std::map<std::string, TypeTotal> by_type;
  for (const format::Tensor& tensor : file.tensors()) {
    TypeTotal& total = by_type[std::string(format::type_info(tensor.type).name)];
    ++total.tensors;
    total.bytes += tensor.bytes();
  }
  return by_type;
}

std::string shape(const format::Tensor& tensor) {
  std::string text = cat(tensor.ne[0]);
  for (int d = 1; d < tensor.dims; ++d) text += cat("x", tensor.ne[static_cast<size_t>(d)]);
  return text;
}

struct Fact {
  const char* name;
  int64_t value;
};

std::vector<Fact> facts(const format::HyperParams& h) {
  const auto full = std::count(h.layer_kind.begin(), h.layer_kind.end(), format::LayerKind::full);
  return {{"layers", h.layers},
          {"full_attention_layers", full},
          {"hidden", h.hidden},
          {"vocabulary", h.vocab},
          {"context_length", h.context_length},
          {"streams", h.hc_count},
          {"stream_rank", h.hc_lowrank},
          {"heads", h.heads},
          {"kv_heads", h.kv_heads},
          {"key_dim", h.key_dim},
          {"value_dim", h.value_dim},
          {"index_budget", h.index_budget},
          {"linear_key_heads", h.linear_key_heads},
          {"linear_value_heads", h.linear_value_heads},
          {"linear_key_dim", h.linear_key_dim},
          {"linear_value_dim", h.linear_value_dim},
          {"experts", h.experts},
          {"experts_used", h.experts_used},
          {"expert_ff", h.expert_ff},
          {"shared_ff", h.shared_ff},
          {"ple_layers", static_cast<int64_t>(h.ple.size())},
          {"ngram_size", h.ngram_size},
          {"ple_heads", h.ple_heads()},
          {"ple_row_width", h.ple_row_width},
          {"ple_table_rows", static_cast<int64_t>(h.ple_table_rows)},
          {"mtp_layers", h.mtp_layers}};
}

/// Why run and serve would refuse the file, one sentence each. What memory there is stands in the plan.
std::vector<std::string> refusals(const format::ModelFile& file, const Result<engine::Plan>& plan) {
  std::vector<std::string> all = engine::text_problems(file);
  if (!plan.ok()) all.insert(all.begin(), plan.error().message);
  return all;
}

void plan_json(JsonWriter& json, const Result<engine::Plan>& plan, const engine::EngineOptions& asked) {
  json.key("plan");
  if (plan.ok())
    ops::plan_json(json, *plan, asked);
  else
    json.begin_object().key("refused").value(plan.error().message).end_object();
}

void print_json(const format::ModelFile& file, const Result<engine::Plan>& plan, const engine::EngineOptions& asked,
                bool tensors) {
  JsonWriter json(1);
  json.begin_object()
      .key("path")
      .value(file.path())
      .key("container")
      .value(file.container())
      .key("name")
      .value(file.name());
  json.key("files").begin_array();
  for (const std::string& path : file.files()) json.value(path);
  json.end_array().key("hyper_parameters").begin_object();
  for (const Fact& fact : facts(file.hyper())) json.key(fact.name).value(fact.value);
  json.end_object().key("types").begin_object();
  for (const auto& [name, total] : totals(file)) {
    json.key(name).begin_object().key("tensors").value(total.tensors).key("bytes").value(total.bytes).end_object();
  }
  json.end_object().key("metadata").begin_object();
  for (const format::MetadataEntry& entry : file.metadata()) json.key(entry.key).raw(entry.json);
  json.end_object();
  plan_json(json, plan, asked);
  json.key("cannot_run").begin_array();
  for (const std::string& why : refusals(file, plan)) json.value(why);
  json.end_array();
  if (tensors) {
    json.key("tensors").begin_array();
    for (const format::Tensor& tensor : file.tensors()) {
      json.begin_object().key("name").value(tensor.name).key("type").value(format::type_info(tensor.type).name);
      json.key("shape").begin_array();
      for (int d = 0; d < tensor.dims; ++d) json.value(tensor.ne[static_cast<size_t>(d)]);
      json.end_array().key("bytes").value(tensor.bytes()).key("stored_name").value(tensor.stored_name).end_object();
    }
    json.end_array();
  }
  json.end_object();
  std::printf("%s\n", json.take().c_str());
}

void print_text(const format::ModelFile& file, const Result<engine::Plan>& plan, const engine::EngineOptions& asked,
                bool tensors) {
  std::printf("%s\n%s, \"%s\", %zu file%s, %zu tensors\n\n", file.path().c_str(), std::string(file.container()).c_str(),
              printable(file.name()).c_str(), file.files().size(), file.files().size() == 1 ? "" : "s",
              file.tensors().size());
  for (const Fact& fact : facts(file.hyper()))
    std::printf("  %-24s %lld\n", fact.name, static_cast<long long>(fact.value));
  std::printf("\ntypes\n");
  for (const auto& [name, total] : totals(file)) {
    std::printf("  %-10s %6llu tensors %10s\n", name.c_str(), static_cast<unsigned long long>(total.tensors),
                human_bytes(total.bytes).c_str());
  }
  std::printf("\nmetadata\n");
  for (const format::MetadataEntry& entry : file.metadata()) {
    std::printf("  %s = %s\n", printable(entry.key).c_str(), printable(entry.value).c_str());
  }
  if (tensors) {
    std::printf("\ntensors\n");
    for (const format::Tensor& tensor : file.tensors()) {
      std::printf("  %-48s %-8s %-24s %s\n", printable(tensor.name).c_str(),
                  std::string(format::type_info(tensor.type).name).c_str(), shape(tensor).c_str(),
                  human_bytes(tensor.bytes()).c_str());
    }
  }
  std::printf("\n%s", plan.ok() ? ops::plan_text(*plan, asked).c_str() : "memory plan: refused\n");
  for (const std::string& why : refusals(file, plan)) std::printf("cannot run: %s\n", printable(why).c_str());
}

}  // namespace

int inspect(const InspectArguments& a) {
  const Result<std::string> path = model_path(a.model.model);
  if (!path.ok()) return fail(path.error());
  const auto file = format::open_model(io::real_io(), *path);
  if (!file.ok()) return fail(file.error());
  const engine::EngineOptions asked = engine_options(a.model);
  const Result<engine::Plan> plan = engine::make_plan(**file, asked);
  if (!plan.ok() && plan.error().code == Code::invalid_argument)
    return fail(plan.error());  // the options, not the model
  if (a.json)
    print_json(**file, plan, asked, a.tensors);
  else
    print_text(**file, plan, asked, a.tensors);
  return 0;
}

}  // namespace evros::cli
