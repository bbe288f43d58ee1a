#include "formats/timeline/timeline_rows.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace lockstep::formats {
namespace {

using capture::ActivityKind;
using capture::CollectiveOp;
using capture::DeviceActivity;
using capture::SyncType;

// Steps and calls without a thread belong to this one.
constexpr int64_t kMainThread = 1;

struct Word {
  std::string_view text;
  uint8_t value;
};
// The values are CUPTI's numbers.
constexpr Word kCopyKinds[] = {{"h2d", 1}, {"d2h", 2}, {"d2d", 8}, {"h2h", 9}, {"p2p", 10}, {"unknown", 0}};
// The stages are those of report.json.
constexpr std::string_view kLossStages[] = {"cupti", "client", "ring", "spool", "wire",
                                            "store", "import", "nccl", "nvtx"};
constexpr Word kSyncKinds[] = {
    {"event", 1}, {"stream_wait", 2}, {"stream", 3}, {"context", 4}, {"unknown", 0}};

std::optional<uint8_t> Find(std::span<const Word> words, std::string_view text) {
  for (const Word& word : words) {
    if (word.text == text) return word.value;
  }
  return std::nullopt;
}

std::optional<CollectiveOp> OperationFromWord(std::string_view word) {
  for (int op = 0; op <= static_cast<int>(CollectiveOp::kBarrier); ++op) {
    if (capture::CollectiveOpName(static_cast<CollectiveOp>(op)) == word)
      return static_cast<CollectiveOp>(op);
  }
  return std::nullopt;
}

struct Field {
  std::string_view key, value;
};
Field FieldOf(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {word, ""};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

}  // namespace

bool TimelineRows::Read(char kind, LineWords& words) {
  if (rank_ == SIZE_MAX)
    return fields_.Fail("a row precedes the first rank", "begin a rank's rows with \"rank\"");
  switch (kind) {
    case 'k':
      return KernelRow(words);
    case 'c':
      return CollectiveRow(words);
    case '+':
      return MoreCollective(words);
    case 'm':
      return CopyRow(words, ActivityKind::kMemcpy);
    case 'z':
      return CopyRow(words, ActivityKind::kMemset);
    case 'a':
      return CallRow(words);
    case 'w':
      return SyncRow(words);
    case 'e':
      return EventRow(words);
    case 's':
      return StepRow(words);
    case 'r':
      return RangeRow(words);
    case 'l':
      return LossRow(words);
    case 't':
      return ClockRow(words);
    default:
      return fields_.Fail(Sentence("\"", std::string(1, kind), "\" is not a row"),
                          "see docs/formats/timeline.md");
  }
}

bool TimelineRows::NameAt(std::string_view word, NameId& out) {
  uint32_t number = 0;
  if (!NumberFromWord(word, number))
    return fields_.Fail(Sentence(ShownWord(word), " is not the number of a name"),
                        "names count from 0 in the order of their lines");
  if (number >= names_.size())
    return fields_.Fail(Sentence("name ", number, " is not known yet"), "declare it above");
  out = names_[number];
  return true;
}

void TimelineRows::Cover(HostTime start, HostTime end) {
  HostInterval& window = rank().window;
  window.start = std::min(window.start, start);
  window.end = std::max(window.end, end);
}

bool TimelineRows::Times(LineWords& words, HostTime& start, HostTime& end) {
  int64_t offset = 0, duration = 0, first = 0, last = 0;
  if (!fields_.Integer(words, "a start", offset) || !fields_.Integer(words, "a duration", duration))
    return false;
  if (duration < 0)
    return fields_.Fail("a duration is negative", "write start and duration, not start and end");
  if (__builtin_add_overflow(base_, offset, &first) || __builtin_add_overflow(first, duration, &last))
    return fields_.Fail("a time does not fit 64 bits", "write nanoseconds after base");
  start = HostTime(first);
  end = HostTime(last);
  Cover(start, end);
  return true;
}

bool TimelineRows::Activity(LineWords& words, ActivityKind kind, DeviceActivity& out) {
  uint32_t stream = 0;
  if (!fields_.Integer(words, "a stream", stream) || !NameAt(words.Next(), out.name)) return false;
  out.stream = StreamId(stream);
  out.kind = kind;
  return Times(words, out.start, out.end);
}

bool TimelineRows::Dimensions(std::string_view key, std::string_view word, uint32_t (&out)[3]) {
  std::string_view rest = word;
  for (int i = 0; i < 3; ++i) {
    const size_t comma = rest.find(',');
    if ((comma == std::string_view::npos) != (i == 2) || !NumberFromWord(rest.substr(0, comma), out[i]))
      return fields_.Fail(Sentence(ShownWord(word), " is not a size for ", key),
                          "write three numbers, as 128,1,1");
    if (i < 2) rest = rest.substr(comma + 1);
  }
  return true;
}

bool TimelineRows::KernelField(std::string_view key, std::string_view value, DeviceActivity& activity,
                               bool& used) {
  used = true;
  if (key == "c") {
    uint32_t correlation = 0;
    if (!fields_.Value(key, value, correlation)) return false;
    activity.correlation = CorrelationId(correlation);
    return true;
  }
  const bool grid = key == "g", block = key == "b", registers = key == "regs", shared = key == "smem";
  if (!grid && !block && !registers && !shared) {
    used = false;
    return true;
  }
  if (activity.detail == capture::kNone) {
    activity.detail = static_cast<uint32_t>(rank().kernel_details.size());
    rank().kernel_details.emplace_back();
  }
  capture::KernelDetail& detail = rank().kernel_details[activity.detail];
  if (grid) return Dimensions(key, value, detail.grid);
  if (registers) return fields_.Value(key, value, detail.registers);
  if (shared) return fields_.Value(key, value, detail.static_shared_bytes);
  uint32_t dimensions[3] = {};
  if (!Dimensions(key, value, dimensions)) return false;
  for (int i = 0; i < 3; ++i) {
    if (dimensions[i] > std::numeric_limits<uint16_t>::max())
      return fields_.Fail("a block is larger than any device's", "write threads per block");
    detail.block[i] = static_cast<uint16_t>(dimensions[i]);
  }
  return true;
}

bool TimelineRows::KernelRow(LineWords& words) {
  DeviceActivity activity;
  if (!Activity(words, ActivityKind::kKernel, activity)) return false;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    bool used = false;
    if (!KernelField(field.key, field.value, activity, used)) return false;
    if (!used) return fields_.FailUnknown(field.key);
  }
  rank().activities.push_back(activity);
  return true;
}

// Reads GROUP OPERATION and the fields. The kernel's own fields go to `activity`, if it is not null.
bool TimelineRows::CollectiveFields(LineWords& words, DeviceActivity* activity, capture::Collective& out) {
  const std::string_view group = words.Next();
  if (group != "-") {
    if (!fields_.Value("a group", group, out.group)) return false;
    if (out.group >= capture_.groups.size())
      return fields_.Fail(Sentence("group ", out.group, " is not known yet"), "declare it above");
  }
  const std::string_view word = words.Next();
  const auto op = OperationFromWord(word);
  if (!op)
    return fields_.Fail(Sentence(ShownWord(word), " is not an operation"),
                        "write all_reduce, send, … or unknown");
  out.op = *op;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    bool used = false;
    if (activity != nullptr && !KernelField(field.key, field.value, *activity, used)) return false;
    if (used) continue;
    if (field.key == "bytes") {
      if (!fields_.Value(field.key, field.value, out.bytes)) return false;
    } else if (field.key == "nccl" || field.key == "seq") {
      if (!fields_.Value(field.key, field.value, out.sequence)) return false;
      out.source =
          field.key == "nccl" ? capture::MatchSource::kNcclSequence : capture::MatchSource::kGroupSequence;
    } else if (field.key == "root") {
      if (!fields_.Value(field.key, field.value, out.root)) return false;
    } else if (field.key == "peer") {
      if (!fields_.Value(field.key, field.value, out.peer)) return false;
    } else if (field.key == "type") {
      if (!NameAt(field.value, out.datatype)) return false;
    } else {
      return fields_.FailUnknown(field.key);
    }
  }
  const int32_t size = out.group == capture::kNone ? 0 : capture_.groups[out.group].size;
  const bool outside = size > 0 && (out.root >= size || out.peer >= size);
  if (out.bytes < -1 || out.sequence < -1 || out.root < -1 || out.peer < -1 || outside)
    return fields_.Fail("a collective's number is outside of its range",
                        "root and peer are ranks in the group; leave out what is unknown");
  return true;
}

bool TimelineRows::CollectiveRow(LineWords& words) {
  DeviceActivity activity;
  capture::Collective collective;
  if (!Activity(words, ActivityKind::kKernel, activity) || !CollectiveFields(words, &activity, collective))
    return false;
  activity.communication = true;
  activity.collective = static_cast<uint32_t>(rank().collectives.size());
  collective.activity = static_cast<uint32_t>(rank().activities.size());
  rank().collectives.push_back(collective);
  rank().activities.push_back(activity);
  return true;
}

// Reads another collective in the kernel of the line above.
bool TimelineRows::MoreCollective(LineWords& words) {
  const auto& activities = rank().activities;
  if (activities.empty() || activities.back().collective == capture::kNone)
    return fields_.Fail("\"+\" has no collective above it", "write the kernel's first collective as \"c\"");
  capture::Collective collective;
  if (!CollectiveFields(words, nullptr, collective)) return false;
  collective.activity = static_cast<uint32_t>(activities.size()) - 1;
  rank().collectives.push_back(collective);
  return true;
}

bool TimelineRows::CopyRow(LineWords& words, ActivityKind kind) {
  DeviceActivity activity;
  capture::CopyDetail detail;
  if (!Activity(words, kind, activity)) return false;
  if (kind == ActivityKind::kMemcpy) {
    const std::string_view word = words.Next();
    if (const auto known = Find(kCopyKinds, word)) {
      detail.copy_kind = *known;
    } else if (!NumberFromWord(word, detail.copy_kind)) {
      return fields_.Fail(Sentence(ShownWord(word), " is not a kind of copy"),
                          "write h2d, d2h, d2d, h2h, p2p or CUPTI's number");
    }
  }
  if (!fields_.Integer(words, "bytes", detail.bytes)) return false;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    bool used = false;
    if (field.key != "c") return fields_.FailUnknown(field.key);
    if (!KernelField(field.key, field.value, activity, used)) return false;
  }
  activity.detail = static_cast<uint32_t>(rank().copy_details.size());
  rank().copy_details.push_back(detail);
  rank().activities.push_back(activity);
  return true;
}

bool TimelineRows::CallRow(LineWords& words) {
  capture::ApiCall call;
  int64_t thread = 0;
  if (!fields_.Integer(words, "a thread", thread) || !NameAt(words.Next(), call.name) ||
      !Times(words, call.start, call.end))
    return false;
  call.thread = ThreadId(thread);
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    uint32_t number = 0;
    if (field.key == "c") {
      if (!fields_.Value(field.key, field.value, number)) return false;
      call.correlation = CorrelationId(number);
    } else if (field.key == "driver") {
      if (!fields_.Value(field.key, field.value, number)) return false;
      call.driver = number != 0;
    } else if (field.key == "cbid") {
      if (!fields_.Value(field.key, field.value, call.cbid)) return false;
    } else {
      return fields_.FailUnknown(field.key);
    }
  }
  rank().api_calls.push_back(call);
  return true;
}

bool TimelineRows::SyncRow(LineWords& words) {
  capture::Sync sync{.stream = StreamId(capture::kNone)};
  const std::string_view word = words.Next();
  const auto kind = Find(kSyncKinds, word);
  if (!kind)
    return fields_.Fail(Sentence(ShownWord(word), " is not a kind of wait"),
                        "write event, stream_wait, stream, context or unknown");
  sync.type = static_cast<SyncType>(*kind);
  if (!Times(words, sync.start, sync.end)) return false;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    uint32_t number = 0;
    if (field.key != "c" && field.key != "stream" && field.key != "event")
      return fields_.FailUnknown(field.key);
    if (!fields_.Value(field.key, field.value, number)) return false;
    if (field.key == "c") sync.correlation = CorrelationId(number);
    if (field.key == "stream") sync.stream = StreamId(number);
    if (field.key == "event") sync.event = number;
  }
  rank().syncs.push_back(sync);
  return true;
}

bool TimelineRows::EventRow(LineWords& words) {
  capture::EventRecord record;
  uint32_t stream = 0, correlation = 0;
  if (!fields_.Integer(words, "an event", record.event) || !fields_.Integer(words, "a stream", stream) ||
      !fields_.Integer(words, "a correlation", correlation))
    return false;
  record.stream = StreamId(stream);
  record.correlation = CorrelationId(correlation);
  rank().event_records.push_back(record);
  return true;
}

bool TimelineRows::StepRow(LineWords& words) {
  int64_t number = 0;
  capture::HostRange range;
  if (!fields_.Integer(words, "a step", number) || !Times(words, range.start, range.end)) return false;
  if (number < 0) return fields_.Fail("a step's number is negative", "steps count from 0");
  const auto [it, fresh] = step_names_.try_emplace(number);
  if (fresh) it->second = capture_.strings.Intern(Sentence("ProfilerStep#", number));
  range.name = it->second;
  range.thread = ThreadId(kMainThread);
  range.kind = capture::RangeKind::kStep;
  if (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    int64_t thread = 0;
    if (field.key != "t") return fields_.FailUnknown(field.key);
    if (!fields_.Value(field.key, field.value, thread)) return false;
    range.thread = ThreadId(thread);
  }
  rank().ranges.push_back(range);
  return true;
}

bool TimelineRows::RangeRow(LineWords& words) {
  capture::HostRange range;
  int64_t thread = 0;
  if (!fields_.Integer(words, "a thread", thread) || !NameAt(words.Next(), range.name) ||
      !Times(words, range.start, range.end))
    return false;
  range.thread = ThreadId(thread);
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    if (field.key == "domain") {
      if (!NameAt(field.value, range.domain)) return false;
    } else if (field.key == "open") {
      range.start_unknown = field.value == "begin" || field.value == "both";
      range.end_unknown = field.value == "end" || field.value == "both";
      if (!range.start_unknown && !range.end_unknown) return fields_.FailUnknown("open");
    } else {
      return fields_.FailUnknown(field.key);
    }
  }
  rank().ranges.push_back(range);
  return true;
}

bool TimelineRows::LossRow(LineWords& words) {
  capture::Loss loss;
  loss.stage = words.Next();
  if (std::find(std::begin(kLossStages), std::end(kLossStages), loss.stage) == std::end(kLossStages))
    return fields_.Fail(Sentence(ShownWord(loss.stage), " is not a stage of losses"),
                        "write cupti, client, ring, import, nccl or nvtx");
  const std::string_view kind = words.Next();
  if (kind != "-") loss.kind = kind;
  if (!fields_.Integer(words, "records", loss.records) || !fields_.Text(words, "a reason", loss.reason))
    return false;
  const HostInterval window = rank().window;
  if (!Times(words, loss.from, loss.to)) return false;
  rank().window = window;  // a loss does not extend the rank's window
  rank().losses.push_back(std::move(loss));
  return true;
}

bool TimelineRows::ClockRow(LineWords& words) {
  int64_t realtime = 0, monotonic = 0;
  if (!fields_.Integer(words, "a stamp", realtime) || !fields_.Integer(words, "a stamp", monotonic))
    return false;
  capture::ClockReading reading;
  reading.realtime = HostTime(realtime);
  reading.monotonic = MonoTime(monotonic);
  rank().clocks.push_back(reading);
  return true;
}

}  // namespace lockstep::formats
