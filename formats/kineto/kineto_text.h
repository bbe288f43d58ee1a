// Builds Kineto traces as text, for tests and benchmarks.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_TEXT_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

// Returns one kernel row. `ts` and `dur` are microseconds as JSON text.
inline std::string KernelRow(std::string_view ts, std::string_view dur, std::string_view name = "gemm",
                             std::string_view more_args = "") {
  std::string row = R"({"ph": "X", "cat": "kernel", "name": ")";
  row.append(name).append(R"(", "pid": 0, "tid": 7, "ts": )").append(ts).append(R"(, "dur": )").append(dur);
  row.append(
      R"(, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 11, "grid": [8, 1, 1], "block": [256, 1, 1])");
  row.append(more_args).append("}}");
  return row;
}

inline std::string HostRow(std::string_view category, std::string_view name, int64_t ts, int64_t dur,
                           std::string_view args = "") {
  std::string row = R"({"ph": "X", "cat": ")";
  row.append(category).append(R"(", "name": ")").append(name).append(R"(", "pid": 4242, "tid": 99, "ts": )");
  row.append(std::to_string(ts)).append(R"(, "dur": )").append(std::to_string(dur));
  row.append(R"(, "args": {)").append(args).append("}}");
  return row;
}

inline std::string Joined(const std::vector<std::string>& rows, std::string_view separator = ", ") {
  std::string text;
  for (const std::string& row : rows) {
    if (!text.empty()) text.append(separator);
    text.append(row);
  }
  return text;
}

// `before` and `after` are members with their commas, as in R"("distributedInfo": {"rank": 3}, )".
inline std::string Document(const std::vector<std::string>& rows, std::string_view before = "",
                            std::string_view after = "") {
  std::string text = "{\"schemaVersion\": 1, ";
  text.append(before).append("\"traceEvents\": [").append(Joined(rows)).append("]").append(after).append("}");
  return text;
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_TEXT_H_
