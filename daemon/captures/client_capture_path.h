// ClientCapturePath captures processes through our client in them.
//
// It sends the messages of captures to the clients and reports their states to Captures. It moves the records
// in their rings, and their Python profiles, into the spool of the capture. The main thread; drains run on
// the threads of UserDrainers.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CLIENT_CAPTURE_PATH_H_
#define LOCKSTEP_DAEMON_CAPTURES_CLIENT_CAPTURE_PATH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log/log.h"
#include "base/time.h"
#include "daemon/captures/capture_path.h"
#include "daemon/captures/captures.h"
#include "daemon/clients/client_server.h"
#include "daemon/drain/python_profiles.h"
#include "daemon/drain/spool.h"
#include "daemon/drain/user_drainers.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/process.h"
#include "daemon/node/registry.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

class ClientCapturePath final : public CapturePath, public ClientEvents {
 public:
  // `clients` reports to this object. `ranks_changed` is called when the registry has changed. All references
  // outlive this.
  ClientCapturePath(EventLoop& loop, const Clock& clock, Registry& registry, ClientServer& clients,
                    Captures& captures, std::function<void()> ranks_changed, Log& log);

  // CapturePath.
  bool Choose(const ProcessId& process, const std::string& capture, uint32_t framework) override;
  bool Send(const ProcessId& process, const ring::Arm& message) override;
  bool Send(const ProcessId& process, const ring::Start& message) override;
  bool Send(const ProcessId& process, const ring::Stop& message) override;
  bool StartIterations(const ProcessId& process, const KinetoIterations& iterations,
                       HostTime give_up) override;
  bool KnowsTriggers(const ProcessId& process) const override;
  Nanos Lead(const ProcessId& process) const override;
  uint64_t BeginDrain(const ProcessId& process, const std::string& capture,
                      std::shared_ptr<Spool> spool) override;
  void RestartDrain(const ProcessId& process) override;
  void EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) override;
  void AbandonDrain(const ProcessId& process) override;

  // ClientEvents.
  void OnRanksChanged() override;
  void OnClientState(const ProcessId& process, const ring::State& state) override;
  void OnClientProfile(const ProcessId& process, const ring::Profile& profile, Fd file) override;
  void OnClientGone(const ProcessId& process, const std::string& why) override;

  DrainStats drain_stats() const { return drainers_.stats(); }

 private:
  EventLoop& loop_;
  Registry& registry_;
  ClientServer& clients_;
  Captures& captures_;
  const std::function<void()> ranks_changed_;
  Log& log_;
  PythonProfiles python_profiles_;
  // Declared last, so that its threads end first.
  UserDrainers drainers_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CLIENT_CAPTURE_PATH_H_
