// AlarmCommand runs the operator's program after an alarm (--alarm-command), with the alarm as a JSON
// document on its stdin (docs/formats/alarm.md).
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_ALARM_COMMAND_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_ALARM_COMMAND_H_

#include <atomic>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "aggregator/notice/alarm.h"
#include "base/log/log.h"
#include "base/time.h"

namespace lockstep::aggregator {

// Returns the document, which ends with a line break.
std::string AlarmDocument(const Alarm& alarm, const AlarmCapture& capture);

// Returns kInvalidArgument with the remedy unless `path` is the absolute path of an executable file that only
// root and this process's user can change or replace.
absl::Status CheckAlarmCommand(const std::string& path);

class AlarmCommand {
 public:
  AlarmCommand(std::string path, LogSink log) : path_(std::move(path)), log_(std::move(log)) {}

  // Checks the program as CheckAlarmCommand, and returns when it has ended. It is killed after kAtMost, and
  // logged if it fails. Only one thread at a time may call it.
  void Run(const Alarm& alarm, const AlarmCapture& capture);
  // Kills a running program soon, and all later ones. Any thread.
  void Stop() { stop_ = true; }

 private:
  static constexpr Nanos kAtMost = Nanos::Seconds(30);

  // Returns why it failed; empty: it did not.
  std::string Start(const Alarm& alarm, const AlarmCapture& capture) const;

  const std::string path_;
  const LogSink log_;
  std::atomic<bool> stop_ = false;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_ALARM_COMMAND_H_
