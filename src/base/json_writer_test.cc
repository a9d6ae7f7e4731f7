#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace evros {
namespace {

TEST(JsonWriter, NestsObjectsAndArrays) {
  JsonWriter json;
  json.begin_object().key("a").begin_array().value(1).value(-2).value(true).null().end_array();
  json.key("b").begin_object().end_object().key("c").value("x").end_object();
  EXPECT_EQ(json.take(), R"({"a":[1,-2,true,null],"b":{},"c":"x"})");
}

TEST(JsonWriter, IndentsEveryElement) {
  JsonWriter json(2);
  json.begin_object().key("a").begin_array().value(1).end_array().end_object();
  EXPECT_EQ(json.take(), "{\n  \"a\": [\n    1\n  ]\n}");
}

TEST(JsonWriter, EscapesWhatRfc8259Demands) {
  EXPECT_EQ(json_quote(std::string_view("\"\\\n\r\t\b\f\x01\0", 9)), R"("\"\\\n\r\t\b\f\u0001\u0000")");
  EXPECT_EQ(json_quote("caf\xC3\xA9 \xF0\x9F\xA6\x8A"), "\"caf\xC3\xA9 \xF0\x9F\xA6\x8A\"");
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_quote("\xFFx"), "\"\xEF\xBF\xBDx\"");
  EXPECT_EQ(json_quote("\xC3"), "\"\xEF\xBF\xBD\"");                                  // cut short
  EXPECT_EQ(json_quote("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate
  EXPECT_EQ(json_quote("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                  // an overlong zero
}

TEST(JsonWriter, WritesNumbersThatReadBackEqualAndNothingThatIsNotJson) {
  JsonWriter json;
  json.begin_array().value(0.1).value(0.1f).value(std::numeric_limits<uint64_t>::max());
  json.value(std::numeric_limits<int64_t>::min()).value(std::numeric_limits<double>::infinity());
  json.value(std::numeric_limits<float>::quiet_NaN()).end_array();
  EXPECT_EQ(json.take(), "[0.1,0.1,18446744073709551615,-9223372036854775808,null,null]");
}

}  // namespace
}  // namespace evros
