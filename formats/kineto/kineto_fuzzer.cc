// Feeds any bytes to the reader: as gzip, as text, and as rows inside a whole document. All rows that it
// keeps must be in order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/model/consistency_fixture.h"
#include "formats/common/byte_source.h"
#include "formats/common/read_options.h"
#include "formats/kineto/kineto_capture.h"
#include "formats/kineto/kineto_reader.h"

namespace {

using namespace lockstep;

// Frames of a thread are sorted, and their names exist.
void CheckFrames(const capture::Capture& capture, const capture::RankData& rank) {
  if (rank.frames == nullptr) return;
  const capture::HostFrame* before = nullptr;
  for (const capture::HostFrame& frame : rank.frames->frames) {
    if (frame.end < frame.start || frame.name.value() >= capture.strings.size()) std::abort();
    if (frame.detail != capture::kNone && frame.detail >= rank.frames->details.size()) std::abort();
    if (before != nullptr && before->thread == frame.thread && frame.start < before->start) std::abort();
    before = &frame;
  }
}

void Check(formats::KinetoFile file) {
  std::vector<formats::ReadFile> files;
  files.push_back({{.path = "fuzz.json", .named = true}, std::move(file)});
  auto capture = formats::JoinKinetoFiles(std::move(files), {});
  if (!capture.ok()) return;
  capture::Finish(*capture);
  capture::AbortIfInconsistent(*capture);
  for (const capture::RankData& rank : capture->ranks) CheckFrames(*capture, rank);
}

void Read(std::unique_ptr<formats::ByteSource> source,
          formats::HostDetail host = formats::HostDetail::kUnions) {
  Check(formats::ReadKineto(*source, formats::ReadMode::kOneThread, host, nullptr));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Read(std::make_unique<formats::MemorySource>(bytes));
  Read(std::make_unique<formats::MemorySource>(bytes), formats::HostDetail::kFrames);
  if (bytes.starts_with("\x1f\x8b"))
    Read(formats::GzipSource(std::make_unique<formats::MemorySource>(bytes)));
  // Most random text is not a document. Inside a document, the same bytes reach more of the reader.
  const std::string document =
      R"({"distributedInfo": {"rank": 0}, "traceEvents": [{"ph": "X", "cat": "kernel", "name": ")" +
      std::string(bytes) + "}]}";
  Read(std::make_unique<formats::MemorySource>(document));
  return 0;
}
