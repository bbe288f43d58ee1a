// Compares views of recorded traces with sums over the same files' rows and with the output of the earlier
// tools.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>

#include "capture/align/clock_model.h"
#include "formats/common/read_options.h"
#include "formats/input/read_input.h"
#include "views/device/host_waits.h"
#include "views/device/trace_diff.h"
#include "views/host/layers.h"

namespace lockstep::views {
namespace {

std::optional<capture::Capture> ReadShared(const std::string& path) {
  const std::filesystem::path file =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "traces" / path;
  if (!std::filesystem::exists(file)) return std::nullopt;
  auto capture =
      formats::ReadInput(std::vector<std::string>{file.string()}, {.host = formats::HostDetail::kFrames});
  EXPECT_TRUE(capture.ok()) << capture.status();
  return capture.ok() ? std::optional(std::move(*capture)) : std::nullopt;
}

analysis::Steps StepsOf(const capture::Capture& capture) {
  std::vector<analysis::CallIndex> calls;
  for (const capture::RankData& rank : capture.ranks) calls.emplace_back(rank);
  return analysis::FindSteps(capture, capture::ClockModel(), calls);
}

const views::LayerRow* Find(const views::Layers& layers, std::string_view op, views::Direction direction) {
  for (const views::LayerRow& row : layers.rows) {
    if (row.op == op && row.direction == direction) return &row;
  }
  return nullptr;
}

// ResNet-50, 6 steps of 32 images. A script computed the expected values from the file's rows.
//
// It counts each aten::cudnn_convolution, with the first input of the CudnnConvolutionBackward of the same
// number as output. In the backward pass it counts cudnn_convolution_backward(_input). It also counts
// aten::mm and addmm. The forward convolutions have 8.17 GFLOP per image. That is two per published
// multiply-add of the network (4.09 G), without its linear layer.
TEST(RealLayers, OperatorsOfResNet50SumToTheModel) {
  const auto capture =
      ReadShared("tb_plugin_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz");
  if (!capture) GTEST_SKIP() << "the trace is not there (../shared/traces)";
  const views::Layers layers = views::LayersOf(*capture, views::LayerGrouping::kOperator);
  const views::LayerRow* forward = Find(layers, "conv2d", views::Direction::kForward);
  const views::LayerRow* backward = Find(layers, "conv2d", views::Direction::kBackward);
  const views::LayerRow* linear = Find(layers, "linear", views::Direction::kForward);
  const views::LayerRow* linear_back = Find(layers, "linear", views::Direction::kBackward);
  ASSERT_TRUE(forward != nullptr && backward != nullptr && linear != nullptr && linear_back != nullptr);
  EXPECT_EQ(forward->flop, 1569460322304);
  EXPECT_EQ(forward->bytes, 17287180800);
  EXPECT_EQ(backward->flop, 3093603287040);
  EXPECT_EQ(*linear->flop + *linear_back->flop, 2359296000);
  Nanos all;
  for (const views::LayerRow& row : layers.rows) all += row.time;
  Nanos kernels;
  for (const capture::DeviceActivity& a : capture->ranks[0].activities) {
    if (a.kind == capture::ActivityKind::kKernel) kernels += a.end - a.start;
  }
  EXPECT_EQ(all, kernels);
}

// The operators of the export are NVTX ranges of emit_nvtx without shapes.
TEST(RealLayers, AnNsysExportHasOperators) {
  const auto capture = ReadShared("nsys_h100_2gpu/mfu_2gpu_before.sqlite.gz");
  if (!capture) GTEST_SKIP() << "the export is not there (../shared/traces)";
  const views::Layers layers = views::LayersOf(*capture, views::LayerGrouping::kOperator);
  const views::LayerRow* linear = Find(layers, "linear", views::Direction::kForward);
  ASSERT_NE(linear, nullptr);
  EXPECT_FALSE(linear->flop) << "without shapes nothing is counted";
}

// HTA's TraceDiff of the same five steps (device ops, commit f4d0062) prints these counts, sums in
// microseconds and numbers of names.
TEST(RealDiff, AgreesWithHta) {
  const auto control = ReadShared("v100_step_pair_rank3/control.json.gz");
  const auto test = ReadShared("v100_step_pair_rank1/test.json.gz");
  if (!control || !test) GTEST_SKIP() << "the traces are not there (../shared/traces)";
  const analysis::Steps before = StepsOf(*control);
  const analysis::Steps after = StepsOf(*test);
  const views::TraceDiff diff = views::DiffOf({*control, before}, {*test, after}, views::DiffKey::kKernel);
  EXPECT_EQ(diff.rows.size(), 201u);
  std::map<views::Change, int> changes;
  for (const views::DiffRow& row : diff.rows) ++changes[row.change];
  EXPECT_EQ(changes[views::Change::kAdded], 27);
  EXPECT_EQ(changes[views::Change::kDeleted], 66);
  EXPECT_EQ(changes[views::Change::kIncreased], 15);
  EXPECT_EQ(changes[views::Change::kDecreased], 9);
  EXPECT_EQ(changes[views::Change::kUnchanged], 84);
  const views::DiffRow& first = diff.rows.at(0);
  EXPECT_EQ(first.key, "Memcpy DtoD (Device -> Device)");
  EXPECT_EQ(first.before.count, 15u);
  EXPECT_EQ(first.after.count, 3840u);
  EXPECT_EQ(first.before.total, Nanos::Micros(2280));
  EXPECT_EQ(first.after.total, Nanos::Micros(77270));
}

TEST(RealHost, DividesEveryCallExactly) {
  const auto capture = ReadShared("v100_step_pair_rank1/test.json.gz");
  if (!capture) GTEST_SKIP() << "the trace is not there (../shared/traces)";
  const analysis::CollectiveTimes times =
      analysis::TimeCollectives(*capture, capture::Match(*capture), capture::ClockModel());
  const views::HostWaits waits = views::HostWaitsOf(*capture, times, {});
  ASSERT_FALSE(waits.rows.empty());
  for (const views::HostWaitRow& r : waits.rows) {
    EXPECT_EQ(
        r.compute + r.copy + r.transfer + r.other_ranks.value_or(Nanos()) + r.queued + r.latency + r.after,
        r.blocked)
        << r.call;
  }
}

// A copy on another stream waits for the sizes that an all-to-all exchanges.
TEST(RealHost, WaitsBehindAnAllToAllAreLateRanks) {
  const auto capture = ReadShared("param_dlrm_8rank");
  if (!capture) GTEST_SKIP() << "the trace is not there (../shared/traces)";
  const analysis::CollectiveTimes times =
      analysis::TimeCollectives(*capture, capture::Match(*capture), capture::ClockModel());
  const views::HostWaits waits = views::HostWaitsOf(*capture, times, {});
  Nanos late, queued;
  for (const views::HostWaitRow& r : waits.rows) {
    if (r.called_by != "aten::to" || r.call != "cudaMemcpyAsync") continue;
    late += r.other_ranks.value_or(Nanos());
    queued += r.queued;
  }
  EXPECT_GT(late, Nanos::Micros(4000));
  EXPECT_EQ(queued, Nanos());
}

}  // namespace
}  // namespace lockstep::views
