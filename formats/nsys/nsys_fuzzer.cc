// Feeds any bytes to the reader: as the file itself, and as changed bytes of a whole file. All rows that it
// keeps must be in order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "capture/model/consistency_fixture.h"
#include "formats/nsys/nsys_capture.h"
#include "formats/nsys/nsys_reader.h"
#include "formats/nsys/nsys_text.h"

namespace {

using namespace lockstep;

void Read(std::string image) {
  auto database = formats::SqliteDatabase::OpenImage(std::move(image));
  if (!database.ok()) return;
  formats::NsysFile file = formats::ReadNsys(*database, nullptr);
  std::vector<formats::ReadNsysFile> files;
  files.push_back({{.path = "fuzz.sqlite", .named = true}, std::move(file)});
  auto capture = formats::JoinNsysFiles(std::move(files));
  if (!capture.ok()) return;
  capture::Finish(*capture);
  capture::AbortIfInconsistent(*capture);
}

// A file with every table and a row or two in each. It is small, so most of its bytes matter.
const std::string& Seed() {
  static const std::string seed = [] {
    std::string sql = "PRAGMA page_size = 512;";
    for (const formats::nsys::Table& table : formats::nsys::Tables()) {
      sql += formats::CreateNsysTable(table.name);
      std::string cells;
      for (const char* at = table.columns; *at != '\0'; ++at) cells += *at == ',' ? "1," : "";
      sql += std::string("INSERT OR IGNORE INTO ") + table.name + " VALUES(" + cells + "1);";
    }
    return formats::SqliteImage(sql);
  }();
  return seed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty()) Read(bytes);
  // The input is a list of positions and bytes, which replace bytes of the whole file.
  std::string patched = Seed();
  for (size_t i = 0; i + 3 <= size; i += 3)
    patched[(static_cast<size_t>(data[i]) << 8 | data[i + 1]) * 7 % patched.size()] =
        static_cast<char>(data[i + 2]);
  Read(std::move(patched));
  return 0;
}
