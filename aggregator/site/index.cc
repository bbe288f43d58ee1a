#include "aggregator/site/index.h"

#include "base/json/json_out.h"

namespace lockstep::aggregator {
namespace {

void WriteJob(JsonOut& out, const JobRow& job) {
  out.BeginObject();
  out.Member("job", job.job);
  out.Member("uid", job.uid);
  out.Member("state", job.state);
  out.Member("ranks", job.ranks);
  out.Member("world_size", job.world_size);
  out.Member("hosts", job.hosts);
  out.Member("last_seen_unix_ns", job.last_seen.ns());
  out.Member("step_ns", job.step);
  out.Member("trend_ns", job.trend);
  out.Member("slow_ranks", job.slow_ranks);
  out.Member("alarm", job.alarm);
  out.Member("alarm_text", job.alarm_text);
  out.Member("window_ns", job.window);
  out.Member("period_ns", job.period);
  out.EndObject();
}

void WriteCapture(JsonOut& out, const CaptureRow& c) {
  out.BeginObject();
  out.Member("id", c.id);
  out.Member("job", c.job);
  out.Member("uid", c.uid);
  out.Member("state", c.state);
  out.Member("text", c.text);
  out.Member("start_unix_ns", c.start_unix_ns);
  out.Member("duration_ns", c.duration);
  out.Member("world_size", c.world_size);
  out.Member("ranks", c.ranks);
  out.Member("missing_ranks", c.missing_ranks);
  out.Member("hosts", c.hosts);
  out.Member("steps", c.steps);
  out.Member("records", c.records);
  out.Member("lost_records", c.lost_records);
  out.Member("bytes", c.bytes);
  out.Member("slowdown_ratio", c.slowdown_ratio);
  out.Member("culprit_ranks", c.culprit_ranks);
  out.Member("cause", c.cause);
  out.Member("verdict", c.verdict);
  out.Member("gain_ns_per_step", c.gain_ns_per_step);
  out.Member("files", c.files);
  out.EndObject();
}

}  // namespace

std::string IndexToJson(const Index& index) {
  JsonOut out;
  out.BeginObject();
  out.Member("schema", "lockstep.index/1");
  out.Member("program", index.program);
  out.Member("listen", index.listen);
  out.Member("daemons", index.daemons);
  out.Member("unread", index.unread);
  out.Key("jobs").BeginArray();
  for (const JobRow& job : index.jobs) WriteJob(out, job);
  out.EndArray();
  out.Key("captures").BeginArray();
  for (const CaptureRow& capture : index.captures) WriteCapture(out, capture);
  out.EndArray();
  out.EndObject();
  return out.Take();
}

}  // namespace lockstep::aggregator
