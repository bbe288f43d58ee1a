#include "aggregator/notice/hang_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/hang/explain_hang.h"

namespace lockstep::aggregator {

using analysis::HangExplanation;
using analysis::HangFinding;

namespace {

// Returns the longest wait that does not end by itself; null: there is none.
const HangFinding* FirstHang(const HangExplanation& explanation) {
  if (explanation.verdict != HangExplanation::Verdict::kHang) return nullptr;
  const auto found = std::find_if(explanation.findings.begin(), explanation.findings.end(),
                                  [](const HangFinding& each) { return !each.may_end; });
  return found == explanation.findings.end() ? nullptr : &*found;
}

}  // namespace

HangWatch::HangWatch(const DaemonRegistry& daemons, const JobClock& clock, HangWatchOptions options)
    : daemons_(daemons), clock_(clock), options_(std::move(options)) {}

HangWatch::~HangWatch() { Shutdown(); }

void HangWatch::Start() {
  if (options_.after > Nanos()) thread_ = std::thread([this] { Run(); });
}

void HangWatch::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
}

void HangWatch::Shutdown() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void HangWatch::Sleep(Nanos time) {
  MutexLock lock(&mutex_);
  changed_.WaitFor(&mutex_, time, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
}

bool HangWatch::stopping() {
  MutexLock lock(&mutex_);
  return stopping_;
}

void HangWatch::Run() {
  const Nanos pause = std::clamp(options_.after / 6, kShortestPause, kLongestPause);
  while (true) {
    Sleep(pause);
    if (stopping()) return;
    Examine();
  }
}

std::set<JobKey> HangWatch::Suspects() {
  std::set<JobKey> suspects = options_.suspects();
  for (auto& [job, looks] : without_progress_) --looks;
  std::erase_if(without_progress_, [&](const auto& left_out) {
    return left_out.second <= 0 || !suspects.contains(left_out.first);
  });
  std::erase_if(absences_, [&](const auto& absence) { return !suspects.contains(absence.first); });
  for (const auto& [job, looks] : without_progress_) suspects.erase(job);
  return suspects;
}

bool HangWatch::Hangs(const JobKey& key, const ExplainedJob& job) {
  const HangFinding* finding = FirstHang(job.explanation);
  if (finding == nullptr || finding->cause != analysis::HangCause::kAbsent) {
    absences_.erase(key);
    return finding != nullptr;
  }
  return ++absences_[key] >= kLooksOfAbsence;
}

void HangWatch::Examine() {
  const std::set<JobKey> suspects = Suspects();
  if (stopping()) return;
  if (suspects.empty()) {
    Note({}, {});
    return;
  }
  HangExamination examination;
  examination.selects = [&](const analysis::HangJob& job) { return suspects.contains({job.job, job.uid}); };
  examination.after = options_.after;
  // Nobody has asked, so no thread is stopped.
  examination.stacks = HangExamination::Stacks::kPython;
  examination.look = options_.look;
  examination.sleep = [this](Nanos time) { Sleep(time); };
  examination.between_looks = options_.between_looks;
  const absl::StatusOr<ExplainedJobs> explained = ExplainRunningJobs(examination);
  if (stopping()) return;
  if (!explained.ok() || !explained->silent_hosts.empty()) {
    options_.log(LogLevel::kDebug, "hangs_not_examined",
                 {{"reason", explained.ok() ? absl::StrCat("no answer from ",
                                                           absl::StrJoin(explained->silent_hosts, ", "))
                                            : std::string(explained.status().message())}});
    return;
  }
  std::set<JobKey> waiting;
  std::map<JobKey, const ExplainedJob*> hanging;
  for (const ExplainedJob& job : explained->jobs) {
    const JobKey key = {job.job, job.uid};
    if (job.explanation.ranks_seen == 0) without_progress_[key] = kLooksWithoutProgress;
    if (job.explanation.verdict != HangExplanation::Verdict::kNoHang) waiting.insert(key);
    if (Hangs(key, job)) hanging[key] = &job;
  }
  Note(waiting, hanging);
}

v1::JobHang HangWatch::Describe(const JobKey& key, const ExplainedJob& job) const {
  const HangFinding& finding = *FirstHang(job.explanation);
  v1::JobHang hang;
  hang.set_job(key.job);
  hang.set_uid(key.uid);
  hang.set_cause(analysis::HangCauseName(finding.cause));
  hang.set_sentence(finding.sentence);
  for (const std::string& reason : finding.reasons) hang.add_reasons(reason);
  std::set<std::string> hosts;
  for (const RankId rank : finding.wait.late) {
    hang.add_late_ranks(rank.value());
    if (const auto host = job.hosts.find(rank); host != job.hosts.end()) hosts.insert(host->second);
  }
  for (const std::string& host : hosts) hang.add_late_hosts(host);
  const JobTime now = clock_.Now();
  hang.set_since_unix_ns((now - finding.wait.waited).ns());
  hang.set_noticed_unix_ns(now.ns());
  return hang;
}

void HangWatch::Note(const std::set<JobKey>& waiting, const std::map<JobKey, const ExplainedJob*>& hanging) {
  std::vector<Alarm> begun;
  std::vector<v1::JobHang> ended;
  {
    MutexLock lock(&mutex_);
    const JobTime now = clock_.Now();
    std::erase_if(kept_, [&](const Kept& kept) {
      return kept.hang.ended_unix_ns() != 0 && now - JobTime(kept.hang.ended_unix_ns()) > kForget;
    });
    std::set<JobKey> known;
    for (Kept& kept : kept_) {
      if (kept.hang.ended_unix_ns() != 0) continue;
      const JobKey key = {kept.hang.job(), kept.hang.uid()};
      if (waiting.contains(key)) {
        known.insert(key);
        continue;
      }
      kept.hang.set_ended_unix_ns(now.ns());
      ended.push_back(kept.hang);
    }
    for (const auto& [key, job] : hanging) {
      if (known.contains(key)) continue;
      Kept& kept = kept_.emplace_back(Kept{++noticed_, Describe(key, *job)});
      const v1::JobHang& hang = kept.hang;
      Alarm& alarm = begun.emplace_back();
      alarm.kind = Alarm::Kind::kHang;
      alarm.id = kept.id;
      alarm.job = key;
      alarm.text = hang.sentence();
      for (const int32_t rank : hang.late_ranks()) alarm.ranks.emplace_back(rank);
      alarm.hosts = {hang.late_hosts().begin(), hang.late_hosts().end()};
      alarm.noticed = JobTime(hang.noticed_unix_ns());
      alarm.length = Nanos(hang.noticed_unix_ns() - hang.since_unix_ns());
    }
    for (auto kept = kept_.begin(); kept_.size() > kMostKept && kept != kept_.end();)
      kept = kept->hang.ended_unix_ns() != 0 ? kept_.erase(kept) : std::next(kept);
  }
  Announce(begun, ended);
}

void HangWatch::Announce(const std::vector<Alarm>& begun, const std::vector<v1::JobHang>& ended) const {
  for (const Alarm& alarm : begun) {
    options_.log(LogLevel::kWarning, "job_hangs",
                 {{"job", alarm.job.job}, {"uid", alarm.job.uid}, {"text", alarm.text}});
    options_.on_new(alarm);
  }
  for (const v1::JobHang& hang : ended)
    options_.log(LogLevel::kInfo, "job_hangs_ended", {{"job", hang.job()}, {"uid", hang.uid()}});
}

void HangWatch::NoteCapture(uint64_t id, const AlarmCapture& capture) {
  MutexLock lock(&mutex_);
  for (Kept& kept : kept_) {
    if (kept.id != id) continue;
    kept.hang.set_capture(capture.capture);
    kept.hang.set_no_capture(capture.problem);
  }
}

void HangWatch::AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const {
  const std::set<JobKey> meant = daemons_.JobsNamed(job);
  MutexLock lock(&mutex_);
  for (const Kept& kept : kept_) {
    const JobKey key = {kept.hang.job(), kept.hang.uid()};
    if (!caller.MaySee({key.job, key.uid})) continue;
    if (job.empty() || key.job == job || meant.contains(key)) *reply.add_hangs() = kept.hang;
  }
}

HangCounts HangWatch::counts() const {
  MutexLock lock(&mutex_);
  HangCounts counts{.noticed = noticed_, .hanging = {}};
  for (const Kept& kept : kept_) {
    if (kept.hang.ended_unix_ns() == 0) counts.hanging.push_back({kept.hang.job(), kept.hang.uid()});
  }
  return counts;
}

}  // namespace lockstep::aggregator
