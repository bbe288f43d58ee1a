// Implements `lockstep status`: lists daemons, ranks and captures.
#include <cstdio>
#include <map>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "aggregator/captures/selection.h"
#include "aggregator/notice/slowdown_text.h"
#include "base/json/json_out.h"
#include "base/json/json_string.h"
#include "base/log/clean_text.h"
#include "base/rpc/channel.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "cli/common/notice_json.h"
#include "cli/common/state_name.h"
#include "cli/common/values.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

constexpr char kStatusAbout[] =
    "Show daemons, jobs, ranks, captures and the precision of clocks.\n"
    "\n"
    "Examples:\n"
    "  lockstep status                                                     this node\n"
    "  lockstep status --aggregator head:7077 --token-file ~/.lockstep-token   all nodes\n"
    "  lockstep status --job 4711 --format json\n";

struct StatusFlags {
  std::string job, daemon, format = "text";
  AggregatorFlags aggregator;
};

std::string RankJson(const v1::Rank& r) {
  return absl::StrCat("{\"rank\": ", r.rank(), ", \"world_size\": ", r.world_size(),
                      ", \"local_rank\": ", r.local_rank(), ", \"job\": ", JsonQuoted(r.job()),
                      ", \"uid\": ", r.uid(), ", \"pid\": ", r.process().pid(),
                      ", \"start_ticks\": ", r.process().start_ticks(),
                      ", \"incarnation\": ", r.incarnation(), ", \"program\": ", JsonQuoted(r.program())) +
         absl::StrCat(
             ", \"rank_source\": ", JsonQuoted(r.rank_source()),
             ", \"job_source\": ", JsonQuoted(r.job_source()),
             ", \"job_by_scheduler\": ", r.job_by_scheduler() ? "true" : "false",
             ", \"client_version\": ", JsonQuoted(r.client_version()), ", \"cupti_version\": ",
             r.cupti_version() != 0 ? absl::StrCat(r.cupti_version()) : std::string("null"),
             ", \"via\": ", JsonQuoted(r.via()), ", \"kineto\": ", r.kineto() ? "true" : "false",
             ", \"cupti_holder\": ", r.cupti_holder().empty() ? "null" : JsonQuoted(r.cupti_holder()), "}");
}

std::string DaemonJson(const v1::DaemonStatus& d) {
  const bool clock = d.clock_bound_ns() != 0;
  return absl::StrCat("{\"node_id\": ", JsonQuoted(d.node_id()), ", \"host\": ", JsonQuoted(d.host_name()),
                      ", \"version\": ", JsonQuoted(d.version()),
                      ", \"clock_offset_ns\": ", clock ? absl::StrCat(d.clock_offset_ns()) : "null",
                      ", \"clock_bound_ns\": ", clock ? absl::StrCat(d.clock_bound_ns()) : "null") +
         absl::StrCat(",\n   \"ranks\": [",
                      absl::StrJoin(d.ranks(), ",\n    ",
                                    [](std::string* o, const v1::Rank& r) { *o += RankJson(r); }),
                      "],\n   \"warnings\": [",
                      absl::StrJoin(d.warnings(), ", ",
                                    [](std::string* o, const std::string& w) { *o += JsonQuoted(w); }),
                      "],\n   \"without_context\": [",
                      absl::StrJoin(d.without_context(), ", ",
                                    [](std::string* o, const std::string& w) { *o += JsonQuoted(w); }),
                      "],\n   \"kineto\": ", d.kineto().empty() ? "null" : JsonQuoted(d.kineto()), "}");
}

std::string StateJson(const v1::RankState& s) {
  return absl::StrCat("{\"pid\": ", s.process().pid(), ", \"state\": \"", StateName(s.state()),
                      "\", \"text\": ", JsonQuoted(s.text()), ", \"late_ns\": ", s.late_ns(),
                      ", \"records\": ", s.records(), "}");
}

// Returns the outcome of a capture that has ended, as in the metrics; empty: it still runs.
std::string OutcomeName(v1::TraceFinished::Outcome outcome) {
  if (outcome == v1::TraceFinished::OUTCOME_UNSPECIFIED) return "";
  return absl::AsciiStrToLower(v1::TraceFinished::Outcome_Name(outcome));
}

std::string CaptureJson(const v1::CaptureStatus& c) {
  return absl::StrCat(
      "{\"capture\": ", JsonQuoted(c.capture()), ", \"job\": ", JsonQuoted(c.job()),
      ", \"phase\": ", JsonQuoted(c.phase()), ", \"outcome\": ", JsonQuoted(OutcomeName(c.outcome())),
      ", \"text\": ", JsonQuoted(c.text()), ", \"started_unix_ns\": ", c.started_unix_ns(),
      ", \"records\": ", c.records(), ", \"states\": [",
      absl::StrJoin(c.states(), ", ", [](std::string* o, const v1::RankState& s) { *o += StateJson(s); }),
      "]}");
}

template <typename Noticed>
std::string NoticeJson(void (*write)(JsonOut&, const Noticed&), const Noticed& noticed) {
  JsonOut out(JsonOut::Layout::kOneLine);
  write(out, noticed);
  return std::string(absl::StripTrailingAsciiWhitespace(out.Take()));
}

std::string JobJson(const v1::JobSteps& j) {
  return absl::StrCat(
      "{\"job\": ", JsonQuoted(j.job()), ", \"uid\": ", j.uid(), ", \"ranks\": ", j.ranks(),
      ", \"last_step\": ", j.last_step(), ", \"compared_steps\": ", j.compared(),
      ", \"step_time_ns\": ", j.step_time_ns(), ", \"trend_ns\": [", absl::StrJoin(j.trend_ns(), ", "),
      "], \"slowdowns\": [",
      absl::StrJoin(j.slowdowns(), ",\n    ",
                    [](std::string* o, const v1::Slowdown& s) { *o += NoticeJson(&WriteSlowdown, s); }),
      "]}");
}

std::string RecordingJson(const v1::JobRecording& r) {
  return absl::StrCat("{\"job\": ", JsonQuoted(r.job()), ", \"uid\": ", r.uid(),
                      ", \"window_ns\": ", r.window_ns(), ", \"period_ns\": ", r.period_ns(),
                      ", \"keep\": ", r.keep(), ", \"since_unix_ns\": ", r.since_unix_ns()) +
         absl::StrCat(", \"windows\": ", r.windows(), ", \"failed\": ", r.failed(),
                      ", \"problem\": ", r.problem().empty() ? "null" : JsonQuoted(r.problem()),
                      ", \"captures\": [",
                      absl::StrJoin(r.captures(), ", ",
                                    [](std::string* o, const std::string& id) { *o += JsonQuoted(id); }),
                      "]}");
}

std::string ToJson(const v1::StatusReply& reply) {
  return absl::StrCat(
      "{\"schema\": \"lockstep.status/1\",\n \"daemons\": [",
      absl::StrJoin(reply.daemons(), ",\n  ",
                    [](std::string* o, const v1::DaemonStatus& d) { *o += DaemonJson(d); }),
      "],\n \"captures\": [",
      absl::StrJoin(reply.captures(), ",\n  ",
                    [](std::string* o, const v1::CaptureStatus& c) { *o += CaptureJson(c); }),
      "],\n \"hangs\": [",
      absl::StrJoin(reply.hangs(), ",\n  ",
                    [](std::string* o, const v1::JobHang& h) { *o += NoticeJson(&WriteHang, h); }),
      "],\n \"recordings\": [",
      absl::StrJoin(reply.recordings(), ",\n  ",
                    [](std::string* o, const v1::JobRecording& r) { *o += RecordingJson(r); }),
      "],\n \"jobs\": [",
      absl::StrJoin(reply.jobs(), ",\n  ", [](std::string* o, const v1::JobSteps& j) { *o += JobJson(j); }),
      "]}\n");
}

// Describes an unusual way of capturing the rank.
std::string WayText(const v1::Rank& rank) {
  if (rank.via() == "kineto") return ", by PyTorch's profiler only";
  if (rank.cupti_holder().empty()) return "";
  return absl::StrCat(", CUPTI held by ", rank.cupti_holder(),
                      rank.kineto() ? ": by PyTorch's profiler" : "");
}

std::string DaemonText(const v1::DaemonStatus& d) {
  std::string out = absl::StrCat("node ", d.host_name(), " (", d.version(), ")");
  if (d.clock_bound_ns() != 0) {
    absl::StrAppend(
        &out, ": clock ", d.clock_offset_ns() < 0 ? "-" : "+",
        FormatDuration(Nanos(d.clock_offset_ns() < 0 ? -d.clock_offset_ns() : d.clock_offset_ns())),
        " within ", FormatDuration(Nanos(d.clock_bound_ns())));
  }
  out += '\n';
  std::map<std::pair<std::string, uint32_t>, std::vector<const v1::Rank*>> jobs;
  for (const v1::Rank& rank : d.ranks()) jobs[{rank.job(), rank.uid()}].push_back(&rank);
  for (const auto& [job, ranks] : jobs) {
    std::vector<int32_t> numbers;
    for (const v1::Rank* rank : ranks) numbers.push_back(rank->rank());
    absl::StrAppend(&out, "  job ", job.first, " (uid ", job.second, ", ", ranks[0]->job_source(),
                    ranks[0]->job_by_scheduler() ? " itself" : "", "): rank", ranks.size() == 1 ? " " : "s ",
                    aggregator::RankList(numbers), " of ", ranks[0]->world_size(), "\n");
    for (const v1::Rank* rank : ranks) {
      absl::StrAppendFormat(
          &out, "    rank %-5d pid %-8d %s%s, number from %s%s%s\n", rank->rank(), rank->process().pid(),
          rank->program(),
          rank->incarnation() > 1 ? absl::StrFormat(" (incarnation %u)", rank->incarnation()) : "",
          rank->rank_source(),
          rank->cupti_version() == 0 ? "" : absl::StrFormat(", CUPTI %u", rank->cupti_version()),
          WayText(*rank));
    }
  }
  if (d.ranks_size() == 0)
    out += "  no GPU process has registered: start the job with `lockstep run -- COMMAND`\n";
  if (d.without_context_size() > 0)
    absl::StrAppend(&out, "  not a rank, because it has no CUDA context: ",
                    absl::StrJoin(d.without_context(), ", "), "\n");
  if (!d.kineto().empty()) absl::StrAppend(&out, "  PyTorch's on-demand traces: ", d.kineto(), "\n");
  for (const std::string& warning : d.warnings()) absl::StrAppend(&out, "  warning: ", warning, "\n");
  return out;
}

std::string CaptureText(const v1::CaptureStatus& c) {
  std::map<std::string, int> states;
  for (const v1::RankState& state : c.states()) ++states[StateName(state.state())];
  const std::string outcome = OutcomeName(c.outcome());
  return absl::StrCat(
      "capture ", c.capture(), " of job ", c.job(), ": ", c.phase(), outcome.empty() ? "" : ", ", outcome,
      ", ", c.records(), " records; ranks ",
      absl::StrJoin(states, ", ",
                    [](std::string* o, const auto& s) { absl::StrAppend(o, s.first, " ", s.second); }),
      c.text().empty() ? "" : absl::StrCat("\n  ", c.text()), "\n");
}

std::string UtcText(int64_t unix_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixNanos(unix_ns), absl::UTCTimeZone());
}

// `Noticed` is v1::Slowdown or v1::JobHang. Returns the end of its lines.
template <typename Noticed>
std::string NoticedText(const Noticed& noticed, const char* ended) {
  std::string out = absl::StrCat("; noticed at ", UtcText(noticed.noticed_unix_ns()));
  if (noticed.ended_unix_ns() != 0)
    absl::StrAppend(&out, ", ", ended, " at ", UtcText(noticed.ended_unix_ns()));
  if (!noticed.capture().empty()) absl::StrAppend(&out, "\n    capture ", noticed.capture());
  if (!noticed.no_capture().empty()) absl::StrAppend(&out, "\n    no capture: ", noticed.no_capture());
  return out + "\n";
}

std::string SlowdownLines(const v1::Slowdown& s) {
  return absl::StrCat("  ", s.ended_unix_ns() == 0 ? "slower" : "was slower", ": ",
                      aggregator::SlowdownText(s), NoticedText(s, "as before"));
}

std::string HangLines(const v1::JobHang& h) {
  return absl::StrCat("job ", h.job(), " (uid ", h.uid(), ") ", h.ended_unix_ns() == 0 ? "hangs" : "hung",
                      ": ", h.sentence(), NoticedText(h, "moved"));
}

std::string JobText(const v1::JobSteps& j) {
  std::string out =
      absl::StrCat("job ", j.job(), " (uid ", j.uid(), "): step ", j.last_step(), ", ",
                   FormatDuration(Nanos(j.step_time_ns())), " per step, ", j.ranks(), " ranks compared\n");
  for (const v1::Slowdown& slowdown : j.slowdowns()) out += SlowdownLines(slowdown);
  return out;
}

std::string ToText(const v1::StatusReply& reply) {
  std::string out;
  for (const v1::DaemonStatus& daemon : reply.daemons()) out += DaemonText(daemon);
  for (const v1::JobHang& hang : reply.hangs()) out += HangLines(hang);
  for (const v1::JobSteps& job : reply.jobs()) out += JobText(job);
  for (const v1::CaptureStatus& capture : reply.captures()) out += CaptureText(capture);
  if (reply.daemons_size() == 0) out += "no daemon is connected\n";
  return out;
}

absl::StatusOr<std::unique_ptr<v1::StatusReply>> Ask(const StatusFlags& flags) {
  rpc::PrepareProcess();
  if (flags.aggregator.given()) {
    auto client = ConnectAggregator(flags.aggregator);
    if (!client.ok()) return client.status();
    return (*client)->Status(flags.job);
  }
  auto daemon = DaemonFinder(flags.daemon).Find();
  if (!daemon.ok()) return daemon.status();
  return DaemonStatus(daemon->control_socket, flags.job);
}

ExitCode Status(const StatusFlags& flags) {
  auto reply = Ask(flags);
  if (!reply.ok()) {
    // Scripts that request JSON get a document also on failure.
    if (flags.format == "json") std::fputs(ToJson(v1::StatusReply()).c_str(), stdout);
    return Fail(reply.status());
  }
  std::fputs((flags.format == "json" ? ToJson(**reply) : CleanLines(ToText(**reply))).c_str(), stdout);
  if (flags.job.empty()) return ExitCode::kDone;
  for (const v1::DaemonStatus& daemon : (*reply)->daemons()) {
    if (daemon.ranks_size() > 0) return ExitCode::kDone;
  }
  return Fail(
      ExitCode::kNotFound,
      absl::StrCat("job ", flags.job, " has no ranks here; `lockstep status` without --job lists all jobs"));
}

}  // namespace

void AddStatus(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "status", kStatusAbout);
  auto flags = std::make_shared<StatusFlags>();
  sub->add_option("--job", flags->job, "Only this job")->type_name(kJobValue);
  sub->add_option("--daemon", flags->daemon, "Client socket of the daemon")->type_name(kSocketValue);
  sub->add_option("--format", flags->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Status(*flags); }; });
}

}  // namespace lockstep::cli
