#include "cli/hang/hang_output.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/hang/hang_text.h"
#include "analysis/hang/ras_report.h"
#include "base/json/json_out.h"

namespace lockstep::cli {
namespace {

using analysis::HangExplanation;
using analysis::HangFinding;
using analysis::HangWait;
using analysis::RasReport;
using Result = RasReport::Result;

const char* VerdictName(HangExplanation::Verdict verdict) {
  switch (verdict) {
    case HangExplanation::Verdict::kHang:
      return "hang";
    case HangExplanation::Verdict::kWaiting:
      return "waiting";
    case HangExplanation::Verdict::kNoHang:
      return "no_hang";
  }
  return "no_hang";
}

std::string UnreadableText(const HangExplanation& explained) {
  if (explained.unreadable == 0) return "";
  return absl::StrCat("  ", explained.unreadable, explained.unreadable == 1 ? " operation" : " operations",
                      " could not be read, and may be part of a wait\n");
}

// Returns "NCCL's RAS (NCCL 2.28.9)".
std::string RasName(const RasReport& ras) {
  return absl::StrCat("NCCL's RAS",
                      ras.nccl_version.empty() ? "" : absl::StrCat(" (NCCL ", ras.nccl_version, ")"));
}

// The verdict of a job whose ranks keep no progress.
std::string RasJobText(const ExplainedJob& job, const RasReport& ras) {
  const std::string end =
      absl::StrCat("  job ", job.job, ", seen by ", RasName(ras),
                   " only, which counts calls and knows no times; `lockstep run --mode nccl` "
                   "shows more\n");
  const auto lines = [&](std::string text) {
    for (const std::string& sentence : ras.sentences) absl::StrAppend(&text, "  ", sentence, "\n");
    return text + end;
  };
  switch (ras.result) {
    case Result::kStandsStill:
      return lines(absl::StrCat(
          ras.may_end ? "WAITING" : "HANG", ": job ", job.job,
          " has members behind others, and no count has changed in ", analysis::AgeText(ras.between), "\n",
          ras.may_end ? "  the late ranks compute, so the wait may end by itself\n" : ""));
    case Result::kMoves:
      return lines(
          absl::StrCat("NO HANG: members of job ", job.job, " have different counts, which change\n"));
    case Result::kNoDifference:
      return absl::StrCat("NO HANG: no member of a communicator of job ", job.job,
                          " is behind another one; this does not show whether the job moves\n", end);
    case Result::kUnreachable:
    case Result::kAgrees:
    case Result::kContradicts:
    case Result::kSaysNothing:
      break;
  }
  return absl::StrCat("NO HANG: no rank of job ", job.job, " keeps its progress, and ", RasName(ras),
                      " is not reachable: ", ras.problem, "\n");
}

// RAS's view of a hang that the progress shows.
std::string RasEvidenceText(const RasReport& ras) {
  std::string text;
  switch (ras.result) {
    case Result::kAgrees:
      text = " agrees: ";
      break;
    case Result::kContradicts:
      text = " contradicts: ";
      break;
    case Result::kUnreachable:
      return absl::StrCat("  ", RasName(ras), " is not reachable: ", ras.problem, "\n");
    case Result::kNoDifference:
    case Result::kMoves:
    case Result::kStandsStill:
    case Result::kSaysNothing:
      text = " says nothing: ";
      break;
  }
  return absl::StrCat("  ", RasName(ras), text, absl::StrJoin(ras.sentences, "; "), "\n");
}

std::string JobText(const ExplainedJob& job) {
  const HangExplanation& explained = job.explanation;
  if (job.ras && explained.ranks_seen == 0) return RasJobText(job, *job.ras);
  if (explained.verdict == HangExplanation::Verdict::kNoHang) {
    return absl::StrCat("NO HANG: ", explained.ranks_seen, explained.ranks_seen == 1 ? " rank" : " ranks",
                        " of job ", job.job, " with communicators; the longest wait is ",
                        analysis::AgeText(explained.longest_wait), "\n", UnreadableText(explained));
  }
  std::string text;
  for (const HangFinding& finding : explained.findings) {
    absl::StrAppend(&text, finding.may_end ? "WAITING: " : "HANG: ", finding.sentence, "\n");
    for (const std::string& reason : finding.reasons) absl::StrAppend(&text, "  ", reason, "\n");
    if (finding.may_end) text += "  the wait may end by itself\n";
  }
  if (job.ras) text += RasEvidenceText(*job.ras);
  if (explained.other_waits > 0)
    absl::StrAppend(&text, "  ", explained.other_waits,
                    explained.other_waits == 1 ? " further wait follows" : " further waits follow",
                    " from this\n");
  absl::StrAppend(&text, "  job ", job.job, ", ", explained.ranks_seen, " of ", job.world_size,
                  " ranks with communicators\n", UnreadableText(explained));
  return text;
}

void WriteWait(JsonOut& out, const HangWait& wait) {
  out.Member("communicator", absl::StrCat(absl::Hex(wait.communicator, absl::kZeroPad16)));
  out.Member("communicator_name", wait.communicator_name);
  out.Member("op", analysis::OperationName(wait.function));
  out.Key("number");
  if (wait.number == 0)
    out.Null();
  else
    out.Value(wait.number);
  out.Member("waited_ns", wait.waited);
  out.Member("waiting_ranks", wait.waiting);
  out.Member("late_ranks", wait.late);
  out.Member("unknown_members", wait.unknown_members);
}

enum class Lines : uint8_t { kNone, kKnown };

void WriteFrames(JsonOut& out, const analysis::HangStack& stack, Lines lines) {
  out.Key("frames").BeginArray();
  for (const analysis::HangFrame& frame : stack.frames) {
    out.BeginObject();
    out.Member("file", frame.file);
    if (lines == Lines::kKnown) {
      out.Key("line");
      if (frame.line == 0)
        out.Null();
      else
        out.Value(frame.line);
    }
    out.Member("function", frame.function);
    out.EndObject();
  }
  out.EndArray();
  out.Member("more_frames", stack.more);
}

void WriteStacks(JsonOut& out, const analysis::HangRankStacks& of_rank) {
  const analysis::HangStacks& stacks = of_rank.stacks;
  out.BeginObject();
  out.Member("rank", of_rank.rank);
  out.Key("python").BeginObject();
  WriteFrames(out, stacks.python, Lines::kKnown);
  out.Member("problem", stacks.python_problem);
  out.EndObject();
  out.Key("native").BeginArray();
  for (const analysis::HangStack& stack : stacks.native) {
    out.BeginObject();
    out.Member("thread", stack.thread);
    WriteFrames(out, stack, Lines::kNone);
    out.EndObject();
  }
  out.EndArray();
  out.Member("native_problem", stacks.native_problem);
  out.EndObject();
}

void WriteRas(JsonOut& out, const RasReport& ras) {
  out.BeginObject();
  out.Member("result", analysis::RasResultName(ras.result));
  out.Member("problem", ras.problem);
  out.Member("nccl_version", ras.nccl_version);
  out.Member("sentences", ras.sentences);
  out.Member("late_ranks", ras.late_ranks);
  out.Member("may_end", ras.may_end);
  out.Member("between_ns", ras.between);
  out.EndObject();
}

void WriteLink(JsonOut& out, const analysis::HangLink& link) {
  out.BeginObject();
  out.Member("from_member", link.from);
  out.Member("from_rank", link.from_rank);
  out.Member("to_member", link.to);
  out.Member("to_rank", link.to_rank);
  out.Member("waits_for", link.wait == analysis::HangLink::Wait::kNetwork ? "network" : "buffer");
  out.Member("channels", link.channels);
  out.Member("steps_done", link.steps_done);
  out.Member("steps", link.steps);
  out.Member("still_ns", link.still);
  out.EndObject();
}

void WriteFinding(JsonOut& out, const HangFinding& finding) {
  out.BeginObject();
  out.Member("cause", analysis::HangCauseName(finding.cause));
  out.Member("may_end", finding.may_end);
  out.Member("sentence", finding.sentence);
  WriteWait(out, finding.wait);
  out.Key("circle").BeginArray();
  for (const HangWait& wait : finding.circle) {
    out.BeginObject();
    WriteWait(out, wait);
    out.EndObject();
  }
  out.EndArray();
  out.Member("reasons", finding.reasons);
  out.Key("links").BeginArray();
  for (const analysis::HangLink& link : finding.links) WriteLink(out, link);
  out.EndArray();
  out.Key("stacks").BeginArray();
  for (const analysis::HangRankStacks& stacks : finding.stacks) WriteStacks(out, stacks);
  out.EndArray();
  out.EndObject();
}

}  // namespace

std::string HangText(const std::vector<ExplainedJob>& jobs) {
  std::string text;
  for (const ExplainedJob& job : jobs) text += JobText(job);
  return text;
}

std::string HangJson(const std::vector<ExplainedJob>& jobs, const std::vector<std::string>& silent_hosts,
                     Nanos after) {
  JsonOut out;
  out.BeginObject();
  out.Member("schema", "lockstep.hang/1");
  out.Member("after_ns", after);
  out.Key("jobs").BeginArray();
  for (const ExplainedJob& job : jobs) {
    out.BeginObject();
    out.Member("job", job.job);
    out.Member("world_size", job.world_size);
    out.Member("verdict", VerdictName(job.explanation.verdict));
    out.Member("ranks_seen", static_cast<uint64_t>(job.explanation.ranks_seen));
    out.Member("longest_wait_ns", job.explanation.longest_wait);
    out.Member("unreadable_operations", job.explanation.unreadable);
    out.Key("findings").BeginArray();
    for (const HangFinding& finding : job.explanation.findings) WriteFinding(out, finding);
    out.EndArray();
    out.Member("other_waits", static_cast<uint64_t>(job.explanation.other_waits));
    out.Key("ras");
    if (job.ras)
      WriteRas(out, *job.ras);
    else
      out.Null();
    out.EndObject();
  }
  out.EndArray();
  out.Member("silent_hosts", silent_hosts);
  out.EndObject();
  return out.Take();
}

}  // namespace lockstep::cli
