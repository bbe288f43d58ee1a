// How a capture ended: for the CLI in words, for records/ as a manifest.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aggregator/captures/capture_session.h"

namespace lockstep::ingest {
namespace {

using v1::RankState;

enum class Ended { kNo, kYes };

std::string StateName(RankState::State state, Ended ended) {
  switch (state) {
    case RankState::FAILED:
      return "failed";
    case RankState::GONE:
      return "gone";
    default:
      return ended == Ended::kYes ? "done" : "unfinished";
  }
}

// What would have captured a rank whose client found CUPTI held.
std::string WayOut(const RankState& state, const v1::Rank& rank) {
  if (state.refusal() != RankState::HELD || state.went_over()) return "";
  return rank.kineto() ? "; --via auto captures it by PyTorch's own profiler"
                       : "; end that tool, or start a PyTorch job with KINETO_USE_DAEMON=1 and its own "
                         "profiler is used";
}

const char* RanksWord(size_t n) { return n == 1 ? "rank " : "ranks "; }

}  // namespace

v1::CaptureStatus CaptureSession::Status() const {
  constexpr const char* kPhases[] = {"arming", "starting", "capturing", "draining", "closed"};
  std::lock_guard<std::mutex> lock(mutex_);
  v1::CaptureStatus status;
  status.set_capture(id_);
  status.set_job(selection_.job);
  status.set_phase(kPhases[static_cast<int>(phase_)]);
  status.set_started_unix_ns(t0_ != JobTime() ? t0_.ns() : made_at_.ns());
  status.set_records(records_);
  for (const Process& process : processes_) *status.add_states() = process.state;
  return status;
}

JobInterval CaptureSession::Window() const {
  if (!triggered()) return {t0_, t1_};
  // Each rank's own, on the clock of its host: the hosts' clocks are told apart by those who read the
  // manifest.
  JobInterval all{JobTime::Max(), JobTime()};
  for (const Process& process : processes_) {
    if (!process.ended || process.state.state() != RankState::DONE) continue;
    all.start = std::min(all.start, JobTime(process.window.start.ns()));
    all.end = std::max(all.end, JobTime(process.window.end.ns()));
  }
  return all.end == JobTime() ? JobInterval{t0_, t1_} : all;
}

// The lock is held by the caller, or nobody else knows the session yet.
store::Manifest CaptureSession::MakeManifest() const {
  store::Manifest m;
  m.id = id_;
  m.job = selection_.job;
  m.uid = selection_.uid;
  m.world_size = selection_.world_size;
  m.activities = request_.activities();
  const JobInterval window = Window();
  m.t0 = window.start;
  m.t1 = window.end;
  const v1::Trigger& trigger = request_.trigger();
  // PyTorch's iterations are no numbers of the job's own.
  const bool by_number = trigger.begin() == v1::Trigger::AT_STEP && ArmedWays().clients > 0;
  const bool from_step = by_number || common_step_.has_value();
  if (from_step && trigger.end() == v1::Trigger::AFTER_STEPS) {
    m.wanted_steps = store::StepSpan{common_step_.value_or(trigger.step()), trigger.steps()};
  }
  m.complete = true;
  for (const int32_t rank : selection_.missing_ranks) m.missing_ranks.push_back(RankId(rank));
  std::map<std::string, uint32_t> hosts;
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    const auto [host, made] =
        hosts.try_emplace(process.seen.daemon.node_id, static_cast<uint32_t>(m.hosts.size()));
    if (made) {
      // The burst of exchanges at ARM is the best there is; those of the seconds before it are welcome.
      m.hosts.push_back({process.seen.daemon.node_id, process.seen.host_name,
                         env_.exchanges(process.seen.daemon.node_id, made_at_ - Nanos::Seconds(10))});
    }
    store::ManifestProcess p;
    p.rank = RankId(process.seen.rank.rank());
    p.host = host->second;
    p.pid = process.seen.rank.process().pid();
    p.start_ticks = process.seen.rank.process().start_ticks();
    p.uid = process.seen.rank.uid();
    p.incarnation = std::max(process.seen.rank.incarnation(), 1u);
    p.program = process.seen.rank.program();
    p.rank_source = process.seen.rank.rank_source();
    p.window = process.window;
    p.state = StateName(process.state.state(), process.ended ? Ended::kYes : Ended::kNo);
    p.text = process.state.text();
    p.late = Nanos(process.state.late_ns());
    p.losses = process.losses;
    p.via = process.kineto ? "kineto" : "cupti";
    if (writer_ != nullptr) {
      p.files = writer_->Files(static_cast<uint32_t>(i));
      p.trace = writer_->Trace(static_cast<uint32_t>(i), store::TraceFileKind::kKineto);
      const store::ManifestTrace profile =
          writer_->Trace(static_cast<uint32_t>(i), store::TraceFileKind::kPythonProfile);
      if (!profile.name.empty()) p.python_profile = {profile.name, profile.bytes, process.profile_window};
    }
    if (!process.ended) {
      m.complete = false;
      if (writer_ != nullptr) m.missing_ranks.push_back(p.rank);
    }
    if (p.late > Nanos()) {
      m.notes.push_back(absl::StrFormat("rank %d was late by %.3f ms: it learned of the start after it",
                                        p.rank.value(), p.late.millis()));
    }
    if (p.state == "done" && !p.text.empty())
      m.notes.push_back(absl::StrFormat("rank %d: %s", p.rank.value(), p.text));
    if (!process.held.empty()) {
      m.notes.push_back(absl::StrFormat(
          "rank %d was captured by PyTorch's profiler, since its client found CUPTI held by %s",
          p.rank.value(), process.held));
    }
    if (p.state == "failed" || p.state == "gone") {
      m.notes.push_back(
          absl::StrFormat("rank %d %s: %s", p.rank.value(), p.state == "gone" ? "is gone" : p.state, p.text));
    }
    m.processes.push_back(std::move(p));
  }
  if (writer_ != nullptr && (request_.activities() & v1::RECORDED_ACTIVITY_PYTHON_PROFILE) != 0)
    NoteProfiles(m.processes, m.notes);
  std::sort(m.missing_ranks.begin(), m.missing_ranks.end());
  m.missing_ranks.erase(std::unique(m.missing_ranks.begin(), m.missing_ranks.end()), m.missing_ranks.end());
  return m;
}

void CaptureSession::NoteProfiles(const std::vector<store::ManifestProcess>& processes,
                                  std::vector<std::string>& notes) const {
  constexpr Nanos kLate = Nanos::Millis(100);
  for (size_t i = 0; i < processes.size(); ++i) {
    const store::ManifestProcess& p = processes[i];
    const Process& process = processes_[i];
    if (!p.python_profile.name.empty()) {
      const HostInterval taken = p.python_profile.window;
      if (p.window.end > p.window.start &&
          (taken.start - p.window.start > kLate || taken.end - p.window.end > kLate)) {
        notes.push_back(absl::StrFormat(
            "the Python profile of rank %d begins %.0f ms after the capture and ends %.0f ms after it: its "
            "main thread was in native code",
            p.rank.value(), (taken.start - p.window.start).millis(), (taken.end - p.window.end).millis()));
      }
      continue;
    }
    const char* otherwise =
        process.kineto
            ? "it was captured by PyTorch's profiler: --activities python records its functions there"
        : p.state == "done" ? "its client or its daemon is too old to take one"
                            : "it did not come to the end of the capture";
    notes.push_back(absl::StrCat("no Python profile of rank ", p.rank.value(), ": ",
                                 process.no_profile.empty() ? otherwise : process.no_profile));
  }
}

v1::TraceFinished CaptureSession::Outcome() const {
  v1::TraceFinished finished;
  finished.set_capture(id_);
  const JobInterval window = Window();
  finished.set_t0_ns(window.start.ns());
  finished.set_t1_ns(window.end.ns());
  std::vector<std::string> sentences;
  if (!selection_.missing_ranks.empty()) {
    sentences.push_back(absl::StrCat(RanksWord(selection_.missing_ranks.size()),
                                     RankList(selection_.missing_ranks), " of job ", selection_.job,
                                     " reached no daemon that is connected here: where they run on other "
                                     "nodes, give every daemon one aggregator and "
                                     "trace with --aggregator HOST:PORT, or start the job with `lockstep run "
                                     "--with-aggregator -- mpiexec …`"));
  }
  std::map<std::string, std::vector<int32_t>> failed;  // by reason
  size_t armed = 0, done = 0, timed_out = 0;
  for (const Process& process : processes_) {
    armed += process.armed;
    const RankState::State state = process.state.state();
    const bool lost = state == RankState::FAILED || state == RankState::GONE;
    if (process.ended && !lost && !process.trace_failed) {
      ++done;
      continue;
    }
    timed_out += state != RankState::FAILED;
    const std::string why =
        lost ? absl::StrCat(state == RankState::FAILED ? "failed" : "gone", ": ", process.state.text(),
                            WayOut(process.state, process.seen.rank))
        : process.trace_failed
            ? std::string("finished, and their trace files did not get here: the losses say why")
            : std::string("did not finish");
    failed[why].push_back(process.seen.rank.rank());
  }
  for (const auto& [why, ranks] : failed) {
    sentences.push_back(absl::StrCat(RanksWord(ranks.size()), RankList(ranks), " ", why));
  }
  finished.set_text(absl::StrJoin(sentences, "; "));
  if (!write_error_.empty()) {
    finished.set_outcome(v1::TraceFinished::FAILED);
    finished.set_text(
        absl::StrCat("the capture was stopped: ", write_error_, "; what was written until then is kept"));
  } else if (t0_ == JobTime() && stopping_) {
    finished.set_outcome(v1::TraceFinished::FAILED);
    finished.set_text("stopped before it began: nothing was captured");
  } else if (triggered() && done == 0) {
    // Nobody's window opened, so there is nothing to keep.
    finished.set_outcome(v1::TraceFinished::TIMED_OUT);
    finished.set_t0_ns(0);
    finished.set_t1_ns(0);
  } else if (armed == 0) {
    finished.set_outcome(timed_out > 0 ? v1::TraceFinished::TIMED_OUT : v1::TraceFinished::FAILED);
  } else {
    const bool whole = done == processes_.size() && selection_.missing_ranks.empty();
    finished.set_outcome(whole ? v1::TraceFinished::COMPLETE : v1::TraceFinished::PARTIAL);
  }
  return finished;
}

}  // namespace lockstep::ingest
