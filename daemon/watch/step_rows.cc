#include "daemon/watch/step_rows.h"

#include <algorithm>
#include <iterator>

#include "base/sequence_period.h"

namespace lockstep::daemon {
namespace {

// This many collectives among the recent ones are regular use of a communicator. The reference communicator
// stays the reference down to half of it.
constexpr uint64_t kRegular = 16;
// The reference communicator is chosen again after so many collectives, which is also when counts are halved.
constexpr uint64_t kChoose = 4096;
constexpr size_t kMostMembers = 128;
constexpr size_t kFirstLearning = 32;
constexpr size_t kLastLearning = 16384;
// The period is given up if a quarter of the collectives of a period, or of so many, do not repeat.
constexpr uint64_t kLeastChecked = 32;
constexpr uint64_t kMostDifferent = 4;
// Marks that do not come for so many collectives of the reference communicator have ended.
constexpr uint64_t kMarksEnd = 8192;
constexpr size_t kMostCuts = 256;
constexpr size_t kMostKernels = 8192;
// Kernels of several streams begin in another order than their calls, but hardly by more places.
constexpr ptrdiff_t kMostDisorder = 1024;
constexpr Nanos kClockStep = Nanos::Seconds(1);

// Later differences of times do not overflow.
bool IsTime(HostTime t) { return t > HostTime() && t.ns() <= int64_t{1} << 62; }

bool IsUsable(const ring::LogRecord& record) {
  if (!IsTime(record.entered)) return false;
  if (record.kind != ring::LogKind::kOperation) return true;
  return record.communicator != 0 && IsTime(record.started) && IsTime(record.completed) &&
         record.started <= record.completed;
}

}  // namespace

void StepRows::Forget() {
  sequence_.clear();
  learn_at_ = 0;
  candidate_ = period_ = checked_ = different_ = since_mark_ = 0;
  repeat_ = 0;
  reference_end_ = mark_end_ = HostTime();
  step_.reset();
  cuts_.clear();
}

void StepRows::ChooseReference(const RanksOf& ranks_of) {
  next_choice_ = counted_ < kChoose ? counted_ * 2 : counted_ + kChoose;
  std::optional<uint64_t> chosen;
  const Member* best = nullptr;
  for (auto& [communicator, member] : members_) {
    if (member.ranks <= 0) member.ranks = ranks_of(communicator);
    const bool current = communicator == reference_;
    if (member.ranks <= 1 || member.collectives < (current ? kRegular / 2 : kRegular)) continue;
    // Of equally large ones, all ranks choose the one with clearly fewer collectives, which is nearer to the
    // steps, or else the one with the smallest id. The current one stays.
    const bool better = best == nullptr || member.ranks > best->ranks ||
                        (member.ranks == best->ranks && chosen != reference_ &&
                         (current || member.collectives * 3 < best->collectives * 2));
    if (!better) continue;
    best = &member;
    chosen = communicator;
  }
  if (chosen && chosen != reference_) {
    reference_ = chosen;
    Forget();
  }
  if (counted_ < kChoose) return;
  for (auto member = members_.begin(); member != members_.end();) {
    member->second.collectives /= 2;
    member = member->second.collectives == 0 ? members_.erase(member) : std::next(member);
  }
}

std::vector<RankStep> StepRows::Add(std::span<const ring::LogRecord> records, const RanksOf& ranks_of) {
  std::vector<RankStep> steps;
  for (const ring::LogRecord& record : records) {
    if (!IsUsable(record)) continue;
    EmitUntil(record.entered, steps);
    if (record.kind != ring::LogKind::kOperation) {
      AddMark(record);
      continue;
    }
    AddKernel({record.started, record.completed});
    if (record.number == 0) continue;  // a message
    if (members_.size() < kMostMembers || members_.contains(record.communicator))
      ++members_[record.communicator].collectives;
    if (++counted_ >= next_choice_) ChooseReference(ranks_of);
    if (record.communicator == reference_) AddReference(record);
  }
  return steps;
}

void StepRows::AddKernel(const HostInterval& kernel) {
  const auto after =
      std::upper_bound(kernels_.begin(), kernels_.end(), kernel,
                       [](const HostInterval& a, const HostInterval& b) { return a.start < b.start; });
  if (kernels_.size() >= kMostKernels || kernels_.end() - after > kMostDisorder) {
    kernels_.clear();
    cuts_.clear();
    return;
  }
  kernels_.insert(after, kernel);
}

void StepRows::AddMark(const ring::LogRecord& mark) {
  if (!marks_ || (mark.kind == ring::LogKind::kMarkedStep && *marks_ != mark.kind)) {
    marks_ = mark.kind;
    Forget();
  }
  if (mark.kind != *marks_) return;
  since_mark_ = 0;
  // A step without a collective has no end that all ranks share, and is left out.
  if (step_ && reference_end_ > mark_end_) AddCut(*step_, reference_end_);
  step_ = mark.number;
  mark_end_ = reference_end_;
}

void StepRows::AddReference(const ring::LogRecord& collective) {
  // The clock was stepped back.
  if (collective.completed < reference_end_ - kClockStep) Forget();
  if (marks_ && ++since_mark_ > kMarksEnd) {
    marks_.reset();
    Forget();
  }
  const HostTime end = reference_end_;
  reference_end_ = std::max(reference_end_, collective.completed);
  if (marks_) return;
  const Nanos gap = sequence_.empty() ? Nanos() : std::max(collective.entered - end, Nanos());
  sequence_.push_back({collective.number, collective.shape, gap});
  LearnPeriod();
  if (period_ == 0) return;
  // Not every collective has times, so the step ends with the last one that has.
  const uint64_t step = (collective.number - 1) / period_;
  if (step_ && step != *step_) AddCut(*step_, end);
  step_ = step;
}

void StepRows::LearnPeriod() {
  if (period_ != 0) return CheckPeriod();
  if (sequence_.size() < std::max(learn_at_, kFirstLearning)) return;
  std::vector<uint64_t> shapes;
  std::vector<Nanos> gaps;
  for (const Collective& one : sequence_) {
    shapes.push_back(one.shape);
    gaps.push_back(one.gap);
  }
  const size_t found = SequencePeriod(shapes, gaps);
  // The same answer for twice the length: shorter sequences may have no whole step.
  if (found == 0 || found != candidate_) {
    candidate_ = found;
    learn_at_ = 2 * sequence_.size();
    if (learn_at_ > kLastLearning) Forget();
    return;
  }
  const uint64_t last = sequence_.back().number, before = sequence_[sequence_.size() - 1 - found].number;
  if (last <= before || last - before > kLastLearning) return Forget();
  repeat_ = found;
  period_ = last - before;
}

void StepRows::CheckPeriod() {
  const size_t size = sequence_.size();
  ++checked_;
  if (size > repeat_ && sequence_[size - 1].shape != sequence_[size - 1 - repeat_].shape) ++different_;
  const uint64_t window = std::max<uint64_t>(repeat_, kLeastChecked);
  if (different_ > window / kMostDifferent) return Forget();
  if (checked_ >= window) checked_ = different_ = 0;
  while (sequence_.size() > repeat_ + 1) sequence_.pop_front();
}

void StepRows::AddCut(uint64_t number, HostTime at) {
  if (!cuts_.empty() && (number <= cuts_.back().number || at <= cuts_.back().at)) cuts_.clear();
  cuts_.push_back({number, at});
  if (cuts_.size() > kMostCuts) cuts_.pop_front();
}

void StepRows::EmitUntil(HostTime now, std::vector<RankStep>& steps) {
  while (cuts_.size() >= 2 && cuts_[1].at <= now) {
    const HostTime begin = cuts_[0].at, end = cuts_[1].at;
    // After a gap in the numbers, the time is that of several steps.
    const bool one = cuts_[1].number == cuts_[0].number + 1;
    if (one && steps.size() < kMostSteps)
      steps.push_back({cuts_[1].number, period_, begin, end - begin, CommunicationIn(begin, end)});
    std::erase_if(kernels_, [&](const HostInterval& kernel) { return kernel.end <= end; });
    cuts_.pop_front();
  }
}

Nanos StepRows::CommunicationIn(HostTime begin, HostTime end) const {
  Nanos total;
  HostTime covered = begin;
  for (const HostInterval& kernel : kernels_) {
    if (kernel.start >= end) break;
    const HostTime from = std::max(kernel.start, covered), to = std::min(kernel.end, end);
    if (to <= from) continue;
    total += to - from;
    covered = to;
  }
  return total;
}

}  // namespace lockstep::daemon
