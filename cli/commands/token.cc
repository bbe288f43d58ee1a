// `lockstep token`: tokens that allow one job to be seen or captured.
#include "base/rpc/token.h"

#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/access/user_directory.h"
#include "base/files/read_files.h"
#include "base/files/secret_file.h"
#include "base/read_clock.h"
#include "base/rpc/job_token.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "base/tls/authority.h"
#include "base/tls/tls_folder.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

constexpr char kTokenAbout[] =
    "Make a token for one job. Others use it who may not have the aggregator's token.\n"
    "\n"
    "Its holder sees that job only, its captures and reports, until the token expires. With --role operator\n"
    "they may also capture it. The aggregator need not run while the token is made. To end all tokens\n"
    "at once, give the aggregator another token.\n"
    "\n"
    "Examples:\n"
    "  lockstep token create --job train-7 --user ann --token-file /etc/lockstep/token -o train-7.token\n"
    "  lockstep trace --aggregator head:7077 --token-file train-7.token      by a holder of the file\n"
    "  lockstep token show train-7.token\n";

using Role = rpc::JobClaims::Role;
const std::map<std::string, Role> kRoles = {{"viewer", Role::kViewer}, {"operator", Role::kOperator}};

struct TokenFlags {
  std::string job;
  std::string user;
  std::string role = "viewer";
  std::string valid = "24h";
  std::string token_file;
  std::string tls_dir;
  std::string output;
};

const char* NameOf(Role role) { return role == Role::kOperator ? "operator" : "viewer"; }

std::string TextOf(HostTime time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixNanos(time.ns()), absl::UTCTimeZone());
}

absl::StatusOr<uid_t> OwnerOf(const TokenFlags& flags) {
  uid_t number = 0;
  if (flags.user.empty()) return ::geteuid();
  if (absl::SimpleAtoi(flags.user, &number)) return number;
  const std::optional<uid_t> user = SystemUsers().UserOf(flags.user);
  if (user) return *user;
  return absl::NotFoundError(absl::StrCat("--user ", flags.user,
                                          ": this system has no such user; give the number of the "
                                          "aggregator's system"));
}

// The holder of the new token must be able to check the aggregator's certificate.
absl::StatusOr<std::string> AuthorityOf(const TokenFlags& flags, const rpc::Token& token) {
  if (flags.tls_dir.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const tls::Authority authority, tls::Authority::OfSecret(token.text()));
    return authority.certificate();
  }
  const std::string path = absl::StrCat(flags.tls_dir, "/", tls::kAuthoritiesFile);
  std::optional<std::string> text = FileText(path);
  if (!text) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return *std::move(text);
}

absl::Status Create(const TokenFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token token, rpc::Token::Load(flags.token_file));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos valid, settings::ParseDuration(flags.valid));
  rpc::JobClaims claims{.job = flags.job, .role = kRoles.at(flags.role), .until = ReadRealtime() + valid};
  LOCKSTEP_ASSIGN_OR_RETURN(claims.owner, OwnerOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(claims.authority, AuthorityOf(flags, token));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, rpc::MakeJobToken(token.text(), claims));
  LOCKSTEP_RETURN_IF_ERROR(CreateSecretFile(flags.output, "token file", text + "\n"));
  std::printf("%s: %s of job %s of user %u until %s\n", flags.output.c_str(), NameOf(claims.role),
              claims.job.c_str(), claims.owner, TextOf(claims.until).c_str());
  return absl::OkStatus();
}

absl::Status Show(const TokenFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token token, rpc::Token::LoadForCalls(flags.token_file));
  if (!rpc::IsJobToken(token.text())) {
    std::printf("%s: the token of an aggregator, which allows everything\n", flags.token_file.c_str());
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::JobClaims claims, rpc::ReadJobToken(token.text()));
  std::printf("%s: %s of job %s of user %u until %s%s\n", flags.token_file.c_str(), NameOf(claims.role),
              claims.job.c_str(), claims.owner, TextOf(claims.until).c_str(),
              ReadRealtime() < claims.until ? "" : ", which is past");
  return absl::OkStatus();
}

}  // namespace

void AddToken(CLI::App& app, Chosen& chosen) {
  CLI::App* token = AddCommand(app, "token", kTokenAbout);
  auto flags = std::make_shared<TokenFlags>();
  CLI::App* create = AddVerb(*token, "create", "Make a token for one job", flags, chosen, Create);
  create->add_option("--job", flags->job, "Name of the job, as `lockstep status` shows it")
      ->type_name("NAME")
      ->required();
  create->add_option("--user", flags->user, "The job's user, by name or number; default: you")
      ->type_name("USER");
  create->add_option("--role", flags->role, "viewer: sees the job. operator: also captures it")
      ->check(CLI::IsMember(kRoles))
      ->type_name(OneOf({"viewer", "operator"}))
      ->capture_default_str();
  create->add_option("--valid", flags->valid, "Time for which the token is valid")
      ->check(CLI::Validator(settings::CheckDuration, "DURATION"))
      ->capture_default_str();
  create->add_option("--token-file", flags->token_file, "The aggregator's token file")
      ->type_name(kFileValue)
      ->envname("LOCKSTEP_TOKEN_FILE")
      ->required();
  create
      ->add_option("--tls-dir", flags->tls_dir,
                   "Folder with the ca.crt of the aggregator, if the aggregator has certificates")
      ->type_name(kFolderValue);
  create->add_option("-o,--output", flags->output, "File to create, mode 0600")
      ->type_name(kFileValue)
      ->required();
  AddVerb(*token, "show", "Print what a token allows", flags, chosen, Show)
      ->add_option("FILE", flags->token_file, "The token file")
      ->type_name(kFileValue)
      ->required();
  token->require_subcommand(1);
}

}  // namespace lockstep::cli
