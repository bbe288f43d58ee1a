#include "formats/timeline/timeline_fields.h"

#include <utility>

namespace lockstep::formats {

bool TimelineFields::Fail(std::string_view what, std::string_view remedy) {
  error_ = Sentence(what, "; ", remedy);
  return false;
}

bool TimelineFields::FailUnknown(std::string_view key) {
  return Fail(Sentence(ShownWord(key), " is not a field of this line"), "see docs/formats/timeline.md");
}

bool TimelineFields::Text(LineWords& words, std::string_view what, std::string& out) {
  const std::string_view word = words.Next();
  auto text = TextFromWord(word);
  if (!text || text->empty())
    return Fail(Sentence(ShownWord(word), " is not a text for ", what),
                "write one word, with %20 for a space");
  out = std::move(*text);
  return true;
}

}  // namespace lockstep::formats
