#include "cli/top/top_json.h"

#include <optional>

#include "base/json/json_out.h"
#include "cli/common/notice_json.h"

namespace lockstep::cli {
namespace {

// An optional field of a message; nullopt if it is not set.
#define LOCKSTEP_OPTIONAL(message, field) \
  ((message).has_##field() ? std::optional((message).field()) : std::nullopt)

template <typename Numbers>
void WriteNumbers(JsonOut& out, const char* name, const Numbers& numbers) {
  out.Key(name).BeginArray();
  for (const auto number : numbers) out.Value(number);
  out.EndArray();
}

void WriteStraggler(JsonOut& out, const v1::SampleStraggler& s) {
  out.BeginObject();
  out.Member("kind", s.kind());
  WriteNumbers(out, "ranks", s.ranks());
  out.Key("hosts").BeginArray();
  for (const std::string& host : s.hosts()) out.Value(host);
  out.EndArray();
  out.Member("cause", s.cause());
  out.Member("verdict", s.verdict());
  out.Member("confidence", LOCKSTEP_OPTIONAL(s, confidence));
  out.Member("lost_ns_per_step", s.lost_ns_per_step());
  out.Member("gain_ns_per_step", LOCKSTEP_OPTIONAL(s, gain_ns_per_step));
  out.EndObject();
}

void WriteRank(JsonOut& out, const v1::SampleRank& r) {
  out.BeginObject();
  out.Member("rank", r.rank());
  out.Member("host", r.host());
  out.Member("device", r.device());
  out.Member("self_ns_per_step", LOCKSTEP_OPTIONAL(r, self_ns_per_step));
  out.Member("lost_ns_per_step", LOCKSTEP_OPTIONAL(r, lost_ns_per_step));
  out.Member("span_ns", r.span_ns());
  out.Member("exposed_wait_ns", r.exposed_wait_ns());
  out.Member("exposed_transfer_ns", r.exposed_transfer_ns());
  out.Member("idle_ns", r.idle_ns());
  out.Member("overlap_fraction", LOCKSTEP_OPTIONAL(r, overlap_fraction));
  out.Member("lost_records", r.lost_records());
  out.EndObject();
}

void WriteGroup(JsonOut& out, const v1::SampleGroup& g) {
  out.BeginObject();
  out.Member("group", g.group());
  out.Member("group_size", g.size());
  out.Member("op", g.op());
  out.Member("count", g.count());
  out.Member("skew_p50_ns", g.skew_p50_ns());
  out.Member("skew_p99_ns", g.skew_p99_ns());
  out.Member("last_rank", LOCKSTEP_OPTIONAL(g, last_rank));
  out.Member("last_count", g.last_count());
  out.EndObject();
}

void WritePlace(JsonOut& out, const TopModel& model, const v1::Sample& s) {
  out.Member("sample", s.number());
  out.Member("begin_unix_ns", s.begin_unix_ns());
  out.Member("window_ns", s.window_ns());
  out.Member("every_ns", model.pace().every_ns());
  out.Member("watchers", model.pace().watchers());
  out.Member("sampled_ns", s.sampled_ns());
  out.Member("elapsed_ns", s.elapsed_ns());
  out.Member("took_ns", s.took_ns());
  out.Member("world_size", s.world_size());
  out.Member("hosts", s.hosts());
  WriteNumbers(out, "missing_ranks", s.missing_ranks());
}

void WriteSample(JsonOut& out, const TopModel& model, const v1::Sample& s) {
  WritePlace(out, model, s);
  out.Member("steps", s.steps());
  out.Member("last_step", LOCKSTEP_OPTIONAL(s, last_step));
  out.Member("step_ns", LOCKSTEP_OPTIONAL(s, step_ns));
  out.Member("step_since_sample_ns", model.StepSinceSampleNs());
  out.Member("ideal_step_ns", LOCKSTEP_OPTIONAL(s, ideal_step_ns));
  out.Member("ratio", LOCKSTEP_OPTIONAL(s, ratio));
  out.Member("lost_ns_per_step", LOCKSTEP_OPTIONAL(s, lost_ns_per_step));
  out.Member("noise_floor_ns_per_step", LOCKSTEP_OPTIONAL(s, noise_floor_ns_per_step));
  out.Member("verdict", s.verdict());
  const TopAgreement agreement = model.Agreement();
  out.Member("agree", static_cast<uint64_t>(agreement.agree));
  out.Member("agree_of", static_cast<uint64_t>(agreement.of));
  out.Key("stragglers").BeginArray();
  for (const v1::SampleStraggler& straggler : s.stragglers()) WriteStraggler(out, straggler);
  out.EndArray();
  out.Key("ranks").BeginArray();
  for (const v1::SampleRank& rank : s.ranks()) WriteRank(out, rank);
  out.EndArray();
  out.Key("collectives").BeginArray();
  for (const v1::SampleGroup& group : s.groups()) WriteGroup(out, group);
  out.EndArray();
  out.Member("records", s.records());
  out.Key("losses").BeginArray();
  for (const v1::Loss& loss : s.losses()) {
    out.BeginObject();
    out.Member("stage", loss.stage());
    out.Member("records", loss.records());
    out.Member("reason", loss.reason());
    out.EndObject();
  }
  out.EndArray();
  out.Member("clock_bound_ns", LOCKSTEP_OPTIONAL(s, clock_bound_ns));
}

// Writes what has not ended.
void WriteNotice(JsonOut& out, const v1::JobNotice& notice) {
  out.Key("slowdowns").BeginArray();
  for (const v1::Slowdown& slowdown : notice.steps().slowdowns()) {
    if (slowdown.ended_unix_ns() == 0) WriteSlowdown(out, slowdown);
  }
  out.EndArray();
  out.Key("hangs").BeginArray();
  for (const v1::JobHang& hang : notice.hangs()) WriteHang(out, hang);
  out.EndArray();
  WriteNumbers(out, "trend_ns", notice.steps().trend_ns());
}

#undef LOCKSTEP_OPTIONAL

}  // namespace

std::string TopToJson(const TopModel& model, const v1::WatchEvent& event) {
  if (!PrintedInTop(event)) return "";
  JsonOut out(JsonOut::Layout::kOneLine);
  out.BeginObject();
  out.Member("schema", "lockstep.top/1");
  out.Member("event", event.has_sample() ? "sample" : event.has_pause() ? "pause" : "ended");
  out.Member("job", model.pace().job_name());
  if (event.has_sample()) WriteSample(out, model, event.sample());
  if (event.has_pause()) {
    out.Member("at_unix_ns", event.pause().at_unix_ns());
    out.Member("gave_way", event.pause().gave_way());
    out.Member("reason", event.pause().reason());
  }
  if (event.has_ended()) {
    out.Member("samples", event.ended().samples());
  } else {
    WriteNotice(out, model.notice());
  }
  out.EndObject();
  return out.Take();
}

}  // namespace lockstep::cli
