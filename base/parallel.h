// Runs independent pieces of work on the available cores.
//
// The result must not depend on which thread runs a piece. Each piece therefore writes to its own place, and
// the caller joins the results in the order of the pieces.
#ifndef LOCKSTEP_BASE_PARALLEL_H_
#define LOCKSTEP_BASE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace lockstep {

// `asked` 0 means one thread per core.
inline unsigned ThreadCount(unsigned asked) {
  return asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
}

// Calls work(worker, piece) for every piece in [0, pieces), each once, on at most `threads` threads. The
// caller's thread is one of them. `worker` is below `threads` and identifies a thread, so memory per worker
// needs no lock. The first exception stops the run and is rethrown here. It returns when all pieces are done.
template <typename Work>
void ParallelFor(unsigned threads, size_t pieces, Work work) {
  std::atomic<size_t> next{0};
  Mutex mutex;
  std::exception_ptr failure;
  const auto run = [&](unsigned worker) {
    try {
      for (size_t piece = next++; piece < pieces; piece = next++) work(worker, piece);
    } catch (...) {
      next = pieces;
      MutexLock lock(&mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  const size_t most = std::min<size_t>(threads, pieces);
  for (size_t worker = 1; worker < most; ++worker) {
    try {
      others.emplace_back(run, static_cast<unsigned>(worker));
    } catch (const std::system_error&) {
      break;  // the system has no more threads; the existing ones do the work
    }
  }
  run(0);
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PARALLEL_H_
