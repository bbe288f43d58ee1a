// Parses a value in the spelling of Python's repr(), as PyProf writes it into NVTX ranges. The input is
// untrusted.
#ifndef LOCKSTEP_FORMATS_COMMON_PYTHON_LITERAL_H_
#define LOCKSTEP_FORMATS_COMMON_PYTHON_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

struct PythonLiteral {
  // A word is a number, True, None, …. Tuples are lists.
  enum class Kind : uint8_t { kWord, kText, kList, kDict };
  Kind kind = Kind::kWord;
  std::string text;                  // of a word or text
  std::vector<PythonLiteral> items;  // of a list; the values of a dict
  std::vector<std::string> keys;     // of a dict

  // Null: this is not a dict, or it lacks the key.
  const PythonLiteral* Find(std::string_view key) const;
};

// nullopt: the text is not a value, nests more than 16 levels deep, or has more than 4096 values.
std::optional<PythonLiteral> ParsePython(std::string_view text);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_PYTHON_LITERAL_H_
