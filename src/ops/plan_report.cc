#include "ops/plan_report.h"

#include <utility>
#include <vector>

#include "base/str.h"

namespace evros::ops {
namespace {

using engine::ContextChoice;
using engine::Plan;

constexpr uint64_t kWorthALine = 1u << 30;  // of the engine

std::string context_words(const Plan& plan) {
  switch (plan.context_choice) {
    case ContextChoice::asked:
      return "as asked";
    case ContextChoice::model:
      return "as long as the model was made for";
    case ContextChoice::usual:
      return cat("the default; the model was made for ", plan.context_of_model);
    case ContextChoice::memory:
      return cat("the longest that fits; ", plan.context_unless_memory, " would take ",
                 human_bytes(plan.bytes_unless_memory));
  }
  return {};
}

const char* context_key(ContextChoice choice) {
  constexpr const char* kKeys[] = {"asked", "model", "default", "memory"};
  return kKeys[static_cast<size_t>(choice)];
}

struct Line {
  std::string name;
  uint64_t bytes;
  std::string note;
};

std::string group_note(const engine::PlanGroup& group) {
  const bool elsewhere = group.place != engine::Place::memory;
  return elsewhere ? cat(engine::place_name(group.place), "; ", human_bytes(group.stored_bytes), " in the file")
                   : engine::place_name(group.place);
}

// What is no tensor.
std::vector<Line> other_lines(const Plan& plan) {
  std::vector<Line> lines = {
      {"session state", plan.banks_bytes(), cat(plan.limits.banks, " banks of ", human_bytes(plan.bank_bytes))},
      {"context", plan.pages_bytes(), cat(plan.limits.pages, " pages of ", plan.page_tokens, " tokens")},
      {"state tables", plan.tables_bytes, "page tables, token ids"},
      {"scratch", plan.scratch_bytes, cat("chunks of ", plan.pass.rows, " tokens")},
      {"buffers", plan.buffer_bytes, "for a while: loading, then chunks and replies"},
      {"program", plan.program_bytes, "what is resident now, vocabulary, threads"}};
  if (plan.caller_bytes > 0) lines.push_back({"requests", plan.caller_bytes, "requests, answers, measurements"});
  return lines;
}

std::string verdict(const Plan& plan) {
  const Status fits = engine::check_fits(plan);
  return fits.ok() ? "" : fits.error().message;
}

}  // namespace

std::string plan_text(const Plan& plan, const engine::EngineOptions& asked) {
  std::string out = "memory plan\n";
  const auto fact = [&](std::string_view name, const std::string& value) {
    out += cat("  ", name, std::string(20 - std::min<size_t>(name.size(), 19), ' '), value, '\n');
  };
  const auto line = [&](const Line& l) {
    const std::string bytes = human_bytes(l.bytes);
    fact(l.name,
         cat(std::string(10 - std::min<size_t>(bytes.size(), 10), ' '), bytes, l.note.empty() ? "" : "  ", l.note));
  };
  const std::string context = asked.context > 0 ? cat(asked.context) : "not given";
  const std::string budget = asked.memory_bytes > 0 ? human_bytes(asked.memory_bytes) : "not given";
  fact("asked", cat("context ", context, ", n-gram table ", asked.table.resident ? "in memory" : "on disk", ", memory ",
                    budget));
  fact("done", cat("context ", plan.context, " (", context_words(plan), "), ", plan.sessions,
                   plan.sessions == 1 ? " session" : " sessions"));
  fact("memory to use", cat(human_bytes(plan.usable_bytes), " (", plan.usable_because, ")"));
  if (plan.device_free) fact("of the GPU", cat(human_bytes(*plan.device_free), " free"));
  for (const io::MemoryLimit& limit : plan.measured.limits) {
    fact("", cat("found: ", limit.name, ", ", human_bytes(limit.bytes)));
  }
  out += '\n';
  for (const engine::PlanGroup& group : plan.groups) line({group.name, group.memory_bytes, group_note(group)});
  for (const Line& other : other_lines(plan)) line(other);
  line({"together", plan.total_bytes(), ""});
  out += '\n';
  line({"one more session", plan.bank_bytes,
        cat("and ", human_bytes(plan.bytes_per_session() - plan.bank_bytes), " when its context is full")});
  line({"1024 more tokens", plan.bytes_per_1k_tokens(), "of one session"});
  fact("largest context", plan.largest_context > 0
                              ? cat(plan.largest_context, " tokens fit; the model was made for ", plan.context_of_model)
                              : "none fits");
  fact("verdict", plan.fits() ? "fits" : cat("refused: ", verdict(plan)));
  return out;
}

void plan_json(JsonWriter& json, const Plan& plan, const engine::EngineOptions& asked) {
  json.begin_object();
  json.key("asked").begin_object().key("context").value(asked.context).key("memory_bytes").value(asked.memory_bytes);
  json.key("table").value(asked.table.resident ? "ram" : "disk").end_object();
  json.key("context").value(plan.context).key("context_choice").value(context_key(plan.context_choice));
  json.key("largest_context").value(plan.largest_context).key("context_of_model").value(plan.context_of_model);
  json.key("sessions").value(plan.sessions);
  json.key("usable_bytes").value(plan.usable_bytes).key("usable_because").value(plan.usable_because);
  json.key("limits").begin_array();
  for (const io::MemoryLimit& limit : plan.measured.limits) {
    json.begin_object().key("name").value(limit.name).key("bytes").value(limit.bytes).end_object();
  }
  json.end_array().key("groups").begin_array();
  for (const engine::PlanGroup& group : plan.groups) {
    constexpr const char* kPlaces[] = {"memory", "frames", "disk"};
    json.begin_object().key("name").value(group.name).key("place").value(kPlaces[static_cast<size_t>(group.place)]);
    json.key("stored_bytes").value(group.stored_bytes).key("memory_bytes").value(group.memory_bytes).end_object();
  }
  json.end_array();
  json.key("weight_bytes").value(plan.weight_bytes).key("table_bytes").value(plan.table_bytes);
  json.key("table_memory_bytes").value(plan.table_memory_bytes).key("bank_bytes").value(plan.bank_bytes);
  json.key("banks").value(plan.limits.banks).key("page_bytes").value(plan.page_bytes);
  json.key("pages").value(plan.limits.pages).key("page_tokens").value(plan.page_tokens);
  json.key("bytes_per_1k_tokens").value(plan.bytes_per_1k_tokens());
  json.key("bytes_per_session").value(plan.bytes_per_session());
  json.key("tables_bytes").value(plan.tables_bytes).key("scratch_bytes").value(plan.scratch_bytes);
  json.key("buffer_bytes").value(plan.buffer_bytes).key("program_bytes").value(plan.program_bytes);
  json.key("caller_bytes").value(plan.caller_bytes).key("total_bytes").value(plan.total_bytes());
  if (plan.device_free) {
    json.key("device_bytes").value(plan.device_bytes()).key("device_free_bytes").value(*plan.device_free);
  }
  json.key("fits").value(plan.fits());
  if (!plan.fits()) json.key("refused").value(verdict(plan));
  json.end_object();
}

std::string plan_summary(const Plan& plan, const engine::EngineOptions& asked) {
  std::string out;
  if (!plan.fits()) return out;  // the refusal says it all
  const bool told = asked.memory_bytes > 0 || plan.context_choice == ContextChoice::memory;
  if (!told && plan.total_bytes() - plan.caller_bytes < kWorthALine) return out;
  const uint64_t state = plan.banks_bytes() + plan.pages_bytes() + plan.tables_bytes;
  const uint64_t rest = plan.total_bytes() - plan.weight_bytes - plan.table_memory_bytes - state;
  out = cat("memory: ", human_bytes(plan.host_bytes()), " of ", human_bytes(plan.usable_bytes), " (",
            plan.usable_because, ")");
  if (plan.device_free) {
    out += cat(", and ", human_bytes(plan.device_bytes()), " of the ", human_bytes(*plan.device_free),
               " that are free on the GPU");
  }
  out += cat(": weights ", human_bytes(plan.weight_bytes));
  if (plan.table_bytes > 0) {
    out += cat(", n-gram table ", human_bytes(plan.table_memory_bytes),
               asked.table.resident ? "" : cat(" for ", human_bytes(plan.table_bytes), " on disk"));
  }
  out += cat(", ", plan.sessions, plan.sessions == 1 ? " session" : " sessions", " of ", plan.context, " tokens ",
             human_bytes(state), ", the rest ", human_bytes(rest), '\n');
  if (plan.context_choice == ContextChoice::memory) {
    out += cat("context: ", plan.context, " tokens, ", context_words(plan), '\n');
  }
  return out;
}

}  // namespace evros::ops
