#include "formats/files/trace_spans.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep::formats {
namespace {

TEST(TraceSpans, FilesOfOneRankThatTouchAreNotAtTheSameTime) {
  const auto at = [](int64_t from, int64_t to) {
    return HostInterval{HostTime(from * 1000000), HostTime(to * 1000000)};
  };
  EXPECT_FALSE(AtSameTime(at(0, 10), at(9, 20)));
  EXPECT_TRUE(AtSameTime(at(0, 10), at(4, 20)));
  EXPECT_TRUE(AtSameTime(at(0, 100), at(40, 41)));
}

}  // namespace
}  // namespace lockstep::formats
