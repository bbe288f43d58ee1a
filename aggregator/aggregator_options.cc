#include "aggregator/aggregator_options.h"

#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "aggregator/server.h"
#include "base/metrics/endpoint.h"
#include "base/rpc/address.h"
#include "base/rpc/security.h"
#include "base/settings/duration.h"
#include "base/settings/role_options.h"
#include "base/settings/settings.h"

namespace lockstep::aggregator {
namespace {

// Values of --audit-log and --hang-after that disable them.
constexpr char kNoAudit[] = "off";
constexpr char kNoHangs[] = "off";
constexpr Nanos kHangAfter = Nanos::Seconds(60);
// Covers the program's own data and the stacks of its threads.
constexpr uint64_t kLeastAnalysisMemory = uint64_t{64} << 20;

constexpr char kAbout[] =
    "lockstep-aggregator receives the captures of a job's daemons, analyses them and stores them.\n"
    "\n"
    "Examples:\n"
    "  lockstep-aggregator --listen 0.0.0.0:7077 --token-file ~/.lockstep-token\n"
    "      for a cluster: give every lockstepd --aggregator THISHOST:7077 and the same token file, then\n"
    "      lockstep trace --aggregator THISHOST:7077 --token-file ~/.lockstep-token --duration 2s\n"
    "  lockstep-aggregator --listen 0.0.0.0:7077 --token-file /etc/lockstep/token --munge\n"
    "      for a Slurm cluster: all users trace their own jobs, by lockstep trace --aggregator THISHOST:7077 "
    "--job ID\n"
    "  lockstep-aggregator --listen unix:$XDG_RUNTIME_DIR/lockstep/aggregator.sock\n"
    "      for one node: no token is needed if only you can enter the folder\n";

// The folder that systemd gives a service (StateDirectory=). With several folders, colons separate them.
std::string ServiceStateDir() {
  const char* folders = std::getenv("STATE_DIRECTORY");
  if (folders == nullptr || folders[0] != '/') return DefaultStateDir();
  return std::string(folders, std::strcspn(folders, ":"));
}

// Settings as text; ParseAggregatorOptions converts them after all sources have been read.
struct OptionTexts {
  std::string keep_age;
  std::string audit;
  std::string analysis_time;
  std::string hang_after;
};

void AddKeeping(CLI::App& app, AggregatorOptions& options, OptionTexts& texts) {
  app.add_option("--state-dir", options.state_dir,
                 "Folder for captures. Default: $STATE_DIRECTORY, which systemd sets, or lockstep in "
                 "$XDG_STATE_HOME; else /var/lib/lockstep for root and ~/.local/state/lockstep for others");
  app.add_option("--keep-captures", options.retention.captures,
                 "Number of captures to keep; the oldest are removed first")
      ->capture_default_str();
  app.add_option("--keep-bytes", options.retention.bytes,
                 "Total size of captures to keep; the oldest are removed first")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("20 GiB");
  app.add_option("--keep-user-bytes", options.retention.user_bytes,
                 "Total size of the captures of one user's jobs; the user's oldest are removed first")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("10 GiB");
  app.add_option("--capture-bytes", options.store.bytes,
                 "Size of one capture, apart from its report; beyond it, the capture ends, and its other "
                 "records are counted as lost")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8 GiB");
  app.add_option("--capture-records", options.store.rows, "Number of records of one capture, in the same way")
      ->capture_default_str();
  app.add_option("--keep-age", texts.keep_age,
                 "Time for which a capture is kept, as in 30d or 12h. Default: until one of the other two "
                 "limits is exceeded")
      ->check(CLI::Validator(settings::CheckDuration, "DURATION"));
  app.add_option("--audit-log", texts.audit,
                 "File for the audit log of captures, stops, fetches, reads and refusals: one JSON object "
                 "per line, appended, mode 0600; off: none. Default: audit.jsonl in --state-dir");
  app.add_flag("--audit-syslog", options.audit_syslog,
               "Copy each line of the audit log to syslog (authpriv.info), from where it can go to another "
               "host");
}

void AddAnalysis(CLI::App& app, AggregatorOptions& options, OptionTexts& texts) {
  app.add_option(
         "--analysis-memory", options.analysis.memory_bytes,
         "Memory for the analysis of one capture. If it does not suffice, the report is about the last "
         "steps, or there is none. One GiB suffices for some 900,000 kernels")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4 GiB");
  app.add_option(
         "--analysis-time", texts.analysis_time,
         "Time for the analysis of one capture, as in 90s; its threads together may use 4 times as much "
         "CPU time")
      ->check(CLI::Validator(settings::CheckDuration, "DURATION"))
      ->default_str("2m");
  app.add_option(
         "--analysis-rows", options.analysis.rows,
         "Number of records that the analysis of one capture reads; a larger capture is kept without a "
         "report")
      ->capture_default_str();
  app.add_option(
         "--analysis-processes", options.analysis.processes,
         "Number of analyses at the same time, each in a process of its own; of one user, one. The others "
         "wait, and users take turns")
      ->check(CLI::Range(size_t{1}, size_t{256}, "NUMBER"))
      ->capture_default_str();
}

void AddAlarms(CLI::App& app, AggregatorOptions& options, OptionTexts& texts) {
  app.add_option(
         "--hang-after", texts.hang_after,
         "How long ranks of a job may wait in an operation before it counts as a hang, as for lockstep "
         "hang; off: hangs are not noticed")
      ->default_str("60s");
  app.add_option(
         "--alarm-captures", options.alarm_captures,
         "Most captures per hour that this aggregator makes by itself, of jobs that hang or in which a rank "
         "becomes slower than it was; 0: none. Both are logged and shown by lockstep status in any case")
      ->check(CLI::Range(size_t{0}, size_t{1000}, "NUMBER"))
      ->capture_default_str();
  app.add_option("--alarm-steps", options.alarm_steps,
                 "Number of steps in the capture of a slower rank, which takes 1 to 10 s")
      ->check(CLI::Range(1u, 1000u, "NUMBER"))
      ->capture_default_str();
  app.add_option(
      "--alarm-command", options.alarm_command,
      "Program that runs after the capture, with the alarm as JSON on its stdin (docs/formats/alarm.md); its "
      "absolute path, without arguments");
}

void AddOptions(CLI::App& app, AggregatorOptions& options, OptionTexts& texts) {
  app.add_option(
         "--listen", options.listen,
         "HOST:PORT (port 0: any free one) or unix:PATH; may be repeated. A TCP port needs --tls-dir or "
         "--token-file, because others can reach it; a socket's folder must be closed to others")
      ->required();
  app.add_option(
      "--token-file", options.token_file,
      "File with the secret of the TCP port and of --http; created with mode 0600 if it is missing");
  app.add_option(
      "--tls-dir", options.tls_dir,
      "Folder with the certificates of this aggregator: ca.crt, tls.crt, tls.key, and optionally "
      "ca.crl. Nodes and users then prove who they are by certificates of ca.crt's authorities "
      "(`lockstep node --help`). Without it, TCP connections are encrypted with keys that both ends "
      "derive from the token");
  app.add_flag(
      "--insecure-plaintext-tcp", options.plaintext,
      "Do not encrypt TCP connections. Everybody on the way can then read the token and the records, "
      "and alter them. Daemons and callers need the same flag");
  app.add_option("--http,--metrics", options.http,
                 "IP:PORT for browsers (an index of jobs and captures, and the captures' reports, "
                 "read-only), Prometheus (/metrics) and health checks (/healthz), as in 127.0.0.1:9465; port "
                 "0: any free one. All of it requires the token, so it needs --token-file. Off by default");
  app.add_flag("--munge", options.munge,
               "Identify callers by MUNGE too: each user of the cluster sees and captures their own jobs "
               "without a token file. Daemons still need the token");
  app.add_option("--munge-socket", options.munge_socket, "munged's socket; default: munge's own default");
  settings::AddRoleOptions(app, options.roles);
  AddKeeping(app, options, texts);
  AddAnalysis(app, options, texts);
  AddAlarms(app, options, texts);
  app.add_option("--until-exit", options.until_exit,
                 "End when the process with this pid ends, and remove the token file")
      ->configurable(false);
  settings::AddLogOptions(app, options.log);
  app.add_flag("--quiet", options.quiet, "Log nothing");
  app.set_version_flag("--version", kProgramVersion);
}

// Finds contradictions between options. It reads no files, because the user who checks may differ from the
// user who runs the aggregator.
std::vector<settings::Conflict> CheckOptions(const AggregatorOptions& options, const OptionTexts& texts) {
  using Weight = settings::Conflict::Weight;
  std::vector<settings::Conflict> conflicts = settings::CheckRoleOptions(options.roles);
  const auto add = [&](Weight weight, std::vector<std::string> keys, const std::string& text) {
    conflicts.push_back({weight, std::move(keys), text});
  };
  const auto refuse = [&](std::vector<std::string> keys, const absl::Status& status) {
    if (!status.ok()) add(Weight::kError, std::move(keys), std::string(status.message()));
  };
  const rpc::GivenSettings given = {.tls_dir = !options.tls_dir.empty(),
                                    .token = !options.token_file.empty(),
                                    .munge = options.munge || !options.munge_socket.empty(),
                                    .plaintext = options.plaintext};
  std::set<std::string> seen;
  bool tcp = false;
  for (const std::string& text : options.listen) {
    const absl::StatusOr<rpc::Address> address = rpc::Address::Parse(text);
    refuse({"listen"}, !address.ok()        ? address.status()
                       : address->is_unix() ? absl::OkStatus()
                                            : rpc::MayListen(given));
    tcp = tcp || (address.ok() && !address->is_unix());
    const bool any_port = address.ok() && !address->is_unix() && address->port() == 0;
    if (!any_port && !seen.insert(text).second)
      add(Weight::kError, {"listen"}, absl::StrCat("--listen ", text, " is given twice: leave one out"));
  }
  if (!options.http.empty()) {
    refuse({"http", "token-file"},
           metrics::MayOpen(options.http, "--http",
                            HttpHasProofs(options.http, given) ? metrics::CallersProve::kThemselves
                                                               : metrics::CallersProve::kNothing));
    if (seen.count(options.http) != 0)
      add(Weight::kError, {"http", "listen"},
          absl::StrCat("--http and --listen are both ", options.http, ": give two ports"));
  }
  if (options.munge && !tcp)
    add(Weight::kWarning, {"munge", "listen"},
        "--munge identifies callers from other machines, but --listen names no TCP port");
  if (texts.audit != kNoAudit && !texts.audit.empty() && texts.audit == options.log.file) {
    add(Weight::kError, {"audit-log", "log"},
        "--audit-log and --log are one file: give two, because their readers and retention differ");
  }
  if (!texts.keep_age.empty() &&
      settings::ParseDuration(texts.keep_age).value_or(Nanos()) < Nanos::Seconds(60)) {
    add(Weight::kError, {"keep-age"},
        absl::StrCat("--keep-age ", texts.keep_age,
                     ": a capture would be removed while it is read; give a minute or more, as in 30d"));
  }
  if (!texts.hang_after.empty() && texts.hang_after != kNoHangs &&
      settings::ParseDuration(texts.hang_after).value_or(Nanos()) < Nanos::Seconds(1)) {
    add(Weight::kError, {"hang-after"},
        absl::StrCat("--hang-after ", texts.hang_after, ": give 1s or more, as in 60s, or off"));
  }
  if (!texts.analysis_time.empty() &&
      settings::ParseDuration(texts.analysis_time).value_or(Nanos()) < Nanos::Seconds(1)) {
    add(Weight::kError, {"analysis-time"},
        absl::StrCat("--analysis-time ", texts.analysis_time,
                     ": no capture would get a report; give 1s or more"));
  }
  if (options.analysis.memory_bytes < kLeastAnalysisMemory) {
    add(Weight::kError, {"analysis-memory"},
        absl::StrCat("--analysis-memory ", options.analysis.memory_bytes >> 20,
                     " MiB: no capture would get a report; give 64MiB or more"));
  }
  return conflicts;
}

}  // namespace

std::optional<AggregatorOptions> ParseAggregatorOptions(int argc, char** argv, char** environment,
                                                        int* exit_code) {
  CLI::App app(kAbout);
  AggregatorOptions options;
  OptionTexts texts;
  options.state_dir = ServiceStateDir();
  const std::string usual_state_dir = options.state_dir;
  AddOptions(app, options, texts);
  settings::Settings settings(
      app,
      {.name = "lockstep-aggregator",
       .version = kProgramVersion,
       .summary = "receives, analyses and keeps captures of GPU jobs",
       .prefix = "LOCKSTEP_AGGREGATOR_",
       .file_name = "aggregator.conf",
       .defaults_here = {{"state-dir", usual_state_dir}},
       .files = {{"/var/lib/lockstep/captures",
                  "A folder for each capture: records, report.json, report.txt, report.html."},
                 {"/var/lib/lockstep/audit.jsonl", "The audit log, unless --audit-log names another file."}},
       .rules = [&] { return CheckOptions(options, texts); }},
      environment);
  if (const std::optional<int> code = settings.Parse(argc, argv)) {
    *exit_code = *code;
    return std::nullopt;
  }
  if (!texts.keep_age.empty()) options.retention.age = *settings::ParseDuration(texts.keep_age);
  if (!texts.analysis_time.empty()) options.analysis.time = *settings::ParseDuration(texts.analysis_time);
  options.hang_after = texts.hang_after.empty()       ? kHangAfter
                       : texts.hang_after == kNoHangs ? Nanos()
                                                      : *settings::ParseDuration(texts.hang_after);
  if (texts.audit != kNoAudit)
    options.audit_file = texts.audit.empty() ? options.state_dir + "/audit.jsonl" : texts.audit;
  return options;
}

}  // namespace lockstep::aggregator
