// Compares the device view by Holistic Trace Analysis' rule with HTA's own results for the same files
// (../shared/reference).
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/real/real_trace_fixture.h"
#include "views/device/device_time.h"
#include "views/device/kernel_sequences.h"
#include "views/device/launch_stats.h"

namespace lockstep::views {
namespace {

using views::DeviceRule;
using Element = simdjson::dom::element;

// Without ns_timestamps and the Nsight Systems export. HTA rounds away fractions of microseconds there,
// separately for each gap.
constexpr const char* kWholeMicroseconds[] = {"bert_ddp_2rank",       "resnet50_ddp_2rank",
                                              "v100_2020_allreduce",  "v100_step_pair_rank3",
                                              "v100_step_pair_rank1", "param_dlrm_8rank"};

class HtaViews : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path path = Shared() / "reference" / "hta.json";
    // Traces and reference are not part of the project. Without them the test is skipped.
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << "not tested: ../shared/reference/hta.json is not there";
    for (const std::string set : kWholeMicroseconds) {
      if (FilesOf(set).empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    }
    ASSERT_EQ(parser_.load(path.string()).get(document_), simdjson::SUCCESS);
  }
  std::vector<Element> Rows(const std::string& set, const char* part) {
    simdjson::dom::array rows;
    EXPECT_EQ(document_["sets"][set]["default_drop_last_step"][part].get_array().get(rows), simdjson::SUCCESS)
        << set << " " << part;
    return {rows.begin(), rows.end()};
  }
  simdjson::dom::object LaunchStats(const std::string& set) {
    simdjson::dom::object stats;
    EXPECT_EQ(document_["sets"][set]["default_drop_last_step"]["launch_stats"].get_object().get(stats),
              simdjson::SUCCESS)
        << set;
    return stats;
  }

  simdjson::dom::parser parser_;
  Element document_;
};

double Number(Element row, const char* key) {
  double value = -1;
  EXPECT_EQ(row[key].get_double().get(value), simdjson::SUCCESS) << key;
  return value;
}

double Us(Nanos time) { return static_cast<double>(time.ns()) / 1000; }

// HTA numbers ranks by the order of the files. The rank of a single trace is therefore 0.
int64_t Place(const capture::Capture& capture, RankId rank) {
  return capture.ranks.size() == 1 ? 0 : rank.value();
}

TEST_F(HtaViews, TemporalBreakdownEqualsHtas) {
  for (const std::string set : kWholeMicroseconds) {
    const capture::Capture capture = Read(FilesOf(set));
    const auto times = views::DeviceTimesOf(capture, DeviceRule::kHta);
    const std::vector<Element> want = Rows(set, "temporal_breakdown"),
                               overlap = Rows(set, "comm_comp_overlap_pctg");
    ASSERT_EQ(times.size(), want.size()) << set;
    for (size_t i = 0; i < times.size(); ++i) {
      const views::DeviceTime& time = times[i];
      SCOPED_TRACE(set + " rank " + std::to_string(time.rank.value()));
      EXPECT_DOUBLE_EQ(Us(time.span), Number(want[i], "kernel_time(us)"));
      EXPECT_DOUBLE_EQ(Us(time.idle()), Number(want[i], "idle_time(us)"));
      EXPECT_DOUBLE_EQ(Us(time.TimeWithAll(views::kComputing)), Number(want[i], "compute_time(us)"));
      EXPECT_DOUBLE_EQ(Us(time.span - time.idle() - time.TimeWithAll(views::kComputing)),
                       Number(want[i], "non_compute_time(us)"));
      const double both = Us(time.TimeWithAll(views::kComputing | views::kCommunicating));
      EXPECT_NEAR(100 * both / Us(time.TimeWithAll(views::kCommunicating)),
                  Number(overlap[i], "comp_comm_overlap_pctg"), 0.005);
    }
  }
}

TEST_F(HtaViews, KernelTypesEqualHtas) {
  const std::map<std::string, uint8_t> kinds = {{"COMPUTATION", views::kComputing},
                                                {"COMMUNICATION", views::kCommunicating},
                                                {"MEMORY", views::kCopying}};
  for (const std::string set : kWholeMicroseconds) {
    const auto times = views::DeviceTimesOf(Read(FilesOf(set)), DeviceRule::kHta);
    for (const Element row : Rows(set, "kernel_type_breakdown")) {
      std::string_view text;
      ASSERT_EQ(row["kernel_type"].get_string().get(text), simdjson::SUCCESS);
      uint8_t mask = 0;
      for (const auto& [name, kind] : kinds) mask |= text.find(name) != std::string_view::npos ? kind : 0;
      Nanos sum;
      for (const views::DeviceTime& time : times) sum += time.together[mask];
      EXPECT_DOUBLE_EQ(Us(sum), Number(row, "sum")) << set << " " << text;
    }
  }
}

TEST_F(HtaViews, IdleTimePerStreamEqualsHtas) {
  for (const std::string set : kWholeMicroseconds) {
    const capture::Capture capture = Read(FilesOf(set));
    std::map<std::tuple<int64_t, int64_t, std::string>, double> got;
    for (const views::StreamIdle& idle : views::StreamIdleOf(capture, DeviceRule::kHta)) {
      const int64_t rank = Place(capture, idle.rank), stream = idle.stream.value();
      got[{rank, stream, "host_wait"}] = Us(idle.host_wait);
      got[{rank, stream, "kernel_wait"}] = Us(idle.kernel_wait);
      got[{rank, stream, "other"}] = Us(idle.other);
    }
    for (const Element row : Rows(set, "idle_time_breakdown")) {
      std::string_view category;
      ASSERT_EQ(row["idle_category"].get_string().get(category), simdjson::SUCCESS);
      const std::tuple key(static_cast<int64_t>(Number(row, "rank")),
                           static_cast<int64_t>(Number(row, "stream")), std::string(category));
      ASSERT_TRUE(got.contains(key)) << set << " " << category;
      EXPECT_DOUBLE_EQ(got[key], Number(row, "idle_time"))
          << set << " rank " << std::get<0>(key) << " stream " << std::get<1>(key) << " " << category;
    }
  }
}

TEST_F(HtaViews, LaunchStatisticsEqualHtas) {
  for (const std::string set : kWholeMicroseconds) {
    const capture::Capture capture = Read(FilesOf(set));
    std::map<std::string, views::LaunchStat> all;
    for (const views::LaunchStat& row :
         views::LaunchStatsOf(capture, views::LaunchRanks::kEach, DeviceRule::kHta)) {
      if (!row.name) all[std::to_string(Place(capture, row.rank))] = row;
    }
    for (const auto [rank, want] : LaunchStats(set)) {
      const views::LaunchStat& row = all[std::string(rank)];
      SCOPED_TRACE(set + " rank " + std::string(rank));
      EXPECT_EQ(static_cast<double>(row.calls), Number(want, "n"));
      EXPECT_NEAR(Us(row.delay) / static_cast<double>(row.calls), Number(want, "mean_launch_delay"), 0.0006);
      EXPECT_DOUBLE_EQ(Us(row.median_delay), Number(want, "p50"));
      EXPECT_EQ(static_cast<double>(row.shorter_than_call), Number(want, "short"));
    }
  }
}

// Expected values from HTA's get_queue_length_time_series(): number of launches and number of changes of the
// length.
TEST_F(HtaViews, QueueLengthsEqualHtas) {
  const std::map<StreamId, std::pair<uint64_t, size_t>> theirs = {{StreamId(7), {7900, 15544}},
                                                                  {StreamId(14), {240, 480}},
                                                                  {StreamId(15), {50, 100}},
                                                                  {StreamId(16), {120, 240}}};
  const capture::Capture capture = Read(FilesOf("v100_step_pair_rank1"));
  std::map<StreamId, std::pair<uint64_t, size_t>> ours;
  for (const views::StreamQueue& queue : views::StreamQueuesOf(capture, DeviceRule::kHta))
    ours[queue.stream].first = queue.launches;
  for (const views::QueuePoint& point : views::QueueSeriesOf(capture, DeviceRule::kHta))
    ++ours[point.stream].second;
  EXPECT_EQ(ours, theirs);
}

// Expected values from get_frequent_cuda_kernel_sequences() with the last step, in microseconds of device and
// host.
TEST_F(HtaViews, KernelSequencesEqualHtas) {
  using Row = std::tuple<size_t, uint64_t, Nanos, Nanos>;
  const auto us = [](int64_t n) { return Nanos::Micros(n); };
  const std::map<std::string, std::vector<Row>> theirs = {
      {"aten::linear", {{3, 84, us(3503), us(7374)}, {3, 12, us(3421), us(1543)}}},
      {"aten::addmm", {{3, 84, us(3503), us(6511)}, {3, 12, us(3421), us(1381)}}},
      {"autograd::engine::evaluate_function: NativeLayerNormBackward0", {{3, 90, us(4768), us(10424)}}},
      {"Optimizer.step#FusedAdam.step", {{8, 6, us(12281), us(14091)}}}};
  const capture::Capture capture = Read(FilesOf("v100_step_pair_rank1"));
  std::map<std::string, std::vector<Row>> ours;
  for (const views::KernelSequence& row :
       views::KernelSequencesOf(capture, views::LaunchRanks::kTogether).rows) {
    if (theirs.contains(std::string(row.op)))
      ours[std::string(row.op)].emplace_back(row.work.size(), row.calls, row.device, row.host);
  }
  EXPECT_EQ(ours, theirs);
}

}  // namespace
}  // namespace lockstep::views
