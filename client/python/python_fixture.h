// A test fixture: a fake Python. The thread that calls RunPending is its main thread.
#ifndef LOCKSTEP_CLIENT_PYTHON_PYTHON_FIXTURE_H_
#define LOCKSTEP_CLIENT_PYTHON_PYTHON_FIXTURE_H_

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "client/python/python_calls.h"

namespace lockstep::client {

// A process may have one at a time, because PythonCalls are plain functions.
struct PythonFake {
  PythonFake() { current = this; }
  ~PythonFake() { current = nullptr; }
  PythonFake(const PythonFake&) = delete;
  PythonFake& operator=(const PythonFake&) = delete;

  // Returns true if there was a call.
  bool RunOne() {
    std::pair<int (*)(void*), void*> call;
    {
      std::lock_guard lock(mutex);
      if (pending.empty()) return false;
      call = pending.front();
      pending.pop_front();
    }
    last = call.first(call.second);
    return true;
  }
  void RunPending() {
    while (RunOne()) {
    }
  }

  static inline PythonFake* current = nullptr;
  std::mutex mutex;  // guards `pending` and `takes_calls`
  std::deque<std::pair<int (*)(void*), void*>> pending;
  bool takes_calls = true;
  // The error of the helper's begin; empty: it succeeds.
  std::string begin_error;
  bool raises = false;
  std::string profile = "a profile";
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  std::atomic<int> prepared{0};
  int last = 0;
};

inline const PythonCalls kPythonFake = {
    .find =
        [](Sentence* why) {
          if (PythonFake::current == nullptr) *why << "the process runs no Python";
          return PythonFake::current != nullptr;
        },
    .post =
        [](int (*call)(void*), void* data) {
          PythonFake& fake = *PythonFake::current;
          std::lock_guard lock(fake.mutex);
          if (fake.takes_calls) fake.pending.emplace_back(call, data);
          return fake.takes_calls;
        },
    .begin =
        [](Sentence* error) {
          PythonFake& fake = *PythonFake::current;
          if (fake.raises) return PythonRan::kRaised;
          *error << fake.begin_error.c_str();
          fake.begun += error->empty() ? 1 : 0;
          return error->empty() ? PythonRan::kDone : PythonRan::kError;
        },
    .end =
        [](const ProfileReceiver& receiver, Sentence*) {
          PythonFake& fake = *PythonFake::current;
          ++fake.ended;
          receiver.take(receiver.context, fake.profile.data(), fake.profile.size());
          return PythonRan::kDone;
        },
    .prepare =
        [](Sentence*) {
          ++PythonFake::current->prepared;
          return PythonRan::kDone;
        },
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_PYTHON_PYTHON_FIXTURE_H_
