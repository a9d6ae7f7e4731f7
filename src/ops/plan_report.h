// The memory plan in words and as JSON, for people and programs.
#pragma once

#include <string>

#include "base/json_writer.h"
#include "engine/engine.h"
#include "engine/plan.h"

namespace evros::ops {

/// What was asked and what is done, every limit that was found, where each group of tensors lives, what everything takes,
/// what more would cost, and whether it fits. Lines of text, the last one ended too.
std::string plan_text(const engine::Plan& plan, const engine::EngineOptions& asked);

/// The same as an object: the writer stands where a value may follow, and behind it afterwards.
void plan_json(JsonWriter& json, const engine::Plan& plan, const engine::EngineOptions& asked);

/// What a user must know before a long load, in a line or two: nothing for a model that takes less than a gigabyte with all
/// options at their defaults. Lines of text, each ended.
std::string plan_summary(const engine::Plan& plan, const engine::EngineOptions& asked);

}  // namespace evros::ops
