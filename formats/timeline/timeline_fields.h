// TimelineFields converts the words of a timeline's lines into values, and describes the first error.
#ifndef LOCKSTEP_FORMATS_TIMELINE_TIMELINE_FIELDS_H_
#define LOCKSTEP_FORMATS_TIMELINE_TIMELINE_FIELDS_H_

#include <string>
#include <string_view>

#include "formats/common/text_lines.h"
#include "formats/timeline/timeline_words.h"

namespace lockstep::formats {

// One thread. A function that returns false has set error(). `what` names the field there.
class TimelineFields {
 public:
  // Returns false.
  bool Fail(std::string_view what, std::string_view remedy);
  bool FailUnknown(std::string_view key);

  // Text must not be empty.
  bool Text(LineWords& words, std::string_view what, std::string& out);
  template <typename Number>
  bool Integer(LineWords& words, std::string_view what, Number& out) {
    return Value(what, words.Next(), out);
  }
  template <typename Number>
  bool Value(std::string_view what, std::string_view word, Number& out) {
    return NumberFromWord(word, out) ||
           Fail(Sentence(ShownWord(word), " is not a number for ", what), "write a whole number that fits");
  }

  // The problem and the remedy.
  const std::string& error() const { return error_; }

 private:
  std::string error_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_TIMELINE_TIMELINE_FIELDS_H_
