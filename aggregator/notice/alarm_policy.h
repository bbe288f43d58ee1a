// AlarmPolicy does what the operator wants to be done after an alarm: it captures the job within a limit
// (--alarm-captures), and runs a program (--alarm-command).
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_ALARM_POLICY_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_ALARM_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "aggregator/captures/captures.h"
#include "aggregator/notice/alarm.h"
#include "aggregator/notice/program_capture.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct AlarmPolicyOptions {
  size_t captures_per_hour = 0;  // of all jobs together; 0: none
  uint32_t steps = 5;            // length of the capture of a slow rank
  std::function<MonoTime()> now = &MonoNow;
  LogSink log = &LogNothing;
  // Null: none. It is called on the policy's thread.
  std::function<void(const Alarm&, const AlarmCapture&)> command;
};

// Thread-safe. It has one thread, which handles one alarm after the other.
//
// Alarms of one kind and job within kIncident after the first are one incident, which gets one capture and
// one call of the command. The ranks that a broken switch slows down are noticed one after the other.
class AlarmPolicy {
 public:
  // Receives the capture of each alarm.
  using Done = std::function<void(const Alarm&, const AlarmCapture&)>;

  // `audit` outlives this.
  AlarmPolicy(AlarmPolicyOptions options, RunTrace trace, Done done, AuditLog& audit);
  ~AlarmPolicy();
  AlarmPolicy(const AlarmPolicy&) = delete;
  AlarmPolicy& operator=(const AlarmPolicy&) = delete;

  // Starts the thread, if there is anything to do after an alarm.
  void Start();
  // Returns at once. `done` is called later, unless captures are not allowed or the aggregator ends. An alarm
  // is dropped and logged if too many wait, of all users or of the job's user.
  void Add(const Alarm& alarm);
  // Returns after the capture or command that runs, which the caller ends.
  void Shutdown();

 private:
  static constexpr Nanos kIncident = Nanos::Seconds(600);
  static constexpr Nanos kShortest = Nanos::Seconds(1);
  static constexpr Nanos kLongest = Nanos::Seconds(10);
  // Of the past, this much is captured: of a slow rank whose GPU cannot be captured, and before a hang.
  static constexpr Nanos kPast = Nanos::Seconds(30);
  static constexpr Nanos kLongestPast = Nanos::Seconds(3600);
  static constexpr size_t kMostWaiting = 64;
  static constexpr size_t kMostWaitingOfUser = 8;

  struct Waiting {
    Alarm alarm;
    MonoTime added;
  };
  struct Incident {
    MonoTime begun;
    AlarmCapture capture;
  };

  void Run();
  void Handle(const Alarm& alarm);
  bool HasRoom(const Alarm& alarm) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Captures the job, if the limit allows it.
  AlarmCapture Capture(const Alarm& alarm);
  v1::TraceFinished CapturePresent(const Alarm& alarm);
  v1::TraceFinished CapturePast(const Alarm& alarm);
  bool enabled() const { return options_.captures_per_hour > 0 || options_.command != nullptr; }
  bool stopping();

  const AlarmPolicyOptions options_;
  const RunTrace trace_;
  const Done done_;
  AuditLog& audit_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<MonoTime> captured_;                                 // thread: thread_; within the last hour
  std::map<std::pair<JobKey, Alarm::Kind>, Incident> incidents_;  // thread: thread_
  std::thread thread_;                                            // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_ALARM_POLICY_H_
