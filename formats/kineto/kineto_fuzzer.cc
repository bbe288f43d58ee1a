// Any bytes as a trace: gzip, text, or rows inside a whole document. Whatever is kept must be in order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/common/byte_source.h"
#include "formats/kineto/kineto_capture.h"
#include "formats/kineto/kineto_reader.h"

namespace {

using namespace lockstep;

void Check(trace::KinetoFile file) {
  std::vector<trace::ReadFile> files;
  files.push_back({{.path = "fuzz.json", .named = true}, std::move(file)});
  auto capture = trace::JoinKinetoFiles(std::move(files));
  if (!capture.ok()) return;
  store::Finish(*capture);
  for (const store::RankData& rank : capture->ranks) {
    for (const store::DeviceActivity& a : rank.activities) {
      if (a.end < a.start || a.name.value() >= capture->strings.size()) std::abort();
      if (a.collective != store::kNone && a.collective >= rank.collectives.size()) std::abort();
    }
    for (const store::Collective& c : rank.collectives) {
      if (c.activity >= rank.activities.size() || c.group >= capture->groups.size()) std::abort();
    }
  }
}

void Read(std::unique_ptr<trace::ByteSource> source) {
  Check(trace::ReadKineto(*source, trace::ReadMode::kOneThread, trace::HostDetail::kUnions, nullptr));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Read(std::make_unique<trace::MemorySource>(bytes));
  if (bytes.starts_with("\x1f\x8b")) Read(trace::GzipSource(std::make_unique<trace::MemorySource>(bytes)));
  // Most random text is no document; as rows of one it reaches further.
  const std::string document =
      R"({"distributedInfo": {"rank": 0}, "traceEvents": [{"ph": "X", "cat": "kernel", "name": ")" +
      std::string(bytes) + "}]}";
  Read(std::make_unique<trace::MemorySource>(document));
  return 0;
}
