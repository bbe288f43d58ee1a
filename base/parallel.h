// Independent pieces of work on the cores there are.
//
// The result must not depend on who does which piece: each piece writes to places of its own, and whoever
// joins them does so in the order of the pieces.
#ifndef LOCKSTEP_COMMON_BASE_PARALLEL_H_
#define LOCKSTEP_COMMON_BASE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lockstep {

// `asked`: 0 stands for as many as the machine has.
inline unsigned ThreadCount(unsigned asked) {
  return asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
}

// Calls work(worker, piece) for every piece in [0, pieces), each once, on at most `threads` threads (at least
// one: the caller's). `worker` is below `threads` and stands for one thread: memory of its own needs no lock.
// The first exception ends the run and is thrown here. Returns when all is done.
template <typename Work>
void ParallelFor(unsigned threads, size_t pieces, Work work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&](unsigned worker) {
    try {
      for (size_t piece = next++; piece < pieces; piece = next++) work(worker, piece);
    } catch (...) {
      next = pieces;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  const size_t most = std::min<size_t>(threads, pieces);
  for (size_t worker = 1; worker < most; ++worker) {
    try {
      others.emplace_back(run, static_cast<unsigned>(worker));
    } catch (const std::system_error&) {
      break;  // no more threads to be had: those that there are do it
    }
  }
  run(0);
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_PARALLEL_H_
