#include "aggregator/reports/analysis_turns.h"

#include <algorithm>

namespace lockstep::aggregator {

bool AnalysisTurns::IsNext(uid_t user, uint64_t ticket) const {
  if (running_.size() >= most_ || tickets_.at(user).front() != ticket) return false;
  const auto next = std::find_if(
      users_.begin(), users_.end(),
      [this](uid_t waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !running_.contains(waiting); });
  return next != users_.end() && *next == user;
}

void AnalysisTurns::Leave(uid_t user) {
  users_.erase(std::find(users_.begin(), users_.end(), user));
  std::deque<uint64_t>& tickets = tickets_.at(user);
  tickets.pop_front();
  if (tickets.empty()) {
    tickets_.erase(user);
  } else {
    users_.push_back(user);
  }
}

std::unique_ptr<AnalysisTurns::Turn> AnalysisTurns::Wait(uid_t user) {
  MutexLock lock(&mutex_);
  const uint64_t ticket = next_ticket_++;
  std::deque<uint64_t>& tickets = tickets_[user];
  if (tickets.empty()) users_.push_back(user);
  tickets.push_back(ticket);
  changed_.Wait(&mutex_,
                [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || IsNext(user, ticket); });
  if (closed_) return nullptr;
  Leave(user);
  running_.insert(user);
  // Another user may have a free place, too.
  changed_.SignalAll();
  return std::make_unique<Turn>(*this, user);
}

size_t AnalysisTurns::waiting() const {
  MutexLock lock(&mutex_);
  size_t all = 0;
  for (const auto& [user, tickets] : tickets_) all += tickets.size();
  return all;
}

void AnalysisTurns::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.SignalAll();
}

void AnalysisTurns::End(uid_t user) {
  MutexLock lock(&mutex_);
  running_.erase(user);
  changed_.SignalAll();
}

}  // namespace lockstep::aggregator
