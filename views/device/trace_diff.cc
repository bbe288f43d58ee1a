#include "views/device/trace_diff.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "views/host/in_step.h"
#include "views/host/process.h"

namespace lockstep::views {
namespace {

using capture::ActivityKind;
using capture::FrameKind;
using capture::kNone;

struct Sum {
  uint64_t count = 0;
  Nanos total;
};
using Sums = absl::flat_hash_map<std::string, Sum>;

// Sums over one capture. With kSteps, only items in used steps count.
class Summing {
 public:
  enum class Scope { kAll, kSteps };
  Summing(const DiffInput& input, Scope scope)
      : capture_(input.capture), steps_(input.steps), scope_(scope) {}

  Sums Of(DiffKey key) {
    switch (key) {
      case DiffKey::kKernel:
        AddActivities();
        break;
      case DiffKey::kOperator:
        AddOperators();
        break;
      case DiffKey::kCollective:
        AddCollectives();
        break;
      case DiffKey::kStep:
        AddSteps();
        break;
    }
    return std::move(sums_);
  }

 private:
  void Add(std::string&& key, Nanos length) {
    Sum& sum = sums_[std::move(key)];
    ++sum.count;
    sum.total += length;
  }
  bool Counts(uint32_t entry, uint32_t activity) const {
    return scope_ == Scope::kAll || steps_.ranks[entry].of_activity[activity] >= 0;
  }

  void AddActivities() {
    for (uint32_t entry = 0; entry < capture_.ranks.size(); ++entry) {
      const capture::RankData& rank = capture_.ranks[entry];
      for (uint32_t i = 0; i < rank.activities.size(); ++i) {
        const capture::DeviceActivity& a = rank.activities[i];
        if (!Counts(entry, i)) continue;
        std::string name(capture_.Text(a.name));
        if (name.empty())
          name = a.kind == ActivityKind::kMemcpy   ? "Memcpy"
                 : a.kind == ActivityKind::kMemset ? "Memset"
                                                   : "(unnamed)";
        Add(std::move(name), a.end - a.start);
      }
    }
  }

  // True if the time is in a used step of the process.
  bool InStep(uint32_t entry, HostTime start) const {
    return scope_ == Scope::kAll || IsInStep(steps_.ranks[entry].steps, start);
  }

  void AddOperators() {
    for (const Process& process : ProcessesOf(capture_)) {
      if (process.frames == nullptr) continue;
      for (const capture::HostFrame& frame : process.frames->frames) {
        if (frame.kind != FrameKind::kOperator && frame.kind != FrameKind::kAnnotation) continue;
        // Each step has its own name, so all steps count under one key.
        const std::string_view name = capture_.Text(frame.name);
        if (InStep(process.entries[0], frame.start))
          Add(name.starts_with("ProfilerStep#") ? "ProfilerStep" : std::string(name),
              frame.end - frame.start);
      }
    }
  }

  void AddCollectives() {
    for (uint32_t entry = 0; entry < capture_.ranks.size(); ++entry) {
      const capture::RankData& rank = capture_.ranks[entry];
      for (const capture::Collective& c : rank.collectives) {
        if (c.activity == kNone || !Counts(entry, c.activity)) continue;
        const int32_t size = c.group == kNone ? 0 : capture_.groups[c.group].size;
        const std::string who =
            size == 0 ? "an unknown group" : absl::StrCat(size, size == 1 ? " rank" : " ranks");
        const capture::DeviceActivity& a = rank.activities[c.activity];
        Add(absl::StrCat(std::string(capture::CollectiveOpName(c.op)), " of ", who), a.end - a.start);
      }
    }
  }

  void AddSteps() {
    for (const analysis::RankSteps& rank : steps_.ranks) {
      for (size_t i = 0; i < rank.steps.size(); ++i) {
        const analysis::RankStep& step = rank.steps[i];
        Add(absl::StrCat("step ", i), std::max(step.host.end, step.device_end) - step.host.start);
      }
    }
  }

  const capture::Capture& capture_;
  const analysis::Steps& steps_;
  const Scope scope_;
  Sums sums_;
};

Change ChangeOf(const DiffRow& row, uint64_t parts_before, uint64_t parts_after) {
  if (row.before.count == 0) return Change::kAdded;
  if (row.after.count == 0) return Change::kDeleted;
  // Compares the counts per part, without rounding.
  const uint64_t before = row.before.count * parts_after;
  const uint64_t after = row.after.count * parts_before;
  return after > before ? Change::kIncreased : after < before ? Change::kDecreased : Change::kUnchanged;
}

}  // namespace

TraceDiff DiffOf(const DiffInput& before, const DiffInput& after, DiffKey key) {
  TraceDiff diff;
  diff.per_step =
      before.steps.found() && after.steps.found() && before.steps.count() > 0 && after.steps.count() > 0;
  diff.steps_before = before.steps.count();
  diff.steps_after = after.steps.count();
  diff.ranks_before = before.capture.ranks.size();
  diff.ranks_after = after.capture.ranks.size();
  // A row already stands for one step.
  const bool by_steps = diff.per_step && key != DiffKey::kStep;
  const uint64_t parts_before = std::max<uint64_t>(1, diff.ranks_before * (by_steps ? diff.steps_before : 1));
  const uint64_t parts_after = std::max<uint64_t>(1, diff.ranks_after * (by_steps ? diff.steps_after : 1));
  const auto scope = diff.per_step ? Summing::Scope::kSteps : Summing::Scope::kAll;

  absl::flat_hash_map<std::string, DiffRow> rows;
  for (const auto& [name, sum] : Summing(before, scope).Of(key)) {
    rows[name].before = {sum.count, sum.total, sum.total / static_cast<int64_t>(parts_before)};
  }
  for (const auto& [name, sum] : Summing(after, scope).Of(key)) {
    rows[name].after = {sum.count, sum.total, sum.total / static_cast<int64_t>(parts_after)};
  }
  for (auto& [name, row] : rows) {
    row.key = name;
    row.difference = row.after.mean - row.before.mean;
    row.change = ChangeOf(row, parts_before, parts_after);
    diff.rows.push_back(std::move(row));
  }
  std::sort(diff.rows.begin(), diff.rows.end(), [](const DiffRow& a, const DiffRow& b) {
    const auto size = [](const DiffRow& r) {
      return r.difference < Nanos() ? Nanos() - r.difference : r.difference;
    };
    return std::tuple(size(b), a.key) < std::tuple(size(a), b.key);
  });
  return diff;
}

}  // namespace lockstep::views
