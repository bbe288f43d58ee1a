#include "client/agent.h"

#include <unistd.h>

#include <cstring>

namespace lockstep::client {
namespace {

constexpr Nanos kFirstBackOff = Nanos::Millis(50);
constexpr Nanos kLongestBackOff = Nanos::Seconds(1);
constexpr Nanos kAfterRefusal = Nanos::Seconds(10);
constexpr Nanos kWelcomeLimit = Nanos::Seconds(5);
// How often the idle thread checks that its descriptors are still its own.
constexpr Nanos kIdleWait = Nanos::Seconds(5);
constexpr Nanos kArmedWait = Nanos::Millis(100);
// The interval between checks for a CUDA context. It is short, because work soon follows a new context.
// Capturing and instantiating a graph takes longer than this.
constexpr Nanos kBetweenContextLooks = Nanos::Millis(5);
// The same for a process that is not a rank yet: at first, and if it has waited for kLikelyToStart. Launchers
// wait until their job ends.
constexpr Nanos kBetweenRankLooks = Nanos::Millis(20), kBetweenLateLooks = Nanos::Millis(250);
constexpr Nanos kLikelyToStart = Nanos::Seconds(60);
constexpr Nanos kBetweenAnnouncements = Nanos::Seconds(1);
// If no START follows ARM within this time, the daemon has forgotten us.
constexpr Nanos kArmedLimit = Nanos::Seconds(120);
constexpr Nanos kBetweenStepReports = Nanos::Seconds(1);
// Python's main thread has this time after the window to return from a call of native code. The daemon gives
// up 15 s after the window.
constexpr Nanos kPythonLimit = Nanos::Seconds(5);

const char* NameOf(ring::Begin begin) {
  switch (begin) {
    case ring::Begin::kAtT0:
      return "the start";
    case ring::Begin::kAtStep:
      return "that step";
    case ring::Begin::kAtRange:
      return "a range of that name";
    case ring::Begin::kAtProfilerStart:
      return "a call of cudaProfilerStart";
    case ring::Begin::kReportStep:
      return "a training step";
  }
  return "the start";
}

const char* NameOf(ring::End end) {
  switch (end) {
    case ring::End::kAfterDuration:
      return "the end of its duration";
    case ring::End::kAfterSteps:
      return "the last requested step";
    case ring::End::kAtRangeEnd:
      return "the end of that range";
    case ring::End::kAtProfilerStop:
      return "a call of cudaProfilerStop";
  }
  return "the end";
}

}  // namespace

void Agent::Run(EntryKind entry) {
  for (;;) {
    const Nanos pause = Turn(entry);
    if (pause > Nanos()) timing_.pause(pause);
  }
}

void Agent::PrepareWhenDue() {
  if (options_.prepare == Prepare::kNever || capture_.state() != Capture::State::kIdle) return;
  if (options_.context_up != nullptr && !options_.context_up()) return;
  options_.prepare = Prepare::kNever;
  capture_.Prepare();
}

bool Agent::IsRank() {
  // The driver must not be called while the process ends.
  if (!is_rank_ && !exiting_.load()) {
    is_rank_ = options_.registration == Registration::kAtOnce || options_.context_up == nullptr ||
               options_.context_up();
  }
  return is_rank_;
}

Nanos Agent::WaitForContext(EntryKind entry) {
  const MonoTime now = timing_.monotonic();
  if (started_ == MonoTime()) started_ = now;
  const Nanos pause = now - started_ < kLikelyToStart ? kBetweenRankLooks : kBetweenLateLooks;
  if (!connection_.open()) {
    if (is_refused_ || now < announce_at_) return pause;
    announce_at_ = now + kBetweenAnnouncements;
    ring::Presence presence;
    FillPresence(entry, &presence);
    if (!OpenConnection() || !connection_.Send(&presence, sizeof presence)) return pause;
  }
  Message message;
  if (connection_.Receive(pause, &message) == Connection::Got::kMessage &&
      message.as<ring::Refuse>(ring::MessageType::kRefuse) != nullptr) {
    is_refused_ = true;
    connection_.Close();
  }
  return Nanos();
}

Nanos Agent::Turn(EntryKind entry) {
  PrepareWhenDue();
  if (!IsRank()) return WaitForContext(entry);
  if (!registered_ || !connection_.open()) {
    if (registered_) Lost();
    if (!Register(entry)) {
      if (back_off_ == Nanos()) back_off_ = kFirstBackOff;
      const Nanos now = back_off_;
      if (back_off_ < kLongestBackOff) back_off_ = Nanos(now.ns() * 2);
      if (back_off_ > kLongestBackOff && now < kLongestBackOff) back_off_ = kLongestBackOff;
      if (options_.prepare != Prepare::kNever) return kBetweenContextLooks;
      return now;
    }
    back_off_ = Nanos();
  }
  if (capture_.state() == Capture::State::kWaiting) {
    tick_in_ = capture_.Tick();
    FollowTrigger();
  }
  if (capture_.state() == Capture::State::kWindow) {
    tick_in_ = capture_.Tick();
    if (exiting_.load() && tick_in_ != Nanos()) {
      capture_.EndWindow();
      cut_ = ring::Cut::kProgramEnded;
    }
    FollowPython();
    if (tick_in_ == Nanos() || exiting_.load()) {
      FinishCapture();
      return Nanos();
    }
  }
  if (capture_.state() == Capture::State::kArmed &&
      (exiting_.load() || timing_.monotonic() - armed_at_ > kArmedLimit)) {
    Sentence why;
    why << (exiting_.load() ? "the process ended before the capture began"
                            : "the capture was not started within 120 s of arming");
    Fail(why);
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
      return options_.prepare == Prepare::kNever ? kIdleWait : kBetweenContextLooks;
    case Capture::State::kArmed:
      return kArmedWait;
    case Capture::State::kWaiting:
    case Capture::State::kWindow:
      return tick_in_;
  }
  return kIdleWait;
}

void Agent::Lost() {
  registered_ = false;
  connection_.Close();
  if (capture_.state() != Capture::State::kIdle) capture_.Abort();
  python_.Abort();
  capturing_.store(false);
}

bool Agent::OpenConnection() {
  const uid_t uid = ::geteuid();
  SocketSearch search = search_();
  search.uid = uid;
  return connection_.Open(DaemonSocketPlaces(search), uid);
}

bool Agent::Register(EntryKind entry) {
  if (!connection_.open() && !OpenConnection()) return false;
  ring::Hello hello;
  FillHello(entry, &hello);
  hello.cupti_version = capture_.cupti_version();
  if (!connection_.Send(&hello, sizeof hello)) return false;
  Message message;
  if (connection_.Receive(kWelcomeLimit, &message) != Connection::Got::kMessage) {
    connection_.Close();
    return false;
  }
  const auto* welcome = message.as<ring::Welcome>(ring::MessageType::kWelcome);
  registered_ = welcome != nullptr && TakeWelcome(*welcome, message.descriptor);
  if (registered_) return true;
  if (message.as<ring::Refuse>(ring::MessageType::kRefuse) != nullptr) back_off_ = kAfterRefusal;
  connection_.Close();
  return false;
}

bool Agent::TakeWelcome(const ring::Welcome& welcome, const Fd& memfd) {
  if (welcome.layout_major != ring::kLayoutMajor || !memfd.ok()) return false;
  daemon_minor_ = welcome.layout_minor;
  // A thread that is counting a loss may still write to the old mapping. The mapping stays until the next
  // change of segments, or for ever if a thread is stuck in a handler.
  if (!capture_.segment_in_use()) {
    last_segment_.Detach();
    last_segment_ = segment_;
  }
  segment_ = ring::ClientSegment();
  const bool attached = segment_.Attach(memfd.get(), welcome.segment_bytes) == ring::AttachError::kNone;
  // Without a new table, the application's threads must leave the old one before it is unmapped.
  capture_.log().Attach(&segment_);
  capture_.nccl().progress().Attach(segment_.progress(), segment_.progress_slots());
  capture_.nccl().network().Attach(segment_.network());
  return attached;
}

bool Agent::SendState(ring::ClientState state, const ring::State& fields) {
  ring::State message = fields;
  const uint32_t bytes = daemon_minor_ == 0   ? ring::kStateBytes_1_0
                         : daemon_minor_ <= 2 ? ring::kStateBytes_1_1
                                              : static_cast<uint32_t>(sizeof message);
  message.header = {ring::kHandshakeMagic, ring::MessageType::kState, bytes};
  message.capture = capture_number_;
  message.state = state;
  message.cupti_version = capture_.cupti_version();
  return connection_.Send(&message, bytes);
}

void Agent::Handle(const Message& message) {
  if (const auto* arm = message.as<ring::Arm>(ring::MessageType::kArm)) return OnArm(*arm);
  ring::Start start;
  if (message.Read(ring::MessageType::kStart, ring::kStartBytes_1_0, &start)) return OnStart(start);
  if (const auto* stop = message.as<ring::Stop>(ring::MessageType::kStop)) return OnStop(*stop);
}

void Agent::OnArm(const ring::Arm& arm) {
  capture_.Abort();  // one capture at a time: the newest wins
  python_.Abort();
  capture_number_ = arm.capture;
  capturing_.store(true);
  ring::State fields{};
  Sentence why;
  const bool armed = capture_.Arm({.epoch = arm.epoch, .activities = arm.activities}, segment_, &why);
  armed_at_ = timing_.monotonic();
  if (!armed) {
    std::memcpy(fields.text, why.c_str(), why.size());
    if (const HolderName* holder = capture_.holder()) {
      fields.refusal = ring::Refusal::kHeld;
      std::memcpy(fields.holder, holder->c_str(), holder->size());
    }
    capturing_.store(false);
  } else if ((arm.activities & ring::kActivityPythonProfile) != 0 &&
             daemon_minor_ >= ring::kMinorWithPythonProfiles) {
    python_.Arm();
  }
  if (!SendState(armed ? ring::ClientState::kArmed : ring::ClientState::kFailed, fields)) Lost();
}

void Agent::OnStart(const ring::Start& start) {
  // The second START names the step at which all ranks begin, after each rank has reported its step.
  if (start.capture == capture_number_ && capture_.state() == Capture::State::kWaiting &&
      start_.begin == ring::Begin::kReportStep && start.begin == ring::Begin::kAtStep) {
    start_ = start;
    step_agreed_ = true;
    return capture_.trigger().Agree(start.step);
  }
  // The message belongs to an abandoned capture, or came twice.
  if (start.capture != capture_number_ || capture_.state() != Capture::State::kArmed) return;
  start_ = start;
  step_agreed_ = false;
  stopped_ = false;
  cut_ = ring::Cut::kNone;
  ring::State fields{};
  if (start.begin != ring::Begin::kAtT0) {
    const HostTime t0(start.t0_realtime_ns);
    const HostTime t1(start.t1_realtime_ns);
    capture_.WaitForTrigger({.begin = start.begin,
                             .end = start.end,
                             .step = start.step,
                             .steps = start.steps,
                             .duration = Nanos(start.duration_ns),
                             .limit = t1 - t0,
                             .earliest = t0,
                             .range = {start.range, ::strnlen(start.range, sizeof start.range)}},
                            t1);
    tick_in_ = Nanos();
    reported_step_ = 0;
    reported_at_ = MonoTime();
    if (!SendState(ring::ClientState::kWaiting, fields)) Lost();
    return;
  }
  fields.late_ns = capture_.Start(HostTime(start.t0_realtime_ns), HostTime(start.t1_realtime_ns)).ns();
  tick_in_ = Nanos();
  if (!SendState(ring::ClientState::kCapturing, fields)) Lost();
}

void Agent::Fail(const Sentence& why) {
  ring::State fields{};
  std::memcpy(fields.text, why.c_str(), why.size());
  capture_.Abort();
  python_.Abort();
  SendState(ring::ClientState::kFailed, fields);
  capturing_.store(false);
}

void Agent::FollowTrigger() {
  const Trigger& trigger = capture_.trigger();
  const StepReport at = trigger.Steps(capture_.now());
  Sentence why;
  if (capture_.state() == Capture::State::kWindow) {
    if (trigger.step_missed() && !step_agreed_) {
      why << "step " << start_.step << " had passed; the first step in the capture was " << at.step
          << "; request a later step";
      return Fail(why);
    }
    ring::State fields{};
    fields.late_ns = trigger.late().ns();
    if (!SendState(ring::ClientState::kCapturing, fields)) Lost();
    return;
  }
  if (tick_in_ == Nanos() || exiting_.load()) {
    why << NameOf(start_.begin) << " did not occur "
        << (exiting_.load() ? "before the process ended" : "before the trigger timeout");
    if (at.step_time > Nanos()) why << "; the last started step was " << at.step;
    return Fail(why);
  }
  // Reports a step when its time is known: after its end, or earlier if it already takes long.
  const bool measured = at.step_time > Nanos() && (reported_step_ != at.step || reported_at_ == MonoTime());
  const MonoTime now = timing_.monotonic();
  if (!measured || now - reported_at_ < kBetweenStepReports) return;
  if (!trigger.step_measured() && at.step_time < kBetweenStepReports) return;
  ring::State fields{};
  fields.step = at.step;
  fields.step_ns = at.step_time.ns();
  reported_step_ = at.step;
  reported_at_ = now;
  if (!SendState(ring::ClientState::kWaiting, fields)) Lost();
}

void Agent::OnStop(const ring::Stop& stop) {
  if (stop.capture != capture_number_ || capture_.state() == Capture::State::kIdle) return;
  if (capture_.state() == Capture::State::kWaiting)
    tick_in_ = capture_.Tick();  // the window may have opened just now
  if (stop.abort == 0 && capture_.state() == Capture::State::kWindow) {
    capture_.EndWindow();
    stopped_ = true;
    return;
  }
  capture_.Abort();
  python_.Abort();
  capturing_.store(false);
  if (!SendState(ring::ClientState::kIdle, {})) Lost();
}

void Agent::FollowPython() {
  if (!python_.wanted()) return;
  const HostInterval window = capture_.window();
  const HostTime now = timing_.realtime();
  if (now >= window.start && now < window.end) python_.Begin();
  if (now >= window.end || exiting_.load()) python_.End();
}

bool Agent::SendPythonProfile() {
  if (!python_.wanted()) return true;
  python_.End();
  const MonoTime until = timing_.monotonic() + kPythonLimit;
  while (!python_.over() && !exiting_.load() && timing_.monotonic() < until) timing_.pause(Nanos::Millis(2));
  PythonProfileResult result = python_.Take();
  if (!result.file.ok() && exiting_.load()) {
    result.error.Clear();
    result.error << "the program ended before its profile was complete";
  }
  ring::Profile message{};
  message.header = {ring::kHandshakeMagic, ring::MessageType::kProfile, sizeof message};
  message.capture = capture_number_;
  message.bytes = result.file.ok() ? result.bytes : 0;
  message.begin_ns = result.window.start.ns();
  message.end_ns = result.window.end.ns();
  std::memcpy(message.text, result.error.c_str(), result.error.size());
  return connection_.Send(&message, sizeof message, result.file.get());
}

void Agent::FinishCapture() {
  const bool end_seen = capture_.trigger().end_seen() || stopped_;
  const CaptureTotals totals = capture_.Finish();
  ring::State fields{};
  fields.records = totals.records;
  fields.outside_window = totals.outside;
  Sentence note = capture_.cupti().note();
  const bool triggered = start_.begin != ring::Begin::kAtT0;
  if (triggered && start_.end != ring::End::kAfterDuration && !end_seen && cut_ == ring::Cut::kNone) {
    cut_ = ring::Cut::kEndMissed;
    if (!note.empty()) note << "; ";
    note << NameOf(start_.end) << " did not occur before the timeout; the capture ended then";
  }
  if (cut_ == ring::Cut::kNone && capture_.cupti().lost()) cut_ = ring::Cut::kTaken;
  fields.cut = cut_;
  if (triggered || cut_ != ring::Cut::kNone) {
    fields.t0_realtime_ns = totals.window.start.ns();
    fields.t1_realtime_ns = totals.window.end.ns();
  }
  std::memcpy(fields.text, note.c_str(), note.size());
  const bool sent = SendPythonProfile() && SendState(ring::ClientState::kDone, fields);
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
  segment_ = ring::ClientSegment();
  python_.ForgetInChild();
  capturing_.store(false);
}

}  // namespace lockstep::client
