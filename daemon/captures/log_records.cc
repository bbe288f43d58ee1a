#include "daemon/captures/log_records.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

constexpr uint32_t kThread = 1;
constexpr uint32_t kContext = 1;
constexpr uint32_t kExternalKindOfLaunch = 5;  // wire/fields/collective.def
constexpr size_t kLongestText = 64;

// Gives records the form in which a ring's reader returns them.
class RecordWriter {
 public:
  explicit RecordWriter(const RecordSink& sink) : sink_(sink) {}

  template <typename Record>
  void Write(ring::RecordKind kind, uint16_t flags, Record record) {
    record.header = {kind, flags, sizeof record};
    sink_({record.header, {reinterpret_cast<const std::byte*>(&record), sizeof record}});
  }

  // Returns the id of a text, which it defines at the first use. 0: an empty text.
  uint32_t Intern(const std::string& text) {
    if (text.empty()) return 0;
    const auto [found, is_new] = ids_.emplace(text, static_cast<uint32_t>(ids_.size()) + 1);
    if (is_new) Define(found->second, text);
    return found->second;
  }

 private:
  void Define(uint32_t id, const std::string& text) {
    const size_t bytes = (sizeof(ring::StringRecord) + text.size() + 7) / 8 * 8;
    std::vector<std::byte> record(bytes);
    const ring::StringRecord head = {
        {ring::RecordKind::kString, 0, static_cast<uint32_t>(bytes)}, id, static_cast<uint32_t>(text.size())};
    std::memcpy(record.data(), &head, sizeof head);
    std::memcpy(record.data() + sizeof head, text.data(), text.size());
    sink_({head.header, record});
  }

  const RecordSink& sink_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
};

// The operations of one kernel.
struct Kernel {
  HostInterval span;
  std::vector<const ring::LoggedOperation*> operations;
};

bool Has(const HostInterval& window, HostTime t) { return t >= window.start && t < window.end; }

bool IsMessage(const ring::OperationProgress& operation) { return operation.number == 0; }

// Returns whether two operations ran at the same time, `next` not before the other. NCCL's proxy thread may
// see the begin of the next kernel before the end of the last one, but then the overlap is short.
bool RanTogether(const HostInterval& first, const HostInterval& next) {
  const Nanos overlap = std::min(first.end, next.end) - next.start;
  const Nanos shorter = std::min(first.end - first.start, next.end - next.start);
  return overlap * 2 > shorter;
}

// Returns the kernels of one communicator in the order of their start. They do not overlap.
std::vector<Kernel> KernelsOf(std::vector<const ring::LoggedOperation*> operations,
                              const HostInterval& window) {
  const auto started = [](const ring::LoggedOperation* o) { return o->operation.started; };
  std::sort(operations.begin(), operations.end(),
            [&](const auto* a, const auto* b) { return started(a) < started(b); });
  std::vector<Kernel> kernels;
  for (const ring::LoggedOperation* logged : operations) {
    const HostTime completed = logged->operation.completed;
    const HostTime end = completed == HostTime() ? window.end : std::max(completed, started(logged));
    const HostInterval span = {started(logged), end};
    if (!kernels.empty() && kernels.back().span.end > span.start) {
      Kernel& last = kernels.back();
      if (RanTogether(last.span, span)) {
        last.operations.push_back(logged);
        last.span.end = std::max(last.span.end, span.end);
        continue;
      }
      last.span.end = span.start;
    }
    kernels.push_back({span, {logged}});
  }
  return kernels;
}

// One of so many kernels may seem to run beside another one, because the proxy thread was not running.
constexpr size_t kHardlyEver = 20;

bool StartsEarlier(const Kernel& a, const Kernel& b) { return a.span.start < b.span.start; }

// Returns the kernels of both lists in the order of their start if they can be of one stream, else an empty
// list. Kernels do not overlap in the lists, and not in the result.
std::vector<Kernel> OnOneStream(const std::vector<Kernel>& some, const std::vector<Kernel>& others) {
  std::vector<Kernel> all;
  all.reserve(some.size() + others.size());
  std::merge(some.begin(), some.end(), others.begin(), others.end(), std::back_inserter(all), StartsEarlier);
  size_t together = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    HostInterval& before = all[i - 1].span;
    if (before.end <= all[i].span.start) continue;
    together += RanTogether(before, all[i].span) ? 1 : 0;
    before.end = all[i].span.start;
  }
  return together * kHardlyEver > std::min(some.size(), others.size()) ? std::vector<Kernel>() : all;
}

// The log does not know streams. Communicators whose kernels hardly ever run at the same time get one stream,
// so that the end of one kernel is known as the predecessor of the next.
std::vector<std::vector<Kernel>> Streams(std::vector<std::vector<Kernel>> by_communicator) {
  std::vector<std::vector<Kernel>> streams;
  for (std::vector<Kernel>& kernels : by_communicator) {
    bool placed = false;
    for (std::vector<Kernel>& stream : streams) {
      std::vector<Kernel> both = OnOneStream(stream, kernels);
      placed = !both.empty();
      if (!placed) continue;
      stream = std::move(both);
      break;
    }
    if (!placed) streams.push_back(std::move(kernels));
  }
  return streams;
}

class LogRecords {
 public:
  explicit LogRecords(const RecordSink& sink) : writer_(sink) {}

  void Communicator(const ring::LoggedCommunicator& from) {
    ring::CommunicatorRecord record{};
    record.comm = from.communicator;
    record.name = writer_.Intern(CleanText(from.name, kLongestText));
    record.rank = from.rank;
    record.ranks = from.ranks;
    writer_.Write(ring::RecordKind::kCommunicator, 0, record);
  }

  void Write(const Kernel& kernel, uint32_t stream) {
    const uint32_t serial = next_serial_++;
    const ring::LoggedOperation& first = *kernel.operations.front();
    for (const ring::LoggedOperation* logged : kernel.operations) Operation(*logged, serial);
    ring::ExternalCorrelationRecord join{};
    join.external = serial;
    join.correlation = serial;
    join.external_kind = kExternalKindOfLaunch;
    writer_.Write(ring::RecordKind::kExternalCorrelation, 0, join);
    ring::KernelRecord record{};
    record.start_ns = kernel.span.start.ns();
    record.end_ns = kernel.span.end.ns();
    record.correlation = serial;
    record.context = kContext;
    record.stream = stream;
    record.name = writer_.Intern(NameOf(first.operation));
    writer_.Write(ring::RecordKind::kKernel, 0, record);
  }

  void Step(uint64_t number, const HostInterval& span) {
    ring::RangeRecord record{};
    record.start_ns = span.start.ns();
    record.end_ns = span.end.ns();
    record.name = writer_.Intern(absl::StrCat("step ", number));
    record.thread = kThread;
    writer_.Write(ring::RecordKind::kRange, 0, record);
  }

 private:
  static std::string NameOf(const ring::OperationProgress& operation) {
    if (IsMessage(operation)) return "ncclDevKernel_SendRecv";
    return absl::StrCat("ncclDevKernel_", CleanText(operation.function, kLongestText));
  }

  void Operation(const ring::LoggedOperation& logged, uint32_t serial) {
    const ring::OperationProgress& operation = logged.operation;
    const uint32_t datatype = writer_.Intern(CleanText(operation.datatype, kLongestText));
    if (IsMessage(operation)) {
      ring::PointToPointRecord record{};
      record.enqueued_ns = operation.entered.ns();
      record.comm = logged.communicator;
      record.sequence = logged.message_number;
      record.launch = serial;
      record.count = operation.count;
      record.datatype = datatype;
      record.peer = operation.peer;
      record.operation = next_operation_++;
      writer_.Write(ring::RecordKind::kPointToPoint,
                    operation.function == "Send" ? ring::kP2pSend : uint16_t{0}, record);
      return;
    }
    ring::CollectiveRecord record{};
    record.enqueued_ns = operation.entered.ns();
    record.comm = logged.communicator;
    record.sequence = operation.number;
    record.launch = serial;
    record.count = operation.count;
    record.function = writer_.Intern(CleanText(operation.function, kLongestText));
    record.datatype = datatype;
    record.root = operation.peer;
    record.operation = next_operation_++;
    writer_.Write(ring::RecordKind::kCollective, 0, record);
  }

  RecordWriter writer_;
  uint32_t next_serial_ = 1;
  uint64_t next_operation_ = 1;
};

// Returns the steps that count: those of lockstep_step_begin if there are any, and no numbers of inner loops
// that begin again.
std::vector<ring::LoggedStep> CountedSteps(const std::vector<ring::LoggedStep>& steps) {
  const bool marked = std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.marked; });
  std::vector<ring::LoggedStep> counted;
  for (const ring::LoggedStep& step : steps) {
    if (step.marked != marked) continue;
    if (!counted.empty() && (step.number <= counted.back().number || step.begin <= counted.back().begin))
      continue;
    counted.push_back(step);
  }
  return counted;
}

}  // namespace

LogRecordCounts WriteLogRecords(const ring::OperationLog& log, const HostInterval& window,
                                const RecordSink& sink) {
  LogRecords records(sink);
  LogRecordCounts counts;
  for (const ring::LoggedCommunicator& communicator : log.communicators) records.Communicator(communicator);
  std::map<uint64_t, std::vector<const ring::LoggedOperation*>> by_communicator;
  for (const ring::LoggedOperation& logged : log.operations) {
    if (logged.operation.started == HostTime()) {
      counts.not_started += Has(window, logged.operation.entered) ? 1 : 0;
    } else if (Has(window, logged.operation.started)) {
      by_communicator[logged.communicator].push_back(&logged);
    }
  }
  std::vector<std::vector<Kernel>> kernels;
  for (auto& [communicator, operations] : by_communicator)
    kernels.push_back(KernelsOf(std::move(operations), window));
  uint32_t number = 0;
  for (const std::vector<Kernel>& stream : Streams(std::move(kernels))) {
    ++number;
    for (const Kernel& kernel : stream) records.Write(kernel, number);
    counts.kernels += stream.size();
  }
  // The newest step goes on.
  const std::vector<ring::LoggedStep> steps = CountedSteps(log.steps);
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (Has(window, steps[i].begin)) records.Step(steps[i].number, {steps[i].begin, steps[i + 1].begin});
  }
  return counts;
}

}  // namespace lockstep::daemon
