// Any bytes as an nsys export: as the file itself, as the pages behind a whole file's first ones, and as
// cells of a whole table. Whatever is kept must be in order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "aggregator/trace/nsys_own_reader.h"
#include "formats/nsys/nsys_capture.h"
#include "formats/nsys/nsys_reader.h"
#include "formats/nsys/nsys_text.h"

namespace {

using namespace lockstep;

void Check(store::Capture& capture) {
  store::Finish(capture);
  for (const store::RankData& rank : capture.ranks) {
    if (rank.host != store::kNone && rank.host >= capture.hosts.size()) std::abort();
    for (const store::DeviceActivity& a : rank.activities) {
      if (a.end < a.start || a.name.value() >= capture.strings.size()) std::abort();
      if (a.collective != store::kNone && a.collective >= rank.collectives.size()) std::abort();
    }
    for (const store::Collective& c : rank.collectives) {
      if (c.activity >= rank.activities.size() || c.group >= capture.groups.size()) std::abort();
    }
  }
}

void Read(std::string image) {
  auto database = trace::SqliteDatabase::OpenImage(std::move(image));
  if (!database.ok()) return;
  trace::NsysFile file = trace::ReadNsys(*database, nullptr);
  if (file.has_own_tables) {
    store::Capture own = trace::ReadOwnCapture(*database, std::move(file), "fuzz.sqlite");
    Check(own);
    return;
  }
  std::vector<trace::ReadNsysFile> files;
  files.push_back({{.path = "fuzz.sqlite", .named = true}, std::move(file)});
  if (auto capture = trace::JoinNsysFiles(std::move(files)); capture.ok()) Check(*capture);
}

// Every table with a row or two, small enough that most of its bytes matter.
const std::string& Seed() {
  static const std::string seed = [] {
    std::string sql = "PRAGMA page_size = 512;";
    for (const trace::nsys::Table& table : trace::nsys::Tables()) {
      sql += trace::CreateNsysTable(table.name);
      std::string cells;
      for (const char* at = table.columns; *at != '\0'; ++at) cells += *at == ',' ? "1," : "";
      sql += std::string("INSERT OR IGNORE INTO ") + table.name + " VALUES(" + cells + "1);";
    }
    return trace::SqliteImage(sql + "UPDATE LOCKSTEP_META SET name = 'VERSION';");
  }();
  return seed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty()) Read(bytes);
  // Pairs of a place and a byte, over a whole file.
  std::string patched = Seed();
  for (size_t i = 0; i + 3 <= size; i += 3)
    patched[(static_cast<size_t>(data[i]) << 8 | data[i + 1]) * 7 % patched.size()] =
        static_cast<char>(data[i + 2]);
  Read(std::move(patched));
  return 0;
}
