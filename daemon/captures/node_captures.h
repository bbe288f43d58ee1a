// NodeCaptures has the two kinds of captures on this node: those of the present, through clients and
// profilers, and those of the past, from operation logs. It passes each message of an aggregator to the kind
// that it is for. A process can be in one capture of each kind at a time.
//
// The main thread.
#ifndef LOCKSTEP_DAEMON_CAPTURES_NODE_CAPTURES_H_
#define LOCKSTEP_DAEMON_CAPTURES_NODE_CAPTURES_H_

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/captures/captures.h"

namespace lockstep::daemon {

class NodeCaptures {
 public:
  // Both outlive this.
  NodeCaptures(Captures& present, Captures& past) : present_(present), past_(past) {}

  const Captures& present() const { return present_; }

  // As in Captures.
  void OnArm(UplinkId uplink, const v1::Arm& arm) { present_.OnArm(uplink, arm); }
  void OnArmPast(UplinkId uplink, const v1::Arm& arm) { past_.OnArm(uplink, arm); }
  void OnStart(UplinkId uplink, const v1::Start& start) {
    present_.OnStart(uplink, start);
    past_.OnStart(uplink, start);
  }
  void OnStop(UplinkId uplink, const v1::Stop& stop) {
    present_.OnStop(uplink, stop);
    past_.OnStop(uplink, stop);
  }
  void OnUplinkBack(UplinkId uplink) {
    present_.OnUplinkBack(uplink);
    past_.OnUplinkBack(uplink);
  }
  void OnUplinkGone(UplinkId uplink) {
    present_.OnUplinkGone(uplink);
    past_.OnUplinkGone(uplink);
  }
  std::vector<std::string> EndOthers(UplinkId uplink, const std::set<std::string>& running) {
    std::vector<std::string> ended = present_.EndOthers(uplink, running);
    for (std::string& capture : past_.EndOthers(uplink, running)) ended.push_back(std::move(capture));
    return ended;
  }
  void StopAll() {
    present_.StopAll();
    past_.StopAll();
  }
  void Tick() {
    present_.Tick();
    past_.Tick();
  }
  std::optional<MonoTime> NextDeadline() const {
    const std::optional<MonoTime> present = present_.NextDeadline();
    const std::optional<MonoTime> past = past_.NextDeadline();
    return !present ? past : !past ? present : std::min(*present, *past);
  }
  bool Busy(UplinkId uplink) const { return present_.Busy(uplink) || past_.Busy(uplink); }
  bool Busy() const { return present_.Busy() || past_.Busy(); }
  std::vector<v1::CaptureStatus> Status() const {
    std::vector<v1::CaptureStatus> all = present_.Status();
    for (v1::CaptureStatus& capture : past_.Status()) all.push_back(std::move(capture));
    return all;
  }

 private:
  Captures& present_;
  Captures& past_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_NODE_CAPTURES_H_
