// Stores every distinct text of a capture once. Not thread-safe while it grows. Ids stay valid.
#ifndef LOCKSTEP_CAPTURE_MODEL_STRING_TABLE_H_
#define LOCKSTEP_CAPTURE_MODEL_STRING_TABLE_H_

#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"

namespace lockstep::capture {

class StringTable {
 public:
  StringTable() { Intern(""); }
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

  // The empty text is kNoName.
  NameId Intern(std::string_view text) {
    auto it = ids_.find(text);
    if (it != ids_.end()) return it->second;
    NameId id(static_cast<uint32_t>(texts_.size()));
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  // Unknown ids give the empty text.
  std::string_view Text(NameId id) const {
    return id.value() < texts_.size() ? std::string_view(texts_[id.value()]) : "";
  }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque never moves its elements: the map's keys point into them
  absl::flat_hash_map<std::string_view, NameId> ids_;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_STRING_TABLE_H_
