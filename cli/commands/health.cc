#include "cli/commands/health.h"

#include <httplib.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/files/read_files.h"
#include "base/rpc/status_macros.h"
#include "base/tls/authority.h"
#include "base/tls/tls_folder.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

// The page has one line, so a longer answer is not from Lockstep.
constexpr size_t kLongestAnswer = 16u << 10;

struct Endpoint {
  std::string host;
  std::string ip;
  int port = 0;
};

absl::StatusOr<Endpoint> LookUp(const std::string& address) {
  const size_t colon = address.rfind(':');
  Endpoint endpoint;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &endpoint.port) || endpoint.port < 1 ||
      endpoint.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not an address: write 127.0.0.1:9464"));
  }
  endpoint.host = address.substr(0, colon);
  if (endpoint.host.front() == '[' && endpoint.host.back() == ']')
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  // Looked up here, because the library reports an unknown name and an unreachable host alike.
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(endpoint.host.c_str(), nullptr, nullptr, &found); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot find ", address, ": ", ::gai_strerror(error)));
  }
  char ip[NI_MAXHOST] = "";
  ::getnameinfo(found->ai_addr, found->ai_addrlen, ip, sizeof(ip), nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(found);
  endpoint.ip = ip;
  return endpoint;
}

void Trust(const std::string& authorities, httplib::Client& client) {
  BIO* const reader = ::BIO_new_mem_buf(authorities.data(), static_cast<int>(authorities.size()));
  X509_STORE* const store = ::X509_STORE_new();
  while (X509* const next = ::PEM_read_bio_X509(reader, nullptr, nullptr, nullptr)) {
    ::X509_STORE_add_cert(store, next);
    ::X509_free(next);
  }
  ::BIO_free(reader);
  ::ERR_clear_error();
  client.set_ca_cert_store(store);  // owns it from now on
}

std::unique_ptr<httplib::Client> ClientFor(const Endpoint& endpoint, const HealthCall& call) {
  if (call.authorities.empty()) return std::make_unique<httplib::Client>(endpoint.host, endpoint.port);
  // The certificate has this name at every address.
  const std::string name = tls::kHttpName;
  const auto own = [&](const char* file) {
    std::string path = absl::StrCat(call.tls_dir, "/", file);
    return !call.tls_dir.empty() && ::access(path.c_str(), R_OK) == 0 ? path : std::string();
  };
  auto client = std::make_unique<httplib::Client>(absl::StrCat("https://", name, ":", endpoint.port),
                                                  own(tls::kCertificateFile), own(tls::kKeyFile));
  client->set_hostname_addr_map({{name, endpoint.ip}});
  Trust(call.authorities, *client);
  return client;
}

constexpr char kHealthAbout[] =
    "Check a daemon or an aggregator: exit code 0 and one line if it works.\n"
    "\n"
    "For supervisors that restart dead processes. It requests /healthz of --metrics or --http with the "
    "token,\n"
    "which a plain HTTP probe cannot send (docs/kubernetes.md).\n"
    "\n"
    "A port that other machines can reach has TLS: give --tls there.\n"
    "\n"
    "Examples:\n"
    "  lockstep health 127.0.0.1:9464 --token-file /etc/lockstep/token\n"
    "  lockstep health 127.0.0.1:9464 --tls         started with --metrics 0.0.0.0:9464\n"
    "  lockstep health 127.0.0.1:9465        with $LOCKSTEP_TOKEN_FILE\n";

struct HealthFlags {
  std::string address;
  std::string token_file;
  std::string tls_dir;
  bool tls = false;
  double seconds = 5;
};

absl::Status AddAuthorities(const HealthFlags& flags, HealthCall& call) {
  if (!flags.tls) return absl::OkStatus();
  if (!flags.tls_dir.empty()) {
    const std::string path = absl::StrCat(flags.tls_dir, "/", tls::kAuthoritiesFile);
    std::optional<std::string> text = FileText(path);
    if (!text) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    call.authorities = *std::move(text);
    return absl::OkStatus();
  }
  if (call.token.empty())
    return absl::InvalidArgumentError("--tls: give --token-file, or --tls-dir if it uses certificates");
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::Authority authority, tls::Authority::OfSecret(call.token.text()));
  call.authorities = authority.certificate();
  return absl::OkStatus();
}

ExitCode Health(const HealthFlags& flags) {
  HealthCall call{.address = flags.address,
                  .token = rpc::Token(),
                  .within = Nanos(static_cast<int64_t>(flags.seconds * 1e9)),
                  .authorities = "",
                  .tls_dir = flags.tls ? flags.tls_dir : ""};
  if (!flags.token_file.empty()) {
    absl::StatusOr<rpc::Token> token = rpc::Token::Load(flags.token_file);
    if (!token.ok()) return Fail(token.status());
    call.token = *std::move(token);
  }
  if (const absl::Status added = AddAuthorities(flags, call); !added.ok()) return Fail(added);
  const absl::StatusOr<std::string> line = RequestHealth(call);
  if (!line.ok()) return Fail(line.status());
  std::printf("%s\n", line->c_str());
  return ExitCode::kDone;
}

}  // namespace

absl::StatusOr<std::string> RequestHealth(const HealthCall& call) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Endpoint endpoint, LookUp(call.address));
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds within(call.within.ns());
  const std::unique_ptr<httplib::Client> made = ClientFor(endpoint, call);
  httplib::Client& client = *made;
  client.set_connection_timeout(within);
  client.set_write_timeout(within);
  client.set_read_timeout(within);
  if (!call.token.empty()) client.set_bearer_token_auth(call.token.text());
  // The library limits each read, so an answer that arrives byte by byte would never time out.
  absl::Notification answered;
  std::thread limit([&] {
    absl::Duration patience = absl::FromChrono(within);
    while (!answered.WaitForNotificationWithTimeout(patience)) {
      client.stop();
      patience = absl::Milliseconds(20);
    }
  });
  std::string body;
  const httplib::Result result = client.Get("/healthz", [&body](const char* part, size_t size) {
    body.append(part, size);
    return body.size() <= kLongestAnswer;
  });
  answered.Notify();
  limit.join();

  if (body.size() > kLongestAnswer) {
    return absl::UnavailableError(
        absl::StrCat(call.address, ": response too long; not a Lockstep health endpoint"));
  }
  // Checked before the result, because a body that stop() cut off looks complete.
  if (std::chrono::steady_clock::now() - begin >= within) {
    return absl::DeadlineExceededError(absl::StrCat(call.address, " did not answer in time"));
  }
  if (!result && result.error() == httplib::Error::Connection) {
    return absl::UnavailableError(absl::StrCat("no server answers at ", call.address));
  }
  if (!result && !call.authorities.empty()) {
    return absl::UnavailableError(
        absl::StrCat(call.address, " has no TLS, or its certificate is of another authority"));
  }
  if (!result) {
    return absl::UnavailableError(
        absl::StrCat(call.address,
                     " sends no HTTP response: it is not a Lockstep health endpoint, or it has TLS (--tls)"));
  }
  if (result->status == 200) return std::string(absl::StripTrailingAsciiWhitespace(body));
  if (result->status == 401 || result->status == 403) {
    return absl::PermissionDeniedError(
        absl::StrCat(call.address, " rejects the token: give the --token-file with which it was started"));
  }
  return absl::UnavailableError(absl::StrCat(call.address, " answers ", result->status, " ", result->reason));
}

void AddHealth(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "health", kHealthAbout);
  auto flags = std::make_shared<HealthFlags>();
  sub->add_option("ADDRESS", flags->address, "HOST:PORT of the daemon's --metrics or the aggregator's --http")
      ->required();
  sub->add_option("--token-file", flags->token_file, "The token file with which it was started")
      ->type_name(kFileValue)
      ->envname("LOCKSTEP_TOKEN_FILE");
  sub->add_flag("--tls", flags->tls, "Use TLS, as on every port that other machines can reach");
  sub->add_option(
         "--tls-dir", flags->tls_dir,
         "With --tls: folder with the authority's ca.crt and optionally your certificate; default: the "
         "authority of the token")
      ->type_name(kFolderValue)
      ->envname("LOCKSTEP_TLS_DIR");
  sub->add_option("--within", flags->seconds, "Seconds to wait for the response")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Health(*flags); }; });
}

}  // namespace lockstep::cli
