#include "formats/flight_recorder/flight_recorder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "analysis/hang/explain_hang.h"
#include "formats/flight_recorder/pickle.h"

namespace lockstep::formats {
namespace {

using namespace std::string_literals;

// Writes values as PyTorch's C++ pickler does, in protocol 2.
std::string Little(uint64_t value, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}
std::string Text(const std::string& text) { return "X" + Little(text.size(), 4) + text; }
std::string Number(int64_t number) { return "\x8a\x08" + Little(static_cast<uint64_t>(number), 8); }
std::string List(std::initializer_list<std::string> items) {
  std::string bytes = "](";
  for (const std::string& item : items) bytes += item;
  return bytes + "e";
}
std::string Dict(std::initializer_list<std::pair<std::string, std::string>> items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += Text(key) + value;
  return bytes + "u";
}
std::string Whole(const std::string& value) { return "\x80\x02" + value + "."; }

std::string Entry(int64_t sequence, const char* name, const char* state, int64_t created_ns,
                  int64_t size = 16, const char* group = "0") {
  return Dict({{"process_group", Text(group) + Text("default_pg") + "\x86"},
               {"collective_seq_id", Number(sequence)},
               {"profiling_name", Text(name)},
               {"state", Text(state)},
               {"time_created_ns", Number(created_ns)},
               {"input_sizes", List({List({Number(size), Number(4)})})},
               {"input_dtypes", List({Text("Float")})},
               {"is_p2p", "\x89"}});
}
std::string Dump(const std::string& entries) {
  const std::string config =
      Dict({{"0", Dict({{"name", Text("0")}, {"desc", Text("default_pg")}, {"ranks", Text("[0, 1, 2]")}})}});
  return Whole(Dict({{"version", Text("2.8")}, {"pg_config", config}, {"entries", entries}}));
}

absl::StatusOr<Pickle> Parse(const std::string& bytes) { return Pickle::Parse(bytes); }

TEST(Pickle, ReadsEveryKindOfPlainData) {
  const std::string bytes = Whole(Dict({{"none", "N"},
                                        {"yes", "\x88"},
                                        {"small", "K\xff"},
                                        {"medium", "M\xff\xff"},
                                        {"minus", "J\xfe\xff\xff\xff"},
                                        {"long", "\x8a\x01\x80"},
                                        {"zero", "\x8a\x00"s},
                                        {"real", "G\x40\x04\x00\x00\x00\x00\x00\x00"s},
                                        {"list", List({"K\x01", "K\x02"})},
                                        {"tuple", "(K\x01K\x02K\x03K\x04t"}}));
  const auto pickle = Parse(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const Pickle::Value& root = pickle->root();
  EXPECT_EQ(pickle->Find(root, "none")->kind, Pickle::Kind::kNone);
  EXPECT_EQ(pickle->Number(root, "yes"), 1);
  EXPECT_EQ(pickle->Number(root, "small"), 255);
  EXPECT_EQ(pickle->Number(root, "medium"), 65535);
  EXPECT_EQ(pickle->Number(root, "minus"), -2);
  EXPECT_EQ(pickle->Number(root, "long"), -128);
  EXPECT_EQ(pickle->Number(root, "zero"), 0);
  EXPECT_EQ(pickle->Find(root, "real")->kind, Pickle::Kind::kReal);
  EXPECT_EQ(pickle->Find(root, "list")->items.size(), 2u);
  EXPECT_EQ(pickle->Find(root, "tuple")->items.size(), 4u);
  EXPECT_EQ(pickle->Find(root, "missing"), nullptr);
}

TEST(Pickle, RefusesWhatCouldRunCode) {
  // os.system, as an attack has it.
  const auto pickle = Parse(
      "\x80\x02"
      "cos\nsystem\n(X\x04\x00\x00\x00idletR."s);
  ASSERT_FALSE(pickle.ok());
  EXPECT_EQ(pickle.status().message(),
            "byte 2 of the pickle has opcode 0x63, which is not one of plain data: it could run code, and is "
            "refused");
}

TEST(Pickle, RefusesDamagedInput) {
  for (const std::string& bytes :
       {""s, "."s, "\x80"s, "X\xff\xff\xff\xffz."s, "a."s, "(."s, "]u."s, "}(K\x01u."s, "h\x05."s, "q\x00"s,
        "\x87."s, "t."s, "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s, "\x8a\x09."s}) {
    EXPECT_FALSE(Parse(bytes).ok()) << bytes;
  }
  const std::string whole = Dump(List({Entry(1, "nccl:all_reduce", "started", 5)}));
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(Parse(whole.substr(0, length)).ok()) << length;
}

TEST(Pickle, AValueMayContainItself) {
  EXPECT_TRUE(Parse("\x80\x02]q\x00h\x00"
                    "a."s)
                  .ok());
}

class FlightRecorderTest : public testing::Test {
 protected:
  void Add(int32_t rank, std::initializer_list<std::string> entries) {
    const absl::Status added = AddFlightRecorderDump(Dump(List(entries)), RankId(rank), job_);
    ASSERT_TRUE(added.ok()) << added;
  }
  analysis::HangFinding Only() {
    AgeFromNewest(job_);
    const analysis::HangExplanation explained = ExplainHang(job_, Nanos());
    EXPECT_EQ(explained.findings.size(), 1u);
    return explained.findings.empty() ? analysis::HangFinding() : explained.findings[0];
  }
  analysis::HangJob job_;
};

constexpr int64_t kStart = 1'700'000'000'000'000'000;

TEST_F(FlightRecorderTest, NamesTheRankThatNeverEntered) {
  for (const int32_t rank : {0, 2})
    Add(rank, {Entry(1, "nccl:all_reduce", "completed", kStart),
               Entry(2, "nccl:all_reduce", "started", kStart + 1)});
  Add(1, {Entry(1, "nccl:all_reduce", "completed", kStart + 2'000'000'001)});
  EXPECT_EQ(job_.world_size, 3);
  EXPECT_EQ(Only().sentence,
            "rank 1 never entered all_reduce #2 of default_pg; 2 ranks wait in it for 2.0 s");
}

TEST_F(FlightRecorderTest, NamesAnotherSize) {
  for (int32_t rank = 0; rank < 3; ++rank)
    Add(rank, {Entry(1, "nccl:all_reduce", "scheduled", kStart, rank == 1 ? 8 : 16)});
  EXPECT_EQ(Only().cause, analysis::HangCause::kMismatch);
}

TEST_F(FlightRecorderTest, SizesOfAnExchangeMayDiffer) {
  for (int32_t rank = 0; rank < 3; ++rank) Add(rank, {Entry(1, "nccl:all_to_all", "started", kStart, rank)});
  EXPECT_EQ(Only().cause, analysis::HangCause::kStuck);
}

TEST_F(FlightRecorderTest, ACompleteJobDoesNotHang) {
  for (int32_t rank = 0; rank < 3; ++rank) Add(rank, {Entry(1, "nccl:all_reduce", "completed", kStart)});
  EXPECT_TRUE(ExplainHang(job_, Nanos()).findings.empty());
}

TEST_F(FlightRecorderTest, RefusesAPickleOfAnotherKind) {
  EXPECT_FALSE(AddFlightRecorderDump(Whole("K\x01"), RankId(0), job_).ok());
  EXPECT_FALSE(AddFlightRecorderDump(Whole(Dict({{"entries", "N"}})), RankId(0), job_).ok());
}

TEST_F(FlightRecorderTest, SurvivesEntriesOfAnyKind) {
  Add(0, {"N", "K\x01", Dict({{"process_group", List({})}}),
          Dict({{"process_group", Text("0")}, {"input_sizes", "N"}}), Entry(-1, ":", "", INT64_MIN, -5),
          Entry(INT64_MAX, "nccl:send 0->", "x", INT64_MAX)});
  AgeFromNewest(job_);
  ExplainHang(job_, Nanos());
}

}  // namespace
}  // namespace lockstep::formats
