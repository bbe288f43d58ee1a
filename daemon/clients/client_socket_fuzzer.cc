// Runs a script of up to four clients against the client socket, with the captures behind it. The clients
// send valid and invalid packets with descriptors of every kind, and disconnect. An aggregator captures them,
// and time passes. The daemon must go on serving: at the end a new client registers.
//
// Everything runs on one thread, except the drain thread.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/fuzz_input_fixture.h"
#include "daemon/captures/captures.h"
#include "daemon/captures/client_capture_path.h"
#include "daemon/captures/kineto_capture_path.h"
#include "daemon/clients/client_fake.h"
#include "daemon/clients/client_server.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/node/clock_fake.h"
#include "daemon/node/temp_folder_fake.h"

namespace lockstep::daemon {
namespace {

constexpr UplinkId kUplink = 1;
constexpr size_t kMostSteps = 200;

// The script sets the answer for all processes, because every client has the fuzzer's own pid.
struct ScriptedProcesses final : ProcessTable {
  std::optional<ProcessInfo> Find(int32_t pid) const override {
    if (hidden) return std::nullopt;
    return ProcessInfo{{pid, start_ticks}, 1};
  }
  std::string ControlGroups(int32_t) const override { return ""; }
  uint64_t start_ticks = 1;
  bool hidden = false;
};

struct OneUplink final : CaptureUplinks {
  explicit OneUplink(const Clock& clock) : spool(std::make_shared<Spool>(1u << 20, clock, losses)) {}
  bool MayCapture(UplinkId, const ProcessId&, CaptureTime) override { return true; }
  Nanos AwayFor(UplinkId) override { return Nanos(); }
  HostTime ToHost(UplinkId, JobTime t) override { return HostTime(t.ns()); }
  std::shared_ptr<Spool> SpoolOf(UplinkId) override { return spool; }
  void SendStates(UplinkId, v1::RankStates) override {}
  void SendEnd(UplinkId, const ProcessId&, const std::string&) override {}
  void Discard(UplinkId, const std::string& capture) override { spool->Forget(capture); }
  losses::LossTable losses{{"ring", "spool", "other"}};
  std::shared_ptr<Spool> spool;
};

template <size_t kLength>
void Fill(char (&field)[kLength], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), kLength));
}

Fd MemoryFile(std::string_view content, int seals) {
  Fd file(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (write(file.get(), content.data(), content.size()) < 0) std::abort();
  fcntl(file.get(), F_ADD_SEALS, seals);
  return file;
}

class Script {
 public:
  Script(const uint8_t* data, size_t size, const std::string& folder)
      : input_(data, size), path_(folder + "/client.sock") {
    auto socket = ListeningSocket::Open(path_, SOCK_SEQPACKET, 0600);
    if (!socket.ok() || !server_.Start(*std::move(socket)).ok()) std::abort();
  }

  void Run() {
    loop_->Post([this] { Next(); });
    loop_->Run();
    if (!served_) std::abort();
  }

 private:
  // Each step is one turn of the loop, so the daemon reacts to a step before the next.
  void Next() {
    if (!input_.empty() && ++steps_ <= kMostSteps) {
      Step();
      captures_.Tick();
      return loop_->Post([this] { Next(); });
    }
    processes_.hidden = false;
    for (FakeClient& client : clients_) client.Disconnect();
    // One turn for the closed sockets, one for the connection, one for the hello.
    Then([this] {
      if (!last_.Connect(path_)) std::abort();
      last_.Send(FakeClient::MakeHello("LOCKSTEP_JOB=last\n"));
      Then([this] {
        Then([this] {
          const auto welcome =
              last_.Expect<ring::Welcome>(ring::MessageType::kWelcome, std::chrono::milliseconds(1000));
          served_ = welcome.has_value();
          captures_.StopAll();
          loop_->Stop();
        });
      });
    });
  }
  template <typename F>
  void Then(F next) {
    loop_->Post(std::move(next));
  }

  FakeClient& Client() { return clients_[input_.Below(clients_.size())]; }

  void Step() {
    switch (input_.Below(15)) {
      case 0:
        Client().Connect(path_);
        break;
      case 1:
        SendHello();
        break;
      case 2:
        SendState();
        break;
      case 3:
        SendProfile();
        break;
      case 4:
        SendPresence();
        break;
      case 5:
        SendBytes();
        break;
      case 6:
        Client().Disconnect();
        break;
      case 7:
        Receive();
        break;
      case 8:
        clock_.Advance(Nanos::Millis(static_cast<int64_t>(input_.Number()) * 50));
        break;
      case 9:
        processes_.start_ticks = input_.Number();
        break;
      case 10:
        processes_.hidden = input_.Flag();
        break;
      case 11:
        Arm();
        break;
      case 12:
        Start();
        break;
      case 13:
        Stop();
        break;
      case 14:
        Acknowledge();
        break;
    }
  }

  // Returns a descriptor to pass, or none.
  Fd Descriptor(std::string_view content) {
    constexpr int kSegment = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    switch (input_.Below(6)) {
      case 0:
        return Fd();
      case 1:
        return Fd(open("/dev/null", O_RDWR | O_CLOEXEC));
      case 2:
        return MemoryFile(content, 0);
      case 3:
        return MemoryFile(content, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
      case 4: {
        Fd file = MemoryFile(content, 0);
        if (ftruncate(file.get(), 64 << 10) != 0) std::abort();
        fcntl(file.get(), F_ADD_SEALS, kSegment);
        return file;
      }
      default: {
        // The segment of a client that a daemon left behind.
        const int memfd = Client().memfd();
        return memfd < 0 ? Fd() : Fd(fcntl(memfd, F_DUPFD_CLOEXEC, 0));
      }
    }
  }

  void Receive() {
    FakeClient& client = Client();
    if (client.Receive(std::chrono::milliseconds(0)) == FakeClient::Got::kMessage &&
        client.type() == ring::MessageType::kArm) {
      number_ = client.As<ring::Arm>().capture;
    }
  }
  void SendHello() {
    FakeClient& client = Client();
    ring::Hello hello = FakeClient::MakeHello(std::string(input_.Text(sizeof(hello.identity) - 1)));
    const uint8_t flags = input_.Number();
    hello.layout_minor = input_.Number();
    if ((flags & 1) != 0) hello.layout_major = input_.Number<uint32_t>();
    if ((flags & 2) != 0) Fill(hello.version, input_.Text());
    if ((flags & 4) != 0) Fill(hello.program, input_.Text());
    const Fd descriptor = Descriptor(hello.identity);
    client.Send(hello, descriptor.get());
  }
  void SendState() {
    FakeClient& client = Client();
    auto state = FakeClient::Make<ring::State>(ring::MessageType::kState);
    state.capture = number_;
    state.state = static_cast<ring::ClientState>(input_.Below(7));
    state.refusal = static_cast<ring::Refusal>(input_.Below(3));
    state.cut = static_cast<ring::Cut>(input_.Below(5));
    const uint8_t flags = input_.Number();
    if ((flags & 1) != 0) state.capture = input_.Number<uint64_t>();
    if ((flags & 2) != 0) state.records = input_.Number<uint64_t>();
    if ((flags & 4) != 0) state.late_ns = input_.Number<int64_t>();
    if ((flags & 8) != 0) state.t0_realtime_ns = input_.Number<int64_t>();
    if ((flags & 16) != 0) state.t1_realtime_ns = input_.Number<int64_t>();
    if ((flags & 32) != 0) state.step = input_.Number<uint64_t>();
    if ((flags & 64) != 0) state.step_ns = input_.Number<int64_t>();
    if ((flags & 128) != 0) Fill(state.text, input_.Text());
    client.Send(state);
  }
  void SendProfile() {
    FakeClient& client = Client();
    auto profile = FakeClient::Make<ring::Profile>(ring::MessageType::kProfile);
    profile.capture = number_;
    const std::string_view content = input_.Text();
    profile.bytes = input_.Flag() ? content.size() : input_.Number<uint64_t>();
    profile.begin_ns = input_.Number<int32_t>();
    profile.end_ns = input_.Number<int32_t>();
    const Fd descriptor = Descriptor(content);
    client.Send(profile, descriptor.get());
  }
  void SendPresence() {
    FakeClient& client = Client();
    auto presence = FakeClient::Make<ring::Presence>(ring::MessageType::kPresence);
    Fill(presence.program, input_.Text());
    client.Send(presence);
  }
  void SendBytes() {
    FakeClient& client = Client();
    const bool header = input_.Flag();
    const auto type = static_cast<ring::MessageType>(input_.Below(11));
    std::string bytes(input_.Text(4096));
    if (header) {
      const ring::MessageHeader valid = {ring::kHandshakeMagic, type, static_cast<uint32_t>(bytes.size())};
      std::memcpy(bytes.data(), &valid, std::min(sizeof(valid), bytes.size()));
    }
    client.SendBytes(bytes.data(), bytes.size());
  }

  std::string CaptureName() { return std::string(1, static_cast<char>('a' + input_.Below(3))); }
  void Arm() {
    v1::Arm arm;
    arm.set_capture(CaptureName());
    ToProto({getpid(), processes_.start_ticks}, arm.add_processes());
    ToProto({getpid(), input_.Number()}, arm.add_processes());
    arm.set_activities(input_.Number<uint16_t>());
    arm.set_sample(input_.Flag());
    arm.set_timeout_ns(Nanos::Millis(static_cast<int64_t>(input_.Number()) * 50).ns());
    captures_.OnArm(kUplink, arm);
  }
  void Start() {
    v1::Start start;
    start.set_capture(CaptureName());
    const int64_t now = clock_.Realtime().ns();
    start.set_t0_ns(now + Nanos::Millis(input_.Number()).ns());
    start.set_t1_ns(start.t0_ns() + Nanos::Millis(input_.Number()).ns());
    if (input_.Flag()) {
      v1::Trigger& trigger = *start.mutable_trigger();
      trigger.set_begin(static_cast<v1::Trigger::Begin>(input_.Below(6)));
      trigger.set_end(static_cast<v1::Trigger::End>(input_.Below(5)));
      trigger.set_step(input_.Number());
      trigger.set_steps(input_.Number());
      trigger.set_range(std::string(input_.Text()));
    }
    captures_.OnStart(kUplink, start);
  }
  void Stop() {
    v1::Stop stop;
    stop.set_capture(CaptureName());
    stop.set_abort(input_.Flag());
    captures_.OnStop(kUplink, stop);
  }
  // The aggregator takes what waits in the spool.
  void Acknowledge() {
    v1::FromDaemon message;
    if (input_.Flag()) uplinks_.spool->Resume(0, 16);
    while (uplinks_.spool->Take(message)) {
    }
    uplinks_.spool->Acknowledge(uplinks_.spool->stats().sent, 16);
  }

  FuzzInput input_;
  const std::string path_;
  size_t steps_ = 0;
  uint64_t number_ = 0;  // of the last Arm that a client received
  bool served_ = false;

  FakeClock clock_;
  Fd null_{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Log log_{null_.get(), LogLevel::kInfo, clock_};
  AuditLog audit_{{.program = "fuzz", .session = 1, .user_name = nullptr}, nullptr, clock_};
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  ScriptedProcesses processes_;
  Registry registry_;
  SchedulerJobs jobs_{processes_};
  ConnectionAttempts attempts_{clock_};
  DepartedRanks departed_{clock_};
  OneUplink uplinks_{clock_};
  // As in Daemon: each refers to the others before they exist.
  ClientCapturePath client_path_{*loop_, clock_, registry_, server_, captures_, [] {}, log_};
  KinetoCapturePath kineto_path_{*loop_, clock_, captures_, [] {}, audit_, log_};
  ClientServer server_{
      {.segment = {.main_ring_bytes = 64u << 10, .thread_ring_bytes = 32u << 10, .ring_count = 2}},
      *loop_,
      processes_,
      jobs_,
      registry_,
      attempts_,
      departed_,
      client_path_,
      log_};
  Captures captures_{clock_, uplinks_, client_path_, kineto_path_, [] {}};
  std::array<FakeClient, 4> clients_;
  FakeClient last_;
};

}  // namespace
}  // namespace lockstep::daemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lockstep::daemon::TempFolder folder;
  lockstep::daemon::Script(data, size, folder.path()).Run();
  return 0;
}
