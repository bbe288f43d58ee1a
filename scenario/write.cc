#include <iterator>

#include "fmt/format.h"
#include "scenario/scenario.h"
#include "scenario/text.h"

namespace lockstep::scenario {
namespace {

constexpr size_t kFlushBytes = 256 * 1024;

// Lets fmt::format_to(Into(out), …) append to *out.
std::back_insert_iterator<std::string> Into(std::string* out) { return std::back_inserter(*out); }

std::string Triple(const uint32_t (&v)[3]) { return fmt::format("{},{},{}", v[0], v[1], v[2]); }

void AppendTiming(const Op& op, std::string* out) {
  if (!op.launched) *out += " unlaunched";
  fmt::format_to(Into(out), " gap={} own={}", op.gap.ns(), op.service_time.ns());
}

void AppendGeometry(const Geometry& g, std::string* out) {
  fmt::format_to(Into(out), " grid={} block={}", Triple(g.grid), Triple(g.block));
  if (g.registers != 0) fmt::format_to(Into(out), " regs={}", g.registers);
  if (g.static_shared_bytes != 0) fmt::format_to(Into(out), " smem={}", g.static_shared_bytes);
  if (g.dynamic_shared_bytes != 0) fmt::format_to(Into(out), " dsmem={}", g.dynamic_shared_bytes);
}

void AppendFollows(const Op& op, std::string* out) {
  if (op.follows != kNoIndex) fmt::format_to(Into(out), " follows=t{}", op.follows);
}

void AppendCall(const Op& op, std::string* out) {
  fmt::format_to(Into(out), "call t{} {}{} gap={} own={}", op.thread, op.driver ? "d" : "r", op.cbid,
                 op.gap.ns(), op.service_time.ns());
  if (op.wait == Wait::kAllStreams) *out += " wait=all";
  if (op.wait == Wait::kStreams) {
    const char* separator = " wait=s";
    for (uint32_t stream : op.wait_streams) {
      fmt::format_to(Into(out), "{}{}", separator, stream);
      separator = ",s";
    }
  }
  if (op.tail != Nanos()) fmt::format_to(Into(out), " tail={}", op.tail.ns());
  AppendFollows(op, out);
}

void AppendCollective(const Op& op, std::string* out) {
  fmt::format_to(Into(out), "coll s{} n{} g{} {}", op.stream, op.name, op.group,
                 CollectiveName(op.collective));
  AppendTiming(op, out);
  fmt::format_to(Into(out), " bytes={}", op.bytes);
  if (op.peer >= 0) fmt::format_to(Into(out), " peer={}", op.peer);
  const char* separator = " more=";
  for (const Message& m : op.more) {
    fmt::format_to(Into(out), "{}{}:{}:{}", separator, CollectiveName(m.collective), m.peer, m.bytes);
    separator = ",";
  }
  if (!op.datatype.empty()) fmt::format_to(Into(out), " type={}", Escape(op.datatype));
  AppendGeometry(op.geometry, out);
}

void AppendOp(const Op& op, std::string* out) {
  switch (op.kind) {
    case OpKind::kCall:
      AppendCall(op, out);
      break;
    case OpKind::kPush:
      fmt::format_to(Into(out), "push t{} n{} gap={}", op.thread, op.name, op.gap.ns());
      AppendFollows(op, out);
      break;
    case OpKind::kPop:
      fmt::format_to(Into(out), "pop t{} gap={}", op.thread, op.gap.ns());
      AppendFollows(op, out);
      break;
    case OpKind::kKernel:
      fmt::format_to(Into(out), "kernel s{} n{}", op.stream, op.name);
      AppendTiming(op, out);
      AppendGeometry(op.geometry, out);
      break;
    case OpKind::kCopy:
      fmt::format_to(Into(out), "copy s{} kind={} bytes={}", op.stream, op.copy_kind, op.bytes);
      AppendTiming(op, out);
      break;
    case OpKind::kSet:
      fmt::format_to(Into(out), "set s{} value={} bytes={}", op.stream, op.value, op.bytes);
      AppendTiming(op, out);
      break;
    case OpKind::kCollective:
      AppendCollective(op, out);
      break;
    case OpKind::kRecordEvent:
      fmt::format_to(Into(out), "event s{} e{}", op.stream, op.event);
      break;
    case OpKind::kWaitEvent:
      fmt::format_to(Into(out), "after s{} e{}", op.stream, op.event);
      break;
  }
  out->push_back('\n');
}

void AppendHeader(const Scenario& s, std::string* out) {
  fmt::format_to(Into(out), "{}\n", kMagicLine);
  if (s.pacing == Pacing::kLoop)
    fmt::format_to(Into(out), "pacing loop {}\n", s.period.ns());
  else
    *out += "pacing chain\n";
  fmt::format_to(Into(out), "noise_ppm {}\nbuffered_bytes {}\n", s.noise_ppm, s.buffered_bytes);
  for (const std::string& name : s.names) fmt::format_to(Into(out), "name {}\n", Escape(name));
  for (const Group& g : s.groups) {
    fmt::format_to(Into(out), "group comm={} name={} members={}\n", g.comm, Escape(g.name),
                   fmt::join(g.members, ","));
  }
}

}  // namespace

std::string Escape(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (unsigned char c : text) {
    if (c > ' ' && c != '%' && c != 0x7F) {
      out.push_back(static_cast<char>(c));
    } else {
      out.push_back('%');
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
    }
  }
  return out;
}

absl::Status Write(const Scenario& s, const std::function<absl::Status(std::string_view)>& out) {
  std::string text;
  AppendHeader(s, &text);
  for (const Rank& rank : s.ranks) {
    fmt::format_to(std::back_inserter(text), "rank host={} device={}\n", Escape(rank.host), rank.device);
    for (uint32_t id : rank.streams) fmt::format_to(std::back_inserter(text), "stream id={}\n", id);
    for (uint32_t id : rank.threads) fmt::format_to(std::back_inserter(text), "thread id={}\n", id);
    for (const Op& op : rank.program) {
      AppendOp(op, &text);
      if (text.size() < kFlushBytes) continue;
      if (absl::Status status = out(text); !status.ok()) return status;
      text.clear();
    }
  }
  return out(text);
}

}  // namespace lockstep::scenario
