// Reads and analyses a capture's folder with any content, as the aggregator does with the data of daemons.
// The manifest is valid, missing or any bytes. The files are blocks of rows, any bytes, or both. The report
// must be a valid document.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files/byte_sink.h"
#include "base/fuzz_input_fixture.h"
#include "capture/model/consistency_fixture.h"
#include "capture/store/records_manifest.h"
#include "formats/input/read_input.h"
#include "report/report.h"
#include "simdjson.h"
#include "wire/columns/blocks_fixture.h"

namespace {

using namespace lockstep;
namespace fs = std::filesystem;

constexpr int64_t kBegin = 1'700'000'000'000'000'000;
constexpr size_t kMostFiles = 8;
constexpr size_t kMostBlocks = 40;

void Write(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

capture::Manifest ScriptedManifest(FuzzInput& input) {
  capture::Manifest manifest;
  manifest.id = "c";
  manifest.job = "job";
  manifest.world_size = static_cast<int32_t>(input.Below(5));
  manifest.activities = 0xFFF;
  manifest.t0 = JobTime(kBegin);
  manifest.t1 = manifest.t0 + Nanos::Millis(input.Number());
  manifest.complete = input.Flag();
  if (input.Flag()) manifest.wanted_steps = capture::StepSpan{input.Number(), input.Number()};
  for (size_t hosts = input.Below(3); hosts > 0; --hosts)
    manifest.hosts.push_back({std::string(input.Text()), std::string(input.Text()), {}});
  for (size_t processes = input.Below(4); processes > 0; --processes) {
    capture::ManifestProcess process;
    process.rank = RankId(static_cast<int32_t>(input.Below(5)) - 1);
    process.host = static_cast<uint32_t>(input.Below(3));
    process.window = {HostTime(kBegin), HostTime(kBegin) + Nanos::Millis(input.Number())};
    process.state = std::array{"done", "failed", "gone", "unfinished"}[input.Below(4)];
    process.via = std::array{"cupti", "cupti", "kineto"}[input.Below(3)];
    if (input.Flag()) process.losses.push_back({"ring", "kernel", input.Number<uint64_t>(), "full", {}, {}});
    manifest.processes.push_back(process);
  }
  return manifest;
}

void WriteFolder(FuzzInput& input, const fs::path& folder) {
  switch (input.Below(3)) {
    case 0:
      Write(folder / capture::kManifestName, input.Text(4096));
      break;
    case 1:
      Write(folder / capture::kManifestName, capture::ManifestToJson(ScriptedManifest(input)));
      break;
    default:
      break;  // an aggregator that died
  }
  size_t blocks = 0;
  for (size_t file = 0; file < kMostFiles && !input.empty(); ++file) {
    const auto process = static_cast<uint32_t>(input.Below(4));
    const RankId rank(static_cast<int32_t>(process));
    if (input.Below(8) == 7) {
      const auto kind =
          input.Flag() ? capture::TraceFileKind::kKineto : capture::TraceFileKind::kPythonProfile;
      Write(folder / capture::TraceFileName({rank, process, kind}), input.Text(4096));
      continue;
    }
    std::string bytes;
    for (size_t more = input.Below(16) + 1; more > 0 && ++blocks < kMostBlocks && !input.empty(); --more)
      bytes += columns::ScriptedBlock(input, kBegin);
    if (input.Below(8) == 7) bytes += input.Text(4096);
    Write(folder / capture::RecordsFileName({rank, process, static_cast<uint32_t>(file)}), bytes);
  }
}

void Check(const capture::Capture& capture) {
  capture::AbortIfInconsistent(capture, capture::CollectiveKernels::kMayBeMissing);
  const report::Analysis analysis = report::Analyze(capture);
  StringSink json;
  if (!report::WriteJson(analysis.report, json).ok()) std::abort();
  simdjson::dom::parser parser;
  if (parser.parse(json.text()).error() != simdjson::SUCCESS) std::abort();
  if (report::RenderText(analysis.report).empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A file system in memory, because each input writes files.
  static const std::string folder = [] {
    char pattern[] = "/dev/shm/lockstep-records-XXXXXX";
    return std::string(::mkdtemp(pattern));
  }();
  const fs::path records = fs::path(folder) / "records";
  fs::create_directory(records);
  FuzzInput input(data, size);
  WriteFolder(input, records);
  if (const auto capture = formats::LoadCapture(folder, {}); capture.ok()) Check(*capture);
  fs::remove_all(records);
  return 0;
}
