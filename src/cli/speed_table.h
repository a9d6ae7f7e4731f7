// The report of `evros bench` in words, JSON and comma-separated values.
#pragma once

#include "engine/engine.h"
#include "ops/speed_bench.h"

namespace evros::cli {

void print_speed(const ops::SpeedReport& report, const engine::EngineInfo& info);
void print_speed_json(const ops::SpeedReport& report, const engine::EngineInfo& info);
/// A line of names, then one a context: medians.
void print_speed_csv(const ops::SpeedReport& report);

}  // namespace evros::cli
