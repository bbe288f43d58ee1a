// FNV-1a of 64 bits. It gives the same hash in every run and on every machine.
#ifndef LOCKSTEP_BASE_FNV_H_
#define LOCKSTEP_BASE_FNV_H_

#include <cstdint>
#include <string_view>

namespace lockstep {

constexpr uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return hash;
}
// The test values of the algorithm's authors.
static_assert(Fnv1a("") == 0xCBF29CE484222325ull);
static_assert(Fnv1a("a") == 0xAF63DC4C8601EC8Cull);
static_assert(Fnv1a("foobar") == 0x85944171F73967E8ull);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FNV_H_
