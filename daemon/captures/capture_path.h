// CapturePath is a way to capture processes: through our client in them, or through PyTorch's profiler.
//
// Captures chooses a path for each process of a capture. It uses that path until it ends or abandons the
// drain. The path reports the process's states, its end and the end of the drain to Captures.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURE_PATH_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURE_PATH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "daemon/drain/spool.h"
#include "daemon/kineto/kineto_config.h"
#include "daemon/node/process.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

// Implemented by: ClientCapturePath, KinetoCapturePath, and a fake in tests. The main thread. No function
// calls Captures before it returns.
class CapturePath {
 public:
  virtual ~CapturePath() = default;
  // Prepares a capture of the process, before BeginDrain. `framework` has v1::FrameworkActivity bits. Returns
  // false, and changes nothing, if the process cannot be reached on this path.
  virtual bool Choose(const ProcessId& process, const std::string& capture, uint32_t framework) = 0;

  // These return false if the process is not connected or does not accept messages.
  virtual bool Send(const ProcessId& process, const ring::Arm& message) = 0;
  virtual bool Send(const ProcessId& process, const ring::Start& message) = 0;
  virtual bool Send(const ProcessId& process, const ring::Stop& message) = 0;
  // Starts a process that counts iterations instead of using the clock. Returns false also if processes on
  // this path do not count them.
  virtual bool StartIterations(const ProcessId& process, const KinetoIterations& iterations,
                               HostTime give_up) = 0;
  // Returns true if the process detects the begin and end of a window itself.
  virtual bool KnowsTriggers(const ProcessId& process) const = 0;
  // Returns the time that the process needs between Start and T0.
  virtual Nanos Lead(const ProcessId& process) const = 0;

  // From now on the process's data goes to `spool`. Returns the epoch of strings for the Arm message.
  virtual uint64_t BeginDrain(const ProcessId& process, const std::string& capture,
                              std::shared_ptr<Spool> spool) = 0;
  // Discards the data received since BeginDrain.
  virtual void RestartDrain(const ProcessId& process) = 0;
  // Puts the remaining data and the CaptureEnd into the spool, which leads to Captures::OnDrained. `number`
  // is the capture's.
  virtual void EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) = 0;
  // Ends the drain without further data or a CaptureEnd.
  virtual void AbandonDrain(const ProcessId& process) = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURE_PATH_H_
