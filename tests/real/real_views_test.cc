// Compares the views of real traces, if ../shared is there, with sums over the file's rows. The sums are
// computed here in another, slower way.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/time/occupancy.h"
#include "formats/common/byte_source.h"
#include "tests/real/real_trace_fixture.h"
#include "views/device/kernels.h"
#include "views/device/links.h"
#include "views/host/flame.h"
#include "views/host/memory.h"
#include "views/host/operators.h"

namespace lockstep::views {
namespace {

std::string TextOf(const std::string& path) {
  auto opened = formats::OpenTrace(path);
  EXPECT_TRUE(opened.ok()) << opened.status();
  std::string text, piece(1 << 20, '\0');
  while (const size_t n = opened.ok() ? opened->source->Read(piece) : 0) text.append(piece, 0, n);
  return text;
}

// A row of the file; times in nanoseconds.
struct Event {
  std::string category, name;
  int64_t start = 0, end = 0;
  std::string thread;
  int64_t correlation = -1;
  int64_t bytes = 0;  // only for "[memory]"
  int64_t memory_device = 0;
  double blocks = -1, occupancy = -1;
};

struct File {
  std::vector<Event> operators, calls, activities, memory;
  uint64_t backward_arrows = 0;
};

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

int64_t NanosOf(simdjson::dom::element value) {
  int64_t whole = 0;
  if (value.get_int64().get(whole) == simdjson::SUCCESS) return whole * 1000;
  // A double holds times since 1970 only to a quarter of a microsecond.
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS) return 0;
  return static_cast<int64_t>(std::llround(static_cast<long double>(number) * 1000));
}

std::string Word(simdjson::dom::element row, const char* key) {
  simdjson::dom::element value;
  if (row[key].get(value) != simdjson::SUCCESS) return "";
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? std::string(text) : simdjson::to_string(value);
}

double Number(simdjson::dom::element args, const char* key, double otherwise) {
  double value = 0;
  return args[key].get_double().get(value) == simdjson::SUCCESS ? value : otherwise;
}

Event EventOf(simdjson::dom::element row, simdjson::dom::element args) {
  Event e{.category = Lower(Word(row, "cat")), .name = Word(row, "name"), .thread = Word(row, "tid")};
  simdjson::dom::element time;
  if (row["ts"].get(time) == simdjson::SUCCESS) e.start = NanosOf(time);
  e.end = e.start + (row["dur"].get(time) == simdjson::SUCCESS ? NanosOf(time) : 0);
  e.correlation = static_cast<int64_t>(Number(args, "correlation", -1));
  e.blocks = Number(args, "blocks per SM", -1);
  e.occupancy = Number(args, "est. achieved occupancy %", -1);
  e.bytes = static_cast<int64_t>(Number(args, "Bytes", 0));
  e.memory_device =
      Number(args, "Device Type", 0) == 0 ? -1 : static_cast<int64_t>(Number(args, "Device Id", 0));
  return e;
}

File Parsed(const std::string& path) {
  File file;
  simdjson::dom::parser parser;
  const simdjson::padded_string text(TextOf(path));
  simdjson::dom::element document;
  EXPECT_EQ(parser.parse(text).get(document), simdjson::SUCCESS);
  simdjson::dom::array rows;
  EXPECT_EQ(document["traceEvents"].get_array().get(rows), simdjson::SUCCESS);
  const simdjson::padded_string none(std::string("{}"));
  simdjson::dom::parser none_parser;
  simdjson::dom::element no_args;
  EXPECT_EQ(none_parser.parse(none).get(no_args), simdjson::SUCCESS);
  for (const simdjson::dom::element row : rows) {
    simdjson::dom::element args = no_args;
    if (row["args"].get(args) != simdjson::SUCCESS) args = no_args;
    Event e = EventOf(row, args);
    const std::string phase = Word(row, "ph");
    if (e.category == "fwdbwd" && phase == "s") ++file.backward_arrows;
    if (e.name == "[memory]") file.memory.push_back(e);
    if (phase != "X") continue;
    const bool step = e.name.starts_with("ProfilerStep#");
    if (step) e.name = "ProfilerStep";  // all steps are one row
    if (e.category == "operator" || e.category == "cpu_op" || e.category == "user_annotation" || step)
      file.operators.push_back(e);
    if (e.category == "runtime" || e.category == "cuda_runtime" || e.category == "cuda_driver")
      file.calls.push_back(e);
    if (e.category == "kernel" || e.category == "memcpy" || e.category == "memset" ||
        e.category == "gpu_memcpy" || e.category == "gpu_memset") {
      file.activities.push_back(e);
    }
  }
  return file;
}

struct Sums {
  uint64_t calls = 0;
  int64_t host = 0, self_host = 0, device = 0, self_device = 0;
  int64_t increase = 0, self_increase = 0;
  uint64_t allocations = 0;
};

// Returns the thread's operators around a moment, the innermost last. Of two operators, the one that begins
// later or ends earlier is the inner one.
std::vector<const Event*> Around(const std::vector<const Event*>& operators, int64_t at) {
  std::vector<const Event*> around;
  for (const Event* op : operators) {
    if (op->start <= at && at <= op->end) around.push_back(op);
  }
  std::stable_sort(around.begin(), around.end(), [](const Event* a, const Event* b) {
    return std::tie(a->start, b->end) < std::tie(b->start, a->end);
  });
  return around;
}

std::map<std::string, std::vector<const Event*>> ByThread(const std::vector<Event>& events) {
  std::map<std::string, std::vector<const Event*>> by;
  for (const Event& e : events) by[e.thread].push_back(&e);
  return by;
}

// The time between two consecutive stamps of a thread belongs to the innermost operator.
void AddSelfHost(std::vector<const Event*> operators, std::map<std::string, Sums>& sums) {
  std::stable_sort(operators.begin(), operators.end(), [](const Event* a, const Event* b) {
    return std::tie(a->start, b->end) < std::tie(b->start, a->end);
  });
  std::vector<int64_t> stamps;
  for (const Event* op : operators) stamps.insert(stamps.end(), {op->start, op->end});
  std::sort(stamps.begin(), stamps.end());
  std::vector<const Event*> open;
  size_t next = 0;
  for (size_t i = 0; i + 1 < stamps.size(); ++i) {
    while (next < operators.size() && operators[next]->start <= stamps[i]) open.push_back(operators[next++]);
    std::erase_if(open, [&](const Event* op) { return op->end <= stamps[i]; });
    if (!open.empty()) sums[open.back()->name].self_host += stamps[i + 1] - stamps[i];
  }
}

std::map<std::string, Sums> OperatorSums(const File& file) {
  std::map<std::string, Sums> sums;
  const auto threads = ByThread(file.operators);
  for (const Event& op : file.operators) {
    ++sums[op.name].calls;
    sums[op.name].host += op.end - op.start;
  }
  for (const auto& [thread, operators] : threads) AddSelfHost(operators, sums);
  std::map<int64_t, const Event*> call_of;
  for (const Event& call : file.calls) {
    const auto [it, fresh] = call_of.try_emplace(call.correlation, &call);
    if (!fresh && call.start < it->second->start) it->second = &call;
  }
  for (const Event& a : file.activities) {
    const auto call = call_of.find(a.correlation);
    if (call == call_of.end() || !threads.contains(call->second->thread)) continue;
    const auto around = Around(threads.at(call->second->thread), call->second->start);
    for (const Event* op : around) sums[op->name].device += a.end - a.start;
    if (!around.empty()) sums[around.back()->name].self_device += a.end - a.start;
  }
  return sums;
}

constexpr const char* kWithOperators[] = {
    "tb_plugin_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "tb_plugin_samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz", "ns_timestamps",
    "v100_step_pair_rank3"};

// With stamps of whole microseconds, an operator may seem to end after the operator around it. A call may
// seem to begin before it.
int64_t Allowed(uint64_t calls) { return 1000 + 2000 * static_cast<int64_t>(calls); }

// Returns the time of all places with that frame innermost, by the frame's name.
std::map<std::string, int64_t> FlameSums(const capture::Capture& capture, views::FlameKind kind) {
  std::map<std::string, int64_t> sums;
  for (const views::FlameNode& node : views::BuildFlame(capture, {.kind = kind}).nodes)
    sums[std::string(node.name)] += node.self.ns();
  return sums;
}

TEST(RealViews, OperatorsEqualTheSumsOfTheFilesRows) {
  for (const std::string set : kWithOperators) {
    const std::vector<std::string> files = FilesOf(set);
    if (files.empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    const std::map<std::string, Sums> sums = OperatorSums(Parsed(files[0]));
    const capture::Capture capture = Read({files[0]});
    std::map<std::string, Sums> seen;
    for (const views::OperatorRow& row : views::OperatorsOf(capture, {}).rows) {
      Sums& s = seen[std::string(row.name)];
      s.calls += row.calls;
      s.host += row.host.ns();
      s.self_host += row.self_host.ns();
      s.device += row.device.ns();
      s.self_device += row.self_device.ns();
    }
    EXPECT_EQ(seen.size(), sums.size()) << set;
    std::map<std::string, int64_t> flames = FlameSums(capture, views::FlameKind::kHost);
    for (const auto& [name, want] : sums) {
      const Sums& got = seen[name];
      EXPECT_EQ(got.calls, want.calls) << set << " " << name;
      EXPECT_NEAR(static_cast<double>(got.host), static_cast<double>(want.host), 1000) << set << " " << name;
      EXPECT_NEAR(static_cast<double>(got.self_host), static_cast<double>(want.self_host),
                  static_cast<double>(Allowed(want.calls)))
          << set << " " << name;
      // All steps are one frame of a flame graph.
      if (name != "ProfilerStep") {
        EXPECT_EQ(flames[name], got.self_host) << set << " " << name;
      }
      EXPECT_NEAR(static_cast<double>(got.device), static_cast<double>(want.device), 1000)
          << set << " " << name;
      EXPECT_NEAR(static_cast<double>(got.self_device), static_cast<double>(want.self_device), 1000)
          << set << " " << name;
    }
  }
}

TEST(RealViews, KernelsEqualTheSumsOfTheFilesRows) {
  for (const std::string set : kWithOperators) {
    const std::vector<std::string> files = FilesOf(set);
    if (files.empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    struct Kernel {
      uint64_t calls = 0;
      int64_t total = 0, least = INT64_MAX, most = 0;
      double blocks = 0, occupancy = 0;
    };
    std::map<std::string, Kernel> kernels;
    for (const Event& a : Parsed(files[0]).activities) {
      if (a.category != "kernel") continue;
      Kernel& k = kernels[a.name];
      const int64_t length = a.end - a.start;
      ++k.calls;
      k.total += length;
      k.least = std::min(k.least, length);
      k.most = std::max(k.most, length);
      k.blocks += a.blocks * static_cast<double>(length);
      k.occupancy += a.occupancy * static_cast<double>(length);
    }
    const capture::Capture capture = Read({files[0]});
    const std::vector<views::KernelRow> rows = views::KernelsOf(capture, {});
    EXPECT_EQ(rows.size(), kernels.size()) << set;
    std::map<std::string, int64_t> flames = FlameSums(capture, views::FlameKind::kDevice);
    for (const views::KernelRow& row : rows) {
      const Kernel& k = kernels[std::string(row.name)];
      EXPECT_NEAR(static_cast<double>(flames[std::string(row.name)]), static_cast<double>(k.total), 1000);
      EXPECT_EQ(row.calls, k.calls) << set << " " << row.name;
      EXPECT_NEAR(static_cast<double>(row.total.ns()), static_cast<double>(k.total), 1000) << row.name;
      EXPECT_NEAR(static_cast<double>(row.least.ns()), static_cast<double>(k.least), 1000) << row.name;
      EXPECT_NEAR(static_cast<double>(row.most.ns()), static_cast<double>(k.most), 1000) << row.name;
      if (k.total == 0) continue;
      EXPECT_NEAR(row.blocks_per_sm.value_or(-1), k.blocks / static_cast<double>(k.total),
                  1e-3 * (1 + k.blocks / static_cast<double>(k.total)))
          << row.name;
      EXPECT_NEAR(row.occupancy.value_or(-1), k.occupancy / static_cast<double>(k.total) / 100, 1e-4)
          << row.name;
    }
  }
}

TEST(RealViews, MemoryEqualsTheSumsOfTheFilesRows) {
  const std::vector<std::string> files =
      FilesOf("tb_plugin_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz");
  if (files.empty()) GTEST_SKIP() << "not tested: the samples are not there (../shared/traces)";
  File file = Parsed(files[0]);
  std::erase_if(file.operators,
                [](const Event& e) { return e.category == "user_annotation" || e.name == "ProfilerStep"; });
  const auto threads = ByThread(file.operators);
  std::map<std::pair<int64_t, std::string>, Sums> sums;
  for (const Event& m : file.memory) {
    if (!threads.contains(m.thread)) continue;
    const auto around = Around(threads.at(m.thread), m.start);
    for (const Event* op : around) {
      Sums& s = sums[{m.memory_device, op->name}];
      s.increase += m.bytes;
      s.allocations += m.bytes > 0 ? 1 : 0;
    }
    if (!around.empty()) sums[{m.memory_device, around.back()->name}].self_increase += m.bytes;
  }
  const capture::Capture capture = Read(files);
  const views::Memory memory = views::MemoryOf(capture);
  EXPECT_EQ(memory.allocator_events, file.memory.size());
  EXPECT_EQ(memory.without_address, file.memory.size()) << "PyTorch 1.9";
  EXPECT_TRUE(memory.lives.empty());
  size_t rows = 0;
  for (const auto& [key, want] : sums) rows += want.increase != 0 || want.allocations != 0 ? 1 : 0;
  EXPECT_GE(memory.operators.size(), rows);
  for (const views::OperatorMemory& got : memory.operators) {
    const Sums& want = sums[{got.place.device, std::string(got.name)}];
    EXPECT_EQ(got.increase, want.increase) << got.name;
    EXPECT_EQ(got.self_increase, want.self_increase) << got.name;
    EXPECT_EQ(got.allocations, want.allocations) << got.name;
  }
}

TEST(RealViews, OccupancyEqualsKinetosEstimate) {
  uint64_t all = 0, agree = 0, too_much_shared = 0;
  for (const std::string set :
       {"param_dlrm_8rank", "a100_collective_args", "ns_timestamps", "v100_step_pair_rank1",
        "v100_step_pair_rank3", "v100_2020_allreduce",
        "tb_plugin_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"}) {
    const std::vector<std::string> files = FilesOf(set);
    if (files.empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    const capture::Capture capture = Read(files);
    for (const capture::RankData& rank : capture.ranks) {
      for (const capture::DeviceActivity& activity : rank.activities) {
        if (activity.kind != capture::ActivityKind::kKernel || activity.detail >= rank.kernel_details.size())
          continue;
        capture::KernelDetail detail = rank.kernel_details[activity.detail];
        if (detail.occupancy_percent < 0 || !rank.has_properties) continue;
        const float stated = detail.occupancy_percent;
        detail.occupancy_percent = -1;
        const double estimate = analysis::EstimatedOccupancy(detail, rank.properties).value_or(-1) * 100;
        // Above 48 KiB Kineto does not use the kernel's extended limit, and its occupancy is 0.
        if (detail.static_shared_bytes + detail.dynamic_shared_bytes > 49152) {
          ++too_much_shared;
          EXPECT_EQ(stated, 0) << set;
          EXPECT_GT(estimate, 0) << set;
          continue;
        }
        ++all;
        agree += std::fabs(estimate - stated) <= 1 ? 1 : 0;
      }
    }
  }
  std::cout << agree << " of " << all << " kernels within a point; " << too_much_shared
            << " with more than 48 KiB of shared memory, of which Kineto says 0\n";
  EXPECT_GT(all, 50000u);
  EXPECT_EQ(agree, all);
}

TEST(RealViews, EveryFwdbwdArrowIsALink) {
  for (const std::string set : {"ns_timestamps", "a100_collective_args"}) {
    const std::vector<std::string> files = FilesOf(set);
    if (files.empty()) GTEST_SKIP() << "not tested: " << set << " is not there (../shared/traces)";
    EXPECT_EQ(views::BackwardLinksOf(Read(files)).size(), Parsed(files[0]).backward_arrows) << set;
  }
}

}  // namespace
}  // namespace lockstep::views
