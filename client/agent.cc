#include "client/agent.h"

#include <unistd.h>

#include <cstring>

namespace lockstep::client {
namespace {

constexpr Nanos kFirstBackOff = Nanos::Millis(50);
constexpr Nanos kLongestBackOff = Nanos::Seconds(1);
constexpr Nanos kAfterRefusal = Nanos::Seconds(10);
constexpr Nanos kWelcomeLimit = Nanos::Seconds(5);
// How often an idle thread looks whether its descriptors are still its own.
constexpr Nanos kIdleWait = Nanos::Seconds(5);
constexpr Nanos kArmedWait = Nanos::Millis(100);
// ARM without START: the daemon has forgotten us.
constexpr Nanos kArmedLimit = Nanos::Seconds(120);

}  // namespace

void Agent::Run(EntryKind entry) {
  for (;;) {
    const Nanos pause = Turn(entry);
    if (pause > Nanos()) timing_.pause(pause);
  }
}

Nanos Agent::Turn(EntryKind entry) {
  if (!connection_.open()) {
    Lost();
    if (!Connect(entry)) {
      if (back_off_ == Nanos()) back_off_ = kFirstBackOff;
      const Nanos now = back_off_;
      if (back_off_ < kLongestBackOff) back_off_ = Nanos(now.ns() * 2);
      if (back_off_ > kLongestBackOff && now < kLongestBackOff) back_off_ = kLongestBackOff;
      return now;
    }
    back_off_ = Nanos();
  }
  if (capture_.state() == Capture::State::kWindow) {
    if (exiting_.load()) capture_.EndWindow();
    tick_in_ = capture_.Tick();
    if (tick_in_ == Nanos() || exiting_.load()) {
      FinishCapture();
      return Nanos();
    }
  }
  if (capture_.state() == Capture::State::kArmed &&
      (exiting_.load() || timing_.monotonic() - armed_at_ > kArmedLimit)) {
    ring::State fields{};
    Sentence why;
    why << (exiting_.load() ? "the process ended before the capture began"
                            : "no start came within 120 s of arming");
    std::memcpy(fields.text, why.c_str(), why.size());
    capture_.Abort();
    SendState(ring::ClientState::kFailed, fields);
    capturing_.store(false);
  }
  Message message;
  switch (connection_.Receive(WaitForMessage(), &message)) {
    case Connection::Got::kMessage:
      Handle(message);
      break;
    case Connection::Got::kNothing:
      break;
    case Connection::Got::kLost:
      Lost();
      break;
  }
  return Nanos();
}

Nanos Agent::WaitForMessage() const {
  switch (capture_.state()) {
    case Capture::State::kIdle:
      return kIdleWait;
    case Capture::State::kArmed:
      return kArmedWait;
    case Capture::State::kWindow:
      return tick_in_;
  }
  return kIdleWait;
}

void Agent::Lost() {
  connection_.Close();
  if (capture_.state() != Capture::State::kIdle) capture_.Abort();
  capturing_.store(false);
}

bool Agent::Connect(EntryKind entry) {
  const uid_t uid = ::geteuid();
  SocketSearch search = search_();
  search.uid = uid;
  if (!connection_.Open(DaemonSocketPlaces(search), uid)) return false;
  ring::Hello hello;
  FillHello(entry, &hello);
  hello.cupti_version = capture_.cupti_version();
  const int memfd = segment_.attached() ? memfd_.Use() : -1;
  hello.has_segment = memfd >= 0 ? 1 : 0;
  if (!connection_.Send(&hello, sizeof hello, memfd)) return false;
  Message message;
  if (connection_.Receive(kWelcomeLimit, &message) != Connection::Got::kMessage) {
    connection_.Close();
    return false;
  }
  const auto* welcome = message.as<ring::Welcome>(ring::MessageType::kWelcome);
  if (welcome != nullptr && TakeWelcome(*welcome, message.descriptor.release())) return true;
  if (message.as<ring::Refuse>(ring::MessageType::kRefuse) != nullptr) back_off_ = kAfterRefusal;
  connection_.Close();
  return false;
}

bool Agent::TakeWelcome(const ring::Welcome& welcome, int memfd) {
  if (welcome.layout_major != ring::kLayoutMajor) {
    if (memfd >= 0) ::close(memfd);
    return false;
  }
  // Without a new segment the daemon goes on with the one we offered.
  if (memfd < 0) return segment_.attached() && segment_.bytes() == welcome.segment_bytes;
  // A thread that was just about to count a loss may still touch the old mapping: it stays until the next
  // change, or for ever if somebody is known to be stuck there.
  if (!capture_.segment_in_use()) {
    last_segment_.Detach();
    last_segment_ = segment_;
  }
  segment_ = ring::ClientSegment();
  if (segment_.Attach(memfd, welcome.segment_bytes) != ring::AttachError::kNone) {
    ::close(memfd);
    return false;
  }
  return memfd_.Take(memfd);
}

bool Agent::SendState(ring::ClientState state, const ring::State& fields) {
  ring::State message = fields;
  message.header = {ring::kHandshakeMagic, ring::MessageType::kState, sizeof message};
  message.capture = capture_number_;
  message.state = state;
  message.cupti_version = capture_.cupti_version();
  return connection_.Send(&message, sizeof message);
}

void Agent::Handle(const Message& message) {
  if (const auto* arm = message.as<ring::Arm>(ring::MessageType::kArm)) return OnArm(*arm);
  if (const auto* start = message.as<ring::Start>(ring::MessageType::kStart)) return OnStart(*start);
  if (const auto* stop = message.as<ring::Stop>(ring::MessageType::kStop)) return OnStop(*stop);
}

void Agent::OnArm(const ring::Arm& arm) {
  capture_.Abort();  // one capture at a time: the newest
  capture_number_ = arm.capture;
  capturing_.store(true);
  ring::State fields{};
  Sentence why;
  const bool armed = capture_.Arm({.epoch = arm.epoch, .activities = arm.activities}, segment_, &why);
  armed_at_ = timing_.monotonic();
  if (!armed) {
    std::memcpy(fields.text, why.c_str(), why.size());
    capturing_.store(false);
  }
  if (!SendState(armed ? ring::ClientState::kArmed : ring::ClientState::kFailed, fields)) Lost();
}

void Agent::OnStart(const ring::Start& start) {
  // Of a capture that was given up meanwhile, or doubled.
  if (start.capture != capture_number_ || capture_.state() != Capture::State::kArmed) return;
  ring::State fields{};
  fields.late_ns = capture_.Start(HostTime(start.t0_realtime_ns), HostTime(start.t1_realtime_ns)).ns();
  tick_in_ = Nanos();
  if (!SendState(ring::ClientState::kCapturing, fields)) Lost();
}

void Agent::OnStop(const ring::Stop& stop) {
  if (stop.capture != capture_number_ || capture_.state() == Capture::State::kIdle) return;
  if (stop.abort == 0 && capture_.state() == Capture::State::kWindow) {
    capture_.EndWindow();
    return;
  }
  capture_.Abort();
  capturing_.store(false);
  if (!SendState(ring::ClientState::kIdle, {})) Lost();
}

void Agent::FinishCapture() {
  const CaptureTotals totals = capture_.Finish();
  ring::State fields{};
  fields.records = totals.records;
  fields.outside_window = totals.outside;
  const bool sent = SendState(ring::ClientState::kDone, fields);
  capturing_.store(false);
  if (!sent) Lost();
}

void Agent::FinishForExit(Nanos limit) {
  exiting_.store(true);
  const MonoTime since = timing_.monotonic();
  while (capturing_.load() && timing_.monotonic() - since < limit) timing_.pause(Nanos::Millis(1));
}

void Agent::ForgetInChild() {
  connection_.Forget();
  memfd_.Forget();
  segment_ = ring::ClientSegment();
  capturing_.store(false);
}

}  // namespace lockstep::client
