// Strings of one ring: each is defined in the ring once per capture, ahead of its first use, and travels as
// an id.
//
// Bounded: when its memory is spent a new string is defined again at each use, so nothing is lost. A
// definition that a full ring dropped is tried again at the next use. Belongs to the ring's owner; never
// allocates.
#ifndef LOCKSTEP_CLIENT_INTERNER_H_
#define LOCKSTEP_CLIENT_INTERNER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/record/arena.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

// Ids are unique in the process, over all rings and captures.
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
    const char* text;  // our copy
    uint32_t length;
    uint32_t id;  // 0: not defined in the ring yet
  };

  constexpr Interner() = default;

  // Forgets everything. A quarter of `memory` holds the table, the rest the text.
  void Reset(Memory memory, StringIds* ids);

  // The string's id, defined in `ring`; 0 when the ring is full. The definition is not committed yet.
  uint32_t Intern(ring::RingWriter& ring, const char* text, size_t length);

  // In two steps, for a string that is used later than it is seen: Find copies it (null when memory is
  // spent), Define gives the id.
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

#endif  // LOCKSTEP_CLIENT_INTERNER_H_
