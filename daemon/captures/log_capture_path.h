// LogCapturePath captures the past of processes from their operation logs, also of processes that have left.
//
// It answers a capture's messages in the place of the process, which does nothing for it. When the capture
// starts, it reads the log and makes the records of the window. The main thread.
#ifndef LOCKSTEP_DAEMON_CAPTURES_LOG_CAPTURE_PATH_H_
#define LOCKSTEP_DAEMON_CAPTURES_LOG_CAPTURE_PATH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log/log.h"
#include "base/time.h"
#include "daemon/captures/capture_path.h"
#include "daemon/captures/captures.h"
#include "daemon/clients/client_server.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/drain/batcher.h"
#include "daemon/drain/spool.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/process.h"
#include "wire/ring/handshake.h"
#include "wire/ring/progress_reader.h"

namespace lockstep::daemon {

class LogCapturePath final : public CapturePath {
 public:
  // `captures` are those of the past. All references outlive this.
  LogCapturePath(EventLoop& loop, const ClientServer& clients, const DepartedRanks& departed,
                 Captures& captures, Log& log)
      : loop_(loop), clients_(clients), departed_(departed), captures_(captures), log_(log) {}

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

 private:
  static constexpr uint64_t kEpoch = 1;

  struct Target {
    std::string capture;
    std::shared_ptr<Spool> spool;
    uint64_t incarnation = 0;  // differs from those of clients' segments
    // After the start.
    std::vector<BatchData> batches;
    uint64_t records = 0;
    uint32_t unreadable = 0;
  };

  // The log of a process, living or not.
  struct ProcessLog {
    ring::OperationLog log;
    std::optional<HostTime> ended;
  };

  ProcessLog Read(const ProcessId& process, HostTime since) const;
  // Makes the records of the window. Returns the state that says what they hold, or why there are none.
  ring::State Record(const ProcessId& process, const ring::Start& start);

  EventLoop& loop_;
  const ClientServer& clients_;
  const DepartedRanks& departed_;
  Captures& captures_;
  Log& log_;
  std::map<ProcessId, Target> targets_;
  uint64_t next_incarnation_ = uint64_t{1} << 48;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_LOG_CAPTURE_PATH_H_
