// KinetoCollector's rows of the host, one by one: operators, annotations, Python functions, the allocator.
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "formats/common/decimal_time.h"
#include "formats/kineto/kineto_collector.h"

namespace lockstep::trace {
namespace {

// One spelling for lists that differ in blanks: "[[8, 384], []]". Blanks inside quotes stay.
std::string OneSpelling(std::string_view list) {
  std::string text;
  bool quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '"' && (i == 0 || list[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && static_cast<unsigned char>(c) <= ' ') continue;
    text += c;
    if (!quoted && c == ',') text += ' ';
  }
  return text;
}

std::optional<int64_t> Number(std::string_view token) {
  return token.empty() ? std::nullopt : IntegerFromText(token);
}

// Addresses may need all 64 bits.
uint64_t Address(std::string_view token) {
  const std::string_view bare = Unquoted(token);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  return error == std::errc() && end == bare.data() + bare.size() ? value : 0;
}

}  // namespace

NameId KinetoCollector::InternArgument(std::string_view token) {
  if (token.empty() || token == "\"\"" || token == "null") return kNoName;
  if (token.front() != '[') return Intern(token).id;
  const auto it = arguments_.find(token);
  if (it != arguments_.end()) return it->second;
  tokens_.emplace_back(token);
  return arguments_.emplace(tokens_.back(), file_.strings.Intern(OneSpelling(token))).first->second;
}

void KinetoCollector::AddFrame(const KinetoRow& row, store::FrameKind kind, HostTime start, HostTime end) {
  if (host_ == HostDetail::kUnions) return;
  SeeProcess(row.pid);
  const Name& name = Intern(row.name);
  const std::string_view text = file_.strings.Text(name.id);
  if (text.starts_with("nn.Module: ")) kind = store::FrameKind::kModule;
  if (text.starts_with("ProfilerStep#")) kind = store::FrameKind::kAnnotation;
  store::HostFrame frame{
      .start = start, .end = end, .name = name.id, .thread = ThreadOf(row.tid), .kind = kind};
  const RowArgs& args = row.args;
  const store::FrameDetail detail{.shapes = InternArgument(args.shapes),
                                  .types = InternArgument(args.types),
                                  .values = InternArgument(args.values),
                                  .stack = InternArgument(args.stack),
                                  .modules = InternArgument(args.modules),
                                  .sequence = Number(args.forward_sequence).value_or(-1),
                                  .forward_thread = ThreadId(Number(args.forward_thread).value_or(0)),
                                  .python_id = Number(args.python_id).value_or(-1),
                                  .python_parent = Number(args.python_parent).value_or(-1)};
  if (detail != store::FrameDetail{}) {
    frame.detail = static_cast<uint32_t>(file_.frames.details.size());
    file_.frames.details.push_back(detail);
  }
  file_.frames.frames.push_back(frame);
}

void KinetoCollector::AddAllocation(const KinetoRow& row, HostTime time) {
  const std::optional<int64_t> bytes = Number(row.args.memory_bytes);
  if (row.name != "\"[memory]\"" || !bytes) return;
  const bool on_host = Number(row.args.memory_device_type) == 0;
  const std::optional<int64_t> device = Number(row.args.memory_device);
  file_.frames.allocations.push_back(
      {.time = time,
       .thread = ThreadOf(row.tid),
       .bytes = *bytes,
       .address = Address(row.args.memory_address),
       .device = on_host || !device || !std::in_range<int32_t>(*device) ? -1 : static_cast<int32_t>(*device),
       .allocated = Number(row.args.allocated),
       .reserved = Number(row.args.reserved)});
}

}  // namespace lockstep::trace
