// For tests: a Python without Python. Its main thread is whoever calls RunPending.
#ifndef LOCKSTEP_CLIENT_PYTHON_FIXTURE_H_
#define LOCKSTEP_CLIENT_PYTHON_FIXTURE_H_

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "client/python/python_calls.h"

namespace lockstep::client {

// One at a time in a process: PythonCalls are plain functions.
struct PythonFake {
  PythonFake() { current = this; }
  ~PythonFake() { current = nullptr; }
  PythonFake(const PythonFake&) = delete;
  PythonFake& operator=(const PythonFake&) = delete;

  // True when a call was there.
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
  std::mutex mutex;  // of `pending` and `takes_calls`
  std::deque<std::pair<int (*)(void*), void*>> pending;
  bool takes_calls = true;
  // What the helper says; empty: it does what it is asked.
  std::string begin_trouble;
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
          if (PythonFake::current == nullptr) *why << "its process runs no Python";
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
        [](Sentence* trouble) {
          PythonFake& fake = *PythonFake::current;
          if (fake.raises) return PythonRan::kRaised;
          *trouble << fake.begin_trouble.c_str();
          fake.begun += trouble->empty() ? 1 : 0;
          return trouble->empty() ? PythonRan::kDone : PythonRan::kTrouble;
        },
    .end =
        [](const ProfileTaker& taker, Sentence*) {
          PythonFake& fake = *PythonFake::current;
          ++fake.ended;
          taker.take(taker.context, fake.profile.data(), fake.profile.size());
          return PythonRan::kDone;
        },
    .prepare =
        [](Sentence*) {
          ++PythonFake::current->prepared;
          return PythonRan::kDone;
        },
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_PYTHON_FIXTURE_H_
