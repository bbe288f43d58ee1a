// ReadNsysRanges(): NVTX_EVENTS.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "formats/common/kineto_names.h"
#include "formats/nsys/nsys_rows.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::trace {
namespace {

enum Column : size_t { kStart, kEnd, kType, kTid, kText, kTextId, kDomain, kBinary };

bool IsRange(int64_t type) {
  return type == nsys::kPushPopRange || type == nsys::kStartEndRange || type == nsys::kTextPushPopRange ||
         type == nsys::kTextStartEndRange;
}
bool IsMark(int64_t type) { return type == nsys::kMark || type == nsys::kTextMark; }

// PyTorch's emit_nvtx: "aten::add, seq = 45440, op_id = 990760". Empty: none of its operators.
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
    const auto start = scan.Integer(kStart);
    const auto end = scan.Integer(kEnd);
    const auto domain = scan.IntegerOr<uint32_t>(kDomain, 0);
    const auto thread = scan.IntegerOr<int64_t>(kTid, 0);
    const std::string_view text = Text(scan);
    if (!scan.Usable()) return;
    if (!start) return scan.Refuse("it has no start");
    const auto times = NsysTimes(file_, *start, is_mark || !end ? *start : *end);
    if (!times) return scan.Refuse("no clock can have made its stamps");
    Widen(process, *times);
    std::string_view name = text;
    // An export of ours has an operator as the range that it was.
    const std::string_view op = file_.has_own_tables ? "" : OperatorName(text);
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
    store::HostRange range{.start = times->start, .end = times->end};
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

  // With all that its name says, for its frame.
  void AddOperatorRange(const HostInterval& times, ThreadId thread, std::string_view text,
                        NsysProcess& process) {
    store::HostRange range{.start = times.start, .end = times.end};
    range.name = file_.strings.Intern(std::string(text));
    range.thread = thread;
    process.operator_ranges.push_back(range);
  }

  void EndOpenRanges(NsysProcess& process) {
    for (const uint32_t place : process.open_ranges)
      process.ranges[place].end = std::max(process.window.end, process.ranges[place].start);
    for (store::HostRange& range : process.ranges) {
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

}  // namespace lockstep::trace
