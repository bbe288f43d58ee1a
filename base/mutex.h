// Mutex, MutexLock and CondVar: the standard library's, with annotations for clang's thread-safety analysis.
// A member that a mutex guards has ABSL_GUARDED_BY, and the analysis then reports each access without the
// mutex.
//
// absl::Mutex has these annotations too. But Debian builds Abseil without the thread sanitizer, which then
// takes each access under an absl::Mutex for a race.
#ifndef LOCKSTEP_BASE_MUTEX_H_
#define LOCKSTEP_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "base/time.h"

// For the constructor of a scope that releases a mutex and takes it again at its end.
#if ABSL_HAVE_ATTRIBUTE(release_capability)
#define LOCKSTEP_RELEASES(mutex) __attribute__((release_capability(mutex)))
#else
#define LOCKSTEP_RELEASES(mutex)
#endif

namespace lockstep {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex while it exists.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Releases a held mutex while it exists, for work that must not run under it. It is declared in a block of
// its own inside a MutexLock's.
class ABSL_SCOPED_LOCKABLE MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) LOCKSTEP_RELEASES(mutex) : mutex_(mutex) { mutex_->Unlock(); }
  ~MutexUnlock() ABSL_UNLOCK_FUNCTION() { mutex_->Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex* const mutex_;
};

// A wait releases the mutex and holds it again when it returns. Any thread may call SignalAll.
class CondVar {
 public:
  void SignalAll() { changed_.notify_all(); }

  // Waits until `done` returns true. `done` is called with the mutex held.
  template <typename Done>
  void Wait(Mutex* mutex, const Done& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock, done);
    lock.release();
  }

  // Returns after a SignalAll, after `at_most`, or without a reason.
  void WaitFor(Mutex* mutex, Nanos at_most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait_for(lock, std::chrono::nanoseconds(at_most.ns()));
    lock.release();
  }

  // Does the same as Wait, but returns false if `done` does not return true within `at_most`.
  template <typename Done>
  bool WaitFor(Mutex* mutex, Nanos at_most, const Done& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool result = changed_.wait_for(lock, std::chrono::nanoseconds(at_most.ns()), done);
    lock.release();
    return result;
  }

 private:
  std::condition_variable changed_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_MUTEX_H_
