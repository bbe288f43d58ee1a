// Suggests the known word that an unknown one was probably meant to be.
#ifndef LOCKSTEP_BASE_SETTINGS_NEAREST_WORD_H_
#define LOCKSTEP_BASE_SETTINGS_NEAREST_WORD_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::settings {

// Returns the element of `known` that is most similar to `word`, or empty if none is similar.
std::string NearestWord(std::string_view word, const std::vector<std::string>& known);

// Returns "; did you mean X?" with the nearest word, or empty.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_NEAREST_WORD_H_
