#include "client/record/interner.h"

#include <bit>
#include <cstring>

namespace lockstep::client {
namespace {

// Reads eight bytes at a time, because kernel names are long and this runs per record.
uint64_t Hash(const char* text, size_t length) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  uint64_t hash = length * kMultiplier;
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t word;
    std::memcpy(&word, text + i, 8);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  }
  uint64_t rest = 0;
  std::memcpy(&rest, text + i, length - i);
  hash = (hash ^ rest) * kMultiplier;
  return hash ^ (hash >> 29);
}

}  // namespace

void Interner::Reset(Memory memory, StringIds* ids) {
  const size_t slots = std::bit_floor(memory.bytes / 4 / sizeof(Entry));
  table_ = reinterpret_cast<Entry*>(memory.data);
  std::memset(memory.data, 0, slots * sizeof(Entry));
  mask_ = static_cast<uint32_t>(slots) - 1;
  entries_ = 0;
  text_ = reinterpret_cast<char*>(memory.data) + slots * sizeof(Entry);
  text_left_ = memory.bytes - slots * sizeof(Entry);
  ids_ = ids;
}

Interner::Entry* Interner::Find(const char* text, size_t length) {
  const uint64_t hash = Hash(text, length);
  uint32_t at = static_cast<uint32_t>(hash) & mask_;
  while (table_[at].text != nullptr) {
    Entry& entry = table_[at];
    if (entry.hash == hash && entry.length == length && std::memcmp(entry.text, text, length) == 0)
      return &entry;
    at = (at + 1) & mask_;
  }
  // The table is at most three quarters full, so that probing stays short.
  if (entries_ >= mask_ - mask_ / 4 || length + 1 > text_left_) return nullptr;
  Entry& entry = table_[at];
  std::memcpy(text_, text, length);
  text_[length] = '\0';
  entry = {hash, text_, static_cast<uint32_t>(length), 0};
  text_ += length + 1;
  text_left_ -= length + 1;
  ++entries_;
  return &entry;
}

uint32_t Interner::Define(ring::RingWriter& ring, Entry& entry) {
  if (entry.id == 0) {
    const uint32_t id = ids_->Next();
    if (ring.DefineString(id, entry.text, entry.length)) entry.id = id;
  }
  return entry.id;
}

uint32_t Interner::Intern(ring::RingWriter& ring, const char* text, size_t length) {
  Entry* entry = Find(text, length);
  if (entry != nullptr) return Define(ring, *entry);
  const uint32_t id = ids_->Next();
  return ring.DefineString(id, text, length) ? id : 0;
}

}  // namespace lockstep::client
