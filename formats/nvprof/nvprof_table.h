// The table in a CSV file of nvprof (docs/formats/nvprof.md): its columns, their units, and the fields of a
// line.
#ifndef LOCKSTEP_FORMATS_NVPROF_NVPROF_TABLE_H_
#define LOCKSTEP_FORMATS_NVPROF_NVPROF_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

// The columns that are read. All others are skipped.
enum class NvprofColumn : uint8_t {
  kStart,
  kDuration,
  kGridX,
  kGridY,
  kGridZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kRegisters,
  kStaticShared,
  kDynamicShared,
  kSize,
  kThroughput,
  kSourceMemory,
  kTargetMemory,
  kDevice,
  kContext,
  kStream,
  kName,
  kCorrelation,
};
inline constexpr size_t kNvprofColumns = static_cast<size_t>(NvprofColumn::kCorrelation) + 1;

// Returns the column's name in the file.
std::string_view NvprofColumnName(NvprofColumn column);

// Splits a line into fields, without their quotes. False: a quote is not closed, or text follows one.
bool SplitNvprofLine(std::string_view line, std::vector<std::string>& fields);

// One thread. A function that returns false has set error(): the problem and the remedy.
class NvprofTable {
 public:
  // True for the row of names that begins a trace. The row of units follows it.
  static bool IsHeader(std::string_view line);

  bool ReadHeader(std::string_view line);
  bool ReadUnits(std::string_view line);
  // The fields of this line are those that the functions below return.
  bool ReadRow(std::string_view line);

  bool Has(NvprofColumn column) const { return place_[static_cast<size_t>(column)] != kAbsent; }
  // Empty: the line or the file has no such field.
  std::string_view Text(NvprofColumn column) const;
  // An empty field is 0.
  template <typename Number>
  bool Integer(NvprofColumn column, Number& out) {
    uint64_t value = 0;
    if (!Unsigned(column, static_cast<uint64_t>(static_cast<Number>(-1)), value)) return false;
    out = static_cast<Number>(value);
    return true;
  }
  // In nanoseconds. The field must not be empty.
  bool Time(NvprofColumn column, int64_t& out);
  // In bytes, or bytes per second; an empty field is nullopt.
  bool Bytes(NvprofColumn column, std::optional<double>& out);

  // True if the start times have steps of a microsecond: nvprof prints six digits after the point.
  bool coarse_starts() const { return exponent_[0] == kSeconds; }
  const std::string& error() const { return error_; }

  // Returns false.
  bool Fail(std::string_view problem, std::string_view remedy);

 private:
  static constexpr size_t kAbsent = SIZE_MAX;
  static constexpr int kSeconds = 9;

  bool Unsigned(NvprofColumn column, uint64_t most, uint64_t& out);
  bool FailField(NvprofColumn column, std::string_view expected);
  bool ReadUnit(NvprofColumn column);

  std::array<size_t, kNvprofColumns> place_{};
  std::array<int, kNvprofColumns> exponent_{};   // of ten, to nanoseconds
  std::array<double, kNvprofColumns> factor_{};  // to bytes
  size_t columns_ = 0;
  std::vector<std::string> fields_;
  std::string error_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NVPROF_NVPROF_TABLE_H_
