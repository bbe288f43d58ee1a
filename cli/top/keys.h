// Keys out of the bytes that a terminal sends.
#ifndef LOCKSTEP_CLI_KEYS_H_
#define LOCKSTEP_CLI_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct Key {
  enum class Kind { kCharacter, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEscape };
  Kind kind = Kind::kCharacter;
  char character = 0;  // kCharacter
  bool operator==(const Key&) const = default;
};

// One thread. A key's bytes may come in pieces; sequences that mean nothing here are passed over whole.
class KeyReader {
 public:
  std::vector<Key> Feed(std::string_view bytes);
  // The beginning of a sequence is there; if nothing follows within a moment it was the escape key: Flush.
  bool pending() const { return !pending_.empty(); }
  std::vector<Key> Flush();

 private:
  std::string pending_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_KEYS_H_
