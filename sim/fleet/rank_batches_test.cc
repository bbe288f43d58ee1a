#include "sim/fleet/rank_batches.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <string>

#include "wire/columns/columns.h"

namespace lockstep::sim {
namespace {

using columns::Kind;

constexpr FleetEpoch kEpoch = {HostTime(1'790'000'000'000'000'000), MonoTime(5'000'000'000)};

FleetJob Job(uint32_t rows) {
  return FleetJob(
      {.ranks = 4, .rows = rows, .slow_rank = 2, .slow_by_percent = 50, .window = Nanos::Seconds(1)});
}

struct Decoded {
  std::map<Kind, std::vector<std::vector<uint64_t>>> rows;
  std::set<uint32_t> strings;
};

Decoded Decode(const std::vector<RankBatch>& batches) {
  Decoded out;
  for (const RankBatch& batch : batches) {
    std::span<const std::byte> rest = std::as_bytes(std::span(batch.blocks));
    while (!rest.empty()) {
      columns::DecodedBlock block;
      const auto taken = columns::Decode(rest, block);
      if (!taken.ok()) {
        ADD_FAILURE() << taken.status();
        return out;
      }
      rest = rest.subspan(*taken);
      for (const columns::StringDefinition& string : block.strings) out.strings.insert(string.id);
      for (uint32_t row = 0; row < block.rows && block.kind != Kind::kString; ++row) {
        std::vector<uint64_t>& cells = out.rows[block.kind].emplace_back();
        for (const std::vector<uint64_t>& column : block.columns) cells.push_back(column[row]);
      }
    }
  }
  return out;
}

TEST(RankBatchesTest, EveryStepHasItsRows) {
  const FleetJob job = Job(3000);
  const std::vector<RankBatch> batches = EncodeRank(job, 1, kEpoch);
  ASSERT_EQ(batches.size(), 1u);
  Decoded decoded = Decode(batches);
  constexpr uint32_t kLaunches = FleetJob::kLayers * (FleetJob::kKernels + 1);
  EXPECT_EQ(decoded.rows[Kind::kKernel].size(), job.steps() * kLaunches);
  EXPECT_EQ(decoded.rows[Kind::kApi].size(), job.steps() * (kLaunches + 1));
  EXPECT_EQ(decoded.rows[Kind::kCollective].size(), job.steps() * FleetJob::kLayers);
  EXPECT_EQ(decoded.rows[Kind::kRange].size(), job.steps());
  EXPECT_EQ(batches[0].rows, job.steps() * FleetJob::kRowsPerStep + 3)
      << "a communicator and two clock readings";
}

TEST(RankBatchesTest, AKernelBeginsAfterItsLaunchAndAfterTheKernelBefore) {
  Decoded decoded = Decode(EncodeRank(Job(3000), 2, kEpoch));
  std::map<uint64_t, uint64_t> launched;
  for (const auto& call : decoded.rows[Kind::kApi])
    launched[call[columns::api::kCorrelation]] = call[columns::api::kStart] + call[columns::api::kDuration];
  uint64_t last = 0;
  for (const auto& kernel : decoded.rows[Kind::kKernel]) {
    EXPECT_GE(kernel[columns::kernel::kStart], launched.at(kernel[columns::kernel::kCorrelation]));
    EXPECT_GE(kernel[columns::kernel::kStart], last);
    last = kernel[columns::kernel::kStart] + kernel[columns::kernel::kDuration];
    EXPECT_TRUE(decoded.strings.contains(static_cast<uint32_t>(kernel[columns::kernel::kName])));
  }
}

TEST(RankBatchesTest, AllRanksEndAnAllReduceTogetherAndTheSlowRankBeginsItLast) {
  const FleetJob job = Job(3000);
  std::vector<std::vector<std::vector<uint64_t>>> kernels;
  for (uint32_t rank = 0; rank < 4; ++rank)
    kernels.push_back(Decode(EncodeRank(job, rank, kEpoch)).rows[Kind::kKernel]);
  for (size_t i = FleetJob::kKernels; i < kernels[0].size(); i += FleetJob::kKernels + 1) {
    for (const uint32_t rank : {0u, 1u, 3u}) {
      EXPECT_LT(kernels[rank][i][columns::kernel::kStart], kernels[2][i][columns::kernel::kStart]);
      EXPECT_EQ(kernels[rank][i][columns::kernel::kStart] + kernels[rank][i][columns::kernel::kDuration],
                kernels[2][i][columns::kernel::kStart] + kernels[2][i][columns::kernel::kDuration]);
    }
  }
}

TEST(RankBatchesTest, ManyRowsComeInSeveralBatchesThatKeepEveryRow) {
  const FleetJob job = Job(60'000);
  const std::vector<RankBatch> batches = EncodeRank(job, 0, kEpoch);
  EXPECT_GT(batches.size(), 3u);
  uint64_t stated = 0;
  for (const RankBatch& batch : batches) stated += batch.rows;
  uint64_t found = 0;
  for (const auto& [kind, rows] : Decode(batches).rows) found += rows.size();
  EXPECT_EQ(found, stated);
  EXPECT_GT(TimeToDecode(batches), Nanos());
}

}  // namespace
}  // namespace lockstep::sim
