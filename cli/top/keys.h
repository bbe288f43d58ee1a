// KeyReader decodes keys from the bytes that a terminal sends.
#ifndef LOCKSTEP_CLI_TOP_KEYS_H_
#define LOCKSTEP_CLI_TOP_KEYS_H_

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

// One thread. The bytes of a key may arrive in pieces; unknown sequences are skipped.
class KeyReader {
 public:
  std::vector<Key> Feed(std::string_view bytes);
  // Returns true if a sequence has begun. If nothing follows shortly, it was the escape key, and the caller
  // calls Flush.
  bool pending() const { return !pending_.empty(); }
  std::vector<Key> Flush();

 private:
  std::string pending_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_KEYS_H_
