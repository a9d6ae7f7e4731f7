#include "server/reply_text.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace evros::server {
namespace {

using Pieces = std::vector<std::pair<bool, std::string>>;  // thinking, text

struct Shown {
  std::string reasoning, answer;
  bool operator==(const Shown&) const = default;
};

Shown show(bool open, const Pieces& pieces) {
  ReplyText text(open);
  Shown out;
  for (const auto& [thinking, piece] : pieces) (thinking ? out.reasoning : out.answer) += text.push(thinking, piece);
  return out;
}

TEST(ReplyText, BordersAreNeitherThinkingNorAnswer) {
  EXPECT_EQ(show(true, {{true, "\nOne.\n\nTwo.\n"}, {false, "\n\nYes.\n"}}), (Shown{"One.\n\nTwo.", "Yes.\n"}));
  EXPECT_EQ(show(true, {{true, "cut off\n"}}), (Shown{"cut off", ""}));
  EXPECT_EQ(show(true, {{true, "\n"}, {false, "\n\nYes"}}), (Shown{"", "Yes"}));
  EXPECT_EQ(show(true, {{false, "\n\nYes"}}), (Shown{"", "Yes"})) << "thinking that was closed at once";
}

TEST(ReplyText, AnAnswerWithoutThinkingIsLeftAsItIs) {
  EXPECT_EQ(show(false, {{false, "\n\nYes\n"}}), (Shown{"", "\n\nYes\n"}));
}

TEST(ReplyText, ThinkingAgainIsTrimmedAgain) {
  EXPECT_EQ(show(false, {{false, "a\n"}, {true, "\nb\n"}, {false, "\nc"}, {true, "d"}}), (Shown{"bd", "a\nc"}));
}

// Every way to cut the text into up to three pieces a stretch, empty ones included, shows the same.
TEST(ReplyText, CutsChangeNothing) {
  const std::vector<std::string> thoughts = {"\n\na\n\nb\n\n", "\n\n\n", "ab", "\na\n"},
                                 answers = {"\n\nx\n\ny\n", "\n", "x"};
  const auto cut = [](bool thinking, const std::string& text, size_t i, size_t j) {
    return Pieces{{thinking, text.substr(0, i)}, {thinking, text.substr(i, j - i)}, {thinking, text.substr(j)}};
  };
  for (const bool open : {false, true}) {
    for (const std::string& thought : thoughts) {
      for (const std::string& answer : answers) {
        const Shown whole = show(open, {{true, thought}, {false, answer}});
        for (size_t i = 0; i <= thought.size(); ++i) {
          for (size_t j = i; j <= thought.size(); ++j) {
            for (size_t k = 0; k <= answer.size(); ++k) {
              Pieces pieces = cut(true, thought, i, j);
              for (auto& piece : cut(false, answer, k, answer.size())) pieces.push_back(piece);
              ASSERT_EQ(show(open, pieces), whole) << thought << " | " << answer << " at " << i << ' ' << j << ' ' << k;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace evros::server
