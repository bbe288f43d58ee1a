#include "formats/nsys/nsys_rows.h"

#include <sqlite3.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

// The tables with one row per event.
constexpr const char* kEventTables[] = {"CUPTI_ACTIVITY_KIND_KERNEL",  "CUPTI_ACTIVITY_KIND_MEMCPY",
                                        "CUPTI_ACTIVITY_KIND_MEMSET",  "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                        "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"};

}  // namespace

NsysStrings::NsysStrings(const SqliteDatabase& database, NsysFile& file) : file_(file) {
  const SqliteDatabase::Table* table = database.Find("StringIds");
  if (table == nullptr || !table->Has("id") || !table->Has("value")) return;
  if (table->columns.find("id")->second) {
    if (auto statement = PrepareSqlite(database.handle(), "SELECT value FROM StringIds WHERE id = ?1");
        statement.ok()) {
      look_up_ = std::move(*statement);
    }
    return;
  }
  // Without a key, every look-up would read the whole table.
  constexpr const char* kColumns[] = {"id", "value"};
  TableScan scan(database, "StringIds", kColumns, 2, file.losses);
  while (scan.Next()) {
    const auto id = scan.IntegerOr<int64_t>(0, -1);
    const std::string_view text = scan.Text(1);
    if (scan.Usable()) names_.try_emplace(id, file.strings.Intern(text));
  }
}

NameId NsysStrings::Name(int64_t id) {
  const auto [it, fresh] = names_.try_emplace(id, kNoName);
  if (fresh) it->second = LookUp(id);
  return it->second;
}

NameId NsysStrings::LookUp(int64_t id) {
  NameId name = kNoName;
  bool found = false;
  if (look_up_ != nullptr) {
    sqlite3_bind_int64(look_up_.get(), 1, id);
    if (sqlite3_step(look_up_.get()) == SQLITE_ROW && sqlite3_column_type(look_up_.get(), 0) == SQLITE_TEXT) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(look_up_.get(), 0));
      if (text != nullptr) {
        name = file_.strings.Intern(
            std::string_view(text, static_cast<size_t>(sqlite3_column_bytes(look_up_.get(), 0))));
        found = true;
      }
    }
    sqlite3_reset(look_up_.get());
  }
  if (!found) file_.losses.Add("StringIds", 1, absl::StrCat("string ", id, " is missing"));
  return name;
}

std::optional<HostInterval> NsysTimes(const NsysFile& file, int64_t start, int64_t end) {
  const auto is_far = [](int64_t t) { return t < -kFarthestNsysTime || t > kFarthestNsysTime; };
  if (end < start || is_far(start) || is_far(end)) return std::nullopt;
  const HostInterval times{HostTime(file.base.ns() + start), HostTime(file.base.ns() + end)};
  return is_far(times.start.ns()) || is_far(times.end.ns()) ? std::nullopt : std::optional(times);
}

void Widen(NsysProcess& process, const HostInterval& times) {
  process.window.start = std::min(process.window.start, times.start);
  process.window.end = std::max(process.window.end, times.end);
}

NsysProgress::NsysProgress(const SqliteDatabase& database, const RowProgress& progress)
    : progress_(progress) {
  if (!progress) return;
  constexpr const char* kColumns[] = {"start"};
  TableLosses counted_later;
  for (const char* table : kEventTables)
    total_ += TableScan(database, table, kColumns, 1, counted_later).expected_rows();
}

NsysDevice& NsysProcess::Device(DeviceId device) {
  for (NsysDevice& d : devices) {
    if (d.device == device) return d;
  }
  devices.emplace_back();
  devices.back().device = device;
  return devices.back();
}

}  // namespace lockstep::formats
