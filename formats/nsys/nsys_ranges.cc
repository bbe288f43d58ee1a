// ReadNsysRanges(): reads the ranges and marks of NVTX_EVENTS.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "formats/common/kineto_names.h"
#include "formats/common/read_options.h"
#include "formats/nsys/nsys_rows.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::formats {
namespace {

enum Column : size_t { kRangeStart, kRangeEnd, kType, kTid, kText, kTextId, kDomain, kBinary };

bool IsRange(int64_t type) {
  return type == nsys::kPushPopRange || type == nsys::kStartEndRange || type == nsys::kTextPushPopRange ||
         type == nsys::kTextStartEndRange;
}
bool IsMark(int64_t type) { return type == nsys::kMark || type == nsys::kTextMark; }

// Returns the operator in a name of PyTorch's emit_nvtx, such as "aten::add, seq = 45440, op_id = 990760".
// Empty: the text does not name an operator.
std::string_view OperatorName(std::string_view text) {
  for (const std::string_view word : {", seq = ", ", op_id = ", ", sizes = "}) {
    if (const size_t at = text.find(word); at != std::string_view::npos) return text.substr(0, at);
  }
  return "";
}

class RangeReader {
 public:
  RangeReader(const SqliteDatabase& database, HostDetail host, NsysStrings& strings, NsysProgress& progress,
              NsysFile& file)
      : payloads_(database, file.losses), host_(host), strings_(strings), progress_(progress), file_(file) {
    constexpr const char* kColumns[] = {"start", "end",    "eventType", "globalTid",
                                        "text",  "textId", "domainId",  "binaryData"};
    TableScan scan(database, "NVTX_EVENTS", kColumns, 4, file.losses);
    file.has_ranges = scan.exists();
    file.reductions = payloads_.reductions();
    while (scan.Next()) Row(scan);
    for (auto& [pid, process] : file.processes) EndOpenRanges(process);
  }

 private:
  void Row(TableScan& scan) {
    progress_.Advance();
    const auto type = scan.IntegerOr<int64_t>(kType, 0);
    const auto thread = scan.IntegerOr<int64_t>(kTid, 0);
    if (!scan.Usable()) return;
    const auto it = file_.processes.find(nsys::ProcessOf(thread));
    if (it == file_.processes.end()) return;
    NsysProcess& process = it->second;
    if (type == nsys::kDomainCreate) {
      const auto domain = scan.IntegerOr<int64_t>(kDomain, 0);
      const NameId name = file_.strings.Intern(std::string(Text(scan)));
      if (scan.Usable()) process.domains.try_emplace(domain, name);
    } else if (IsRange(type) || IsMark(type)) {
      Range(scan, process, IsMark(type));
    }
  }

  std::string_view Text(TableScan& scan) {
    const std::string_view text = scan.Text(kText);
    if (!text.empty()) return text;
    const std::optional<int64_t> id = scan.Integer(kTextId);
    return id ? file_.strings.Text(strings_.Name(*id)) : "";
  }

  void Range(TableScan& scan, NsysProcess& process, bool is_mark) {
    const auto start = scan.Integer(kRangeStart);
    const auto end = scan.Integer(kRangeEnd);
    const auto domain = scan.IntegerOr<uint32_t>(kDomain, 0);
    const auto thread = scan.IntegerOr<int64_t>(kTid, 0);
    const std::string_view text = Text(scan);
    if (!scan.Usable()) return;
    if (!start) return scan.Refuse("it has no start");
    const auto times = NsysTimes(file_, *start, is_mark || !end ? *start : *end);
    if (!times) return scan.Refuse("its time stamps are impossible");
    Widen(process, *times);
    std::string_view name = text;
    const std::string_view op = OperatorName(text);
    if (!op.empty()) {
      if (NamesDataLoader(op)) process.data_loader.Add(times->start, times->end);
      if (!NamesDataLoader(op) && !op.starts_with("nccl:") && !op.starts_with("ProfilerStep#")) {
        process.operators.Add(times->start, times->end);
        if (host_ == HostDetail::kFrames)
          AddOperatorRange(*times, ThreadId(nsys::TidOf(thread)), text, process);
        return;
      }
      name = op;
    }
    capture::HostRange range{.start = times->start, .end = times->end};
    range.name = file_.strings.Intern(std::string(name));
    range.domain = NameId(domain);
    range.thread = ThreadId(nsys::TidOf(thread));
    if (!is_mark && !end) {
      range.end_unknown = true;
      process.open_ranges.push_back(static_cast<uint32_t>(process.ranges.size()));
    }
    if (name.starts_with("nccl") && !name.starts_with("nccl:")) {
      process.nccl_calls.push_back(
          {range.start, range.end, range.thread, range.name, payloads_.Read(scan.Bytes(kBinary))});
    }
    process.ranges.push_back(range);
  }

  // Keeps the whole text, because the frame takes shapes and sequence number from it.
  void AddOperatorRange(const HostInterval& times, ThreadId thread, std::string_view text,
                        NsysProcess& process) {
    capture::HostRange range{.start = times.start, .end = times.end};
    range.name = file_.strings.Intern(std::string(text));
    range.thread = thread;
    process.operator_ranges.push_back(range);
  }

  void EndOpenRanges(NsysProcess& process) {
    for (const uint32_t place : process.open_ranges)
      process.ranges[place].end = std::max(process.window.end, process.ranges[place].start);
    for (capture::HostRange& range : process.ranges) {
      const auto name = process.domains.find(range.domain.value());
      range.domain = name == process.domains.end() ? kNoName : name->second;
    }
  }

  NsysPayloads payloads_;
  const HostDetail host_;
  NsysStrings& strings_;
  NsysProgress& progress_;
  NsysFile& file_;
};

}  // namespace

void ReadNsysRanges(const SqliteDatabase& database, HostDetail host, NsysStrings& strings,
                    NsysProgress& progress, NsysFile& file) {
  RangeReader(database, host, strings, progress, file);
}

}  // namespace lockstep::formats
