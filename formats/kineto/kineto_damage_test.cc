// Damaged traces never crash the reader. It reads all that is readable and counts the rest.
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "formats/common/read_options.h"
#include "formats/kineto/kineto_reader.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

constexpr int kRows = 24;

KinetoFile Read(const std::string& text) {
  MemorySource source(text);
  return ReadKineto(source, ReadMode::kOneThread, HostDetail::kUnions, nullptr);
}

// Every row has its own start, so that the test can distinguish rows after damage.
std::string Trace() {
  std::vector<std::string> rows;
  for (int i = 0; i < kRows; ++i) {
    rows.push_back(KernelRow(std::to_string(1000 * (i + 1)), "5", "void f<{lambda(int)#1}, g>(x)",
                             R"(, "dtype": "Float", "x": [{"y": "}, {"}])"));
  }
  return Document(rows, R"("distributedInfo": {"rank": 0, "world_size": 1}, )", R"(, "traceName": "t.json")");
}

std::set<int64_t> Starts(const KinetoFile& file) {
  std::set<int64_t> starts;
  for (const KinetoDevice& device : file.devices) {
    for (const capture::DeviceActivity& a : device.activities) starts.insert(a.start.ns());
  }
  return starts;
}

int IntactRows(const KinetoFile& file) {
  const std::set<int64_t> starts = Starts(file);
  int intact = 0;
  for (int i = 0; i < kRows; ++i) intact += static_cast<int>(starts.count(int64_t{1000000} * (i + 1)));
  return intact;
}

TEST(KinetoDamage, ATruncatedTraceGivesTheRowsBeforeTheCut) {
  const std::string text = Trace();
  for (size_t cut = 0; cut < text.size(); ++cut) {
    const std::string part = text.substr(0, cut);
    const KinetoFile file = Read(part);
    int whole_rows = 0;
    for (size_t at = part.find("}]}}"); at != std::string::npos; at = part.find("}]}}", at + 1)) ++whole_rows;
    ASSERT_EQ(IntactRows(file), whole_rows) << "cut at " << cut;
    const bool noticed = !file.broken_off.empty() || file.damage.count() != 0;
    ASSERT_EQ(noticed, cut != 0) << "cut at " << cut;
    const std::string expected = cut > 0 ? "the text is truncated" : "";
    ASSERT_EQ(file.broken_off, expected) << "cut at " << cut;
  }
}

TEST(KinetoDamage, AFlippedByteLosesOnlyTheRowsThatItTouches) {
  const std::string text = Trace();
  const size_t first = text.find("{\"ph\"");
  const size_t last = text.rfind("], \"traceName");
  for (const int mask : {0x02, 0x20, 0x80}) {
    for (size_t at = first; at < last; ++at) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      const KinetoFile file = Read(damaged);
      // A flipped separator may damage the rows on both sides of it.
      ASSERT_GE(IntactRows(file), kRows - 2)
          << "byte " << at << " mask " << mask << " " << damaged.substr(at - 20, 60);
      // A missing row is counted, unless the byte turned it into a row of another kind.
      ASSERT_TRUE(IntactRows(file) > kRows - 2 || file.damage.count() > 0)
          << "byte " << at << " mask " << mask;
    }
  }
}

TEST(KinetoDamage, DamageInTheHeaderDoesNotHideTheEvents) {
  const std::string text = Trace();
  const size_t end = text.find("\"traceEvents\"");
  for (size_t at = 1; at < end; ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x05);
    ASSERT_EQ(IntactRows(Read(damaged)), kRows) << "byte " << at;
  }
}

TEST(KinetoDamage, ManyRandomDefectsNeverCrashAndMostRowsSurvive) {
  std::mt19937 random(11);
  const std::string text = Trace();
  int survived = 0;
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    std::string damaged = text;
    for (int defect = 0; defect < 3; ++defect) {
      const size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 40);
          break;
        case 2:
          damaged.insert(at, std::string(1 + random() % 5, "{}[]\",\\:\xFF"[random() % 9]));
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 80));
          break;
      }
    }
    survived += IntactRows(Read(damaged));
  }
  // Three damaged places affect few of the 24 rows.
  EXPECT_GT(survived, kRounds * (kRows - 6));
}

TEST(KinetoDamage, CountsRowsWithExtremeNestingOrNumbers) {
  const KinetoFile deep =
      Read(Document({KernelRow("1", "1", "a", ", \"x\": " + std::string(100000, '[')), KernelRow("2", "1")}));
  EXPECT_EQ(Starts(deep).count(2000), 1u);
  EXPECT_EQ(deep.damage.count(), 1u);
  const KinetoFile closed =
      Read(Document({KernelRow("1", "1", "a", ", \"x\": " + std::string(5000, '[') + std::string(5000, ']')),
                     KernelRow("2", "1")}));
  EXPECT_EQ(Starts(closed).count(2000), 1u);
  const KinetoFile digits = Read(
      Document({KernelRow(std::string(50000, '7'), "1"), KernelRow("2", std::string(50000, '0') + "1")}));
  EXPECT_EQ(Starts(digits), std::set<int64_t>{2000});
  EXPECT_EQ(digits.damage.count(), 1u);
}

TEST(KinetoDamage, AListOfOtherValuesHasNoRows) {
  for (const char* text :
       {"[1, 2, 3]", "[[{\"ph\": \"X\"}]]", "[null]", "[\"a\", {\"ph\": 3}]", "[{}]", "[{}, {}, {}]",
        "{\"traceEvents\": [{]}", "{\"traceEvents\": [}]}", "{\"traceEvents\": [\"", "[,,,]", "]", "{", "{\"",
        "{\"a\"", "{\"a\":", "{:}", "{,}", "\xEF\xBB"}) {
    EXPECT_TRUE(Starts(Read(text)).empty()) << text;
  }
}

TEST(KinetoDamage, ATruncatedGzipGivesRowsAndReportsTruncation) {
  std::vector<std::string> rows;
  for (int i = 0; i < 20000; ++i) rows.push_back(KernelRow(std::to_string(i * 7919 % 1000003), "5"));
  const std::string text = Document(rows);
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream z = {};
  ASSERT_EQ(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  for (ReadMode mode : {ReadMode::kOneThread, ReadMode::kPipeline}) {
    auto source =
        GzipSource(std::make_unique<MemorySource>(std::string_view(packed).substr(0, packed.size() / 2)));
    const KinetoFile file = ReadKineto(*source, mode, HostDetail::kUnions, nullptr);
    EXPECT_GT(Starts(file).size(), 5000u);
    EXPECT_EQ(file.broken_off, "the gzip data is truncated");
  }
}

}  // namespace
}  // namespace lockstep::formats
