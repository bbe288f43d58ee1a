#include "views/device/tensorboard_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/prepare/launches.h"

namespace lockstep::views {
namespace {

using capture::ActivityKind;
using capture::HostFrame;
using capture::kNone;

constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr double kStub = 0.8;

constexpr std::array<std::string_view, 5> kOps = {"nccl:all_gather", "nccl:all_reduce", "nccl:broadcast",
                                                  "nccl:reduce", "nccl:reduce_scatter"};

bool IsOp(std::string_view name) { return std::binary_search(kOps.begin(), kOps.end(), name); }

bool IsDataLoader(std::string_view name) {
  return (name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__")) ||
         name.starts_with("enumerate(DataPipe)#");
}

std::optional<int64_t> NumberIn(std::string_view name) {
  int64_t number = 0;
  const std::string_view digits = name.substr(std::min(name.size(), kStepPrefix.size()));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The device activities that a step's calls launched.
struct OnDevice {
  HostTime start = HostTime::Max();
  HostTime end = HostTime::Min();
  uint64_t activities = 0;
};

std::vector<TensorBoardStep> HostSteps(const capture::Capture& capture, const Process& process) {
  std::vector<TensorBoardStep> steps;
  for (const uint32_t entry : process.entries) {
    for (const capture::HostRange& range : capture.ranks[entry].ranges) {
      const std::string_view name = capture.Text(range.name);
      if (name.starts_with(kStepPrefix)) steps.push_back({NumberIn(name), {range.start, range.end}});
    }
    // Each entry of a process may hold the process's ranges.
    if (!steps.empty()) break;
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto& a, const auto& b) { return a.time.start < b.time.start; });
  return steps;
}

// Returns the interval of the host's operators, or without operators that of the device.
HostInterval WholeOf(const capture::Capture& capture, const Process& process) {
  HostInterval whole{HostTime::Max(), HostTime::Min()};
  const auto add = [&](HostTime start, HostTime end) {
    whole.start = std::min(whole.start, start);
    whole.end = std::max(whole.end, end);
  };
  if (process.frames != nullptr) {
    for (const HostFrame& f : process.frames->frames) {
      if (f.kind == capture::FrameKind::kOperator) add(f.start, f.end);
    }
  }
  if (whole.start <= whole.end) return whole;
  for (const uint32_t entry : process.entries) {
    for (const capture::DeviceActivity& a : capture.ranks[entry].activities) add(a.start, a.end);
  }
  return whole;
}

// Returns the device work of each step, by the step that contains its call. `before` receives the end of the
// work that ran before the first step's work.
std::vector<OnDevice> LaunchedIn(const capture::Capture& capture, const Process& process,
                                 const std::vector<TensorBoardStep>& steps, HostTime& before) {
  std::vector<OnDevice> of(steps.size());
  std::vector<HostInterval> outside;
  for (const uint32_t entry : process.entries) {
    const capture::RankData& rank = capture.ranks[entry];
    const analysis::CallIndex calls(rank);
    for (const capture::DeviceActivity& a : rank.activities) {
      const uint32_t call = calls.Of(a.correlation);
      size_t step = steps.size();
      if (call != kNone) {
        const capture::ApiCall& c = rank.api_calls[call];
        const auto later =
            std::upper_bound(steps.begin(), steps.end(), c.start,
                             [](HostTime at, const TensorBoardStep& s) { return at < s.time.start; });
        if (later != steps.begin() && c.end <= std::prev(later)->time.end)
          step = static_cast<size_t>(later - steps.begin() - 1);
      }
      if (step == steps.size()) {
        outside.push_back({a.start, a.end});
        continue;
      }
      of[step].start = std::min(of[step].start, a.start);
      of[step].end = std::max(of[step].end, a.end);
      ++of[step].activities;
    }
  }
  before = steps.front().time.start;
  if (of.front().activities == 0) return of;
  for (const HostInterval& a : outside) {
    if (a.end < of.front().start) before = std::max(before, a.end);
  }
  return of;
}

size_t StepsToKeep(const std::vector<OnDevice>& on_device) {
  size_t last = on_device.size();
  while (last > 0 && on_device[last - 1].activities == 0) --last;
  if (last == 0 || on_device.size() == 1) return on_device.size();
  if (last > 1 && static_cast<double>(on_device[last - 2].activities) * kStub >
                      static_cast<double>(on_device[last - 1].activities))
    --last;
  return last;
}

// The kernels of the launches that Lockstep wrote annotations around, by thread and time of the launch.
class JoinedKernels {
 public:
  JoinedKernels(const capture::Capture& capture, const Process& process) {
    for (const uint32_t entry : process.entries) {
      const capture::RankData& rank = capture.ranks[entry];
      const analysis::CallIndex calls(rank);
      for (const capture::DeviceActivity& a : rank.activities) {
        const uint32_t call = a.kind == ActivityKind::kKernel ? calls.Of(a.correlation) : kNone;
        if (call == kNone) continue;
        const capture::ApiCall& launch = rank.api_calls[call];
        kernels_[{launch.thread, launch.start}].push_back({a.start, a.end});
      }
    }
  }
  // Null: no kernel is joined to the frame.
  const std::vector<HostInterval>* Of(const HostFrame& frame) const {
    if (frame.kind != capture::FrameKind::kInferred) return nullptr;
    const auto found = kernels_.find({frame.thread, frame.start});
    return found == kernels_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::pair<ThreadId, HostTime>, std::vector<HostInterval>> kernels_;
};

bool Earlier(const HostInterval& a, const HostInterval& b) {
  return std::tie(a.start, b.end) < std::tie(b.start, a.end);
}

// Returns the kernels that are joined to any operation, in the order of Earlier().
std::vector<HostInterval> KernelsOfOps(const capture::Capture& capture, const Process& process) {
  const JoinedKernels joined(capture, process);
  std::vector<HostInterval> all;
  for (const HostFrame& f : process.frames->frames) {
    const std::vector<HostInterval>* kernels = IsOp(capture.Text(f.name)) ? joined.Of(f) : nullptr;
    if (kernels != nullptr) all.insert(all.end(), kernels->begin(), kernels->end());
  }
  std::sort(all.begin(), all.end(), Earlier);
  return all;
}

size_t BytesOfType(std::string_view type) {
  if (type == "long int") return 8;
  if (type == "float" || type == "int") return 4;
  if (type == "c10::Half" || type == "c10::BFloat16") return 2;
  return type == "unsigned char" ? 1 : 0;
}

// Computes bytes from lists in the form of capture::FrameDetail: "[[8, 384], []]" and "[\"float\", \"int\"]".
int64_t BytesOf(std::string_view shapes, std::string_view types) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t bytes = 0;
  int depth = 0;
  size_t type_at = 0;
  int64_t elements = 1;
  for (size_t i = 0; i < shapes.size();) {
    const char c = shapes[i];
    if (c >= '0' && c <= '9') {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(shapes.data() + i, shapes.data() + shapes.size(), size);
      elements = error != std::errc() || (size > 0 && elements > kMost / size) ? 0 : elements * size;
      i = static_cast<size_t>(end - shapes.data());
      continue;
    }
    if (c == '[' && ++depth == 2) elements = 1;
    if (c == ']' && depth-- == 2) {
      const size_t open = types.find('"', type_at);
      const size_t close = open == std::string_view::npos ? open : types.find('"', open + 1);
      if (close == std::string_view::npos) return bytes;
      const auto width = static_cast<int64_t>(BytesOfType(types.substr(open + 1, close - open - 1)));
      if (elements < kMost / 8 && bytes < kMost) bytes += elements * width;
      type_at = close + 1;
    }
    ++i;
  }
  return bytes;
}

}  // namespace

std::vector<TensorBoardStep> TensorBoardSteps(const capture::Capture& capture, const Process& process) {
  std::vector<TensorBoardStep> steps = HostSteps(capture, process);
  if (steps.empty()) {
    const HostInterval whole = WholeOf(capture, process);
    if (whole.start > whole.end) return {};
    steps.push_back({std::nullopt, whole});
  }
  HostTime before;
  const std::vector<OnDevice> on_device = LaunchedIn(capture, process, steps, before);
  const bool any =
      std::any_of(on_device.begin(), on_device.end(), [](const OnDevice& d) { return d.activities != 0; });
  if (!any) return steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    HostInterval& time = steps[i].time;
    time.start = std::max(before, time.start);
    time.end = std::max({time.start, time.end, on_device[i].end});
    before = time.end;
  }
  steps.resize(StepsToKeep(on_device));
  return steps;
}

analysis::StepKinds TensorBoardKinds(const capture::Capture& capture, const Process& process) {
  std::vector<HostInterval> kernel, memcpy, memset, communication, runtime, loader, cpu;
  const std::vector<HostInterval> joined = KernelsOfOps(capture, process);
  for (const uint32_t entry : process.entries) {
    const capture::RankData& rank = capture.ranks[entry];
    for (const capture::DeviceActivity& a : rank.activities) {
      const HostInterval time{a.start, a.end};
      const bool of_op = std::binary_search(joined.begin(), joined.end(), time, Earlier);
      (a.kind == ActivityKind::kMemcpy   ? memcpy
       : a.kind == ActivityKind::kMemset ? memset
       : of_op                           ? communication
                                         : kernel)
          .push_back(time);
    }
    for (const capture::ApiCall& c : rank.api_calls) {
      if (!c.driver) runtime.push_back({c.start, c.end});
    }
  }
  for (const HostFrame& f : process.frames->frames) {
    if (f.kind == capture::FrameKind::kPython || f.kind == capture::FrameKind::kModule) continue;
    const std::string_view name = capture.Text(f.name);
    if (name.starts_with(kStepPrefix)) continue;
    (IsDataLoader(name) ? loader : IsOp(name) ? communication : cpu).push_back({f.start, f.end});
  }
  const auto set = [](std::vector<HostInterval>& times) { return analysis::Normalize(std::move(times)); };
  return {set(kernel), set(memcpy), set(memset), set(communication), set(runtime), set(loader), set(cpu)};
}

std::vector<TensorBoardOp> TensorBoardOps(const capture::Capture& capture, const Process& process,
                                          const std::vector<TensorBoardStep>& steps) {
  std::vector<TensorBoardOp> ops;
  if (process.frames == nullptr) return ops;
  const capture::HostFrames& frames = *process.frames;
  const JoinedKernels joined(capture, process);
  for (const HostFrame& f : frames.frames) {
    const std::string_view name = capture.Text(f.name);
    if (!IsOp(name)) continue;
    TensorBoardOp& op =
        ops.emplace_back(TensorBoardOp{.name = name, .time = {f.start, f.end}, .ranges = {{f.start, f.end}}});
    if (const std::vector<HostInterval>* kernels = joined.Of(f); kernels != nullptr)
      op.ranges.insert(op.ranges.end(), kernels->begin(), kernels->end());
    std::sort(op.ranges.begin(), op.ranges.end(), Earlier);
    if (f.detail != kNone)
      op.bytes = BytesOf(capture.Text(frames.details[f.detail].shapes),
                         capture.Text(frames.details[f.detail].types));
  }
  std::stable_sort(ops.begin(), ops.end(), [](const TensorBoardOp& a, const TensorBoardOp& b) {
    return std::tie(a.time.start, b.time.end) < std::tie(b.time.start, a.time.end);
  });
  for (TensorBoardOp& op : ops) {
    const auto later =
        std::upper_bound(steps.begin(), steps.end(), op.time.start,
                         [](HostTime at, const TensorBoardStep& s) { return at < s.time.start; });
    if (later != steps.begin() && op.time.end <= std::prev(later)->time.end)
      op.step = std::prev(later)->number;
  }
  return ops;
}

}  // namespace lockstep::views
