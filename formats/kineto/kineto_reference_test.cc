// Compares real traces with the numbers of an independent exact reference. Both are in ../shared, beside the
// repository and not in it.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "capture/model/capture.h"
#include "formats/input/read_input.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

using Intervals = std::vector<HostInterval>;

Intervals Union(Intervals parts) {
  std::sort(parts.begin(), parts.end(),
            [](const HostInterval& a, const HostInterval& b) { return a.start < b.start; });
  Intervals merged;
  for (const HostInterval& p : parts) {
    if (p.end <= p.start) continue;
    if (!merged.empty() && p.start <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, p.end);
    } else {
      merged.push_back(p);
    }
  }
  return merged;
}

int64_t Length(const Intervals& parts) {
  int64_t sum = 0;
  for (const HostInterval& p : parts) sum += p.length().ns();
  return sum;
}

int64_t UnionLength(Intervals a, const Intervals& b) {
  a.insert(a.end(), b.begin(), b.end());
  return Length(Union(std::move(a)));
}

// The numbers of exact.json for a rank. Times are in ns.
struct Numbers {
  int64_t kernels = 0, communication_kernels = 0, copies = 0;
  int64_t span = 0, idle = 0, compute = 0, communication = 0, memory = 0, overlap = 0, kernel_sum = 0;
  bool operator==(const Numbers&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Numbers& n) {
  return out << "kernels " << n.kernels << " communication kernels " << n.communication_kernels << " copies "
             << n.copies << " span " << n.span << " idle " << n.idle << " compute " << n.compute
             << " communication " << n.communication << " memory " << n.memory << " overlap " << n.overlap
             << " kernel sum " << n.kernel_sum;
}

Numbers Measure(const std::vector<const capture::RankData*>& devices) {
  Numbers n;
  Intervals compute, communication, memory;
  HostTime first = HostTime::Max();
  HostTime last = HostTime::Min();
  for (const capture::RankData* rank : devices) {
    for (const capture::DeviceActivity& a : rank->activities) {
      first = std::min(first, a.start);
      last = std::max(last, a.end);
      const HostInterval interval{a.start, a.end};
      if (a.kind != capture::ActivityKind::kKernel) {
        ++n.copies;
        memory.push_back(interval);
        continue;
      }
      ++n.kernels;
      n.kernel_sum += interval.length().ns();
      n.communication_kernels += a.communication ? 1 : 0;
      (a.communication ? communication : compute).push_back(interval);
    }
  }
  compute = Union(std::move(compute));
  communication = Union(std::move(communication));
  memory = Union(std::move(memory));
  n.span = (last - first).ns();
  n.compute = Length(compute);
  n.communication = Length(communication);
  n.memory = Length(memory);
  Intervals busy = compute;
  busy.insert(busy.end(), memory.begin(), memory.end());
  n.idle = n.span - UnionLength(busy, communication);
  n.overlap = n.compute + n.communication - UnionLength(compute, communication);
  return n;
}

int64_t Nanoseconds(simdjson::dom::element rank, const char* key) {
  double us = 0;
  EXPECT_EQ(rank[key].get(us), simdjson::SUCCESS) << key;
  return std::llround(us * 1000);
}

Numbers Expected(simdjson::dom::element rank) {
  Numbers n;
  n.kernels = rank["n_kernels"].get_int64().value();
  n.communication_kernels = rank["n_comm"].get_int64().value();
  n.copies = rank["n_memops"].get_int64().value();
  n.span = Nanoseconds(rank, "span_us");
  n.idle = Nanoseconds(rank, "idle_us");
  n.compute = Nanoseconds(rank, "compute_union_us");
  n.communication = Nanoseconds(rank, "comm_union_us");
  n.memory = Nanoseconds(rank, "mem_union_us");
  n.overlap = Nanoseconds(rank, "overlap_us");
  n.kernel_sum = Nanoseconds(rank, "sum_kernel_dur_us");
  return n;
}

class KinetoReference : public ::testing::TestWithParam<const char*> {};

TEST_P(KinetoReference, EveryRankEqualsTheReferenceToTheNanosecond) {
  const fs::path shared = fs::path(LOCKSTEP_SOURCE_DIR).parent_path() / "shared";
  const fs::path folder = shared / "traces" / GetParam();
  if (!fs::exists(folder)) {
    std::cout << "../shared/traces/" << GetParam() << " is not here: nothing compared\n";
    return;
  }
  simdjson::dom::parser parser;
  simdjson::dom::element exact;
  ASSERT_EQ(parser.load((shared / "reference" / "exact.json").string()).get(exact), simdjson::SUCCESS);
  const std::vector<std::string> paths = {folder.string()};
  auto capture = ReadInput(paths, {.threads = 2});
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(capture->notes.empty()) << capture->notes.front();
  simdjson::dom::array expected = exact["sets"][GetParam()]["ranks"].get_array().value();
  std::set<RankId> ranks;
  for (const capture::RankData& rank : capture->ranks) {
    ranks.insert(rank.rank);
    EXPECT_TRUE(rank.losses.empty()) << rank.losses.front().reason;
  }
  ASSERT_EQ(ranks.size(), expected.size());
  auto rank = ranks.begin();
  for (simdjson::dom::element reference : expected) {
    std::vector<const capture::RankData*> devices;
    for (const capture::RankData& data : capture->ranks) {
      if (data.rank == *rank) devices.push_back(&data);
    }
    EXPECT_EQ(Measure(devices), Expected(reference)) << "rank " << rank->value();
    ++rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, KinetoReference,
                         ::testing::Values("a100_collective_args", "bert_ddp_2rank", "ns_timestamps",
                                           "param_dlrm_8rank", "resnet50_ddp_2rank", "v100_2020_allreduce",
                                           "v100_step_pair_rank1", "v100_step_pair_rank3"),
                         [](const auto& set) { return std::string(set.param); });

}  // namespace
}  // namespace lockstep::formats
