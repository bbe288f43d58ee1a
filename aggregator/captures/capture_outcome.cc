#include "aggregator/captures/capture_outcome.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep::aggregator {
namespace {

using v1::RankState;

std::string StateName(const CaptureRank& rank) {
  switch (rank.state.state()) {
    case RankState::FAILED:
      return "failed";
    case RankState::GONE:
      return "gone";
    default:
      return rank.ended ? "done" : "unfinished";
  }
}

// Suggests a way to capture a rank whose client found CUPTI held by another tool.
std::string Remedy(const RankState& state, const v1::Rank& rank) {
  if (state.refusal() != RankState::HELD || state.went_over()) return "";
  return rank.kineto() ? "; --via auto captures it by PyTorch's own profiler"
                       : "; end that tool, or start a PyTorch job with KINETO_USE_DAEMON=1 and its own "
                         "profiler is used";
}

const char* RankNoun(size_t n) { return n == 1 ? "rank " : "ranks "; }

capture::ManifestProcess DescribeProcess(const CaptureRank& rank, uint32_t host) {
  capture::ManifestProcess p;
  p.rank = RankId(rank.seen.rank.rank());
  p.host = host;
  p.pid = rank.seen.rank.process().pid();
  p.start_ticks = rank.seen.rank.process().start_ticks();
  p.uid = rank.seen.rank.uid();
  p.incarnation = std::max(rank.seen.rank.incarnation(), 1u);
  p.program = rank.seen.rank.program();
  p.rank_source = rank.seen.rank.rank_source();
  p.window = rank.window;
  p.state = StateName(rank);
  p.text = rank.state.text();
  p.cut = rank.state.cut();
  p.late = Nanos(rank.state.late_ns());
  p.via = rank.kineto ? "kineto" : "cupti";
  return p;
}

void NoteProcess(const capture::ManifestProcess& p, const CaptureRank& rank,
                 std::vector<std::string>& notes) {
  if (p.late > Nanos()) {
    notes.push_back(absl::StrFormat("rank %d began %.3f ms late: it received the start after T0",
                                    p.rank.value(), p.late.millis()));
  }
  if (p.state == "done" && !p.text.empty() && p.text != p.cut)
    notes.push_back(absl::StrFormat("rank %d: %s", p.rank.value(), p.text));
  if (!rank.cupti_holder.empty()) {
    notes.push_back(
        absl::StrFormat("rank %d was captured by PyTorch's profiler, since its client found CUPTI held by %s",
                        p.rank.value(), rank.cupti_holder));
  }
}

void NoteProfile(const capture::ManifestProcess& p, const std::string& no_profile,
                 std::vector<std::string>& notes) {
  constexpr Nanos kLate = Nanos::Millis(100);
  if (!p.python_profile.name.empty()) {
    const HostInterval taken = p.python_profile.window;
    if (p.window.end > p.window.start &&
        (taken.start - p.window.start > kLate || taken.end - p.window.end > kLate)) {
      notes.push_back(absl::StrFormat(
          "the Python profile of rank %d begins %.0f ms after the capture and ends %.0f ms after it: its "
          "main thread was in native code",
          p.rank.value(), (taken.start - p.window.start).millis(), (taken.end - p.window.end).millis()));
    }
    return;
  }
  const char* otherwise =
      p.via == "kineto"
          ? "it was captured by PyTorch's profiler: --activities python records its functions there"
      : p.state == "done" ? "its client or its daemon is too old to take one"
                          : "it did not come to the end of the capture";
  notes.push_back(absl::StrCat("no Python profile of rank ", p.rank.value(), ": ",
                               no_profile.empty() ? otherwise : no_profile));
}

}  // namespace

capture::Manifest MakeManifest(const CaptureFacts& facts, const std::vector<StoredRank>& stored) {
  const Selection& selection = facts.selection;
  capture::Manifest m;
  m.id = facts.id;
  m.job = selection.job;
  m.uid = selection.uid;
  m.world_size = selection.world_size;
  const Nanos past = Nanos(facts.request.past_ns());
  m.activities =
      past == Nanos() ? facts.request.activities() : v1::RECORDED_ACTIVITY_NVTX | v1::RECORDED_ACTIVITY_NCCL;
  const JobInterval window = facts.plan.Window(facts.ranks);
  m.t0 = window.start;
  m.t1 = window.end;
  m.requested = facts.plan.requested();
  m.wanted_steps = facts.plan.WantedSteps(facts.ranks);
  m.complete = true;
  if (!facts.restarted.empty()) m.notes.push_back(facts.restarted);
  if (past != Nanos()) {
    m.notes.emplace_back(
        "a capture of the past, from the ranks' logs of NCCL operations: other work was not recorded, and "
        "the times are those at which NCCL's proxy thread saw the kernels");
  }
  for (const int32_t rank : selection.missing_ranks) m.missing_ranks.push_back(RankId(rank));
  std::map<std::string, uint32_t> hosts;
  for (size_t i = 0; i < facts.ranks.all().size(); ++i) {
    const CaptureRank& rank = facts.ranks.at(i);
    const DaemonKey& daemon = rank.seen.daemon;
    const auto [host, made] = hosts.try_emplace(daemon.node_id, static_cast<uint32_t>(m.hosts.size()));
    if (made) {
      // The burst of exchanges at ARM is the most precise; those of the ten seconds before it help as well.
      m.hosts.push_back({daemon.node_id, rank.seen.host_name,
                         facts.clocks.Since(daemon.node_id, facts.made_at - past - Nanos::Seconds(10))});
    }
    capture::ManifestProcess p = DescribeProcess(rank, host->second);
    if (past != Nanos()) p.via = "log";
    if (!stored.empty()) {
      p.losses = stored[i].losses;
      p.files = stored[i].files;
      p.trace = stored[i].trace;
      p.python_profile = stored[i].profile;
    }
    // The records that were not written may be of any rank.
    if (!facts.write_error.empty() && p.cut.empty()) p.cut = facts.write_error;
    if (!rank.ended) {
      m.complete = false;
      if (!stored.empty()) m.missing_ranks.push_back(p.rank);
    }
    NoteProcess(p, rank, m.notes);
    m.processes.push_back(std::move(p));
  }
  if (!stored.empty() && (facts.request.activities() & v1::RECORDED_ACTIVITY_PYTHON_PROFILE) != 0) {
    for (size_t i = 0; i < stored.size(); ++i) NoteProfile(m.processes[i], stored[i].no_profile, m.notes);
  }
  std::sort(m.missing_ranks.begin(), m.missing_ranks.end());
  m.missing_ranks.erase(std::unique(m.missing_ranks.begin(), m.missing_ranks.end()), m.missing_ranks.end());
  return m;
}

v1::TraceFinished MakeOutcome(const CaptureFacts& facts, const std::vector<StoredRank>& stored, EndedBy end) {
  const Selection& selection = facts.selection;
  v1::TraceFinished finished;
  finished.set_capture(facts.id);
  const JobInterval window = facts.plan.Window(facts.ranks);
  finished.set_t0_ns(window.start.ns());
  finished.set_t1_ns(window.end.ns());
  std::vector<std::string> sentences;
  if (!selection.missing_ranks.empty()) {
    sentences.push_back(
        absl::StrCat(RankNoun(selection.missing_ranks.size()), RankList(selection.missing_ranks), " of job ",
                     selection.job,
                     " reached no daemon that is connected here: if they run on other nodes, connect every "
                     "daemon to one aggregator and trace with --aggregator HOST:PORT, or start the job with "
                     "`lockstep run --with-aggregator -- mpiexec …`"));
  }
  std::map<std::string, std::vector<int32_t>> failed;  // by reason
  size_t armed = 0, done = 0, timed_out = 0;
  for (size_t i = 0; i < stored.size(); ++i) {
    const CaptureRank& rank = facts.ranks.at(i);
    armed += rank.armed;
    const RankState::State state = rank.state.state();
    if (rank.ended && !rank.lost() && !stored[i].trace_failed) {
      ++done;
      continue;
    }
    timed_out += state != RankState::FAILED;
    const std::string why =
        rank.lost()
            ? absl::StrCat(StateName(rank), ": ", rank.state.text(), Remedy(rank.state, rank.seen.rank))
        : stored[i].trace_failed
            ? std::string("finished, but their trace files did not arrive: the losses give the reason")
            : std::string("did not finish");
    failed[why].push_back(rank.seen.rank.rank());
  }
  for (const auto& [why, ranks] : failed) {
    sentences.push_back(absl::StrCat(RankNoun(ranks.size()), RankList(ranks), " ", why));
  }
  finished.set_text(absl::StrJoin(sentences, "; "));
  if (!facts.write_error.empty()) {
    finished.set_outcome(v1::TraceFinished::FAILED);
    finished.set_text(absl::StrCat("the capture was stopped: ", facts.write_error,
                                   "; the records written until then are kept"));
  } else if (facts.plan.t0() == JobTime() && end == EndedBy::kStop) {
    finished.set_outcome(v1::TraceFinished::FAILED);
    finished.set_text("stopped before it began: nothing was captured");
  } else if (facts.plan.triggered() && done == 0) {
    // No rank's window opened, so there are no records to keep.
    finished.set_outcome(v1::TraceFinished::TIMED_OUT);
    finished.set_t0_ns(0);
    finished.set_t1_ns(0);
  } else if (armed == 0) {
    finished.set_outcome(timed_out > 0 ? v1::TraceFinished::TIMED_OUT : v1::TraceFinished::FAILED);
  } else {
    const bool whole = done == stored.size() && selection.missing_ranks.empty();
    finished.set_outcome(whole ? v1::TraceFinished::COMPLETE : v1::TraceFinished::PARTIAL);
  }
  return finished;
}

}  // namespace lockstep::aggregator
