// The strings of one ring. Each string is defined in the ring once per capture, before its first use, and
// records refer to it by its id.
//
// Memory is bounded. When it is used up, a new string is defined again at each use, so nothing is lost. If a
// full ring drops a definition, the next use tries again. The interner belongs to the ring's owner and never
// allocates.
#ifndef LOCKSTEP_CLIENT_RECORD_INTERNER_H_
#define LOCKSTEP_CLIENT_RECORD_INTERNER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/record/arena.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

// Ids are unique in the process, across all rings and captures.
class StringIds {
 public:
  constexpr StringIds() = default;
  uint32_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> next_{1};
};

class Interner {
 public:
  struct Entry {
    uint64_t hash;
    const char* text;  // copy in our memory
    uint32_t length;
    uint32_t id;  // 0: not defined in the ring yet
  };

  constexpr Interner() = default;

  // Forgets all strings. A quarter of `memory` holds the table, the rest the text.
  void Reset(Memory memory, StringIds* ids);

  // Returns the string's id, defined in `ring`, or 0 if the ring is full. The definition is not committed
  // yet.
  uint32_t Intern(ring::RingWriter& ring, const char* text, size_t length);

  // The same in two steps, for a string that is used later. Find copies it (null if memory is used up), and
  // Define returns the id.
  Entry* Find(const char* text, size_t length);
  uint32_t Define(ring::RingWriter& ring, Entry& entry);

 private:
  Entry* table_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t entries_ = 0;
  char* text_ = nullptr;
  size_t text_left_ = 0;
  StringIds* ids_ = nullptr;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_INTERNER_H_
