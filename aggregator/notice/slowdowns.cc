#include "aggregator/notice/slowdowns.h"

#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "aggregator/notice/slowdown_text.h"
#include "base/split_mix.h"

namespace lockstep::aggregator {
namespace {

using ProcessName = std::tuple<int32_t, uint64_t>;  // pid, start

ProcessName NameOf(const v1::ProcessKey& process) { return {process.pid(), process.start_ticks()}; }

}  // namespace

Slowdowns::Slowdowns(const DaemonRegistry& daemons, const JobClock& clock, SlowdownsOptions options)
    : daemons_(daemons), clock_(clock), options_(std::move(options)) {}

int64_t Slowdowns::UnixNs(MonoTime at) const { return (clock_.Now() - (options_.now() - at)).ns(); }

void Slowdowns::OnSteps(const DaemonKey& daemon, const v1::StepUpdate& steps) {
  std::map<ProcessName, SeenRank> ranks;
  for (SeenRank& seen : daemons_.RanksOf(daemon)) {
    const ProcessName name = NameOf(seen.rank.process());
    ranks.emplace(name, std::move(seen));
  }
  const MonoTime now = options_.now();
  Changes news;
  {
    MutexLock lock(&mutex_);
    std::set<JobKey> touched;
    for (const v1::ProcessSteps& process : steps.processes()) {
      const auto seen = ranks.find(NameOf(process.process()));
      if (seen == ranks.end() || seen->second.rank.rank() < 0) continue;
      const v1::Rank& rank = seen->second.rank;
      const JobKey key = {rank.job(), rank.uid()};
      if (jobs_.size() >= kMostJobs && !jobs_.contains(key)) DropQuietest(touched);
      Job& job = jobs_[key];
      job.heard = now;
      if (job.hosts.size() >= kMostHosts) job.hosts.clear();
      job.hosts[RankId(rank.rank())] = seen->second.host_name;
      for (const v1::StepRow& row : process.steps()) {
        job.notices.Add({.rank = RankId(rank.rank()),
                         .process = HashCombine(static_cast<uint64_t>(rank.process().pid()),
                                                rank.process().start_ticks()),
                         .number = row.number(),
                         .period = row.period(),
                         .duration = Nanos(row.duration_ns()),
                         .communication = Nanos(row.communication_ns())},
                        now);
      }
      touched.insert(key);
    }
    for (const JobKey& key : touched) {
      Job& job = jobs_.at(key);
      Note(key, job, job.notices.Compare(now), news);
    }
  }
  Announce(news);
}

void Slowdowns::DropQuietest(const std::set<JobKey>& kept) {
  auto quietest = jobs_.end();
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (kept.contains(job->first)) continue;
    if (quietest == jobs_.end() || job->second.heard < quietest->second.heard) quietest = job;
  }
  if (quietest != jobs_.end()) jobs_.erase(quietest);
}

void Slowdowns::Advance() {
  const MonoTime now = options_.now();
  Changes news;
  {
    MutexLock lock(&mutex_);
    for (auto& [key, job] : jobs_) {
      Note(key, job, job.notices.Compare(now), news);
      NoteTrend(job, now);
    }
    EndThoseWithoutProcesses(now, news);
    std::erase_if(jobs_, [&](const auto& job) { return now - job.second.heard > kForget; });
  }
  Announce(news);
}

void Slowdowns::EndThoseWithoutProcesses(MonoTime now, Changes& news) {
  std::vector<JobKey> quiet;
  for (const auto& [key, job] : jobs_) {
    if (now - job.heard > kQuiet && (job.slow() || !job.trend.empty())) quiet.push_back(key);
  }
  if (quiet.empty()) return;
  std::set<JobKey> running;
  for (const SeenRank& seen : daemons_.Ranks()) running.insert({seen.rank.job(), seen.rank.uid()});
  for (const JobKey& key : quiet) {
    if (running.contains(key)) continue;
    Job& job = jobs_.at(key);
    analysis::JobNotices::News ended;
    for (const Kept& kept : job.kept) {
      if (kept.slowdown.ended_unix_ns() == 0) ended.ended.emplace_back(kept.slowdown.rank());
    }
    Note(key, job, ended, news);
    job.trend.clear();
  }
}

void Slowdowns::NoteTrend(Job& job, MonoTime now) {
  if (job.notices.compared() == 0 || job.heard <= job.trend_at) return;
  if (!job.trend.empty() && now - job.trend_at < kBetweenTrends) return;
  job.trend.push_back(job.notices.step_time());
  if (job.trend.size() > kMostTrends) job.trend.pop_front();
  job.trend_at = now;
}

void Slowdowns::Note(const JobKey& key, Job& job, const analysis::JobNotices::News& from, Changes& news) {
  for (const analysis::SlowRank& slow : from.slower) {
    Kept kept{.id = ++noticed_, .slowdown = {}};
    v1::Slowdown& s = kept.slowdown;
    s.set_rank(slow.rank.value());
    s.set_host_name(job.hosts[slow.rank]);
    s.set_since_step(slow.since_step);
    s.set_noticed_step(slow.noticed_step);
    s.set_since_unix_ns(UnixNs(slow.since));
    s.set_noticed_unix_ns(clock_.Now().ns());
    s.set_own_before_ns(slow.own_before.ns());
    s.set_own_now_ns(slow.own_now.ns());
    s.set_step_before_ns(slow.step_before.ns());
    s.set_step_now_ns(slow.step_now.ns());
    news.slower.push_back({kept.id, key, s});
    job.kept.push_back(std::move(kept));
  }
  for (const RankId rank : from.ended) {
    for (Kept& kept : job.kept) {
      if (kept.slowdown.rank() != rank.value() || kept.slowdown.ended_unix_ns() != 0) continue;
      kept.slowdown.set_ended_unix_ns(clock_.Now().ns());
      news.ended.push_back({kept.id, key, kept.slowdown});
    }
  }
  // Ranks that are still slow stay.
  for (auto kept = job.kept.begin(); job.kept.size() > kMostKept && kept != job.kept.end();)
    kept = kept->slowdown.ended_unix_ns() != 0 ? job.kept.erase(kept) : std::next(kept);
}

void Slowdowns::Announce(const Changes& news) {
  for (const Change& change : news.slower) {
    const v1::Slowdown& s = change.slowdown;
    Alarm alarm;
    alarm.kind = Alarm::Kind::kSlower;
    alarm.id = change.id;
    alarm.job = change.job;
    alarm.text = SlowdownText(s);
    alarm.ranks = {RankId(s.rank())};
    alarm.hosts = {s.host_name()};
    alarm.noticed = JobTime(s.noticed_unix_ns());
    alarm.length = Nanos(s.step_now_ns());
    options_.log(LogLevel::kWarning, "rank_slower",
                 {{"job", change.job.job},
                  {"uid", change.job.uid},
                  {"rank", s.rank()},
                  {"host", s.host_name()},
                  {"since_step", s.since_step()},
                  {"noticed_step", s.noticed_step()},
                  {"text", alarm.text}});
    options_.on_new(alarm);
  }
  for (const Change& slowdown : news.ended) {
    options_.log(LogLevel::kInfo, "rank_slower_ended",
                 {{"job", slowdown.job.job},
                  {"uid", slowdown.job.uid},
                  {"rank", slowdown.slowdown.rank()},
                  {"since_step", slowdown.slowdown.since_step()}});
  }
}

void Slowdowns::NoteCapture(uint64_t id, const AlarmCapture& capture) {
  MutexLock lock(&mutex_);
  for (auto& [key, job] : jobs_) {
    for (Kept& kept : job.kept) {
      if (kept.id != id) continue;
      kept.slowdown.set_capture(capture.capture);
      kept.slowdown.set_no_capture(capture.problem);
    }
  }
}

v1::JobSteps Slowdowns::Describe(const JobKey& key, const Job& job) const {
  v1::JobSteps steps;
  steps.set_job(key.job);
  steps.set_uid(key.uid);
  steps.set_ranks(static_cast<uint32_t>(job.notices.ranks()));
  steps.set_last_step(job.notices.last_step());
  steps.set_compared(job.notices.compared());
  steps.set_step_time_ns(job.notices.step_time().ns());
  for (const Kept& kept : job.kept) *steps.add_slowdowns() = kept.slowdown;
  for (const Nanos value : job.trend) steps.add_trend_ns(value.ns());
  return steps;
}

void Slowdowns::AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const {
  const std::set<JobKey> meant = daemons_.JobsNamed(job);
  MutexLock lock(&mutex_);
  for (const auto& [key, one] : jobs_) {
    if (one.notices.compared() == 0 || !caller.MaySee({key.job, key.uid})) continue;
    if (job.empty() || key.job == job || meant.contains(key)) *reply.add_jobs() = Describe(key, one);
  }
}

std::set<JobKey> Slowdowns::SteppedWithin(Nanos time) const {
  const MonoTime now = options_.now();
  MutexLock lock(&mutex_);
  std::set<JobKey> jobs;
  for (const auto& [key, job] : jobs_) {
    if (now - job.heard <= time) jobs.insert(key);
  }
  return jobs;
}

SlowdownCounts Slowdowns::counts() const {
  const MonoTime now = options_.now();
  MutexLock lock(&mutex_);
  SlowdownCounts counts{.noticed = noticed_, .jobs = {}};
  for (const auto& [key, job] : jobs_) {
    if (job.notices.compared() > 0 && now - job.heard < kRuns) counts.jobs.push_back(Describe(key, job));
  }
  return counts;
}

}  // namespace lockstep::aggregator
