// A rank for tests of the daemon: it registers and answers captures, or misbehaves at one point.
//   lockstep_fake_client SOCKET IDENTITY KERNELS BEHAVIOUR
// It writes KERNELS kernels per capture. The segment counts those that did not fit, as with a real client.
#include <signal.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "base/read_clock.h"
#include "daemon/clients/client_fake.h"

namespace {

using lockstep::daemon::FakeClient;
namespace ring = lockstep::ring;

void SleepUntil(int64_t realtime_ns) {
  while (lockstep::ReadClockNs(CLOCK_REALTIME) < realtime_ns) {
    timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

[[noreturn]] void Die() {
  raise(SIGKILL);
  std::abort();
}

// Waits until the window ends. Returns true if the daemon stopped the capture or disconnected before that.
bool StoppedEarly(FakeClient& client, int64_t until) {
  while (lockstep::ReadClockNs(CLOCK_REALTIME) < until) {
    const int64_t left_ms = (until - lockstep::ReadClockNs(CLOCK_REALTIME)) / 1'000'000 + 1;
    const auto got = client.Receive(std::chrono::milliseconds(left_ms));
    if (got == FakeClient::Got::kClosed) return true;
    if (got == FakeClient::Got::kMessage && client.type() == ring::MessageType::kStop) return true;
  }
  return false;
}

// Writes three records of a kind that does not exist yet.
void WriteUnknown(ring::RingWriter& writer) {
  for (int i = 0; i < 3; ++i) {
    auto* record =
        static_cast<ring::SyncRecord*>(writer.Reserve(ring::RecordKind::kSync, sizeof(ring::SyncRecord)));
    if (record == nullptr) return;
    record->header.kind = static_cast<ring::RecordKind>(ring::kRecordKinds + 1);
    writer.Commit();
  }
}

void Capture(FakeClient& client, const ring::Start& start, uint64_t kernels, const std::string& behaviour) {
  client.SendState(start.capture, ring::ClientState::kCapturing);
  SleepUntil(start.t0_realtime_ns);
  ring::ClaimRing(client.segment().ring(0), 1);
  ring::RingWriter writer = client.segment().Writer(0);
  FakeClient::WriteKernels(writer, kernels, start.t0_realtime_ns, FakeClient::Names::kDefine);
  if (behaviour == "newer") WriteUnknown(writer);
  if (behaviour == "lie") client.segment().ring(0).head.store(~uint64_t{7});
  ring::ReleaseRing(client.segment().ring(0));
  if (behaviour == "die_capturing") Die();
  StoppedEarly(client, start.t1_realtime_ns);
  if (behaviour == "never_done") return;
  client.SendState(start.capture, ring::ClientState::kDone, "", writer.records());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string behaviour = argv[4];
  const uint64_t kernels = std::strtoull(argv[3], nullptr, 10);
  FakeClient client;
  if (!client.Connect(argv[1]) || !client.Register(argv[2])) return 1;
  while (true) {
    const auto got = client.Receive(std::chrono::milliseconds(1000));
    if (got == FakeClient::Got::kClosed) return 0;
    if (got == FakeClient::Got::kNothing) continue;
    if (client.type() == ring::MessageType::kArm) {
      const auto arm = client.As<ring::Arm>();
      if (behaviour == "die_arming") Die();
      if (behaviour == "ignore_arm") continue;
      if (behaviour == "fail") {
        client.SendState(arm.capture, ring::ClientState::kFailed, "CUPTI is held by another tool");
        continue;
      }
      client.SendState(arm.capture, ring::ClientState::kArmed);
      if (behaviour == "die_armed") Die();
    } else if (client.type() == ring::MessageType::kStart) {
      Capture(client, client.As<ring::Start>(), kernels, behaviour);
    }
  }
}
