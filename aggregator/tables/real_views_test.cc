// Views of traces recorded by others, against arithmetic over the same files' rows and against what the predecessors print.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "aggregator/align/clock_model.h"
#include "aggregator/trace/readers.h"
#include "aggregator/views/host_waits.h"
#include "aggregator/views/layers.h"
#include "aggregator/views/trace_diff.h"

namespace lockstep::tables {
namespace {

std::optional<store::Capture> Read(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "traces" / path;
  if (!std::filesystem::exists(file)) return std::nullopt;
  auto capture = trace::ReadInput(std::vector<std::string>{file.string()}, {.host = trace::HostDetail::kFrames});
  EXPECT_TRUE(capture.ok()) << capture.status();
  return capture.ok() ? std::optional(std::move(*capture)) : std::nullopt;
}

const views::LayerRow* Find(const views::Layers& layers, std::string_view op, views::Direction direction) {
  for (const views::LayerRow& row : layers.rows) {
    if (row.op == op && row.direction == direction) return &row;
  }
  return nullptr;
}

// ResNet-50, 6 steps of 32 images. A script over the file's rows: each aten::cudnn_convolution with the first input of the
// CudnnConvolutionBackward of its number as output; of the backward pass cudnn_convolution_backward(_input); aten::mm and addmm. The
// forward convolutions are 8.17 GFLOP an image: the network's published 4.09 GFLOP of multiply-adds, less its linear layer.
TEST(RealLayers, OperatorsOfResNet50AddUp) {
  const auto capture = Read("tb_plugin_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz");
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
  for (const store::DeviceActivity& a : capture->ranks[0].activities) {
    if (a.kind == store::ActivityKind::kKernel) kernels += a.end - a.start;
  }
  EXPECT_EQ(all, kernels);
}

// Its operators are NVTX ranges of emit_nvtx without shapes.
TEST(RealLayers, AnNsysExportHasOperators) {
  const auto capture = Read("nsys_h100_2gpu/mfu_2gpu_before.sqlite.gz");
  if (!capture) GTEST_SKIP() << "the export is not there (../shared/traces)";
  const views::Layers layers = views::LayersOf(*capture, views::LayerGrouping::kOperator);
  const views::LayerRow* addmm = Find(layers, "addmm", views::Direction::kForward);
  ASSERT_NE(addmm, nullptr);
  EXPECT_FALSE(addmm->flop) << "without shapes nothing is counted";
}

TEST(RealHost, EveryCallIsSharedOutToTheNanosecond) {
  const auto capture = Read("v100_step_pair_rank1/test.json.gz");
  if (!capture) GTEST_SKIP() << "the trace is not there (../shared/traces)";
  const analysis::CollectiveTimes times = analysis::TimeCollectives(*capture, align::Match(*capture), align::ClockModel());
  const views::HostWaits waits = views::HostWaitsOf(*capture, times, {});
  ASSERT_FALSE(waits.rows.empty());
  for (const views::HostWaitRow& r : waits.rows) {
    EXPECT_EQ(r.compute + r.copy + r.transfer + r.other_ranks.value_or(Nanos()) + r.latency + r.after, r.blocked) << r.call;
  }
}

}  // namespace
}  // namespace lockstep::tables
