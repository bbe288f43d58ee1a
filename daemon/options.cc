#include "daemon/options.h"

#include <unistd.h>

#include <cstdlib>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/metrics/endpoint.h"
#include "base/rpc/address.h"
#include "base/settings/duration.h"
#include "base/settings/log_options.h"
#include "base/settings/role_options.h"
#include "base/settings/settings.h"
#include "base/socket_path.h"
#include "daemon/node/version.h"

namespace lockstep::daemon {
namespace {

constexpr char kAbout[] =
    "lockstepd is Lockstep's daemon, one per node. Ranks register with it. During a capture it drains their "
    "rings and\n"
    "streams the records to an aggregator.\n"
    "\n"
    "You rarely start it yourself: `lockstep run` starts one if none listens. On a cluster one runs per "
    "node:\n"
    "  lockstepd --aggregator head:7077 --token-file /etc/lockstep/token\n"
    "      as root, for the ranks of all users; each user traces their own\n"
    "  lockstepd --socket $XDG_RUNTIME_DIR/lockstep/client.sock --idle-exit 10s\n"
    "      for this user only; ends when it has been idle\n";

constexpr char kFooter[] =
    "On SIGTERM it ends running captures and sends their records. It writes no files except its logs and its "
    "sockets.\n"
    "`lockstep status` shows its ranks.";

// Settings as text; ParseOptions converts them after all sources have been read.
struct OptionTexts {
  std::string idle_exit;
  settings::LogOptions log;
  std::string kineto = "on";
};

void AddOptions(CLI::App& app, Options& options, OptionTexts& texts) {
  app.add_option(
      "--socket", options.socket,
      "Socket for clients; control.sock is in the same folder. Default: /run/lockstep/client.sock for root; "
      "for others lockstep/client.sock in $XDG_RUNTIME_DIR, or /tmp/lockstep-UID/client.sock");
  app.add_option("--aggregator", options.aggregators,
                 "HOST:PORT or unix:PATH of an aggregator to stay connected to; may be repeated. Without one "
                 "the daemon waits for `lockstep trace` on this node")
      ->envname("LOCKSTEP_AGGREGATOR");
  app.add_option("--token-file", options.token_file,
                 "File with the secret of the aggregators and of --metrics. Only you may be able to read it "
                 "(mode 0600), or root owns it and its group is one of yours")
      ->envname("LOCKSTEP_TOKEN_FILE");
  app.add_option(
         "--tls-dir", options.tls_dir,
         "Folder with this node's certificate: ca.crt, tls.crt, tls.key (`lockstep node --help`). The "
         "daemon then needs no token, and its aggregator is checked against ca.crt. Without it, TCP "
         "connections are encrypted with keys that both ends derive from the token")
      ->envname("LOCKSTEP_TLS_DIR");
  app.add_flag("--insecure-plaintext-tcp", options.plaintext,
               "Do not encrypt connections to the aggregators of --aggregator. Everybody on the way can then "
               "read the token and the records, and alter them. The aggregator needs the same flag")
      ->envname("LOCKSTEP_INSECURE_PLAINTEXT_TCP");
  app.add_option("--node-id", options.node_id,
                 "Identifies this node; default: the node of its certificate, else the machine's boot id")
      ->envname("LOCKSTEP_NODE_ID");
  app.add_option(
         "--node-name", options.node_name,
         "Name of this node in reports; default: its host name, which in a container is the container's")
      ->envname("LOCKSTEP_NODE_NAME");
  settings::AddRoleOptions(app, options.roles);
  app.add_option("--ring-bytes", options.ring_bytes,
                 "Shared memory per rank for GPU records; a larger ring bridges longer pauses of this daemon")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{32} << 10, uint64_t{1} << 30))
      ->default_str("8 MiB")
      ->envname("LOCKSTEP_RING_BYTES");
  app.add_option("--thread-ring-bytes", options.thread_ring_bytes,
                 "Shared memory for each other thread that records (NVTX, NCCL)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{32} << 10, uint64_t{16} << 20))
      ->default_str("256 KiB");
  app.add_option("--spool-bytes", options.spool_bytes,
                 "Memory for data that an aggregator has not stored yet; beyond it the oldest batches are "
                 "dropped and counted")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{64} << 10, uint64_t{64} << 30))
      ->default_str("64 MiB")
      ->envname("LOCKSTEP_SPOOL_BYTES");
  app.add_option("--kineto", texts.kineto,
                 "Answer PyTorch jobs that were started with KINETO_USE_DAEMON: on, at the socket name "
                 "dynolog unless another process has it; own, only to jobs that `lockstep run` started; off")
      ->check(CLI::IsMember({"on", "own", "off"}))
      ->default_str("on")
      ->envname("LOCKSTEP_KINETO");
  app.add_option("--dyno-port", options.dyno_port,
                 "Answer `dyno` (dynolog's command line) at this port of 127.0.0.1 and ::1, for each user's "
                 "own processes; dynolog's port is 1778. Off by default");
  app.add_option("--metrics", options.metrics,
                 "IP:PORT for Prometheus (/metrics) and health checks (/healthz), as in 127.0.0.1:9464; port "
                 "0: any free one, which the log names. Every request must carry the token, so it needs "
                 "--token-file. Off by default");
  app.add_option("--idle-exit", texts.idle_exit,
                 "End after this time without a client and a request, as in 10s")
      ->check(CLI::Validator(settings::CheckDuration, "DURATION"));
  // Both services read the same file, so these two are flags only.
  app.add_option(
         "--broker-for", options.broker_for,
         "Run only the broker: it opens the sockets, files and processes that only root may open, for "
         "a daemon that runs as this user, with --with-broker and the same settings. The unit "
         "lockstepd-broker.service does so")
      ->configurable(false);
  app.add_flag("--with-broker", options.with_broker,
               "Run without rights of its own, with the broker that root has started for this user. The unit "
               "lockstepd.service does so. Without this flag, root's daemon starts a broker of its own")
      ->configurable(false);
  settings::AddLogOptions(app, texts.log);
  app.add_option("--audit-log", options.audit_file,
                 "File for the audit log of requests and refusals: one JSON object per line, appended, mode "
                 "0600. Off by default");
  app.add_flag("--audit-syslog", options.audit_syslog,
               "Copy each line of the audit log to syslog (authpriv.info), from where it can go to another "
               "host");
  app.set_version_flag("--version", kDaemonVersion);
  app.footer(kFooter);
}

// Finds contradictions between options. It reads no files, because the user who checks may differ from the
// user who runs the daemon.
std::vector<settings::Conflict> CheckOptions(const Options& options) {
  using Weight = settings::Conflict::Weight;
  std::vector<settings::Conflict> conflicts = settings::CheckRoleOptions(options.roles);
  const auto add = [&](Weight weight, std::vector<std::string> keys, const std::string& text) {
    conflicts.push_back({weight, std::move(keys), text});
  };
  const bool token = !options.token_file.empty();
  if (!options.metrics.empty()) {
    if (const absl::Status s =
            metrics::MayOpen(options.metrics, "--metrics",
                             token ? metrics::CallersProve::kThemselves : metrics::CallersProve::kNothing);
        !s.ok())
      add(Weight::kError, {"metrics", "token-file"}, std::string(s.message()));
  }
  for (const std::string& text : options.aggregators) {
    const absl::StatusOr<rpc::Address> address = rpc::Address::Parse(text);
    if (!address.ok()) {
      add(Weight::kError, {"aggregator"}, std::string(address.status().message()));
    } else if (!address->is_unix() && !token && options.tls_dir.empty()) {
      add(Weight::kError, {"aggregator"},
          absl::StrCat("--aggregator ", text,
                       ": an aggregator at a TCP port requires a proof of who calls; give --tls-dir or "
                       "--token-file"));
    }
  }
  if (options.dyno_port && options.roles.operators != RoleSettings().operators) {
    add(Weight::kError, {"dyno-port", "operators"},
        "a request at --dyno-port proves a user but no role, so all users could capture their jobs there: "
        "leave one of the two out");
  }
  if (options.with_broker && !options.broker_for.empty()) {
    add(Weight::kError, {"with-broker", "broker-for"},
        "--with-broker and --broker-for are two programs: the daemon, and its broker");
  }
  if (options.thread_ring_bytes > options.ring_bytes) {
    add(Weight::kWarning, {"thread-ring-bytes", "ring-bytes"},
        "--thread-ring-bytes is larger than --ring-bytes, which holds all of a rank's GPU records");
  }
  if (!options.audit_file.empty() && options.audit_file == options.log_file) {
    add(Weight::kError, {"audit-log", "log"},
        "--audit-log and --log are one file: give two, because their readers and retention differ");
  }
  return conflicts;
}

}  // namespace

std::string DefaultSocketOf(uid_t uid) {
  SocketSearch search;
  search.uid = uid;
  if (search.uid != 0) search.runtime_dir = std::getenv("XDG_RUNTIME_DIR");
  const SocketPlaces places = DaemonSocketPlaces(search);
  // Root's daemon uses the system's place. For other users the runtime folder comes before /tmp, because it
  // is removed with the session.
  for (int i = 0; i < places.count; ++i) {
    if ((places.place[i].origin == SocketOrigin::kSystem) == (search.uid == 0)) return places.place[i].path;
  }
  return places.place[places.count - 1].path;
}

std::optional<Options> ParseOptions(int argc, const char* const* argv, const char* const* environment,
                                    int* exit_code) {
  CLI::App app(kAbout, "lockstepd");
  Options options;
  OptionTexts texts;
  AddOptions(app, options, texts);
  settings::Settings settings(
      app,
      {.name = "lockstepd",
       .version = kDaemonVersion,
       .summary = "Lockstep's daemon: captures of a node's GPU ranks",
       .prefix = "LOCKSTEPD_",
       .file_name = "lockstepd.conf",
       .defaults_here = {{"socket", DefaultSocketOf(geteuid())}},
       .files = {{"/run/lockstep/client.sock",
                  "Socket for ranks; control.sock beside it is for the command line."}},
       .rules = [&] { return CheckOptions(options); }},
      environment);
  if (const std::optional<int> code = settings.Parse(argc, argv)) {
    *exit_code = *code;
    return std::nullopt;
  }
  if (options.socket.empty()) options.socket = DefaultSocketOf(options.with_broker ? 0 : geteuid());
  if (!texts.idle_exit.empty()) options.idle_exit = *settings::ParseDuration(texts.idle_exit);
  options.kineto = texts.kineto == "off"   ? Options::Kineto::kOff
                   : texts.kineto == "own" ? Options::Kineto::kOwn
                                           : Options::Kineto::kOn;
  options.log_file = texts.log.file;
  options.log_level = texts.log.level();
  options.log_format = texts.log.format();
  return options;
}

}  // namespace lockstep::daemon
