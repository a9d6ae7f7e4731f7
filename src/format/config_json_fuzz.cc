// Any bytes as config.json (and generation_config.json) beside good weights: an error or a model, never a crash.
#include "format/config_json.h"
#include "format/model_file.h"
#include "format/test_model.h"
#include "io/memory_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string kWeights = evros::format::test::small_checkpoint().weights();
  const std::string text(reinterpret_cast<const char*>(data), size);
  evros::io::MemoryIo io;
  io.put("m/config.json", text);
  io.put("m/model.safetensors", kWeights);
  static_cast<void>(evros::format::parse_generation_config(text, "generation_config.json").ok());
  static_cast<void>(evros::format::open_model(io, "m").ok());
  return 0;
}
