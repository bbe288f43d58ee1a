#include "cli/common/notice_json.h"

#include <optional>
#include <string>

namespace lockstep::cli {
namespace {

std::optional<int64_t> IfEnded(int64_t unix_ns) {
  return unix_ns == 0 ? std::nullopt : std::optional(unix_ns);
}

std::optional<std::string> IfKnown(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

void WriteSlowdown(JsonOut& out, const v1::Slowdown& slowdown) {
  out.BeginObject();
  out.Member("rank", slowdown.rank());
  out.Member("host", slowdown.host_name());
  out.Member("since_step", slowdown.since_step());
  out.Member("noticed_step", slowdown.noticed_step());
  out.Member("since_unix_ns", slowdown.since_unix_ns());
  out.Member("noticed_unix_ns", slowdown.noticed_unix_ns());
  out.Member("ended_unix_ns", IfEnded(slowdown.ended_unix_ns()));
  out.Member("own_before_ns", slowdown.own_before_ns());
  out.Member("own_now_ns", slowdown.own_now_ns());
  out.Member("step_before_ns", slowdown.step_before_ns());
  out.Member("step_now_ns", slowdown.step_now_ns());
  out.Member("capture", IfKnown(slowdown.capture()));
  out.Member("no_capture", IfKnown(slowdown.no_capture()));
  out.EndObject();
}

void WriteHang(JsonOut& out, const v1::JobHang& hang) {
  out.BeginObject();
  out.Member("job", hang.job());
  out.Member("uid", hang.uid());
  out.Member("cause", hang.cause());
  out.Member("sentence", hang.sentence());
  out.Key("reasons").BeginArray();
  for (const std::string& reason : hang.reasons()) out.Value(reason);
  out.EndArray();
  out.Key("late_ranks").BeginArray();
  for (const int32_t rank : hang.late_ranks()) out.Value(rank);
  out.EndArray();
  out.Key("late_hosts").BeginArray();
  for (const std::string& host : hang.late_hosts()) out.Value(host);
  out.EndArray();
  out.Member("since_unix_ns", hang.since_unix_ns());
  out.Member("noticed_unix_ns", hang.noticed_unix_ns());
  out.Member("ended_unix_ns", IfEnded(hang.ended_unix_ns()));
  out.Member("capture", IfKnown(hang.capture()));
  out.Member("no_capture", IfKnown(hang.no_capture()));
  out.EndObject();
}

}  // namespace lockstep::cli
