#include "cli/top/keys.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Key::Kind;

TEST(Keys, ParsesCharactersAndSequences) {
  KeyReader reader;
  EXPECT_THAT(reader.Feed("q\x1b[A\x1bOBs"), ElementsAre(Key{Kind::kCharacter, 'q'}, Key{Kind::kUp},
                                                         Key{Kind::kDown}, Key{Kind::kCharacter, 's'}));
  EXPECT_THAT(reader.Feed("\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~"),
              ElementsAre(Key{Kind::kPageUp}, Key{Kind::kPageDown}, Key{Kind::kHome}, Key{Kind::kEnd},
                          Key{Kind::kHome}, Key{Kind::kEnd}));
  EXPECT_FALSE(reader.pending());
}

TEST(Keys, ASequenceMayBeSplitAnywhere) {
  const std::string bytes = "\x1b[6~";
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    KeyReader reader;
    EXPECT_THAT(reader.Feed(bytes.substr(0, cut)), IsEmpty()) << cut;
    EXPECT_TRUE(reader.pending()) << cut;
    EXPECT_THAT(reader.Feed(bytes.substr(cut)), ElementsAre(Key{Kind::kPageDown})) << cut;
    EXPECT_FALSE(reader.pending());
  }
}

TEST(Keys, EscapeAloneIsAKeyWhenNothingFollows) {
  KeyReader reader;
  EXPECT_THAT(reader.Feed("\x1b"), IsEmpty());
  EXPECT_THAT(reader.Flush(), ElementsAre(Key{Kind::kEscape}));
  EXPECT_THAT(reader.Flush(), IsEmpty());
  EXPECT_THAT(reader.Feed("\x1bq"), ElementsAre(Key{Kind::kEscape}, Key{Kind::kCharacter, 'q'}));
}

TEST(Keys, SkipsUnknownSequencesWhole) {
  KeyReader reader;
  EXPECT_THAT(reader.Feed("\x1b[1;5Cq"), ElementsAre(Key{Kind::kCharacter, 'q'})) << "ctrl and an arrow";
  EXPECT_THAT(reader.Feed("\x1b[<0;10;20Mq"), ElementsAre(Key{Kind::kCharacter, 'q'})) << "a mouse";
  EXPECT_THAT(reader.Feed("\x1bOPq"), ElementsAre(Key{Kind::kCharacter, 'q'})) << "F1";
  // No key has such a long sequence, so it is not kept.
  EXPECT_THAT(reader.Feed("\x1b[" + std::string(40, '1')), testing::Each(Key{Kind::kCharacter, '1'}));
  EXPECT_FALSE(reader.pending());
}

}  // namespace
}  // namespace lockstep::cli
