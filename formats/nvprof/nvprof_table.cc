#include "formats/nvprof/nvprof_table.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "formats/common/decimal_time.h"
#include "formats/common/text_lines.h"

namespace lockstep::formats {
namespace {

constexpr std::array<std::string_view, kNvprofColumns> kNames = {
    "Start",       "Duration",      "Grid X",
    "Grid Y",      "Grid Z",        "Block X",
    "Block Y",     "Block Z",       "Registers Per Thread",
    "Static SMem", "Dynamic SMem",  "Size",
    "Throughput",  "SrcMemType",    "DstMemType",
    "Device",      "Context",       "Stream",
    "Name",        "Correlation_ID"};

// nvprof's sizes count in powers of 1024.
std::optional<double> BytesOfUnit(std::string_view unit) {
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  constexpr std::string_view kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double factor = 1;
  for (const std::string_view known : kUnits) {
    if (unit == known) return factor;
    factor *= 1024;
  }
  return std::nullopt;
}

std::optional<int> ExponentOfUnit(std::string_view unit) {
  if (unit == "s") return 9;
  if (unit == "ms") return 6;
  if (unit == "us") return 3;
  if (unit == "ns") return 0;
  return std::nullopt;
}

constexpr char kPrintAgain[] = "print the trace again with nvprof --csv, without other output in the file";

}  // namespace

std::string_view NvprofColumnName(NvprofColumn column) { return kNames[static_cast<size_t>(column)]; }

bool SplitNvprofLine(std::string_view line, std::vector<std::string>& fields) {
  fields.clear();
  size_t at = 0;
  while (true) {
    std::string& field = fields.emplace_back();
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        const size_t quote = line.find('"', at);
        if (quote == std::string_view::npos) return false;
        field += line.substr(at, quote - at);
        at = quote + 1;
        if (at == line.size() || line[at] != '"') break;
        field += '"';  // a doubled quote stands for one
      }
    } else {
      const size_t end = std::min(line.find(',', at), line.size());
      field = line.substr(at, end - at);
      at = end;
    }
    if (at == line.size()) return true;
    if (line[at++] != ',') return false;
  }
}

bool NvprofTable::IsHeader(std::string_view line) { return line.starts_with("\"Start\",\"Duration\","); }

bool NvprofTable::Fail(std::string_view problem, std::string_view remedy) {
  error_ = absl::StrCat(std::string(problem), "; ", std::string(remedy));
  return false;
}

bool NvprofTable::FailField(NvprofColumn column, std::string_view expected) {
  return Fail(absl::StrCat(ShownWord(Text(column)), " is not ", std::string(expected), " for ",
                           ShownWord(NvprofColumnName(column))),
              kPrintAgain);
}

bool NvprofTable::ReadHeader(std::string_view line) {
  place_.fill(kAbsent);
  if (!SplitNvprofLine(line, fields_)) return Fail("a quote is not closed", kPrintAgain);
  columns_ = fields_.size();
  for (size_t place = 0; place < fields_.size(); ++place) {
    for (size_t column = 0; column < kNames.size(); ++column) {
      if (fields_[place] != kNames[column]) continue;
      if (place_[column] != kAbsent)
        return Fail(absl::StrCat("two columns are called ", ShownWord(kNames[column])), kPrintAgain);
      place_[column] = place;
    }
  }
  if (Has(NvprofColumn::kName)) return true;
  return Fail("no column is called \"Name\"", kPrintAgain);
}

bool NvprofTable::ReadUnit(NvprofColumn column) {
  const auto index = static_cast<size_t>(column);
  if (column == NvprofColumn::kStart || column == NvprofColumn::kDuration) {
    const std::optional<int> exponent = ExponentOfUnit(Text(column));
    if (!exponent) return FailField(column, "a unit of time (s, ms, us, ns)");
    exponent_[index] = *exponent;
    return true;
  }
  if (!Has(column)) return true;
  // nvprof leaves out the unit of a column without values.
  const std::optional<double> factor = Text(column).empty() ? 0 : BytesOfUnit(Text(column));
  if (!factor) return FailField(column, "a unit of size (B, KB, MB, GB)");
  factor_[index] = *factor;
  return true;
}

bool NvprofTable::ReadUnits(std::string_view line) {
  if (!ReadRow(line)) return false;
  for (const NvprofColumn column :
       {NvprofColumn::kStart, NvprofColumn::kDuration, NvprofColumn::kStaticShared,
        NvprofColumn::kDynamicShared, NvprofColumn::kSize, NvprofColumn::kThroughput}) {
    if (!ReadUnit(column)) return false;
  }
  return true;
}

bool NvprofTable::ReadRow(std::string_view line) {
  if (!SplitNvprofLine(line, fields_)) return Fail("a quote is not closed, or text follows it", kPrintAgain);
  if (fields_.size() == columns_) return true;
  return Fail(absl::StrCat(fields_.size(), " fields in a table of ", columns_, " columns"), kPrintAgain);
}

std::string_view NvprofTable::Text(NvprofColumn column) const {
  const size_t place = place_[static_cast<size_t>(column)];
  return place < fields_.size() ? std::string_view(fields_[place]) : "";
}

bool NvprofTable::Unsigned(NvprofColumn column, uint64_t most, uint64_t& out) {
  const std::string_view text = Text(column);
  out = 0;
  if (text.empty()) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size() && out <= most) return true;
  return FailField(column, "a number that fits");
}

bool NvprofTable::Time(NvprofColumn column, int64_t& out) {
  // Sums of two such times fit 64 bits.
  constexpr int64_t kFarthest = INT64_MAX / 4;
  const std::optional<int64_t> time =
      ScaledIntegerFromText(Text(column), exponent_[static_cast<size_t>(column)]);
  if (!time || *time < 0 || *time > kFarthest) return FailField(column, "a time");
  out = *time;
  return true;
}

bool NvprofTable::Bytes(NvprofColumn column, std::optional<double>& out) {
  constexpr double kMost = 1e18;
  out.reset();
  const std::string_view text = Text(column);
  if (text.empty()) return true;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  value *= factor_[static_cast<size_t>(column)];
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= kMost))
    return FailField(column, "a size");
  out = value;
  return true;
}

}  // namespace lockstep::formats
