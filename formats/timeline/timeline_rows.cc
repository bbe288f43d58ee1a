// The rows of a rank: what its device and its threads did.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "formats/timeline/timeline_parser.h"

namespace lockstep::trace {
namespace {

using store::ActivityKind;
using store::CollectiveOp;
using store::DeviceActivity;
using store::SyncType;

// Where a job names no thread, its steps and calls are all of this one.
constexpr int64_t kMainThread = 1;

struct Word {
  std::string_view text;
  uint8_t value;
};
// CUPTI's numbers.
constexpr Word kCopyKinds[] = {{"h2d", 1}, {"d2h", 2}, {"d2d", 8}, {"h2h", 9}, {"p2p", 10}, {"unknown", 0}};
// Those of report.json.
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
    if (store::CollectiveOpName(static_cast<CollectiveOp>(op)) == word) return static_cast<CollectiveOp>(op);
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

bool TimelineParser::Row(char kind, LineWords& words) {
  if (rank_ == SIZE_MAX)
    return Fail("a row stands before the first rank", "begin a rank's rows with \"rank\"");
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
      return Fail(Sentence("\"", std::string(1, kind), "\" is no row"), "see docs/formats/timeline.md");
  }
}

bool TimelineParser::Times(LineWords& words, HostTime& start, HostTime& end) {
  int64_t offset = 0, duration = 0, first = 0, last = 0;
  if (!Integer(words, "a start", offset) || !Integer(words, "a duration", duration)) return false;
  if (duration < 0) return Fail("a duration is negative", "write start and duration, not start and end");
  if (__builtin_add_overflow(base_, offset, &first) || __builtin_add_overflow(first, duration, &last))
    return Fail("a time does not fit 64 bits", "write nanoseconds after base");
  start = HostTime(first);
  end = HostTime(last);
  Cover(start, end);
  return true;
}

bool TimelineParser::Activity(LineWords& words, ActivityKind kind, DeviceActivity& out) {
  uint32_t stream = 0;
  if (!Integer(words, "a stream", stream) || !NameAt(words.Next(), out.name)) return false;
  out.stream = StreamId(stream);
  out.kind = kind;
  return Times(words, out.start, out.end);
}

bool TimelineParser::Dimensions(std::string_view key, std::string_view word, uint32_t (&out)[3]) {
  std::string_view rest = word;
  for (int i = 0; i < 3; ++i) {
    const size_t comma = rest.find(',');
    if ((comma == std::string_view::npos) != (i == 2) || !NumberFromWord(rest.substr(0, comma), out[i]))
      return Fail(Sentence(ShownWord(word), " is no size for ", key), "write three numbers, as 128,1,1");
    if (i < 2) rest = rest.substr(comma + 1);
  }
  return true;
}

bool TimelineParser::KernelField(std::string_view key, std::string_view value, DeviceActivity& activity,
                                 bool& used) {
  used = true;
  if (key == "c") {
    uint32_t correlation = 0;
    if (!Value(key, value, correlation)) return false;
    activity.correlation = CorrelationId(correlation);
    return true;
  }
  const bool grid = key == "g", block = key == "b", registers = key == "regs", shared = key == "smem";
  if (!grid && !block && !registers && !shared) {
    used = false;
    return true;
  }
  if (activity.detail == store::kNone) {
    activity.detail = static_cast<uint32_t>(rank().kernel_details.size());
    rank().kernel_details.emplace_back();
  }
  store::KernelDetail& detail = rank().kernel_details[activity.detail];
  if (grid) return Dimensions(key, value, detail.grid);
  if (registers) return Value(key, value, detail.registers);
  if (shared) return Value(key, value, detail.static_shared_bytes);
  uint32_t dimensions[3] = {};
  if (!Dimensions(key, value, dimensions)) return false;
  for (int i = 0; i < 3; ++i) {
    if (dimensions[i] > std::numeric_limits<uint16_t>::max())
      return Fail("a block is larger than any device's", "write threads per block");
    detail.block[i] = static_cast<uint16_t>(dimensions[i]);
  }
  return true;
}

bool TimelineParser::KernelRow(LineWords& words) {
  DeviceActivity activity;
  if (!Activity(words, ActivityKind::kKernel, activity)) return false;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    bool used = false;
    if (!KernelField(field.key, field.value, activity, used)) return false;
    if (!used) return UnknownField(field.key);
  }
  rank().activities.push_back(activity);
  return true;
}

// GROUP OPERATION and fields; a kernel's own fields go to `activity` where there is one.
bool TimelineParser::CollectiveFields(LineWords& words, DeviceActivity* activity, store::Collective& out) {
  const std::string_view group = words.Next();
  if (group != "-") {
    if (!Value("a group", group, out.group)) return false;
    if (out.group >= capture_.groups.size())
      return Fail(Sentence("group ", out.group, " is not known yet"), "declare it above");
  }
  const std::string_view word = words.Next();
  const auto op = OperationFromWord(word);
  if (!op) return Fail(Sentence(ShownWord(word), " is no operation"), "write all_reduce, send, … or unknown");
  out.op = *op;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    bool used = false;
    if (activity != nullptr && !KernelField(field.key, field.value, *activity, used)) return false;
    if (used) continue;
    if (field.key == "bytes") {
      if (!Value(field.key, field.value, out.bytes)) return false;
    } else if (field.key == "nccl" || field.key == "seq") {
      if (!Value(field.key, field.value, out.sequence)) return false;
      out.source =
          field.key == "nccl" ? store::MatchSource::kNcclSequence : store::MatchSource::kGroupSequence;
    } else if (field.key == "root") {
      if (!Value(field.key, field.value, out.root)) return false;
    } else if (field.key == "peer") {
      if (!Value(field.key, field.value, out.peer)) return false;
    } else if (field.key == "type") {
      if (!NameAt(field.value, out.datatype)) return false;
    } else {
      return UnknownField(field.key);
    }
  }
  const int32_t size = out.group == store::kNone ? 0 : capture_.groups[out.group].size;
  const bool outside = size > 0 && (out.root >= size || out.peer >= size);
  if (out.bytes < -1 || out.sequence < -1 || out.root < -1 || out.peer < -1 || outside)
    return Fail("a collective's number is outside of its range",
                "root and peer are ranks in the group; leave out what is unknown");
  return true;
}

bool TimelineParser::CollectiveRow(LineWords& words) {
  DeviceActivity activity;
  store::Collective collective;
  if (!Activity(words, ActivityKind::kKernel, activity) || !CollectiveFields(words, &activity, collective))
    return false;
  activity.communication = true;
  activity.collective = static_cast<uint32_t>(rank().collectives.size());
  collective.activity = static_cast<uint32_t>(rank().activities.size());
  rank().collectives.push_back(collective);
  rank().activities.push_back(activity);
  return true;
}

// Another collective in the kernel of the line above.
bool TimelineParser::MoreCollective(LineWords& words) {
  const auto& activities = rank().activities;
  if (activities.empty() || activities.back().collective == store::kNone)
    return Fail("\"+\" stands without a collective above it", "write the kernel's first collective as \"c\"");
  store::Collective collective;
  if (!CollectiveFields(words, nullptr, collective)) return false;
  collective.activity = static_cast<uint32_t>(activities.size()) - 1;
  rank().collectives.push_back(collective);
  return true;
}

bool TimelineParser::CopyRow(LineWords& words, ActivityKind kind) {
  DeviceActivity activity;
  store::CopyDetail detail;
  if (!Activity(words, kind, activity)) return false;
  if (kind == ActivityKind::kMemcpy) {
    const std::string_view word = words.Next();
    if (const auto known = Find(kCopyKinds, word)) {
      detail.copy_kind = *known;
    } else if (!NumberFromWord(word, detail.copy_kind)) {
      return Fail(Sentence(ShownWord(word), " is no kind of copy"),
                  "write h2d, d2h, d2d, h2h, p2p or CUPTI's number");
    }
  }
  if (!Integer(words, "bytes", detail.bytes)) return false;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    bool used = false;
    if (field.key != "c") return UnknownField(field.key);
    if (!KernelField(field.key, field.value, activity, used)) return false;
  }
  activity.detail = static_cast<uint32_t>(rank().copy_details.size());
  rank().copy_details.push_back(detail);
  rank().activities.push_back(activity);
  return true;
}

bool TimelineParser::CallRow(LineWords& words) {
  store::ApiCall call;
  int64_t thread = 0;
  if (!Integer(words, "a thread", thread) || !NameAt(words.Next(), call.name) ||
      !Times(words, call.start, call.end))
    return false;
  call.thread = ThreadId(thread);
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    uint32_t number = 0;
    if (field.key == "c") {
      if (!Value(field.key, field.value, number)) return false;
      call.correlation = CorrelationId(number);
    } else if (field.key == "driver") {
      if (!Value(field.key, field.value, number)) return false;
      call.driver = number != 0;
    } else if (field.key == "cbid") {
      if (!Value(field.key, field.value, call.cbid)) return false;
    } else {
      return UnknownField(field.key);
    }
  }
  rank().api_calls.push_back(call);
  return true;
}

bool TimelineParser::SyncRow(LineWords& words) {
  store::Sync sync{.stream = StreamId(store::kNone)};
  const std::string_view word = words.Next();
  const auto kind = Find(kSyncKinds, word);
  if (!kind)
    return Fail(Sentence(ShownWord(word), " is no kind of wait"),
                "write event, stream_wait, stream, context or unknown");
  sync.type = static_cast<SyncType>(*kind);
  if (!Times(words, sync.start, sync.end)) return false;
  while (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    uint32_t number = 0;
    if (field.key != "c" && field.key != "stream" && field.key != "event") return UnknownField(field.key);
    if (!Value(field.key, field.value, number)) return false;
    if (field.key == "c") sync.correlation = CorrelationId(number);
    if (field.key == "stream") sync.stream = StreamId(number);
    if (field.key == "event") sync.event = number;
  }
  rank().syncs.push_back(sync);
  return true;
}

bool TimelineParser::EventRow(LineWords& words) {
  store::EventRecord record;
  uint32_t stream = 0, correlation = 0;
  if (!Integer(words, "an event", record.event) || !Integer(words, "a stream", stream) ||
      !Integer(words, "a correlation", correlation))
    return false;
  record.stream = StreamId(stream);
  record.correlation = CorrelationId(correlation);
  rank().event_records.push_back(record);
  return true;
}

bool TimelineParser::StepRow(LineWords& words) {
  int64_t number = 0;
  store::HostRange range;
  if (!Integer(words, "a step", number) || !Times(words, range.start, range.end)) return false;
  if (number < 0) return Fail("a step's number is negative", "steps count from 0");
  const auto [it, fresh] = step_names_.try_emplace(number);
  if (fresh) it->second = capture_.strings.Intern(Sentence("ProfilerStep#", number));
  range.name = it->second;
  range.thread = ThreadId(kMainThread);
  range.kind = store::RangeKind::kStep;
  if (!words.AtEnd()) {
    const Field field = FieldOf(words.Next());
    int64_t thread = 0;
    if (field.key != "t") return UnknownField(field.key);
    if (!Value(field.key, field.value, thread)) return false;
    range.thread = ThreadId(thread);
  }
  rank().ranges.push_back(range);
  return true;
}

bool TimelineParser::RangeRow(LineWords& words) {
  store::HostRange range;
  int64_t thread = 0;
  if (!Integer(words, "a thread", thread) || !NameAt(words.Next(), range.name) ||
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
      if (!range.start_unknown && !range.end_unknown) return UnknownField("open");
    } else {
      return UnknownField(field.key);
    }
  }
  rank().ranges.push_back(range);
  return true;
}

bool TimelineParser::LossRow(LineWords& words) {
  store::Loss loss;
  loss.stage = words.Next();
  if (std::find(std::begin(kLossStages), std::end(kLossStages), loss.stage) == std::end(kLossStages))
    return Fail(Sentence(ShownWord(loss.stage), " is no stage that loses"),
                "write cupti, client, ring, import, nccl or nvtx");
  const std::string_view kind = words.Next();
  if (kind != "-") loss.kind = kind;
  if (!Integer(words, "records", loss.records) || !Text(words, "a reason", loss.reason)) return false;
  const HostInterval window = rank().window;
  if (!Times(words, loss.from, loss.to)) return false;
  rank().window = window;  // a loss is no record
  rank().losses.push_back(std::move(loss));
  return true;
}

bool TimelineParser::ClockRow(LineWords& words) {
  int64_t realtime = 0, monotonic = 0;
  if (!Integer(words, "a stamp", realtime) || !Integer(words, "a stamp", monotonic)) return false;
  store::ClockReading reading;
  reading.realtime = HostTime(realtime);
  reading.monotonic = MonoTime(monotonic);
  rank().clocks.push_back(reading);
  return true;
}

}  // namespace lockstep::trace
