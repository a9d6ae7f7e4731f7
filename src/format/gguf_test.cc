// The container alone: good files of both versions, split sets, and every way in which a header can lie.
#include "format/gguf.h"

#include <gtest/gtest.h>

#include <random>

#include "format/test_model.h"

namespace evros::format {
namespace {

using test::RawGguf;
using test::RawTensor;

Result<GgufHeader> read_bytes(const std::string& bytes) {
  io::MemoryIo io;
  io.put("m.gguf", bytes);
  return read_gguf_header(**io.open("m.gguf"));
}

RawGguf two_tensors() {
  RawGguf g;
  g.set("a.number", GgufValue::u32(7));
  g.set("a.text", GgufValue::string("hello"));
  g.set("a.list", GgufValue::array(std::vector<std::string>{"x", "", "yz"}));
  g.tensors = {{"first", {5, 2}, 0, 0}, {"second", {3}, 0, 0}};
  g.place();
  return g;
}

TEST(Gguf, ReadsVersionsTwoAndThreeAlike) {
  for (const uint32_t version : {2U, 3U}) {
    RawGguf g = two_tensors();
    g.version = version;
    const auto header = read_bytes(g.bytes());
    ASSERT_TRUE(header.ok()) << header.error().message;
    EXPECT_EQ(header->version, version);
    ASSERT_EQ(header->tensors.size(), 2U);
    EXPECT_EQ(header->tensors[0].bytes, 40U);
    EXPECT_EQ(header->tensors[1].offset, header->data_offset + 64);
    EXPECT_EQ(header->tensors[1].ne, (std::array<uint64_t, 4>{3, 1, 1, 1}));
    EXPECT_EQ(header->metadata.find("a.number")->integer(), 7);
    EXPECT_EQ(*header->metadata.find("a.text")->text(), "hello");
    EXPECT_EQ(*header->metadata.find("a.list")->texts(), (std::vector<std::string>{"x", "", "yz"}));
    EXPECT_EQ(header->metadata.find("absent"), nullptr);
  }
}

TEST(Gguf, AlignmentOfTheFileIsObeyed) {
  RawGguf g = two_tensors();
  g.alignment = 256;
  g.set("general.alignment", GgufValue::u32(256));
  g.place();
  const auto header = read_bytes(g.bytes());
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->data_offset % 256, 0U);
  EXPECT_EQ(header->tensors[1].offset, header->data_offset + 256);
}

TEST(Gguf, IntegersAreReadWhateverTheirStoredWidth) {
  const int32_t wide[] = {-5, 6};
  EXPECT_EQ(GgufValue::array(std::span<const int32_t>(wide)).integer(0), -5);
  EXPECT_FALSE(GgufValue::array(std::span<const int32_t>(wide)).unsigned_integer(0));
  EXPECT_EQ(GgufValue::u16(65535).integer(), 65535);
  EXPECT_EQ(GgufValue::u64(~uint64_t{0}).unsigned_integer(), ~uint64_t{0});
  EXPECT_FALSE(GgufValue::u64(~uint64_t{0}).integer());
  EXPECT_EQ(GgufValue::f32(0.5F).number(), 0.5);
  EXPECT_EQ(GgufValue::u32(3).number(), 3.0);
  EXPECT_FALSE(GgufValue::f32(3.0F).integer());
  EXPECT_FALSE(GgufValue::string("3").integer());
  EXPECT_EQ(GgufValue::boolean(true).truth(), true);
  EXPECT_FALSE(GgufValue::u32(1).truth());
  EXPECT_FALSE(GgufValue::u32(1).integer(1));
}

struct Damage {
  const char* name;
  std::function<void(RawGguf&)> apply;
  Code code;
  std::string mentions;  // key or tensor
  std::string wanted;    // a word of what is wanted or seen
};

template <typename T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
/// A pair with a hand-made value, then the end of the file.
std::string raw_pair(const std::string& key, const std::string& typed_value) {
  return raw<uint64_t>(key.size()) + key + typed_value;
}

constexpr Code kBad = Code::bad_file, kNo = Code::unsupported;
constexpr uint64_t kHuge = uint64_t{1} << 62;

const std::vector<Damage> kDamages = {
    {"magic", [](RawGguf& g) { g.magic = "GGML"; }, kBad, "GGML", "GGUF"},
    {"version 1", [](RawGguf& g) { g.version = 1; }, kNo, "version 1", "2 or 3"},
    {"version 4", [](RawGguf& g) { g.version = 4; }, kNo, "version 4", "2 or 3"},
    {"big-endian", [](RawGguf& g) { g.version = 3U << 24; }, kNo, "big-endian", "little-endian"},
    {"negative tensor count", [](RawGguf& g) { g.extra_tensors = -3; }, kBad, "tensors", "room"},
    {"huge key count", [](RawGguf& g) { g.extra_keys = static_cast<int64_t>(kHuge); }, kBad, "keys", "room"},
    {"one key too many", [](RawGguf& g) { g.extra_keys = 1; }, kBad, "m.gguf", ""},
    {"empty key", [](RawGguf& g) { g.keys.emplace_back("", GgufValue::u32(1)); }, kBad, "key 3", "empty"},
    {"duplicate key", [](RawGguf& g) { g.keys.emplace_back("a.number", GgufValue::u32(1)); }, kBad, "a.number",
     "twice"},
    {"long key", [](RawGguf& g) { g.keys.emplace_back(std::string(70000, 'k'), GgufValue::u32(1)); }, kBad, "key 3",
     "65535"},
    {"unknown value type",
     [](RawGguf& g) { g.extra_keys = 1, g.tail = raw_pair("z.odd", raw<uint32_t>(13)) + std::string(200, '\0'); }, kBad,
     "z.odd", "0 to 12"},
    {"nested array",
     [](RawGguf& g) {
       g.extra_keys = 1, g.tail = raw_pair("z.nested", raw<uint32_t>(9) + raw<uint32_t>(9)) + std::string(200, '\0');
     },
     kBad, "z.nested", "nested"},
    {"string past the end",
     [](RawGguf& g) {
       g.extra_keys = 1, g.tail = raw_pair("z.text", raw<uint32_t>(8) + raw(kHuge)) + std::string(200, '\0');
     },
     kBad, "z.text", "left"},
    {"string array past the end",
     [](RawGguf& g) {
       g.extra_keys = 1,
       g.tail = raw_pair("z.list", raw<uint32_t>(9) + raw<uint32_t>(8) + raw<uint64_t>(1000)) + std::string(200, '\0');
     },
     kBad, "z.list", "left"},
    {"number array whose bytes wrap",
     [](RawGguf& g) {
       g.extra_keys = 1,
       g.tail = raw_pair("z.list", raw<uint32_t>(9) + raw<uint32_t>(10) + raw(kHuge)) + std::string(200, '\0');
     },
     kBad, "z.list", "left"},
    {"bool that is neither",
     [](RawGguf& g) {
       g.extra_keys = 1, g.tail = raw_pair("z.flag", raw<uint32_t>(7) + "\5") + std::string(200, '\0');
     },
     kBad, "z.flag", "0 or 1"},
    {"odd alignment", [](RawGguf& g) { g.set("general.alignment", GgufValue::u32(48)); }, kBad, "general.alignment",
     "power of two"},
    {"zero alignment", [](RawGguf& g) { g.set("general.alignment", GgufValue::u32(0)); }, kBad, "general.alignment",
     "power of two"},
    {"alignment of text", [](RawGguf& g) { g.set("general.alignment", GgufValue::string("32")); }, kBad,
     "general.alignment", "power of two"},
    {"duplicate tensor", [](RawGguf& g) { g.tensors[1].name = "first"; }, kBad, "first", "twice"},
    {"nameless tensor", [](RawGguf& g) { g.tensors[1].name = ""; }, kBad, "tensor 1", "no name"},
    {"long tensor name", [](RawGguf& g) { g.tensors[1].name = std::string(64, 'n'); }, kBad, "nnnn", "63"},
    {"no dimensions", [](RawGguf& g) { g.tensors[1].ne = {}; }, kBad, "second", "1 to 4"},
    {"five dimensions",
     [](RawGguf& g) {
       g.tensors[1].ne = {1, 1, 1, 1, 1};
     },
     kBad, "second", "1 to 4"},
    {"zero dimension",
     [](RawGguf& g) {
       g.tensors[1].ne = {3, 0};
     },
     kBad, "second", "0"},
    {"dimension near 2^62", [](RawGguf& g) { g.tensors[1].ne = {kHuge}; }, kBad, "second", "64 bits"},
    {"product that wraps to something small",
     [](RawGguf& g) {
       g.tensors[1].ne = {uint64_t{1} << 33, uint64_t{1} << 31, 4};
     },
     kBad, "second", "64 bits"},
    {"negative dimension", [](RawGguf& g) { g.tensors[1].ne = {~uint64_t{0}}; }, kBad, "second", "64 bits"},
    {"tensor past the end", [](RawGguf& g) { g.tensors[1].ne = {1000}; }, kBad, "second", "the file ends"},
    {"file cut short", [](RawGguf& g) { g.cut = 32; }, kBad, "second", "the file ends"},
    {"misaligned offset", [](RawGguf& g) { g.tensors[1].offset = 40; }, kBad, "second", "wanted 64"},
    {"overlap", [](RawGguf& g) { g.tensors[1].offset = 32; }, kBad, "second", "wanted 64"},
    {"gap", [](RawGguf& g) { g.tensors[1].offset = 128; }, kBad, "second", "wanted 64"},
    {"offset that wraps", [](RawGguf& g) { g.tensors[1].offset = ~uint64_t{31}; }, kBad, "second", "wanted 64"},
    {"partial block", [](RawGguf& g) { g.tensors[1].type = 2; }, kBad, "second", "multiples of 32"},
};

TEST(Gguf, EveryDamageIsAnErrorThatNamesItsPlace) {
  for (const Damage& damage : kDamages) {
    RawGguf g = two_tensors();
    damage.apply(g);
    const auto header = read_bytes(g.bytes());
    ASSERT_FALSE(header.ok()) << damage.name;
    EXPECT_EQ(header.error().code, damage.code) << damage.name;
    EXPECT_NE(header.error().message.find("m.gguf"), std::string::npos) << header.error().message;
    EXPECT_NE(header.error().message.find(damage.mentions), std::string::npos)
        << damage.name << ": " << header.error().message;
    EXPECT_NE(header.error().message.find(damage.wanted), std::string::npos)
        << damage.name << ": " << header.error().message;
  }
}

TEST(Gguf, AllTensorsOfUnknownTypeAreListedInOneMessageWithThoseThatNothingCanRun) {
  RawGguf g = two_tensors();
  g.tensors[0].type = 4;
  g.tensors[1].type = 41;
  io::MemoryIo io;
  io.put("m.gguf", g.bytes());
  const auto set = open_gguf_set(io, "m.gguf");
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->tensors[0].unknown_type, 4U);
  EXPECT_EQ(set->tensors[1].unknown_type, std::nullopt);
  const Status status = check_known_types(*set, "m.gguf");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::unsupported);
  for (const char* word : {"m.gguf", "\"first\"", "type 4", "\"second\"", "type Q1_0"})
    EXPECT_NE(status.error().message.find(word), std::string::npos) << word;
  io.put("m.gguf", two_tensors().bytes());
  EXPECT_TRUE(check_known_types(*open_gguf_set(io, "m.gguf"), "m.gguf").ok());
}

TEST(Gguf, AnyTruncationOfTheHeaderIsAnError) {
  const RawGguf g = two_tensors();
  const std::string whole = g.bytes();
  for (size_t length = 0; length < g.header().size(); ++length) {
    const auto header = read_bytes(whole.substr(0, length));
    ASSERT_FALSE(header.ok()) << length;
    EXPECT_EQ(header.error().code, Code::bad_file);
  }
}

TEST(Gguf, TheHeaderMayCrossReadBuffersAnywhere) {
  RawGguf g = two_tensors();
  std::vector<std::string> tokens;
  for (int i = 0; i < 300'000; ++i) tokens.push_back(cat("token ", i));
  g.set("tokens", GgufValue::array(tokens));
  const auto header = read_bytes(g.bytes());
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(*header->metadata.find("tokens")->texts(), tokens);
  EXPECT_EQ(header->tensors[1].name, "second");
}

TEST(Gguf, NamesInMessagesCannotCarryControlCharacters) {
  RawGguf g = two_tensors();
  g.tensors[0].name = g.tensors[1].name = "evil\x1b[2J\n";
  const auto header = read_bytes(g.bytes());
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.error().message.find("evil\\x1b[2J\\x0a"), std::string::npos) << header.error().message;
}

/// A set of three: metadata alone, then two files of one tensor.
io::MemoryIo& split_set(io::MemoryIo& io, const std::function<void(int, RawGguf&)>& change = {}) {
  for (int i = 0; i < 3; ++i) {
    RawGguf g;
    if (i == 0) g.set("general.architecture", GgufValue::string("x"));
    g.set("split.no", GgufValue::u16(static_cast<uint16_t>(i)));
    g.set("split.count", GgufValue::u16(3));
    g.set("split.tensors.count", GgufValue::i32(2));
    if (i > 0) g.tensors = {{cat("t", i), {4}, 0, 0}};
    if (change) change(i, g);
    g.place();
    io.put(gguf_split_path("dir/m", static_cast<uint32_t>(i + 1), 3), g.bytes());
  }
  return io;
}

TEST(GgufSet, AnyFileOfASetOpensTheSet) {
  io::MemoryIo io;
  split_set(io);
  for (uint32_t i = 1; i <= 3; ++i) {
    const auto set = open_gguf_set(io, gguf_split_path("dir/m", i, 3));
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_EQ(set->files.size(), 3U);
    ASSERT_EQ(set->tensors.size(), 2U);
    EXPECT_EQ(set->tensors[0].name, "t1");
    EXPECT_EQ(set->tensors[0].file, 1U);
    EXPECT_EQ(set->tensors[1].file, 2U);
    EXPECT_NE(set->metadata.find("general.architecture"), nullptr);
  }
}

TEST(GgufSet, AMissingSiblingIsNamed) {
  io::MemoryIo io;
  split_set(io);
  ASSERT_TRUE(io.remove("dir/m-00002-of-00003.gguf").ok());
  const auto set = open_gguf_set(io, "dir/m-00003-of-00003.gguf");
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().code, Code::not_found);
  EXPECT_NE(set.error().message.find("dir/m-00002-of-00003.gguf"), std::string::npos);
}

TEST(GgufSet, KeysThatContradictTheSetAreNamed) {
  struct Case {
    std::function<void(int, RawGguf&)> change;
    const char* mentions;
  };
  const Case cases[] = {
      {[](int i, RawGguf& g) {
         if (i == 1) g.set("split.no", GgufValue::u16(2));
       },
       "split.no"},
      {[](int i, RawGguf& g) {
         if (i == 1) g.set("split.count", GgufValue::u16(4));
       },
       "split.count"},
      {[](int i, RawGguf& g) {
         if (i == 2) g.set("split.tensors.count", GgufValue::i32(3));
       },
       "split.tensors.count"},
      {[](int, RawGguf& g) { g.set("split.tensors.count", GgufValue::i32(3)); }, "split.tensors.count"},
      {[](int, RawGguf& g) { g.erase("split.tensors.count"); }, "split.tensors.count"},
      {[](int, RawGguf& g) { g.set("split.tensors.count", GgufValue::i32(-1)); }, "split.tensors.count"},
      {[](int i, RawGguf& g) {
         if (i == 2) g.tensors[0].name = "t1";
       },
       "\"t1\""},
      {[](int i, RawGguf& g) {
         if (i == 2) g.erase("split.no");
       },
       "split.no"},
  };
  for (const Case& c : cases) {
    io::MemoryIo io;
    const auto set = open_gguf_set(split_set(io, c.change), "dir/m-00001-of-00003.gguf");
    ASSERT_FALSE(set.ok()) << c.mentions;
    EXPECT_EQ(set.error().code, Code::bad_file);
    EXPECT_NE(set.error().message.find(c.mentions), std::string::npos) << set.error().message;
  }
}

TEST(GgufSet, ARenamedPartCannotFindItsSiblingsAndSaysSo) {
  io::MemoryIo io;
  split_set(io);
  ASSERT_TRUE(io.rename("dir/m-00001-of-00003.gguf", "dir/model.gguf").ok());
  const auto set = open_gguf_set(io, "dir/model.gguf");
  ASSERT_FALSE(set.ok());
  EXPECT_NE(set.error().message.find("-of-00003.gguf"), std::string::npos) << set.error().message;
}

}  // namespace
}  // namespace evros::format
