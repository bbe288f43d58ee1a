// report.json, schema lockstep.report/1. Member for member the order of docs/formats/report.md.
#include "base/json/json_out.h"
#include "report/report.h"

namespace lockstep::report {
namespace {

void WriteRange(JsonOut& out, std::string_view name, const std::optional<Range>& range) {
  out.Key(name);
  if (!range) return out.Null();
  out.BeginArray();
  out.Value(range->low);
  out.Value(range->high);
  out.EndArray();
}

template <typename Rows, typename WriteRow>
void WriteArray(JsonOut& out, std::string_view name, const Rows& rows, WriteRow write) {
  out.Key(name).BeginArray();
  for (const auto& row : rows) {
    out.BeginObject();
    write(row);
    out.EndObject();
  }
  out.EndArray();
}

void WriteClock(JsonOut& out, const CaptureRow& c) {
  out.Key("clock").BeginObject();
  out.Member("bound_ns", c.clock_bound);
  WriteArray(out, "hosts", c.clocks, [&](const HostClockRow& h) {
    out.Member("host", h.host);
    out.Member("offset_ns", h.offset);
    out.Member("drift_ppm", h.drift_ppm);
    out.Member("bound_ns", h.bound);
    out.Member("method", h.method);
  });
  out.EndObject();
}

void WriteCapture(JsonOut& out, const CaptureRow& c) {
  out.Key("capture").BeginObject();
  out.Member("id", c.id);
  out.Member("job", c.job);
  out.Member("source", c.source);
  out.Member("start_unix_ns", c.start_unix_ns);
  out.Member("duration_ns", c.duration);
  out.Member("world_size", c.world_size);
  out.Member("hosts", c.hosts);
  out.Member("steps", c.steps);
  out.Member("partial", c.partial);
  out.Member("missing_ranks", c.missing_ranks);
  WriteArray(out, "losses", c.losses, [&](const LossRow& l) {
    out.Member("rank", l.rank);
    out.Member("stage", l.stage);
    out.Member("kind", l.kind);
    out.Member("records", l.records);
    out.Member("from_ns", l.from_ns);
    out.Member("to_ns", l.to_ns);
    out.Member("reason", l.reason);
  });
  WriteArray(out, "graphs_not_visible", c.graphs_not_visible, [&](const UnseenGraphsRow& g) {
    out.Member("rank", g.rank);
    out.Member("launches", g.launches);
  });
  WriteClock(out, c);
  const MatchingRow& m = c.matching;
  out.Key("matching").BeginObject();
  out.Member("instances", m.instances);
  out.Member("matched_fraction", m.matched_fraction);
  out.Key("by").BeginObject();
  out.Member("nccl_seq", m.nccl_seq);
  out.Member("pg_seq", m.pg_seq);
  out.Member("order", m.order);
  out.Member("graph", m.graph);
  out.Member("inferred", m.inferred);
  out.EndObject();
  out.Member("conflicts", m.conflicts);
  out.Member("unmatched", m.unmatched);
  out.Member("partial", m.partial);
  out.Member("cut_by_window", m.cut_by_window);
  out.Member("partner_lost", m.partner_lost);
  out.EndObject();
  out.Member("notes", c.notes);
  out.EndObject();
}

void WriteRank(JsonOut& out, const RankRow& r) {
  out.Member("rank", r.rank);
  out.Member("host", r.host);
  out.Member("device", r.device);
  out.Member("device_name", r.device_name);
  out.Member("device_uuid", r.device_uuid);
  out.Member("pid", r.pid);
  out.Member("incarnation", r.incarnation);
  out.Member("span_ns", r.span);
  out.Member("compute_ns", r.compute);
  out.Member("communication_ns", r.communication);
  out.Member("memory_ns", r.memory);
  out.Member("overlap_ns", r.overlap);
  out.Member("overlap_fraction", r.overlap_fraction);
  out.Member("exposed_communication_ns", r.exposed_communication);
  out.Member("exposed_transfer_ns", r.exposed_transfer);
  out.Member("exposed_wait_ns", r.exposed_wait);
  out.Member("exposed_unsplit_ns", r.exposed_unsplit);
  out.Member("exposed_memory_ns", r.exposed_memory);
  out.Member("idle_ns", r.idle);
  out.Member("wait_ns", r.wait);
  out.Member("transfer_ns", r.transfer);
  out.Member("unsplit_ns", r.unsplit);
  out.Member("wait_by_clock_ns", r.wait_by_clock);
  out.Member("caused_wait_ns", r.caused_wait);
  out.Member("late_from_before_ns", r.late_from_before);
  out.Member("gpu_utilization", r.gpu_utilization);
  out.Member("sm_efficiency", r.sm_efficiency);
  out.Member("achieved_occupancy", r.achieved_occupancy);
  out.Member("tensor_core_fraction", r.tensor_core_fraction);
  out.Member("gain_ns_per_step", r.gain_ns_per_step);
  out.Member("gain_at_most_ns_per_step", r.gain_at_most_ns_per_step);
  out.Member("parallel_efficiency", r.parallel_efficiency);
}

void WriteFactors(JsonOut& out, const EfficiencyFactors& e) {
  out.Member("parallel", e.parallel);
  out.Member("load_balance", e.load_balance);
  out.Member("communication", e.communication);
  out.Member("orchestration", e.orchestration);
}

void WriteStep(JsonOut& out, const StepRow& s) {
  out.Member("step", s.step);
  out.Member("duration_ns", s.duration);
  out.Key("efficiency").BeginObject();
  WriteFactors(out, s.efficiency);
  out.EndObject();
  WriteArray(out, "ranks", s.ranks, [&](const StepRankRow& r) {
    out.Member("rank", r.rank);
    out.Member("duration_ns", r.duration);
    out.Member("self_ns", r.self);
    out.Member("wait_ns", r.wait);
    out.Member("overlap_ns", r.overlap);
    out.Member("lost_ns", r.lost);
  });
}

void WriteBreakdown(JsonOut& out, const BreakdownRow& b) {
  out.Member("rank", b.rank);
  out.Member("kernel_ns", b.kernel);
  out.Member("memcpy_ns", b.memcpy);
  out.Member("memset_ns", b.memset);
  out.Member("communication_ns", b.communication);
  out.Member("runtime_ns", b.runtime);
  out.Member("dataloader_ns", b.dataloader);
  out.Member("cpu_exec_ns", b.cpu_exec);
  out.Member("other_ns", b.other);
}

void WriteCollective(JsonOut& out, const CollectiveRow& c) {
  out.Member("group", c.group);
  out.Member("group_size", c.group_size);
  out.Member("op", c.op);
  out.Member("count", c.count);
  out.Member("bytes", c.bytes);
  out.Member("duration_ns", c.duration);
  out.Member("wait_ns", c.wait);
  out.Member("transfer_ns", c.transfer);
  out.Key("skew_ns").BeginObject();
  out.Member("mean", c.skew_mean);
  out.Member("p50", c.skew_p50);
  out.Member("p99", c.skew_p99);
  out.Member("max", c.skew_max);
  out.EndObject();
  out.Member("algbw_gbps", c.algbw_gbps);
  out.Member("busbw_gbps", c.busbw_gbps);
  WriteArray(out, "last_arrivals", c.last_arrivals, [&](const CollectiveRow::Last& l) {
    out.Member("rank", l.rank);
    out.Member("count", l.count);
  });
}

void WriteSlowdown(JsonOut& out, const SlowdownRow& s) {
  out.Key("slowdown").BeginObject();
  out.Member("step_ns", s.step_ns);
  out.Member("ideal_step_ns", s.ideal_step_ns);
  out.Member("ratio", s.ratio);
  out.Member("lost_ns_per_step", s.lost_ns_per_step);
  out.Member("noise_floor_ns_per_step", s.noise_floor_ns_per_step);
  WriteRange(out, "interval", s.interval);
  out.Member("noise_ns_per_step", s.noise_ns_per_step);
  out.Member("unlisted_ns_per_step", s.unlisted_ns_per_step);
  out.Member("unexplained_ns_per_step", s.unexplained_ns_per_step);
  out.EndObject();
}

void WriteStraggler(JsonOut& out, const StragglerRow& s) {
  out.Member("kind", s.kind);
  out.Member("ranks", s.ranks);
  out.Member("hosts", s.hosts);
  out.Member("cause", s.cause);
  out.Member("lost_ns_per_step", s.lost_ns_per_step);
  out.Member("share", s.share);
  out.Member("gain_ns_per_step", s.gain_ns_per_step);
  WriteRange(out, "gain_interval", s.gain_interval);
  out.Member("verdict", s.verdict);
  out.Member("confidence", s.confidence);
  out.Member("since_step", s.since_step);
  out.Member("until_step", s.until_step);
  out.Member("affected_steps", s.affected_steps);
  out.Member("excess_before_ns", s.excess_before_ns);
  out.Member("excess_since_ns", s.excess_since_ns);
  out.Member("caused_wait_ns_per_step", s.caused_wait_ns_per_step);
  out.Member("evidence", s.evidence);
  out.Member("delayed_ranks", s.delayed_ranks);
  out.Member("action", s.action);
}

void WriteWaiting(JsonOut& out, const std::optional<WaitingRow>& waiting) {
  out.Key("waiting");
  if (!waiting) return out.Null();
  out.BeginObject();
  out.Member("waited_ns_per_step", waiting->waited_ns_per_step);
  out.Member("unexplained_ns_per_step", waiting->unexplained_ns_per_step);
  out.Member("level", waiting->by_host ? "host" : "rank");
  out.Member("places", waiting->places);
  WriteArray(out, "causers", waiting->causers, [&](const WaitingRow::Causer& c) {
    out.Member("rank", c.rank);
    out.Member("host", c.host);
    out.Member("direct_ns_per_step", c.direct_ns_per_step);
    out.Member("passed_on_ns_per_step", c.passed_on_ns_per_step);
    out.Member("victims", c.victims);
    out.Member("path", c.path);
  });
  WriteArray(out, "cells", waiting->cells, [&](const WaitingRow::Cell& c) {
    out.Member("causer", c.causer);
    out.Member("victim", c.victim);
    out.Member("wait_ns_per_step", c.wait_ns_per_step);
  });
  out.EndObject();
}

void WriteTail(JsonOut& out, const Report& report) {
  WriteArray(out, "fixes", report.fixes, [&](const FixRow& f) {
    out.Member("entries", f.entries);
    out.Member("gain_ns_per_step", f.gain_ns_per_step);
    WriteRange(out, "gain_interval", f.gain_interval);
  });
  out.Member("not_the_cause", report.not_the_cause);
  WriteWaiting(out, report.waiting);
  const EfficiencyRow& e = report.efficiency;
  out.Key("efficiency").BeginObject();
  WriteFactors(out, e.factors);
  out.Member("serialisation", e.serialisation);
  out.Member("transfer", e.transfer);
  out.Member("load_balance_stage", e.load_balance_stage);
  out.Member("load_balance_data", e.load_balance_data);
  out.Member("load_balance_tensor", e.load_balance_tensor);
  out.Member("serialisation_typical", e.serialisation_typical);
  out.Member("serialisation_stragglers", e.serialisation_stragglers);
  out.Member("critical_communication_ns_per_step", e.critical_communication_ns_per_step);
  WriteArray(out, "groups", e.groups, [&](const EfficiencyRow::Group& g) {
    out.Member("group", g.group);
    out.Member("ranks", g.ranks);
    WriteFactors(out, g.factors);
  });
  out.EndObject();
  out.Member("recommendations", report.recommendations);
}

}  // namespace

absl::Status WriteJson(const Report& report, store::ByteSink& sink) {
  JsonOut out;
  out.BeginObject();
  out.Member("schema", "lockstep.report/1");
  out.Member("verdict", VerdictSentence(report));
  WriteCapture(out, report.capture);
  WriteArray(out, "ranks", report.ranks, [&](const RankRow& r) { WriteRank(out, r); });
  WriteArray(out, "steps", report.steps, [&](const StepRow& s) { WriteStep(out, s); });
  WriteArray(out, "step_breakdown", report.step_breakdown,
             [&](const BreakdownRow& b) { WriteBreakdown(out, b); });
  WriteArray(out, "collectives", report.collectives,
             [&](const CollectiveRow& c) { WriteCollective(out, c); });
  WriteSlowdown(out, report.slowdown);
  WriteArray(out, "stragglers", report.stragglers, [&](const StragglerRow& s) { WriteStraggler(out, s); });
  WriteTail(out, report);
  out.EndObject();
  return sink.Append(out.Take());
}

}  // namespace lockstep::report
