#include "client/python/python_profile.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

constexpr char kBusy[] =
    "the main thread ran no Python code in time: it was in native code, or training runs in another "
    "thread";

bool WriteAll(int file, const char* bytes, size_t size) {
  while (size > 0) {
    const long written = ::syscall(SYS_write, file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

int SealedFile(const void* bytes, size_t size) {
  const int file =
      static_cast<int>(::syscall(SYS_memfd_create, "lockstep-profile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file < 0) return -1;
  if (WriteAll(file, static_cast<const char*>(bytes), size) &&
      ::fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0) {
    return file;
  }
  ::close(file);
  return -1;
}

bool PythonProfile::Change(Phase from, Phase to) {
  uint64_t expected = Word(number_, from);
  return word_.compare_exchange_strong(expected, Word(number_, to));
}

// ---- the agent's thread ----

void PythonProfile::Arm() {
  Abort();
  not_asked_.Clear();
  word_.store(Word(++number_, Phase::kArmed));
  if (python_.find(&not_asked_)) python_.post(&OnPrepare, this);
}

void PythonProfile::Begin() {
  if (phase() != Phase::kArmed || !not_asked_.empty()) return;
  Change(Phase::kArmed, Phase::kAsked);
  if (!python_.post(&OnBegin, this))
    not_asked_ << "Python accepts no calls: it is shutting down, or its queue is full";
}

void PythonProfile::End() {
  const bool asked = phase() == Phase::kAsked || phase() == Phase::kRunning;
  if (!asked || !not_asked_.empty()) return;
  // The main thread may be about to begin.
  if (!Change(Phase::kAsked, Phase::kEnding) && !Change(Phase::kRunning, Phase::kEnding)) return;
  if (!python_.post(&OnEnd, this)) not_asked_ << "Python shut down before the capture ended";
}

bool PythonProfile::over() const {
  return !not_asked_.empty() || phase() == Phase::kOver || phase() == Phase::kArmed;
}

PythonProfileResult PythonProfile::Take() {
  PythonProfileResult result;
  if (!not_asked_.empty()) {
    result.error = not_asked_;
  } else if (phase() == Phase::kOver) {
    result.file.reset(file_);
    result.bytes = bytes_;
    result.window = window_;
    result.error = error_;
    file_ = -1;
  } else {
    result.error << (phase() == Phase::kArmed ? "the capture ended before the profile began" : kBusy);
  }
  Abort();
  return result;
}

void PythonProfile::Abort() {
  const uint64_t before = word_.exchange(0);
  const auto was = static_cast<Phase>(before & 0xFF);
  if (was == Phase::kOver && file_ >= 0) {
    ::close(file_);
    file_ = -1;
  }
  // A running profile would slow the program down for ever.
  if (was == Phase::kRunning) python_.post(&OnEnd, this);
}

// ---- Python's main thread ----

int PythonProfile::OnPrepare(void* self) {
  auto& profile = *static_cast<PythonProfile*>(self);
  Sentence ignored;  // OnBegin reports the failure
  return profile.python_.prepare(&ignored) == PythonRan::kRaised ? -1 : 0;
}

int PythonProfile::OnBegin(void* self) {
  auto& profile = *static_cast<PythonProfile*>(self);
  const uint64_t word = profile.word_.load(std::memory_order_acquire);
  if (static_cast<Phase>(word & 0xFF) != Phase::kAsked) return 0;
  const uint64_t number = word >> 8;
  Sentence error;
  if (profile.profiling_ != 0 && profile.Forget() == PythonRan::kRaised) return -1;
  const PythonRan ran = profile.python_.begin(&error);
  const bool running = ran == PythonRan::kDone;
  uint64_t expected = word;
  if (running) {
    profile.profiling_ = number;
    profile.window_ = {profile.timing_.realtime(), HostTime()};
    if (profile.word_.compare_exchange_strong(expected, Word(number, Phase::kRunning)) ||
        expected == Word(number, Phase::kEnding))
      return 0;
    return profile.Forget() == PythonRan::kRaised ? -1 : 0;
  }
  profile.KeepError(error);
  if (!profile.word_.compare_exchange_strong(expected, Word(number, Phase::kOver))) {
    expected = Word(number, Phase::kEnding);
    profile.word_.compare_exchange_strong(expected, Word(number, Phase::kOver));
  }
  return ran == PythonRan::kRaised ? -1 : 0;
}

int PythonProfile::OnEnd(void* self) {
  auto& profile = *static_cast<PythonProfile*>(self);
  const uint64_t number = profile.profiling_;
  const uint64_t ending = profile.word_.load(std::memory_order_acquire);
  const bool due = static_cast<Phase>(ending & 0xFF) == Phase::kEnding;
  if (number == 0) {
    // The profile did not begin in time.
    if (!due) return 0;
    Sentence busy;
    busy << kBusy;
    profile.KeepError(busy);
    uint64_t expected = ending;
    profile.word_.compare_exchange_strong(expected, Word(ending >> 8, Phase::kOver));
    return 0;
  }
  if (ending != Word(number, Phase::kEnding)) return profile.Forget() == PythonRan::kRaised ? -1 : 0;
  profile.profiling_ = 0;
  profile.error_.Clear();
  profile.file_ = -1;
  profile.window_.end = profile.timing_.realtime();
  const ProfileReceiver receiver{[](void* context, const void* bytes, size_t size) {
                                   static_cast<PythonProfile*>(context)->Keep(bytes, size);
                                 },
                                 self};
  Sentence error;
  const PythonRan ran = profile.python_.end(receiver, &error);
  if (ran != PythonRan::kDone) profile.KeepError(error);
  uint64_t expected = ending;
  if (!profile.word_.compare_exchange_strong(expected, Word(number, Phase::kOver)) && profile.file_ >= 0) {
    ::close(profile.file_);
    profile.file_ = -1;
  }
  return ran == PythonRan::kRaised ? -1 : 0;
}

PythonRan PythonProfile::Forget() {
  profiling_ = 0;
  Sentence ignored;
  return python_.end({[](void*, const void*, size_t) {}, nullptr}, &ignored);
}

void PythonProfile::Keep(const void* bytes, size_t size) {
  bytes_ = size;
  if (size > ring::kMostProfileBytes) {
    error_ << "the profile has " << static_cast<uint64_t>(size >> 20) << " MiB, more than the limit of "
           << uint64_t{ring::kMostProfileBytes >> 20} << " MiB";
    return;
  }
  file_ = SealedFile(bytes, size);
  if (file_ < 0) error_ << "cannot allocate memory for the profile";
}

void PythonProfile::KeepError(const Sentence& error) {
  file_ = -1;
  bytes_ = 0;
  window_ = {};
  error_ = error;
  if (error_.empty()) error_ << "an exception of the program interrupted the profile";
}

}  // namespace lockstep::client
