#include "aggregator/captures/start_plan.h"

#include <algorithm>

namespace lockstep::aggregator {
namespace {

constexpr Nanos kTriggerTimeout = Nanos::Seconds(60);  // if the request names none
// Begin iterations of several ranks are a multiple of this number (docs/kineto.md).
constexpr uint32_t kKinetoMultiple = 100;

}  // namespace

Nanos StartPlan::TriggerTimeout() const {
  const int64_t requested = request_.trigger().timeout_ns();
  return requested > 0 ? Nanos(requested) : kTriggerTimeout;
}

void StartPlan::Begin(const CaptureRanks& ranks, JobTime now, Nanos delivery_time) {
  if (request_.past_ns() != 0) {
    requested_ = Nanos(request_.past_ns());
    t0_ = now - requested_;
    t1_ = now;
    return;
  }
  kineto_begin_ = ChooseKinetoBegin(ranks);
  // Ranks look for a trigger at once, so no rank's lead delays T0.
  const Nanos lead = triggered() ? limits_.least_lead : LongestLead(ranks);
  t0_ = std::max(now + std::max(lead, delivery_time), JobTime(request_.start_at_unix_ns()));
  t1_ = t0_ + (triggered() ? TriggerTimeout() : Nanos(request_.duration_ns()));
  if (!triggered()) {
    requested_ = t1_ - t0_;
  } else if (request_.trigger().end() == v1::Trigger::AFTER_DURATION) {
    requested_ = Nanos(request_.trigger().duration_ns());
  }
}

void StartPlan::EndAt(JobTime now, EndedBy by) {
  t1_ = std::min(t1_, now);
  if (by == EndedBy::kFault) return;
  requested_ = triggered() ? Nanos() : std::max(t1_ - t0_, Nanos());
}

v1::JournalStart StartPlan::ForJournal(const CaptureRanks& ranks) const {
  v1::JournalStart journal;
  *journal.mutable_start() = Message(ranks);
  journal.set_requested_ns(requested_.ns());
  if (common_step_) journal.set_common_step(*common_step_);
  return journal;
}

void StartPlan::Restore(const v1::JournalStart& journal) {
  const v1::Start& start = journal.start();
  t0_ = JobTime(start.t0_ns());
  t1_ = JobTime(start.t1_ns());
  requested_ = Nanos(journal.requested_ns());
  common_step_.reset();
  if (journal.has_common_step()) common_step_ = journal.common_step();
  kineto_begin_ = start.kineto_begin();
  kineto_window_ = {JobTime(start.kineto_t0_ns()), JobTime(start.kineto_t1_ns())};
}

Nanos StartPlan::LongestLead(const CaptureRanks& ranks) const {
  Nanos lead = limits_.least_lead;
  // The rank with the longest lead decides for all.
  for (const CaptureRank& rank : ranks.all()) {
    if (rank.armed) lead = std::max(lead, std::min(Nanos(rank.state.lead_ns()), limits_.longest_lead));
  }
  return lead;
}

v1::Start::KinetoBegin StartPlan::ChooseKinetoBegin(const CaptureRanks& ranks) const {
  if (ranks.ArmedPaths().clients == 0) return v1::Start::BY_ITERATION;
  switch (request_.trigger().begin()) {
    case v1::Trigger::AT_COMMON_STEP:
      return v1::Start::LATER;
    case v1::Trigger::AT_STEP:
      return v1::Start::NOT_BY_NUMBER;
    default:
      return v1::Start::BY_ITERATION;
  }
}

bool StartPlan::NeedsStep(const CaptureRanks& ranks) const {
  return request_.trigger().begin() == v1::Trigger::AT_COMMON_STEP && t1_ != JobTime() && !common_step_ &&
         ranks.ArmedPaths().clients > 0;
}

bool StartPlan::ChooseStep(const CaptureRanks& ranks, JobTime now, Nanos delivery_time) {
  Nanos ahead = std::max(limits_.least_lead, delivery_time);
  if (ranks.ArmedPaths().kineto > 0) ahead = std::max(ahead, LongestLead(ranks));
  common_step_ = CommonStep(ranks, now, ahead);
  if (!common_step_) return false;
  if (kineto_begin_ == v1::Start::LATER) {
    kineto_begin_ = v1::Start::IN_WINDOW;
    kineto_window_ = WindowOfSteps(ranks, now, ahead);
  }
  // The wait for the common step starts again.
  t1_ = now + TriggerTimeout();
  return true;
}

JobInterval StartPlan::WindowOfSteps(const CaptureRanks& ranks, JobTime now, Nanos ahead) const {
  // Slack, because steps vary in length.
  constexpr int64_t kSlackDivisor = 5;
  constexpr Nanos kSlack = Nanos::Millis(500);
  const JobTime start = now + ahead;
  JobTime end = start;
  // The window includes one more step than the clients', because the device runs behind its host.
  const uint64_t behind = *common_step_ + request_.trigger().steps() + 1;
  for (const CaptureRank& rank : ranks.all()) {
    if (rank.kineto || rank.state.state() != v1::RankState::WAITING || rank.state.step() >= behind) continue;
    end = std::max(end, rank.step_reported_at +
                            Nanos(rank.state.step_ns()) * static_cast<int64_t>(behind - rank.state.step()));
  }
  return {start, end + (end - now) / kSlackDivisor + kSlack};
}

std::optional<uint64_t> StartPlan::CommonStep(const CaptureRanks& ranks, JobTime now, Nanos ahead) const {
  // Spare steps besides the current one: the lead-in step, and one in case a step is shorter than the last.
  constexpr uint64_t kSpareSteps = 3;
  std::optional<uint64_t> common;
  for (const CaptureRank& rank : ranks.all()) {
    if (rank.kineto || rank.state.state() != v1::RankState::WAITING || rank.state.step_ns() == 0) continue;
    const Nanos since = now - rank.step_reported_at + ahead;
    const auto passed = static_cast<uint64_t>(std::max<int64_t>(since.ns(), 0) / rank.state.step_ns());
    common = std::max(common.value_or(0), rank.state.step() + passed + kSpareSteps);
  }
  return common;
}

v1::Start StartPlan::Message(const CaptureRanks& ranks) const {
  v1::Start start;
  start.set_t0_ns(t0_.ns());
  start.set_t1_ns(t1_.ns());
  if (triggered()) {
    *start.mutable_trigger() = request_.trigger();
    start.set_kineto_begin(kineto_begin_);
    start.set_kineto_t0_ns(kineto_window_.start.ns());
    start.set_kineto_t1_ns(kineto_window_.end.ns());
    // Profilers share the numbering but poll at different times, so the next iteration of one may be over on
    // another.
    start.set_kineto_multiple(ranks.ArmedPaths().kineto > 1 ? kKinetoMultiple : 1);
  }
  if (common_step_) {
    start.mutable_trigger()->set_begin(v1::Trigger::AT_STEP);
    start.mutable_trigger()->set_step(*common_step_);
  }
  return start;
}

JobTime StartPlan::LatestEnd() const {
  if (!triggered()) return t1_;
  // The trigger may open the window at the last moment; then the wait for its end follows.
  const v1::Trigger& trigger = request_.trigger();
  return t1_ +
         (trigger.end() == v1::Trigger::AFTER_DURATION ? Nanos(trigger.duration_ns()) : TriggerTimeout());
}

JobInterval StartPlan::Window(const CaptureRanks& ranks) const {
  if (!triggered()) return {t0_, t1_};
  // Each window is on the clock of its rank's host. Readers of the manifest correct for the clocks' offsets.
  JobInterval all{JobTime::Max(), JobTime()};
  for (const CaptureRank& rank : ranks.all()) {
    if (!rank.ended || rank.state.state() != v1::RankState::DONE) continue;
    all.start = std::min(all.start, JobTime(rank.window.start.ns()));
    all.end = std::max(all.end, JobTime(rank.window.end.ns()));
  }
  return all.end == JobTime() ? JobInterval{t0_, t1_} : all;
}

std::optional<capture::StepSpan> StartPlan::WantedSteps(const CaptureRanks& ranks) const {
  const v1::Trigger& trigger = request_.trigger();
  // PyTorch's iteration numbers differ from the job's step numbers.
  const bool by_number = trigger.begin() == v1::Trigger::AT_STEP && ranks.ArmedPaths().clients > 0;
  const bool from_step = by_number || common_step_.has_value();
  if (!from_step || trigger.end() != v1::Trigger::AFTER_STEPS) return std::nullopt;
  return capture::StepSpan{common_step_.value_or(trigger.step()), trigger.steps()};
}

}  // namespace lockstep::aggregator
