// Checks each kind of damage on whole files: the rows that are read, the losses with their places, or the
// error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Png() {
  return std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0", 20) + std::string(4000, '\xB7');
}

std::string Changed(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class DamagedInputTest : public InputFilesTest {
 protected:
  absl::StatusOr<capture::Capture> Read(const std::string& name, std::string_view content) {
    const std::vector<std::string> paths = {Write(name, content)};
    return ReadInput(paths, {});
  }
};

// Three kernels at 1, 2 and 3 ms. `second` replaces the middle one.
std::string WithSecond(const std::string& second) {
  return Document({KernelRow("1000", "5"), second, KernelRow("3000", "5")},
                  R"("distributedInfo": {"rank": 0, "world_size": 1}, )");
}
std::string Whole() { return WithSecond(KernelRow("2000", "5")); }
std::string Deep(size_t levels, std::string_view close) {
  return KernelRow("2000", "5", "gemm",
                   absl::StrCat(", \"x\": ", std::string(levels, '['), std::string(close)));
}
std::string Bare() {
  return absl::StrCat("[", KernelRow("1000", "5"), ",\n", KernelRow("2000", "5"), ",\n",
                      KernelRow("3000", "5"), "]");
}

struct Damage {
  std::string what;
  std::string bytes;
  std::set<int> kernels_ms;  // start times of the kernels that are read
  uint64_t lost = 0;
  std::string says = "";  // part of the loss's reason
};

std::vector<Damage> TextDamage() {
  const std::set<int> all = {1, 2, 3}, others = {1, 3};
  const std::string no_time = "a row without a usable time at byte ";
  return {
      {"whole", Whole(), all},
      {"bare list", Bare(), all},
      {"bare list, not closed", Bare().substr(0, Bare().size() - 1) + ",\n", all, 1, "the text is truncated"},
      {"bare list, closed too early", Changed(Bare(), "}},\n", "}}],\n"), all, 1,
       "ends before its last row at byte "},
      {"list closed too early", Changed(Whole(), "}}, ", "}}], "), all, 1,
       "ends before its last row at byte "},
      {"unquoted N/A for a duration", WithSecond(KernelRow("2000", "N/A")), others, 1, no_time},
      {"unquoted N/A for an argument",
       WithSecond(KernelRow("2000", "5", "gemm", ", \"est. achieved occupancy %\": N/A")), all},
      {"NaN for a time", WithSecond(KernelRow("NaN", "5")), others, 1, no_time},
      {"Infinity for a duration", WithSecond(KernelRow("2000", "Infinity")), others, 1, no_time},
      {"a time of 1e308", WithSecond(KernelRow("1e308", "5")), others, 1, no_time},
      {"a time of 2^63", WithSecond(KernelRow("9223372036854775808", "5")), others, 1, no_time},
      {"a negative duration", WithSecond(KernelRow("2000", "-5")), others, 1, no_time},
      {"null for a time", WithSecond(KernelRow("null", "5")), others, 1, no_time},
      {"a correlation beyond 64 bits",
       WithSecond(KernelRow("2000", "5", "gemm", ", \"correlation\": 99999999999999999999")), all},
      {"text for a stream", Changed(Whole(), "\"stream\": 7", "\"stream\": \"default\""), all},
      {"text for a process", Changed(Whole(), "\"pid\": 0", "\"pid\": \"GPU 0\""), all},
      {"a rank beyond 64 bits", Changed(Whole(), "\"rank\": 0", "\"rank\": 99999999999999999999"), all},
      {"an impossible world", Changed(Whole(), "\"world_size\": 1", "\"world_size\": 2000000000"), all},
      {"keys twice", Changed(Whole(), "\"ts\": 2000", "\"ts\": 9, \"dur\": 9, \"ts\": 2000"), all},
      {"two lists of events",
       Whole().substr(0, Whole().size() - 1) + ", \"traceEvents\": [" + KernelRow("4000", "5") + "]}",
       {1, 2, 3, 4}},
      {"bytes that are no UTF-8", WithSecond(KernelRow("2000", "5", "g\xFF\xFE")), all},
      {"a NUL in a name", WithSecond(KernelRow("2000", "5", std::string_view("g\0m", 3))), all},
      {"NULs between rows", Changed(Whole(), "}}, ", std::string_view("}}\0\0, ", 6)), all},
      {"10,000 lists in a row", WithSecond(Deep(10000, std::string(10000, ']'))), all},
      {"10,000 lists that do not close", WithSecond(Deep(10000, "")), others, 1, "a broken row at byte "},
      {"a row without its quote", WithSecond(Changed(KernelRow("2000", "5"), "\"gemm\"", "\"gemm")), others,
       1, "a broken row at byte "},
      {"a cut row",
       Whole().substr(0, Whole().find("\"ts\": 3000")),
       {1, 2},
       1,
       "a row that is cut off at byte "},
      {"garbage behind the end", Whole() + "\n#!garbage", all, 1,
       absl::StrCat("after the end of the trace at byte ", Whole().size() + 1)},
      {"a second trace behind the end", Whole() + Whole(), all, 1,
       absl::StrCat("after the end of the trace at byte ", Whole().size())},
      {"NULs behind the end", Whole() + std::string(4096, '\0'), all},
      {"a byte order mark", "\xEF\xBB\xBF" + Whole(), all},
  };
}

std::vector<Damage> PackedDamage() {
  std::string flipped = Gzip(Whole());
  flipped[flipped.size() - 6] ^= 1;
  const std::set<int> all = {1, 2, 3};
  return {
      {"gzip", Gzip(Whole()), all},
      {"gzip with padding", Gzip(Whole()) + std::string(1000, '\0'), all},
      {"gzip with garbage behind it", Gzip(Whole()) + "garbage", all, 1,
       absl::StrCat("after the end of the compressed data at byte ", Whole().size())},
      {"gzip that lacks its last bytes", Gzip(Whole()).substr(0, Gzip(Whole()).size() - 3), all, 1,
       "the gzip data is truncated"},
      {"gzip with another checksum", flipped, all, 1, "the gzip checksum does not match"},
      {"a second member that is cut", Gzip(Whole()) + Gzip(Whole()).substr(0, 30), all, 1,
       "the gzip data is truncated"},
  };
}

TEST_F(DamagedInputTest, ReadsTheIntactRowsOfAKinetoTraceAndCountsTheRest) {
  std::vector<Damage> table = TextDamage();
  for (Damage& damage : PackedDamage()) table.push_back(std::move(damage));
  for (const Damage& damage : table) {
    SCOPED_TRACE(damage.what);
    const auto capture = Read("rank0.json", damage.bytes);
    ASSERT_TRUE(capture.ok()) << capture.status();
    ASSERT_EQ(capture->ranks.size(), 1u);
    std::set<int> read;
    for (const capture::DeviceActivity& a : capture->ranks[0].activities)
      read.insert(static_cast<int>(a.start.ns() / 1'000'000));
    EXPECT_EQ(read, damage.kernels_ms);
    const auto& losses = capture->ranks[0].losses;
    ASSERT_EQ(losses.size(), damage.lost == 0 ? 0u : 1u) << losses[0].reason;
    if (losses.empty()) continue;
    EXPECT_EQ(losses[0].records, damage.lost);
    EXPECT_EQ(losses[0].stage, "import");
    EXPECT_THAT(losses[0].reason, HasSubstr(damage.says));
  }
}

TEST_F(DamagedInputTest, RefusesFilesOtherThanTracesUnderAnyName) {
  const struct {
    std::string name, bytes, says;
  } kRefused[] = {
      {"empty.json", "", "empty.json is not JSON"},
      {"blank.json", " \n ", "blank.json is not JSON"},
      {"nothing.json", "null", "nothing.json is not JSON"},
      {"picture.json", Png(), "picture.json is not JSON"},
      {"wide.json", std::string("{\0\"\0t\0", 6) + std::string(1, '\0'), "wide.json"},
      {"lines.json", KernelRow("1", "1") + "\n" + KernelRow("2", "1"), "no \"traceEvents\""},
      {"empty.json.gz", Gzip(""), "empty.json.gz is not JSON"},
      {"head.json.gz", Gzip(Whole()).substr(0, 6), "the gzip data is truncated"},
      {"twice.json.gz", Gzip(Gzip(Whole())), "twice.json.gz is not JSON"},
      {"picture.sqlite", Png(), "picture.sqlite"},
      {"empty.sqlite", "", "empty.sqlite"},
      {"text.sqlite", std::string("SQLite format 3") + '\0' + std::string(9000, 'x'), "text.sqlite"},
      {"head.sqlite", std::string("SQLite format 3") + '\0', "head.sqlite"},
      {"picture.timeline", Png(), "picture.timeline"},
      {"empty.timeline", "", "empty.timeline"},
      {"cut.timeline", "lockstep-timeline 1\nworld 2\nhost n", "cut.timeline line 3"},
      {"deep.timeline", "lockstep-timeline 1\n" + std::string(10000, '[') + "\nend\n",
       "deep.timeline line 2"},
      {"bytes.timeline", std::string("lockstep-timeline 1\nworld \xFF\xFE\nend\n"), "bytes.timeline line 2"},
      {"nul.timeline", std::string("lockstep-timeline 1\nworld \0\nend\n", 31), "nul.timeline line 2"},
      {"absurd.timeline", "lockstep-timeline 1\nworld 9223372036854775808\nend\n", "absurd.timeline line 2"},
      {"words.timeline", "lockstep-timeline 1\nworld NaN\nend\n", "words.timeline line 2"},
      {"cut.timeline.gz", Gzip("lockstep-timeline 1\nend\n").substr(0, 20), "cut.timeline.gz"},
  };
  for (const auto& refused : kRefused) {
    SCOPED_TRACE(refused.name);
    const auto capture = Read(refused.name, refused.bytes);
    ASSERT_FALSE(capture.ok());
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(capture.status().message()), HasSubstr(refused.says));
    EXPECT_EQ(capture.status().message().find('\n'), std::string_view::npos) << "one sentence";
  }
}

TEST_F(DamagedInputTest, LeavesOutADamagedFileAmongIntactOnesByName) {
  Write("rank0.json", Whole());
  const std::vector<std::string> paths = {folder_.string()};
  for (const std::string& bytes :
       {Png(), std::string(), Whole().substr(0, Whole().size() / 2), Gzip(Whole()).substr(0, 100)}) {
    Write("rank1.json", bytes);
    const auto capture = ReadInput(paths, {});
    ASSERT_TRUE(capture.ok()) << capture.status();
    EXPECT_EQ(capture->ranks.size(), 1u);
    EXPECT_THAT(capture->notes, ElementsAre(HasSubstr("rank1.json is ")));
    EXPECT_THAT(capture->ranks[0].losses, IsEmpty());
  }
}

}  // namespace
}  // namespace lockstep::formats
