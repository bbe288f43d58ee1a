#include "sim/rank/truth.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "fmt/format.h"

namespace lockstep::sim {
namespace {

using foreign::cupti::ActivityKind;

const char* KindName(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::kConcurrentKernel:
      return "kernel";
    case ActivityKind::kMemcpy:
      return "memcpy";
    case ActivityKind::kMemset:
      return "memset";
    case ActivityKind::kRuntime:
      return "runtime";
    case ActivityKind::kDriver:
      return "driver";
    case ActivityKind::kSynchronization:
      return "synchronization";
    case ActivityKind::kExternalCorrelation:
      return "external_correlation";
    case ActivityKind::kCudaEvent:
      return "cuda_event";
    case ActivityKind::kDevice:
      return "device";
    case ActivityKind::kContext:
      return "context";
    case ActivityKind::kStream:
      return "stream";
    case ActivityKind::kMemory:
      return "memory_op";
    default:
      return "other";
  }
}

const char* OutcomeName(SimOutcome outcome) {
  switch (outcome) {
    case SimOutcome::kWritten:
      return "written";
    case SimOutcome::kDropped:
      return "dropped";
    default:
      return "incomplete";
  }
}

bool WriteFile(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  FILE* file = fopen(partial.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return (fclose(file) == 0) && written && rename(partial.c_str(), path.c_str()) == 0;
}

std::string JsonText(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', static_cast<char>(c)};
    else if (c < 0x20)
      out += fmt::format("\\u{:04x}", c);
    else
      out.push_back(static_cast<char>(c));
  }
  return out + "\"";
}

using Lists = std::map<SimOutcome, std::map<std::string, std::vector<int64_t>>>;

std::string RecordsText(const Lists& lists) {
  std::string out;
  for (SimOutcome outcome : {SimOutcome::kWritten, SimOutcome::kDropped, SimOutcome::kIncomplete}) {
    out += fmt::format("  \"{}\": {{", OutcomeName(outcome));
    const char* comma = "";
    if (auto it = lists.find(outcome); it != lists.end()) {
      for (const auto& [kind, stamps] : it->second) {
        out += fmt::format("{}\n    \"{}\": [{}]", comma, kind, fmt::join(stamps, ","));
        comma = ",";
      }
    }
    out += "},\n";
  }
  return out;
}

std::string CountsText(const Lists& lists) {
  std::map<std::string, std::map<SimOutcome, size_t>> counts;
  for (const auto& [outcome, kinds] : lists) {
    for (const auto& [kind, stamps] : kinds) counts[kind][outcome] = stamps.size();
  }
  std::string out = "  \"counts\": {";
  const char* comma = "";
  for (auto& [kind, by] : counts) {
    out += fmt::format("{}\n    \"{}\": {{\"written\": {}, \"dropped\": {}, \"incomplete\": {}}}", comma,
                       kind, by[SimOutcome::kWritten], by[SimOutcome::kDropped], by[SimOutcome::kIncomplete]);
    comma = ",";
  }
  return out + "},\n";
}

std::string FaultText(const Truth& t) {
  return fmt::format(
             "  \"fault\": {{\"kind\": \"{}\", \"rank\": {}, \"size\": {}, \"extra_ns_per_step\": {}, "
             "\"factor_ppm\": {}, \"from_step\": {}}},\n",
             std::string(FaultName(t.fault.kind)),
             t.fault.kind == FaultKind::kNone ? -1 : static_cast<int64_t>(t.fault.rank), t.fault.size,
             t.fault.extra.ns(), t.fault.factor_ppm, t.fault.from_step) +
         fmt::format("  \"healthy_step_ns\": {}, \"faulty_step_ns\": {}, \"lost_ns_per_step\": {},\n",
                     t.healthy_step.ns(), t.faulty_step.ns(), (t.faulty_step - t.healthy_step).ns());
}

std::string ClockText(const StampClock& clock) {
  return fmt::format(
      "  \"epoch\": {{\"realtime_ns\": {}, \"monotonic_ns\": {}}},\n"
      "  \"clock\": {{\"offset_ns\": {}, \"drift_ppb\": {}, \"reference_monotonic_ns\": {}}},\n",
      clock.realtime().ns(), clock.zero().ns(), clock.error().offset.ns(), clock.error().drift_ppb,
      clock.error().reference.ns());
}

}  // namespace

bool WriteTruth(const std::string& folder, const Truth& t) {
  Lists lists;
  std::string reads;
  for (size_t i = 0; i < t.ledger_size; ++i) {
    const SimLedgerEntry& e = t.ledger[i];
    if (e.outcome != SimOutcome::kDroppedRead)
      lists[e.outcome][KindName(e.kind)].push_back(e.stamp_ns);
    else if (e.count != 0)
      reads += fmt::format("{}[{},{}]", reads.empty() ? "" : ",", e.stamp_ns, e.count);
  }
  std::vector<int64_t> steps;
  for (VirtualTime start : t.step_starts) steps.push_back(start.ns());
  std::string text = fmt::format(
      "{{\n  \"schema\": \"lockstep.sim_truth/1\",\n  \"complete\": {},\n  \"rank\": {}, \"world_size\": {}, "
      "\"pid\": {}, \"host\": {}, "
      "\"seed\": {},\n",
      t.complete, t.rank, t.world_size, getpid(), JsonText(t.host), t.seed);
  text += FaultText(t) + ClockText(t.clock);
  text += fmt::format("  \"step_start_virtual_ns\": [{}],\n", fmt::join(steps, ","));
  text += CountsText(lists) + RecordsText(lists);
  text += fmt::format("  \"dropped_reads\": [{}]\n}}\n", reads);
  return WriteFile(fmt::format("{}/truth-{}.json", folder, t.rank), text);
}

bool WriteStamps(const std::string& folder, uint32_t rank, const RankHistory& history) {
  std::vector<TrueRecord> records = history.records;
  std::sort(records.begin(), records.end(), [](const TrueRecord& a, const TrueRecord& b) {
    return std::tie(a.step, a.op) < std::tie(b.step, b.op);
  });
  std::string text;
  for (const TrueRecord& r : records) {
    text += fmt::format("{} {} {} {} {}\n", r.step, r.op, r.correlation, r.start.ns(), r.end.ns());
  }
  return WriteFile(fmt::format("{}/{}.stamps", folder, rank), text);
}

}  // namespace lockstep::sim
