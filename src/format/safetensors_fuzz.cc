// Any bytes as model.safetensors beside a good config: an error or a model, never a crash.
#include "format/model_file.h"
#include "format/test_model.h"
#include "io/memory_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string kConfig = evros::format::test::small_checkpoint().config;
  evros::io::MemoryIo io;
  io.put("m/config.json", kConfig);
  io.put("m/model.safetensors", std::string(reinterpret_cast<const char*>(data), size));
  const auto model = evros::format::open_model(io, "m");
  if (!model.ok()) return 0;
  for (const evros::format::Tensor& tensor : (*model)->tensors()) {
    std::vector<std::byte> bytes(tensor.bytes());
    if (!(*model)->read(tensor, 0, bytes).ok()) __builtin_trap();
  }
  return 0;
}
