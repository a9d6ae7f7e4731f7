// Which changes of a file make it another model.
#include "engine/identity.h"

#include <gtest/gtest.h>

#include "io/memory_io.h"

namespace evros::engine {
namespace {

constexpr uint64_t kFileLimit = 64u << 20;

class Identity : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(EVROS_BINARY_DIR) + "/micro/gguf/micro-f32.gguf";
    auto content = io::read_file(io::real_io(), path, kFileLimit);
    ASSERT_TRUE(content.ok()) << content.error().message;
    content_ = std::move(*content);
  }
  std::unique_ptr<format::ModelFile> open(const std::string& content) {
    io_.put("m.gguf", content);
    auto file = format::open_model(io_, "m.gguf");
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return std::move(file).value();
  }
  std::string identity(const std::string& content) { return hex(*model_identity(*open(content))); }
  std::string with_flip(uint64_t at) {
    std::string changed = content_;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    return changed;
  }

  io::MemoryIo io_;
  std::string content_;
};

TEST_F(Identity, AChangeAtEitherEndOfAnyTensorMakesAnotherModel) {
  const std::string whole = identity(content_);
  const auto file = open(content_);
  size_t seen = 0;
  for (const format::Tensor& tensor : file->tensors()) {
    if (seen++ % 16 != 0) continue;  // a few of each kind
    const format::Piece& piece = tensor.pieces.front();
    EXPECT_NE(identity(with_flip(piece.offset)), whole) << tensor.name;
    EXPECT_NE(identity(with_flip(piece.offset + piece.bytes - 1)), whole) << tensor.name;
  }
  EXPECT_GT(seen, 200u);
}

TEST_F(Identity, WhatCannotChangeAResultDoesNotMakeAnotherModel) {
  const std::string whole = identity(content_);
  const std::string key = "general.name";
  const size_t at = content_.find(key);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(identity(with_flip(at + key.size() + 12)), whole);  // after the value's type and length
}

TEST_F(Identity, AnEpsilonMakesAnotherModel) {
  const std::string whole = identity(content_);
  const std::string key = "qwen4exp.attention.layer_norm_rms_epsilon";
  const size_t at = content_.find(key);
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(identity(with_flip(at + key.size() + 4)), whole);  // the lowest bit of the float after its type
}

}  // namespace
}  // namespace evros::engine
