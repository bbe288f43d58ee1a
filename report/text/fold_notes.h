// Joins notes that say the same about several ranks.
#ifndef LOCKSTEP_REPORT_TEXT_FOLD_NOTES_H_
#define LOCKSTEP_REPORT_TEXT_FOLD_NOTES_H_

#include <span>
#include <string>
#include <vector>

namespace lockstep::report {

// Notes that differ only in the number of their first "rank N" become one, in the place of the first. An
// example is "no Python profile of 12 ranks (0, 1, 2, 3, 4, 5, 6, 7, ...): no room". Others stay as they are.
std::vector<std::string> FoldNotes(std::span<const std::string> notes);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_TEXT_FOLD_NOTES_H_
