// Formats values for people.
#ifndef LOCKSTEP_HISTORY_WORDS_H_
#define LOCKSTEP_HISTORY_WORDS_H_

#include <string>
#include <vector>

#include "base/time.h"
#include "history/model.h"

namespace lockstep::history {

// Returns for example "20.9 ms", "104 us" or "-3.00 s", with three digits.
std::string LengthWords(double ns);
// Returns for example "2026-03-01 12:00", in UTC.
std::string TimeWords(JobTime time);
// Returns for example "+12.3%" for 0.123.
std::string ShiftWords(double before, double after);

// Returns for example "rank 3 (n001), gpu_clock" or "exposed_transfer, of all ranks".
std::string FindingWords(const Finding& finding);
// Returns the labels as "commit=abc queue=long".
std::string LabelWords(const std::vector<Label>& labels);
// Returns "3 captures", "1 capture".
std::string CountWords(size_t count, const char* one, const char* many);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_WORDS_H_
