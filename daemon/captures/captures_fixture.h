// Shared by the tests of Captures: ranks that send scripted messages, and a clock that the test advances.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURES_FIXTURE_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURES_FIXTURE_H_

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/captures/captures.h"
#include "daemon/node/clock_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {

inline constexpr UplinkId kUplink = 1;
inline constexpr ProcessId kA{10, 1};
inline constexpr ProcessId kB{11, 1};

// The aggregators and both paths. They record each call in the same lists.
struct FakePorts final : CaptureUplinks {
  enum class Via { kClient, kKineto };
  struct Path final : CapturePath {
    Path(FakePorts& ports, Via via) : ports(ports), via(via) {}
    template <typename Message>
    bool Take(std::vector<Message>& into, const ProcessId& process, const Message& message) {
      if (ports.unresponsive.count(process)) return false;
      into.push_back(message);
      return true;
    }
    bool Send(const ProcessId& p, const ring::Arm& m) override { return Take(ports.arms[p], p, m); }
    bool Send(const ProcessId& p, const ring::Start& m) override { return Take(ports.starts[p], p, m); }
    bool Send(const ProcessId& p, const ring::Stop& m) override { return Take(ports.stops[p], p, m); }
    bool Choose(const ProcessId& p, const std::string&, uint32_t framework) override {
      if (via == Via::kKineto) ports.kineto[p] = framework;
      return ports.unreached.count(p) == 0;
    }
    bool StartIterations(const ProcessId& p, const KinetoIterations& iterations, HostTime give_up) override {
      ports.iteration_starts[p].push_back({iterations, give_up});
      return ports.unresponsive.count(p) == 0;
    }
    Nanos Lead(const ProcessId&) const override { return via == Via::kKineto ? Nanos::Seconds(9) : Nanos(); }
    bool KnowsTriggers(const ProcessId& p) const override { return ports.old.count(p) == 0; }
    uint64_t BeginDrain(const ProcessId& p, const std::string&, std::shared_ptr<Spool>) override {
      EXPECT_TRUE(ports.draining.insert(p).second) << "begun twice";
      return ++ports.epoch;
    }
    void EndDrain(const ProcessId& p, uint64_t number, const HostInterval& window) override {
      EXPECT_TRUE(ports.draining.count(p)) << "ended what was not begun";
      ports.ended.push_back({p, number, window});
    }
    void RestartDrain(const ProcessId& p) override { ports.restarted.insert(p); }
    void AbandonDrain(const ProcessId& p) override {
      ports.abandoned.insert(p);
      ports.draining.erase(p);
    }
    FakePorts& ports;
    const Via via;
  };
  bool MayCapture(UplinkId, const ProcessId& p, CaptureTime) override { return here.count(p) != 0; }
  std::shared_ptr<Spool> SpoolOf(UplinkId) override { return nullptr; }
  void SendEnd(UplinkId, const ProcessId& p, const std::string&) override { sent_ends.insert(p); }
  void SendStates(UplinkId, v1::RankStates update) override {
    for (const auto& state : update.states()) states[FromProto(state.process())].push_back(state);
  }
  void Discard(UplinkId, const std::string& capture) override { discarded.insert(capture); }
  Nanos AwayFor(UplinkId uplink) override { return away.count(uplink) != 0 ? away.at(uplink) : Nanos(); }
  HostTime ToHost(UplinkId, JobTime t) override { return HostTime(t.ns() + offset.ns()); }

  Path client{*this, Via::kClient};
  Path profiler{*this, Via::kKineto};
  struct Ended {
    ProcessId process;
    uint64_t number;
    HostInterval window;
  };
  std::map<UplinkId, Nanos> away;
  std::set<std::string> discarded;
  std::set<ProcessId> here = {kA, kB};
  std::set<ProcessId> unresponsive;
  std::set<ProcessId> old;  // processes with an old client
  std::set<ProcessId> unreached;
  std::map<ProcessId, uint32_t> kineto;
  std::map<ProcessId, std::vector<std::pair<KinetoIterations, HostTime>>> iteration_starts;
  std::map<ProcessId, std::vector<ring::Arm>> arms;
  std::map<ProcessId, std::vector<ring::Start>> starts;
  std::map<ProcessId, std::vector<ring::Stop>> stops;
  std::set<ProcessId> draining;
  std::set<ProcessId> restarted;
  std::multiset<ProcessId> sent_ends;
  std::set<ProcessId> abandoned;
  std::vector<Ended> ended;
  std::map<ProcessId, std::vector<v1::RankState>> states;
  uint64_t epoch = 0;
  Nanos offset;
};

class CapturesTest : public testing::Test {
 protected:
  void Arm(const std::string& capture, const std::vector<ProcessId>& processes,
           Nanos timeout = Nanos::Seconds(5)) {
    v1::Arm arm;
    arm.set_capture(capture);
    for (const ProcessId& p : processes) ToProto(p, arm.add_processes());
    arm.set_timeout_ns(timeout.ns());
    captures_.OnArm(kUplink, arm);
  }
  void Start(const std::string& capture, Nanos from_now = Nanos::Millis(50),
             Nanos length = Nanos::Seconds(2)) {
    v1::Start start;
    start.set_capture(capture);
    const int64_t now = clock_.Realtime().ns() - ports_.offset.ns();
    start.set_t0_ns(now + from_now.ns());
    start.set_t1_ns(now + (from_now + length).ns());
    captures_.OnStart(kUplink, start);
  }
  void StartOn(const std::string& capture, const v1::Trigger& trigger, Nanos patience = Nanos::Seconds(60),
               v1::Start start = {}) {
    start.set_capture(capture);
    start.set_t0_ns(clock_.Realtime().ns());
    start.set_t1_ns((clock_.Realtime() + patience).ns());
    *start.mutable_trigger() = trigger;
    captures_.OnStart(kUplink, start);
  }
  static v1::Trigger Steps(v1::Trigger::Begin begin, uint64_t step) {
    v1::Trigger trigger;
    trigger.set_begin(begin);
    trigger.set_end(v1::Trigger::AFTER_STEPS);
    trigger.set_step(step);
    trigger.set_steps(3);
    return trigger;
  }
  void Waits(const ProcessId& p, uint64_t step) {
    ring::State message{};
    message.capture = ports_.arms.at(p).back().capture;
    message.state = ring::ClientState::kWaiting;
    message.step = step;
    message.step_ns = Nanos::Millis(100).ns();
    captures_.OnClientState(p, message);
  }
  enum class StopMode { kKeep, kAbort };
  void Stop(const std::string& capture, StopMode mode) {
    v1::Stop stop;
    stop.set_capture(capture);
    stop.set_abort(mode == StopMode::kAbort);
    captures_.OnStop(kUplink, stop);
  }
  void Client(const ProcessId& p, ring::ClientState state, const char* text = "") {
    ring::State message{};
    message.capture = ports_.arms.at(p).back().capture;
    message.state = state;
    message.records = 42;
    message.outside_window = 7;
    message.late_ns = 3;
    std::strcpy(message.text, text);
    captures_.OnClientState(p, message);
  }
  // Completes all drains that have been requested.
  void Drained() {
    for (const auto& e : std::exchange(ports_.ended, {})) {
      ports_.draining.erase(e.process);
      captures_.OnDrained(e.process, e.number, 5);
    }
  }
  void Pass(Nanos time) {
    clock_.Advance(time);
    captures_.Tick();
  }
  v1::RankState Last(const ProcessId& p) const { return ports_.states.at(p).back(); }

  FakeClock clock_;
  FakePorts ports_;
  Captures captures_{clock_, ports_, ports_.client, ports_.profiler, [] {}};
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURES_FIXTURE_H_
