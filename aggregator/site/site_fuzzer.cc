// Sends requests of any bytes to the aggregator's pages, over captures whose files have any content. Without
// a session, no answer may contain their data; and the index must be valid JSON.
#include <cstdlib>
#include <string>

#include "aggregator/site/site.h"
#include "aggregator/site/site_fixture.h"
#include "base/fuzz_input_fixture.h"
#include "base/log/line_sink_fake.h"
#include "simdjson.h"

namespace {

using namespace lockstep;
using namespace lockstep::aggregator;

constexpr char kSecret[] = "secret-of-the-report";
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kIndex[] = "/api/index.json";
constexpr char kId[] = "20260301-120000-0a1b2c";

// The request of a browser that has signed in, up to the path below the session's.
HttpRequest SignedIn(Site& site) {
  const HttpResponse grant = site.Answer(
      {.path = "/session", .authorization = std::string("Bearer ") + kToken, .host = "localhost"});
  HttpRequest request{.host = "localhost"};
  const size_t begin = grant.body.find("/s/");
  request.path = grant.body.substr(begin, grant.body.find("/\"", begin) - begin);
  for (const auto& [name, value] : grant.headers) {
    if (name == "Set-Cookie") request.cookie = value.substr(0, value.find(';'));
  }
  return request;
}

void AskAsStranger(FuzzInput& input, Site& site) {
  const auto request = ParseHttpRequest(input.Text(4096));
  if (!request || request->status != 200 || !site.Check(*request).ok()) return;
  const HttpResponse response = site.Answer(*request);
  if (response.file.ok() || response.body.find(kSecret) != std::string::npos) std::abort();
}

void AskInside(FuzzInput& input, Site& site, HttpRequest request) {
  const bool index = input.Flag();
  request.path += index ? std::string(kIndex) : "/" + std::string(input.Text());
  if (!site.Check(request).ok()) std::abort();
  const HttpResponse response = site.Answer(request);
  if (!index) return;
  simdjson::dom::parser parser;
  if (response.status != 200 || parser.parse(response.body).error() != simdjson::SUCCESS) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const CapturesFolder folder;
  static SystemClock audit_clock;
  FuzzInput input(data, size);
  const std::string report =
      input.Flag() ? std::string(input.Text(4096)) : std::string("{\"verdict\": \"") + kSecret + "\"}";
  folder.Write(std::string(kId) + "/report.json", report);
  folder.Write(std::string(kId) + "/report.txt", kSecret);
  const std::string manifest = input.Flag() ? std::string(input.Text(4096)) : std::string();
  folder.Write(std::string(kId) + "/records/manifest.json", manifest);

  RecordedLines audited;
  AuditLog audit({.program = "fuzz", .session = 1, .user_name = nullptr},
                 std::make_unique<FakeLineSink>(audited), audit_clock);
  SystemJobClock clock;
  HubOptions options;
  options.captures.folder = folder.path();
  Hub hub(options, clock);
  const HttpCallers callers(kToken);
  Site site({.program = "fuzz", .listen = {}, .port = SiteOptions::Port::kLoopback}, hub, callers.all(),
            SignIn(std::make_shared<SystemClock>(), SignIn::Port::kPlain), audit, &MonoNow);
  const HttpRequest session = SignedIn(site);
  while (!input.empty()) {
    if (input.Flag()) {
      AskInside(input, site, session);
    } else {
      AskAsStranger(input, site);
    }
  }
  return 0;
}
