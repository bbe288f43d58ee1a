#include "daemon/options.h"

#include <unistd.h>

#include <cstdlib>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/socket_path.h"
#include "common/settings/settings.h"

namespace lockstep::daemon {
namespace {

constexpr char kAbout[] =
    "lockstepd is Lockstep's daemon: one per node. Ranks register with it, and when a capture is asked for "
    "it drains their\n"
    "rings and streams what they recorded to an aggregator.\n"
    "\n"
    "You rarely start it yourself: `lockstep run` starts one where none listens. On a cluster one runs per "
    "node:\n"
    "  lockstepd --aggregator head:7077 --token-file /etc/lockstep/token\n"
    "      as root, for everybody's ranks; each user traces their own\n"
    "  lockstepd --socket $XDG_RUNTIME_DIR/lockstep/client.sock --idle-exit 10s\n"
    "      for this user only; ends by itself when nobody uses it\n";

constexpr char kFooter[] =
    "It ends cleanly on SIGTERM: captures that run are ended and what they have is sent. It writes no files "
    "but its log and\n"
    "its sockets. `lockstep status` shows what it sees.";

std::string CheckDuration(std::string& text) {
  const absl::StatusOr<Nanos> parsed = ParseDuration(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

// As text: they become what they mean when all is parsed.
struct OptionTexts {
  std::string idle_exit;
  std::string log_format = "text";
  std::string log_level = "info";
  std::string kineto = "on";
};

void AddOptions(CLI::App& app, Options& options, OptionTexts& texts) {
  app.add_option("--socket", options.socket,
                 "Where clients connect; control.sock lies in the same folder. Without it /run/lockstep/client.sock for root, and for "
                 "others lockstep/client.sock in $XDG_RUNTIME_DIR or /tmp/lockstep-UID/client.sock");
  app.add_option("--aggregator", options.aggregators,
                 "HOST:PORT or unix:PATH of an aggregator to stay connected to, as often as wanted. Without "
                 "one the daemon waits "
                 "for `lockstep trace` on this node")
      ->envname("LOCKSTEP_AGGREGATOR");
  app.add_option("--token-file", options.token_file,
                 "The aggregators' secret, and that of --metrics: a file that only you can read (mode 0600), or root's for a group of yours")
      ->envname("LOCKSTEP_TOKEN_FILE");
  app.add_option("--node-id", options.node_id, "Tells this node from others; default: the machine's boot id")
      ->envname("LOCKSTEP_NODE_ID");
  app.add_option("--node-name", options.node_name,
                 "What reports call this node; default: its host name, which in a container is the container's")
      ->envname("LOCKSTEP_NODE_NAME");
  app.add_option("--ring-bytes", options.ring_bytes,
                 "Shared memory per rank for GPU records; larger "
                 "rides out longer pauses of this daemon")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{32} << 10, uint64_t{1} << 30))
      ->default_str("8 MiB")
      ->envname("LOCKSTEP_RING_BYTES");
  app.add_option("--thread-ring-bytes", options.thread_ring_bytes,
                 "The same for each other thread that records (NVTX, NCCL)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{32} << 10, uint64_t{16} << 20))
      ->default_str("256 KiB");
  app.add_option("--spool-bytes", options.spool_bytes,
                 "Memory for what an aggregator has not stored yet; beyond it the oldest batches are "
                 "dropped, counted")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{64} << 10, uint64_t{64} << 30))
      ->default_str("64 MiB")
      ->envname("LOCKSTEP_SPOOL_BYTES");
  app.add_option("--kineto", texts.kineto,
                 "Answer PyTorch jobs that were started with KINETO_USE_DAEMON: on, at the socket name dynolog unless somebody else "
                 "has it; own, only to jobs that `lockstep run` has sent here; off")
      ->check(CLI::IsMember({"on", "own", "off"}))
      ->default_str("on")
      ->envname("LOCKSTEP_KINETO");
  app.add_option("--dyno-port", options.dyno_port,
                 "Answer `dyno` (dynolog's command line) at this port of 127.0.0.1 and ::1, each user for their own processes; "
                 "dynolog's is 1778. Off by default");
  app.add_option("--metrics", options.metrics,
                 "IP:PORT to answer Prometheus (/metrics) and health checks (/healthz) at, as in 127.0.0.1:9464; port 0: any free one, "
                 "told in the log. Every request must carry the token, so it needs --token-file. Off by default");
  app.add_option("--idle-exit", texts.idle_exit, "End after so long without client and request, as in 10s")
      ->check(CLI::Validator(CheckDuration, "DURATION"));
  app.add_option("--log", options.log_file, "File to append the log to; default: stderr");
  app.add_option("--log-level", texts.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->default_str("info");
  app.add_option("--log-format", texts.log_format, "text, or json: one object per line")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
  app.set_version_flag("--version", kDaemonVersion);
  app.footer(kFooter);
}

}  // namespace

std::string DefaultSocket() {
  SocketSearch search;
  search.uid = geteuid();
  if (search.uid != 0) search.runtime_dir = std::getenv("XDG_RUNTIME_DIR");
  const SocketPlaces places = DaemonSocketPlaces(search);
  // Root's daemon is the system's. A user's runtime folder ends with the session, so it is better than /tmp.
  for (int i = 0; i < places.count; ++i) {
    if ((places.place[i].origin == SocketOrigin::kSystem) == (search.uid == 0)) return places.place[i].path;
  }
  return places.place[places.count - 1].path;
}

absl::StatusOr<Nanos> ParseDuration(const std::string& text) {
  static constexpr struct {
    const char* unit;
    double ns;
  } kUnits[] = {{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"", 1e9}};
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  double value = 0;
  if (absl::SimpleAtod(number, &value)) {
    for (const auto& candidate : kUnits) {
      // A bare number but 0 leaves the unit to guessing.
      if (unit != candidate.unit || (unit.empty() && value != 0)) continue;
      const double ns = value * candidate.ns;
      if (ns <= 9e18) return Nanos(static_cast<int64_t>(ns));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no duration: write 10s, 500ms or 2m"));
}

std::optional<Options> ParseOptions(int argc, const char* const* argv, const char* const* environment, int* exit_code) {
  CLI::App app(kAbout, "lockstepd");
  Options options;
  OptionTexts texts;
  AddOptions(app, options, texts);
  settings::Settings settings(app,
                              {.name = "lockstepd",
                               .version = kDaemonVersion,
                               .prefix = "LOCKSTEPD_",
                               .file_name = "lockstepd.conf",
                               .defaults_here = {{"socket", DefaultSocket()}}},
                              environment);
  if (const std::optional<int> code = settings.Parse(argc, argv)) {
    *exit_code = *code;
    return std::nullopt;
  }
  if (options.socket.empty()) options.socket = DefaultSocket();
  if (!texts.idle_exit.empty()) options.idle_exit = *ParseDuration(texts.idle_exit);
  options.kineto = texts.kineto == "off"   ? Options::Kineto::kOff
                   : texts.kineto == "own" ? Options::Kineto::kOwn
                                           : Options::Kineto::kOn;
  options.log_format = texts.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  options.log_level = texts.log_level == "debug"     ? LogLevel::kDebug
                      : texts.log_level == "warning" ? LogLevel::kWarning
                      : texts.log_level == "error"   ? LogLevel::kError
                                               : LogLevel::kInfo;
  return options;
}

}  // namespace lockstep::daemon
