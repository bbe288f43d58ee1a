#include "formats/kineto/kineto_reader.h"

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "formats/common/decimal_time.h"
#include "formats/common/read_options.h"
#include "formats/kineto/block_queue.h"
#include "formats/kineto/kineto_collector.h"
#include "formats/kineto/kineto_parser.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::formats {
namespace {

namespace dom = simdjson::dom;

// Reads a number of the metadata. Returns `otherwise` if it is missing, fractional or out of range.
template <typename T>
T NumberOr(dom::element object, const char* key, T otherwise) {
  int64_t value = 0;
  if (object[key].get(value) || !std::in_range<T>(value)) return otherwise;
  return static_cast<T>(value);
}

std::string TextMember(const TraceDocument& document, std::string_view key) {
  const auto it = document.members().find(key);
  if (it == document.members().end()) return "";
  dom::parser parser;
  std::string_view text;
  if (parser.parse(it->second).get(text)) return "";
  return std::string(text);
}

void TakeDistributedInfo(const std::string& json, KinetoFile& file) {
  dom::parser parser;
  dom::element info;
  if (parser.parse(json).get(info)) return;
  const auto rank = NumberOr<int32_t>(info, "rank", -1);
  if (rank >= 0) file.rank = RankId(rank);
  file.world_size = NumberOr<int32_t>(info, "world_size", 0);
}

void TakeDeviceProperties(const std::string& json, KinetoFile& file) {
  dom::parser parser;
  dom::array devices;
  if (parser.parse(json).get(devices)) return;
  for (dom::element device : devices) {
    const auto id = NumberOr<int64_t>(device, "id", -1);
    if (!std::in_range<uint32_t>(id)) continue;
    capture::DeviceProperties& p = file.properties[static_cast<uint32_t>(id)];
    std::string_view name;
    if (!device["name"].get(name)) p.name = name;
    p.sms = NumberOr<int32_t>(device, "numSms", 0);
    p.compute_major = NumberOr<int32_t>(device, "computeMajor", 0);
    p.compute_minor = NumberOr<int32_t>(device, "computeMinor", 0);
    p.max_threads_per_sm = NumberOr<int32_t>(device, "maxThreadsPerMultiprocessor", 0);
    p.registers_per_sm = NumberOr<int32_t>(device, "regsPerMultiprocessor", 0);
    p.shared_bytes_per_sm = NumberOr<uint64_t>(device, "sharedMemPerMultiprocessor", 0);
    p.memory_bytes = NumberOr<uint64_t>(device, "totalGlobalMem", 0);
  }
}

std::string TextOr(dom::element object, const char* key) {
  std::string_view text;
  return object[key].get(text) ? "" : std::string(text);
}

void TakeOwnMember(const std::string& json, KinetoFile& file) {
  dom::parser parser;
  dom::element own, window;
  if (parser.parse(json).get(own)) return;
  // The window is left out if one of its stamps does not fit.
  int64_t start = 0, length = -1, end = 0;
  if (own["window"].get(window) || window["start_ns"].get(start) || window["length_ns"].get(length)) return;
  if (length < 0 || __builtin_add_overflow(start, length, &end)) return;
  KinetoOwnMember& member = file.own.emplace();
  member.window = {HostTime(start), HostTime(end)};
  member.incarnation = NumberOr<uint32_t>(own, "incarnation", 1);
  member.device_uuid = TextOr(own, "device_uuid");
  dom::array losses;
  if (own["losses"].get(losses)) return;
  for (dom::element loss : losses) {
    member.losses.push_back({TextOr(loss, "stage"),
                             TextOr(loss, "kind"),
                             NumberOr<uint64_t>(loss, "records", 0),
                             TextOr(loss, "reason"),
                             {},
                             {}});
  }
}

void TakeMembers(const TraceDocument& document, KinetoFile& file) {
  const auto member = [&document](std::string_view key) -> const std::string* {
    const auto it = document.members().find(key);
    return it == document.members().end() ? nullptr : &it->second;
  };
  if (const std::string* json = member("distributedInfo")) TakeDistributedInfo(*json, file);
  if (const std::string* json = member("deviceProperties")) TakeDeviceProperties(*json, file);
  if (const std::string* json = member("baseTimeNanoseconds"))
    file.base = Nanos(IntegerFromText(*json).value_or(0));
  file.host_name = TextMember(document, "host_name");
  if (const std::string* json = member("lockstep")) TakeOwnMember(*json, file);
}

void ParseHere(TraceDocument& document, KinetoParser& parser, const std::function<void()>& after_block) {
  EventBlock block;
  while (document.Next(block)) {
    parser.Parse(block);
    after_block();
  }
}

void ParseBeside(TraceDocument& document, KinetoParser& parser, const std::function<void()>& after_block) {
  BlockQueue queue;
  std::thread reader([&document, &queue, &after_block] {
    while (true) {
      EventBlock block = queue.TakeEmpty();
      if (!document.Next(block)) break;
      queue.PushFull(std::move(block));
      after_block();
    }
    queue.Close();
  });
  while (std::optional<EventBlock> block = queue.TakeFull()) {
    parser.Parse(*block);
    queue.PushEmpty(std::move(*block));
  }
  reader.join();
}

}  // namespace

KinetoFile ReadKineto(ByteSource& source, ReadMode mode, HostDetail host,
                      const std::function<void(uint64_t)>& progress) {
  KinetoFile file;
  KinetoCollector collector(file, host);
  KinetoParser parser(collector, host, file.damage);
  TraceDocument document(source);
  const std::function<void()> after_block = [&source, &progress] {
    if (progress) progress(source.consumed());
  };
  if (mode == ReadMode::kPipeline) {
    ParseBeside(document, parser, after_block);
  } else {
    ParseHere(document, parser, after_block);
  }
  TakeMembers(document, file);
  file.damage.Merge(document.damage());
  if (source.leftover() != 0) file.damage.Add(document.bytes(), "bytes after the end of the compressed data");
  file.has_events = document.has_events();
  file.is_json = document.is_json();
  file.broken_off = source.damage();
  if (file.broken_off.empty() && document.truncated()) file.broken_off = "the text is truncated";
  return file;
}

}  // namespace lockstep::formats
