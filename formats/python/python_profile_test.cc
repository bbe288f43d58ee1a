#include "formats/python/python_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/python/python_marshal.h"

namespace lockstep::formats {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Python 3.11's cProfile wrote it: main() calls recurse(4) three times, and recurse() calls leaf().
const std::string kGolden = LOCKSTEP_SOURCE_DIR "/tests/golden/python/rank_3.cprofile";

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const capture::PythonFunction& Named(const capture::PythonProfile& profile, const std::string& name) {
  for (const capture::PythonFunction& f : profile.functions) {
    if (f.name == name) return f;
  }
  ADD_FAILURE() << name;
  return profile.functions[0];
}

TEST(PythonProfile, AgreesWithPstats) {
  const auto profiles = ReadPythonProfiles({kGolden});
  ASSERT_TRUE(profiles.ok()) << profiles.status();
  const capture::PythonProfile& profile = profiles->at(0);
  EXPECT_EQ(profile.rank, RankId(3)) << "by its name";
  EXPECT_EQ(profile.functions.size(), 5u);
  EXPECT_EQ(profile.unreadable, 0u);
  const capture::PythonFunction& recurse = Named(profile, "recurse");
  EXPECT_EQ(recurse.file, "train.py");
  EXPECT_EQ(recurse.line, 4);
  EXPECT_EQ(recurse.calls, 15);
  EXPECT_EQ(recurse.primitive_calls, 3);
  EXPECT_EQ(recurse.self, Nanos(8142));
  EXPECT_EQ(recurse.total, Nanos(17958));
  EXPECT_EQ(Named(profile, "<built-in method builtins.sum>").file, "~");
}

TEST(PythonProfile, FindsProfilesOfACaptureWithTheirRank) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "lockstep-python-profiles";
  fs::remove_all(folder);
  EXPECT_THAT(PythonProfilesIn(folder.string()), IsEmpty());
  fs::create_directories(folder / "records");
  fs::copy_file(kGolden, folder / "records" / "r00005.p00001.cprofile");
  std::ofstream(folder / "records" / "manifest.json") << "{}";
  const std::vector<std::string> kept = PythonProfilesIn(folder.string());
  ASSERT_EQ(kept.size(), 1u);
  const auto profiles = ReadPythonProfiles(kept);
  ASSERT_TRUE(profiles.ok()) << profiles.status();
  EXPECT_EQ(profiles->at(0).rank, RankId(5));
  fs::create_directories(folder / "profiles");
  fs::copy_file(kGolden, folder / "profiles" / "rank_7.cprofile");
  const std::vector<std::string> made = PythonProfilesIn(folder.string());
  ASSERT_EQ(made.size(), 1u) << "not each twice";
  EXPECT_THAT(made[0], HasSubstr("rank_7.cprofile"));
  fs::remove_all(folder);
}

TEST(PythonProfile, RefusesTwoProfilesOfOneRank) {
  const std::string copy = ::testing::TempDir() + "/rank_3.cprofile";
  std::ofstream(copy, std::ios::binary) << Bytes(kGolden);
  const auto profiles = ReadPythonProfiles({kGolden, copy});
  EXPECT_THAT(std::string(profiles.status().message()), HasSubstr("another profile of rank 3"));
}

TEST(PythonProfile, NamesAFileThatIsNotAProfile) {
  EXPECT_THAT(std::string(ReadPythonProfiles({"no/such/file"}).status().message()),
              HasSubstr("no/such/file"));
  EXPECT_THAT(std::string(ParsePythonProfile("{\"a\": 1}", "x.json").status().message()),
              HasSubstr("x.json"));
  EXPECT_FALSE(ParsePythonProfile("", "empty").ok());
  EXPECT_THAT(std::string(ParsePythonProfile("i\x01\x02\x03\x04", "number").status().message()),
              HasSubstr("holds no table"));
}

TEST(PythonProfile, ReportsOrCountsDamage) {
  const std::string bytes = Bytes(kGolden);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(ParsePythonProfile(bytes.substr(0, size), "cut").ok()) << size;
  uint64_t odd = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto profile = ParsePythonProfile(damaged, "damaged");
      odd += !profile.ok() || profile->unreadable != 0;
    }
  }
  EXPECT_GT(odd, 1000u);
}

TEST(Marshal, ReadsOlderEncodingsAndLargeNumbers) {
  const auto number = [](const std::string& bytes) { return (*ReadMarshal(bytes))->number; };
  EXPECT_EQ(number(std::string("l\x02\0\0\0\x01\0\x01\0", 9)), 32769);
  EXPECT_EQ(number(std::string("l\xFE\xFF\xFF\xFF\x01\0\x01\0", 9)), -32769);
  EXPECT_EQ(
      number(std::string("l\x06\0\0\0", 5) + std::string("\xFF\x7F\xFF\x7F\xFF\x7F\xFF\x7F\xFF\x7F\xFF\x7F")),
      INT64_MAX);
  EXPECT_DOUBLE_EQ((*ReadMarshal("f\x03"
                                 "2.5"))
                       ->real,
                   2.5);
  EXPECT_EQ((*ReadMarshal(std::string("(\x02\0\0\0NT", 7)))->items.size(), 2u);
}

TEST(Marshal, RefusesCyclicNestedAndExpandingValues) {
  // A tuple that contains itself, a count without its items, endless dicts, and deeply nested tuples.
  EXPECT_FALSE(ReadMarshal(std::string("\xA9\x01r\0\0\0\0", 7)).ok());
  EXPECT_FALSE(ReadMarshal(std::string("(\xFF\xFF\xFF\xFFN", 6)).ok());
  EXPECT_FALSE(ReadMarshal(std::string("\xFB") + std::string(100000, '{')).ok());
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += ")\x01";
  EXPECT_FALSE(ReadMarshal(nested).ok());
  // Each of 60 tuples contains the previous one twice. Copies would make 2^60 values.
  std::string laughs(
      ")\x3C"
      "\xA9\x02NN",
      6);
  for (uint32_t i = 0; i < 59; ++i) {
    const char low = static_cast<char>(i);
    laughs +=
        std::string("\xA9\x02r") + low + std::string("\0\0\0", 3) + "r" + low + std::string("\0\0\0", 3);
  }
  EXPECT_TRUE(ReadMarshal(laughs).ok());
}

}  // namespace
}  // namespace lockstep::formats
