#include "daemon/captures/client_capture_path.h"

#include <utility>

namespace lockstep::daemon {

ClientCapturePath::ClientCapturePath(EventLoop& loop, const Clock& clock, Registry& registry,
                                     ClientServer& clients, Captures& captures,
                                     std::function<void()> ranks_changed, Log& log)
    : loop_(loop),
      registry_(registry),
      clients_(clients),
      captures_(captures),
      ranks_changed_(std::move(ranks_changed)),
      log_(log),
      python_profiles_(loop, clock),
      drainers_(clock) {}

bool ClientCapturePath::Choose(const ProcessId& process, const std::string&, uint32_t) {
  return clients_.SegmentOf(process) != nullptr;
}

bool ClientCapturePath::Send(const ProcessId& process, const ring::Arm& message) {
  return clients_.Send(process, message);
}
bool ClientCapturePath::Send(const ProcessId& process, const ring::Start& message) {
  return clients_.Send(process, message);
}
bool ClientCapturePath::Send(const ProcessId& process, const ring::Stop& message) {
  return clients_.Send(process, message);
}

// A client counts by itself (KnowsTriggers).
bool ClientCapturePath::StartIterations(const ProcessId&, const KinetoIterations&, HostTime) { return false; }

bool ClientCapturePath::KnowsTriggers(const ProcessId& process) const {
  constexpr uint32_t kTriggersSince = 1;
  const RegisteredProcess* registered = registry_.Find(process);
  return registered != nullptr && registered->layout_minor >= kTriggersSince;
}

Nanos ClientCapturePath::Lead(const ProcessId&) const { return Nanos(); }

uint64_t ClientCapturePath::BeginDrain(const ProcessId& process, const std::string& capture,
                                       std::shared_ptr<Spool> spool) {
  python_profiles_.Expect(process, capture, spool);
  const std::shared_ptr<DaemonSegment> segment = clients_.SegmentOf(process);
  return drainers_.Begin(registry_.Find(process)->uid, process, segment, segment->incarnation(), capture,
                         std::move(spool));
}

void ClientCapturePath::RestartDrain(const ProcessId& process) { drainers_.Restart(process); }

void ClientCapturePath::EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) {
  drainers_.End(process, {window, [this, process, number](uint64_t records, std::function<void()> add_end) {
                            loop_.Post([this, process, number, records, add_end = std::move(add_end)] {
                              log_.Info("capture_drained", {{"pid", process.pid}, {"records", records}});
                              python_profiles_.Send(process, number,
                                                    [this, process, number, records, add_end] {
                                                      // Updated before add_end, because the aggregator may
                                                      // answer it with another capture of the process.
                                                      captures_.OnDrained(process, number, records);
                                                      add_end();
                                                    });
                            });
                          }});
}

void ClientCapturePath::AbandonDrain(const ProcessId& process) {
  drainers_.Abandon(process);
  python_profiles_.Forget(process);
}

void ClientCapturePath::OnRanksChanged() { ranks_changed_(); }

void ClientCapturePath::OnClientState(const ProcessId& process, const ring::State& state) {
  if (captures_.ByKineto(process)) return;  // late messages of an earlier capture
  captures_.OnClientState(process, state);
}

void ClientCapturePath::OnClientProfile(const ProcessId& process, const ring::Profile& profile, Fd file) {
  python_profiles_.OnProfile(process, profile, std::move(file));
}

void ClientCapturePath::OnClientGone(const ProcessId& process, const std::string& why) {
  if (captures_.ByKineto(process)) return;  // its profiler continues without the client
  captures_.OnClientGone(process, why);
}

}  // namespace lockstep::daemon
