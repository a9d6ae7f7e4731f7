// Any bytes as model.gguf: an error or a model, never a crash. A model that opens must let every tensor be read.
#include "format/model_file.h"
#include "io/memory_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evros::io::MemoryIo io;
  io.put("model.gguf", std::string(reinterpret_cast<const char*>(data), size));
  const auto model = evros::format::open_model(io, "model.gguf");
  if (!model.ok()) return 0;
  for (const evros::format::Tensor& tensor : (*model)->tensors()) {
    std::vector<std::byte> bytes(tensor.bytes());
    if (!(*model)->read(tensor, 0, bytes).ok()) __builtin_trap();
  }
  return 0;
}
