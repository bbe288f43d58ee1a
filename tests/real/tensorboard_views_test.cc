// Compares the overview and the distributed view by torch-tb-profiler's rule with its own results for the
// same files (../shared/reference).
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/real/real_trace_fixture.h"
#include "views/device/distributed.h"
#include "views/device/overview.h"

namespace lockstep::views {
namespace {

simdjson::dom::element Get(simdjson::dom::element of, const std::string& key) {
  simdjson::dom::element value;
  EXPECT_EQ(of[key].get(value), simdjson::SUCCESS) << key;
  return value;
}

std::vector<simdjson::dom::element> ListOf(simdjson::dom::element of) {
  simdjson::dom::array array;
  EXPECT_EQ(of.get_array().get(array), simdjson::SUCCESS);
  return {array.begin(), array.end()};
}

std::vector<simdjson::dom::element> FieldsOf(simdjson::dom::element of) {
  simdjson::dom::object object;
  EXPECT_EQ(of.get_object().get(object), simdjson::SUCCESS);
  std::vector<simdjson::dom::element> values;
  for (const simdjson::dom::key_value_pair field : object) values.push_back(field.value);
  return values;
}

double Double(simdjson::dom::element of) {
  double value = NAN;
  EXPECT_EQ(of.get_double().get(value), simdjson::SUCCESS);
  return value;
}

// The results of torch-tb-profiler, read once.
class Reference {
 public:
  Reference() {
    const std::filesystem::path path = Shared() / "reference" / "tb_plugin.json";
    there_ = std::filesystem::exists(path);
    if (!there_) return;
    std::ifstream file(path);
    std::string text(std::istreambuf_iterator<char>(file), {});
    // For a trace without steps it wrote a length that does not fit into 64 bits.
    const std::string too_long = "-18446744073709551615";
    for (size_t at = text.find(too_long); at != std::string::npos; at = text.find(too_long))
      text.replace(at, too_long.size(), "0");
    EXPECT_EQ(parser_.parse(simdjson::padded_string(text)).get(document_), simdjson::SUCCESS);
  }
  bool there() const { return there_; }
  simdjson::dom::element Set(const std::string& set) { return Get(Get(document_, "sets"), set); }

 private:
  simdjson::dom::parser parser_;
  simdjson::dom::element document_;
  bool there_ = false;
};

double Micros(Nanos time) { return static_cast<double>(time.ns()) / 1000; }

double At(simdjson::dom::element list, size_t i) { return Double(ListOf(list).at(i)); }

// A trace of a single rank keeps its own rank number here. The reference calls each worker0.
std::string WorkerOf(const capture::Capture& capture, RankId rank) {
  return "worker" + std::to_string(capture.ranks.size() == 1 ? 0 : rank.value());
}

// The reference stores stamps as doubles in microseconds since 1970, with a resolution of a quarter of a
// microsecond. Lockstep stores whole nanoseconds. With thousands of adjacent kernels, the difference per step
// reaches this value.
double Slack(const std::string& set) { return set == "ns_timestamps" ? 7 : 0.001; }

// A figure of the worker's one GPU. A null in the reference means unknown.
void ExpectFigure(simdjson::dom::element worker, const char* key, std::optional<double> got, double unit) {
  for (const simdjson::dom::element field : FieldsOf(Get(worker, key))) {
    double want = 0;
    if (field.get_double().get(want) == simdjson::SUCCESS) {
      EXPECT_NEAR(got.value_or(-1) * unit, want, 5e-5 * unit) << key;
    } else {
      EXPECT_FALSE(got) << key;
    }
  }
}

constexpr const char* kReferenceSets[] = {"bert_ddp_2rank", "param_dlrm_8rank", "ns_timestamps",
                                          "v100_step_pair_rank3", "resnet50_ddp_2rank"};

TEST(TensorBoardViews, TheOverviewEqualsTensorBoards) {
  Reference reference;
  if (!reference.there()) GTEST_SKIP() << "not tested: ../shared/reference/tb_plugin.json is not there";
  constexpr std::pair<const char*, Nanos analysis::StepBreakdown::*> kKinds[] = {
      {"Kernel", &analysis::StepBreakdown::kernel},
      {"Memcpy", &analysis::StepBreakdown::memcpy},
      {"Memset", &analysis::StepBreakdown::memset},
      {"Communication", &analysis::StepBreakdown::communication},
      {"Runtime", &analysis::StepBreakdown::runtime},
      {"DataLoader", &analysis::StepBreakdown::dataloader},
      {"CpuOp", &analysis::StepBreakdown::cpu_exec},
      {"Other", &analysis::StepBreakdown::other}};
  for (const std::string set : kReferenceSets) {
    const std::vector<std::string> files = FilesOf(set);
    if (files.empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    const capture::Capture capture = Read(files);
    for (const views::RankOverview& row : views::OverviewOf(capture, {}, views::OverviewRule::kTensorBoard)) {
      const simdjson::dom::element want =
          Get(Get(reference.Set(set), "workers"), WorkerOf(capture, row.rank));
      const std::vector<simdjson::dom::element> steps = ListOf(Get(want, "per_step_costs_us"));
      ASSERT_EQ(row.steps.size(), steps.size()) << set;
      for (size_t i = 0; i < steps.size(); ++i) {
        for (const auto& [name, kind] : kKinds) {
          EXPECT_NEAR(Micros(row.steps[i].breakdown.*kind), Double(Get(steps[i], name)), Slack(set))
              << set << " rank " << row.rank.value() << " " << name;
        }
      }
      ExpectFigure(want, "gpu_utilization", row.gpu_utilization, 1);
      ExpectFigure(want, "est_sm_efficiency", row.sm_efficiency, 1);
      ExpectFigure(want, "est_achieved_occupancy", row.occupancy, 100);
    }
  }
}

TEST(TensorBoardViews, TheDistributedViewEqualsTensorBoards) {
  Reference reference;
  if (!reference.there()) GTEST_SKIP() << "not tested: ../shared/reference/tb_plugin.json is not there";
  for (const std::string set : kReferenceSets) {
    const std::vector<std::string> files = FilesOf(set);
    if (files.empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    const capture::Capture capture = Read(files);
    const simdjson::dom::element want = Get(reference.Set(set), "distributed");
    const views::Distributed got = views::DistributedOf(
        {capture, {}, {}, {}}, views::CommunicationRule::kTensorBoard, views::OpRanks::kEach);
    for (const views::CommunicationStep& row : got.steps) {
      const std::string worker = WorkerOf(capture, row.rank);
      const std::string step = row.mean ? "all" : row.step ? std::to_string(*row.step) : "null";
      simdjson::dom::element values;
      // The reference truncates means to whole microseconds.
      const double slack = Slack(set) + (row.mean ? 1 : 0);
      if (want["steps_to_overlap"][step][worker].get(values) == simdjson::SUCCESS) {
        EXPECT_NEAR(Micros(row.computation), At(values, 0), slack) << set << " " << step << " " << worker;
        EXPECT_NEAR(Micros(row.overlap), At(values, 1), slack) << set << " " << step << " " << worker;
        EXPECT_NEAR(Micros(row.communication), At(values, 2), slack) << set << " " << step << " " << worker;
        EXPECT_NEAR(Micros(row.other), At(values, 3), slack) << set << " " << step << " " << worker;
      }
      ASSERT_EQ(want["steps_to_wait"][step][worker].get(values), simdjson::SUCCESS)
          << set << " " << step << " " << worker;
      EXPECT_NEAR(Micros(row.transfer), At(values, 0), slack) << set << " " << step << " " << worker;
      EXPECT_NEAR(Micros(row.wait), At(values, 1), slack) << set << " " << step << " " << worker;
    }
    size_t ops = 0;
    for (const simdjson::dom::element worker : FieldsOf(Get(want, "comm_ops")))
      ops += FieldsOf(worker).size();
    EXPECT_EQ(got.ops.size(), ops) << set;
    for (const views::CommunicationOp& op : got.ops) {
      const simdjson::dom::element of =
          Get(Get(Get(want, "comm_ops"), WorkerOf(capture, op.rank)), std::string(op.name));
      EXPECT_EQ(static_cast<double>(op.calls), Double(Get(of, "Calls"))) << set;
      EXPECT_EQ(static_cast<double>(op.bytes.value_or(-1)), Double(Get(of, "Total Size (bytes)"))) << set;
      EXPECT_NEAR(Micros(op.latency), Double(Get(of, "Total Latency (us)")), Slack(set)) << set;
      EXPECT_NEAR(Micros(*op.transfer), Double(Get(of, "Data Transfer Time (us)")), Slack(set)) << set;
    }
  }
}

}  // namespace
}  // namespace lockstep::views
