#include "format/safetensors.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/str.h"
#include "format/safetensors_writer.h"
#include "io/memory_io.h"

namespace evros::format {
namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data_bytes, '\0');
}

Result<SafeTensors> open_bytes(const std::string& bytes) {
  io::MemoryIo io;
  io.put("w.safetensors", bytes);
  return open_safetensors_file(io, "w.safetensors");
}

TEST(Safetensors, ReadsAHandWrittenFile) {
  const auto st =
      open_bytes(file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I64","shape":[],"data_offsets":[6,14]},
    "a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]},"e":{"dtype":"F32","shape":[0,4],"data_offsets":[3,3]}}   )",
                         14));
  ASSERT_TRUE(st.ok()) << st.error().message;
  ASSERT_EQ(st->tensors.size(), 3U);
  EXPECT_EQ(st->tensors[0].name, "a");
  EXPECT_EQ(st->tensors[0].shape, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(st->tensors[0].type(), TensorType::bf16);
  EXPECT_EQ(st->tensors[2].bytes, 8U);
  EXPECT_EQ(st->metadata[0].second, "pt");
}

TEST(Safetensors, DtypesOfOtherFamiliesHaveNoTypeHere) {
  const auto st = open_bytes(file_of(
      R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"Q4_0","shape":[32],"data_offsets":[2,20]},
    "c":{"dtype":"bf16","shape":[1],"data_offsets":[20,22]}})",
      22));
  ASSERT_TRUE(st.ok()) << st.error().message;
  for (const SafeTensor& t : st->tensors) EXPECT_FALSE(t.type()) << t.name;
}

TEST(Safetensors, EveryDamageIsAnErrorThatNamesTheTensor) {
  struct Case {
    const char *entry, *wanted;
  };
  const Case cases[] = {
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[0,4]})", "6 bytes"},
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[6,0]})", "ascending"},
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[0,600]})", "14 bytes long"},
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[18446744073709551610,18446744073709551615]})", "14 bytes long"},
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[-1,5]})", "ascending"},
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[0]})", "data_offsets"},
      {R"({"dtype":"BF16","shape":[3]})", "data_offsets"},
      {R"({"dtype":"BF16","shape":[-3],"data_offsets":[0,6]})", "non-negative"},
      {R"({"dtype":"BF16","shape":["3"],"data_offsets":[0,6]})", "non-negative"},
      {R"({"dtype":"BF16","shape":3,"data_offsets":[0,6]})", "shape"},
      {R"({"dtype":"BF16","shape":[4611686018427387904,4],"data_offsets":[0,6]})", "2^64"},
      {R"({"dtype":"BF16","shape":[1,1,1,1,1,1,1,1,3],"data_offsets":[0,6]})", "dimensions"},
      {R"({"shape":[3],"data_offsets":[0,6]})", "dtype"},
      {R"({"dtype":16,"shape":[3],"data_offsets":[0,6]})", "dtype"},
      {R"([1])", "object"},
      {R"({"dtype":"BF16","shape":[3],"data_offsets":[4,10]})", "overlaps"},
  };
  for (const Case& c : cases) {
    const auto st = open_bytes(
        file_of(cat(R"({"other":{"dtype":"U8","shape":[2],"data_offsets":[8,10]},"the.tensor":)", c.entry, "}"), 14));
    ASSERT_FALSE(st.ok()) << c.entry;
    EXPECT_EQ(st.error().code, Code::bad_file);
    for (const char* word : {"w.safetensors", "the.tensor", c.wanted})
      EXPECT_NE(st.error().message.find(word), std::string::npos) << st.error().message;
  }
}

TEST(Safetensors, HeadersThatLieAboutTheirLengthAreRefused) {
  for (const std::string& bytes :
       {std::string("abc"), std::string(8, '\xff'), file_of("{}", 0).substr(0, 9), file_of("[]", 0), file_of("{", 0),
        file_of("", 0), file_of(R"({"a":1e999999})", 0), file_of("{}{}", 0), file_of(R"({"__metadata__":3})", 0)}) {
    const auto st = open_bytes(bytes);
    ASSERT_FALSE(st.ok());
    EXPECT_EQ(st.error().code, Code::bad_file);
    EXPECT_NE(st.error().message.find("w.safetensors"), std::string::npos);
  }
}

TEST(Safetensors, ATensorThatStandsTwiceInOneHeaderIsRefused) {
  const auto st = open_bytes(file_of(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
      4));
  ASSERT_FALSE(st.ok());
  EXPECT_NE(st.error().message.find("\"a\""), std::string::npos) << st.error().message;
  EXPECT_NE(st.error().message.find("twice"), std::string::npos) << st.error().message;
}

TEST(Safetensors, DeepNestingIsRefusedAndDoesNotExhaustTheStack) {
  EXPECT_FALSE(open_bytes(file_of("{\"a\":" + std::string(100'000, '['), 0)).ok());
}

TEST(Safetensors, ShardsFollowTheIndexAndContradictionsAreNamed) {
  const auto shard = [](const char* name) {
    return file_of(cat(R"({")", name, R"(":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})"), 2);
  };
  io::MemoryIo io;
  io.put("f/one.safetensors", shard("a"));
  io.put("f/two.safetensors", shard("b"));
  io.put("f/golden.safetensors", shard("b"));
  io.put("f/model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto st = open_safetensors_folder(io, "f");
  ASSERT_TRUE(st.ok()) << st.error().message;
  EXPECT_EQ(st->files.size(), 2U);

  const auto expect = [&](const std::string& index, Code code, const char* word) {
    io.put("f/model.safetensors.index.json", index);
    const auto bad = open_safetensors_folder(io, "f");
    ASSERT_FALSE(bad.ok()) << index;
    EXPECT_EQ(bad.error().code, code) << bad.error().message;
    EXPECT_NE(bad.error().message.find(word), std::string::npos) << bad.error().message;
  };
  expect(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})", Code::bad_file, "\"c\"");
  expect(R"({"weight_map":{"a":"one.safetensors","b":"three.safetensors"}})", Code::not_found, "three.safetensors");
  expect(R"({"weight_map":{"a":"../one.safetensors"}})", Code::bad_file, "plain name");
  expect(R"({"weight_map":{"a":7}})", Code::bad_file, "file name");
  expect(R"({"weight_map":{}})", Code::bad_file, "empty");
  expect(R"({})", Code::bad_file, "weight_map");
  expect(R"({"weight_map":{"b":"two.safetensors","x":"golden.safetensors"}})", Code::bad_file, "too");
}

TEST(SafetensorsWriter, WhatItWritesIsReadBackAligned) {
  const std::vector<float> floats = {1, 2, 3};
  const std::vector<uint8_t> bytes = {7};
  const std::vector<int64_t> longs = {-1, 5};
  io::MemoryIo io;
  const SafeTensorData list[] = {{"x.u8", "U8", {1}, std::as_bytes(std::span(bytes))},
                                 {"quote\"d", "F32", {3, 1}, std::as_bytes(std::span(floats))},
                                 {"x.i64", "I64", {2}, std::as_bytes(std::span(longs))}};
  ASSERT_TRUE(write_safetensors(io, "out.safetensors", list).ok());
  EXPECT_FALSE(io.exists("out.safetensors.partial"));
  const auto st = open_safetensors_file(io, "out.safetensors");
  ASSERT_TRUE(st.ok()) << st.error().message;
  ASSERT_EQ(st->tensors.size(), 3U);
  for (const SafeTensor& t : st->tensors) EXPECT_EQ(t.offset % safetensors_element_bytes(t.dtype), 0U) << t.name;
  const SafeTensor& f = st->tensors[1];
  EXPECT_EQ(f.name, "quote\"d");
  std::vector<float> back(3);
  ASSERT_TRUE(st->files[0]->read_at(f.offset, std::as_writable_bytes(std::span(back))).ok());
  EXPECT_EQ(back, floats);
}

}  // namespace
}  // namespace evros::format
