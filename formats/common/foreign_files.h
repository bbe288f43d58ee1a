// Recognises files of other profilers, and names the command that makes a readable file.
#ifndef LOCKSTEP_FORMATS_COMMON_FOREIGN_FILES_H_
#define LOCKSTEP_FORMATS_COMMON_FOREIGN_FILES_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::formats {

// The number of first bytes that WhyForeign() and IsNvprofText() need.
inline constexpr size_t kForeignBytes = 4096;

// True if a file with this name is of such a profiler (.nsys-rep, .qdrep, .qdstrm, .ncu-rep, .nvvp, .nvprof).
bool HasForeignEnding(std::string_view name);

// Returns the reason and the remedy, as the end of a sentence that begins with the path. Empty: the file is
// not such a file. A database of nvprof is recognised by its tables instead (formats/nsys/nsys_input.cc).
std::string WhyForeign(std::string_view path, std::string_view first_bytes);

// The same for a database of nvprof.
std::string WhyNvprofDatabase(std::string_view path);

// True for text that nvprof printed. formats/nvprof reads its trace in CSV.
bool IsNvprofText(std::string_view first_bytes);

// The reason and the remedy for nvprof's text in another form.
std::string WhyNotNvprofTrace();

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_FOREIGN_FILES_H_
