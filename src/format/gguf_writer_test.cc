#include "format/gguf_writer.h"

#include <gtest/gtest.h>

#include "format/model_file.h"
#include "format/test_model.h"

namespace evros::format {
namespace {

/// Copies a whole set through the writer.
std::vector<std::string> copy_set(io::Io& from, const std::string& path, io::Io& to, const std::string& out,
                                  uint64_t max_file_bytes) {
  auto set = open_gguf_set(from, path);
  EXPECT_TRUE(set.ok()) << set.error().message;
  GgufWriter writer(to, out, max_file_bytes);
  for (const auto& [key, value] : set->metadata.entries()) writer.set(key, value);
  for (const GgufTensor& t : set->tensors) writer.add({t.name, t.type, t.ne, t.dims});
  const Status begun = writer.begin();
  EXPECT_TRUE(begun.ok()) << begun.error().message;
  // Backwards and in two halves: order and piece sizes are the caller's.
  for (size_t i = set->tensors.size(); i-- > 0;) {
    const GgufTensor& t = set->tensors[i];
    std::vector<std::byte> bytes(t.bytes);
    EXPECT_TRUE(set->files[t.file]->read_at(t.offset, bytes).ok());
    const std::span<const std::byte> all(bytes);
    EXPECT_TRUE(writer.write(i, bytes.size() / 2, all.subspan(bytes.size() / 2)).ok());
    EXPECT_TRUE(writer.write(i, 0, all.first(bytes.size() / 2)).ok());
  }
  EXPECT_FALSE(to.exists(writer.paths()[0]));
  const Status finished = writer.finish();
  EXPECT_TRUE(finished.ok()) << finished.error().message;
  return {writer.paths().begin(), writer.paths().end()};
}

TEST(GgufWriter, RewritesTheFilesOfAnotherWriterByteForByte) {
  for (const char* type : {"f32", "q8_0", "q4_0"}) {
    const std::string path = cat(EVROS_BINARY_DIR, "/micro/gguf/micro-", type, ".gguf");
    io::MemoryIo io;
    const auto paths = copy_set(io::real_io(), path, io, "copy.gguf", 0);
    ASSERT_EQ(paths, (std::vector<std::string>{"copy.gguf"}));
    const auto original = io::read_file(io::real_io(), path, 1 << 24);
    ASSERT_TRUE(original.ok());
    EXPECT_TRUE(io.get("copy.gguf") == *original) << type;
  }
}

TEST(GgufWriter, ASplitSetOpensAsTheSameModel) {
  const std::string path = cat(EVROS_BINARY_DIR, "/micro/gguf/micro-f32.gguf");
  io::MemoryIo io;
  const auto paths = copy_set(io::real_io(), path, io, "d/copy.gguf", 1 << 20);
  EXPECT_EQ(paths.size(), 4U);
  EXPECT_EQ(paths[0], "d/copy-00001-of-00004.gguf");
  const auto whole = open_model(io::real_io(), path), split = open_model(io, paths[2]);
  ASSERT_TRUE(whole.ok() && split.ok()) << split.error().message;
  EXPECT_EQ((*split)->files().size(), 4U);
  ASSERT_EQ((*whole)->tensors().size(), (*split)->tensors().size());
  for (const Tensor& t : (*whole)->tensors()) {
    std::vector<std::byte> a(t.bytes()), b(t.bytes());
    ASSERT_TRUE((*whole)->read(t, 0, a).ok());
    ASSERT_TRUE((*split)->read(*(*split)->find(t.name), 0, b).ok());
    EXPECT_TRUE(a == b) << t.name;
  }
  // And back into one file: the keys of the set do not travel.
  copy_set(io, paths[0], io, "d/again.gguf", 0);
  EXPECT_TRUE(io.get("d/again.gguf") == *io::read_file(io::real_io(), path, 1 << 24));
}

TEST(GgufWriter, UnwrittenTensorsAreHolesOfZeros) {
  const std::string path = testing::TempDir() + "evros_sparse.gguf";
  {
    GgufWriter writer(io::real_io(), path);
    writer.set("general.architecture", GgufValue::string("x"));
    writer.add({"big", TensorType::q8_0, {uint64_t{1} << 20, uint64_t{1} << 17, 1, 1}, 2});
    ASSERT_TRUE(writer.begin().ok());
    ASSERT_TRUE(writer.finish().ok());
    EXPECT_GT(writer.total_bytes(), uint64_t{1} << 37);
  }
  const auto set = open_gguf_set(io::real_io(), path);
  ASSERT_TRUE(set.ok()) << set.error().message;
  std::vector<std::byte> tail(100, std::byte{1});
  ASSERT_TRUE(set->files[0]->read_at(set->tensors[0].offset + set->tensors[0].bytes - 100, tail).ok());
  EXPECT_EQ(tail, std::vector<std::byte>(100));
  ASSERT_TRUE(io::real_io().remove(path).ok());
}

TEST(GgufWriter, AnAbandonedWriterLeavesNothingBehind) {
  io::MemoryIo io;
  {
    GgufWriter writer(io, "gone.gguf");
    writer.add({"t", TensorType::f32, {4, 1, 1, 1}, 1});
    ASSERT_TRUE(writer.begin().ok());
    EXPECT_TRUE(io.exists("gone.gguf.partial"));
  }
  EXPECT_FALSE(io.exists("gone.gguf.partial"));
  EXPECT_FALSE(io.exists("gone.gguf"));
}

}  // namespace
}  // namespace evros::format
