// `lockstep node`: the certificates by which nodes, users and the aggregator know each other.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/files/read_files.h"
#include "base/files/secret_file.h"
#include "base/read_clock.h"
#include "base/rpc/status_macros.h"
#include "base/rpc/token.h"
#include "base/settings/duration.h"
#include "base/tls/authority_folder.h"
#include "base/tls/tls_folder.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

constexpr char kNodeAbout[] =
    "Make, renew and revoke the certificates of nodes, users and the aggregator.\n"
    "\n"
    "An authority signs them. Its folder belongs on one machine, closed to others. A node's folder goes to\n"
    "that node, for --tls-dir of lockstepd. For a site that has an authority already, see docs/identity.md.\n"
    "\n"
    "Examples:\n"
    "  lockstep node authority /etc/lockstep/authority\n"
    "  lockstep node enrol --kind aggregator --authority /etc/lockstep/authority -o out\n"
    "  lockstep node enrol gpu-01 gpu-02 --authority /etc/lockstep/authority -o out\n"
    "      then copy out/gpu-01 to /etc/lockstep/tls of that node, and start: lockstepd --tls-dir "
    "/etc/lockstep/tls\n"
    "  lockstep node revoke gpu-02 --authority /etc/lockstep/authority --tls-dir /etc/lockstep/tls\n";

constexpr char kAuthorityAbout[] =
    "Create an authority in a folder; or write the ca.crt of a token's authority there, for users without "
    "the token";
constexpr char kEnrolAbout[] = "Make a key and a certificate for each name";
constexpr char kRotateAbout[] = "Replace the key and the certificate in a folder; the holder stays the same";
constexpr char kRevokeAbout[] =
    "Revoke the certificates of each name; aggregators refuse them within seconds";
constexpr char kListAbout[] = "List the certificates that an authority has signed";

const std::map<std::string, tls::Holder> kKinds = {
    {"aggregator", tls::Holder::kAggregator}, {"node", tls::Holder::kNode}, {"user", tls::Holder::kUser}};

struct NodeFlags {
  std::string authority;
  std::string output;
  std::string tls_dir;
  std::string token_file;
  std::vector<std::string> names;
  std::vector<std::string> hosts;
  std::string kind = "node";
  std::string valid = "90d";
};

std::string DayOf(HostTime time) {
  return absl::FormatTime("%Y-%m-%d", absl::FromUnixNanos(time.ns()), absl::UTCTimeZone());
}

absl::StatusOr<Nanos> ValidityOf(const NodeFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos valid, settings::ParseDuration(flags.valid));
  if (valid < Nanos::Seconds(60))
    return absl::InvalidArgumentError(
        absl::StrCat("--valid ", flags.valid, ": give a minute or more, as in 90d"));
  return valid;
}

// The aggregator is the only one of its kind and has no name.
absl::StatusOr<std::vector<tls::Identity>> HoldersOf(const NodeFlags& flags) {
  const tls::Holder holder = kKinds.at(flags.kind);
  if (holder == tls::Holder::kAggregator) {
    if (!flags.names.empty())
      return absl::InvalidArgumentError("--kind aggregator: a certificate of an aggregator has no name");
    return std::vector<tls::Identity>{{holder, ""}};
  }
  if (flags.names.empty())
    return absl::InvalidArgumentError(absl::StrCat("give the name of at least one ", flags.kind));
  std::vector<tls::Identity> holders;
  for (const std::string& name : flags.names) {
    if (!tls::IsName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' cannot be a name in a certificate: it needs 1 to 64 letters, digits and '._-:@'"));
    }
    holders.push_back({holder, name});
  }
  return holders;
}

// `earlier` are the names of the certificate that is renewed, and --host replaces them.
std::vector<std::string> HostsOf(const tls::Identity& holder, const NodeFlags& flags,
                                 const std::vector<std::string>& earlier = {}) {
  std::vector<std::string> hosts = flags.hosts.empty() ? earlier : flags.hosts;
  std::erase(hosts, tls::kHttpName);
  if (holder.holder != tls::Holder::kUser) hosts.emplace_back(tls::kHttpName);
  return hosts;
}

// The key comes first: a program that reads the files in between keeps what it has, and reads again.
absl::Status WritePair(const std::string& folder, const tls::KeyAndRequest& made,
                       const tls::SignedCertificate& certificate) {
  LOCKSTEP_RETURN_IF_ERROR(
      ReplaceFile(absl::StrCat(folder, "/", tls::kKeyFile), "private key", made.key, 0600));
  return ReplaceFile(absl::StrCat(folder, "/", tls::kCertificateFile), "certificate", certificate.pem, 0644);
}

absl::Status MakeFolder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot create folder ", path));
}

// An aggregator that has only a token is known by the token's authority, whose certificate is public.
absl::Status WriteAuthorityOfToken(const NodeFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token token, rpc::Token::LoadOrCreate(flags.token_file));
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::Authority authority, tls::Authority::OfSecret(token.text()));
  LOCKSTEP_RETURN_IF_ERROR(MakeFolder(flags.authority, 0755));
  const std::string path = absl::StrCat(flags.authority, "/", tls::kAuthoritiesFile);
  LOCKSTEP_RETURN_IF_ERROR(ReplaceFile(path, "certificate", authority.certificate(), 0644));
  std::printf("%s: for --tls-dir of users who prove themselves by MUNGE\n", path.c_str());
  return absl::OkStatus();
}

absl::Status MakeAuthority(const NodeFlags& flags) {
  if (!flags.token_file.empty()) return WriteAuthorityOfToken(flags);
  LOCKSTEP_RETURN_IF_ERROR(tls::AuthorityFolder::Create(flags.authority, ReadRealtime()).status());
  std::printf(
      "authority in %s: keep ca.key secret; ca.crt goes to every node and user, as ca.crt of their "
      "--tls-dir\n",
      flags.authority.c_str());
  return absl::OkStatus();
}

absl::Status CopyRevoked(const tls::AuthorityFolder& authority, const std::string& folder) {
  const std::string path = authority.PathOf(tls::kRevokedFile);
  const std::optional<std::string> list = FileText(path);
  if (!list) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return ReplaceFile(absl::StrCat(folder, "/", tls::kRevokedFile), "list of revoked certificates", *list,
                     0644);
}

absl::Status Enrol(const NodeFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<tls::Identity> holders, HoldersOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos valid, ValidityOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(tls::AuthorityFolder authority, tls::AuthorityFolder::Open(flags.authority));
  LOCKSTEP_RETURN_IF_ERROR(MakeFolder(flags.output, 0700));
  for (const tls::Identity& holder : holders) {
    const std::string folder =
        absl::StrCat(flags.output, "/", holder.name.empty() ? flags.kind : holder.name);
    LOCKSTEP_RETURN_IF_ERROR(MakeFolder(folder, 0755));
    LOCKSTEP_ASSIGN_OR_RETURN(const tls::KeyAndRequest made, tls::MakeRequest());
    LOCKSTEP_ASSIGN_OR_RETURN(
        const tls::SignedCertificate certificate,
        authority.Sign(made.request, holder, HostsOf(holder, flags), ReadRealtime(), valid));
    LOCKSTEP_RETURN_IF_ERROR(WritePair(folder, made, certificate));
    LOCKSTEP_RETURN_IF_ERROR(ReplaceFile(absl::StrCat(folder, "/", tls::kAuthoritiesFile), "certificate",
                                         authority.authority().certificate(), 0644));
    // Only an aggregator checks certificates of nodes and users.
    if (holder.holder == tls::Holder::kAggregator) LOCKSTEP_RETURN_IF_ERROR(CopyRevoked(authority, folder));
    std::printf("%s: %s, valid until %s\n", folder.c_str(), tls::TextOf(holder).c_str(),
                DayOf(certificate.not_after).c_str());
  }
  return absl::OkStatus();
}

absl::Status Rotate(const NodeFlags& flags) {
  const tls::TlsFolder folder(flags.tls_dir, std::make_shared<SystemClock>(), &LogNothing);
  const std::optional<tls::Holder> holder = folder.HolderOfCertificate();
  if (!holder) {
    return absl::NotFoundError(absl::StrCat(folder.PathOf(tls::kCertificateFile),
                                            " is not a certificate of Lockstep: use `lockstep node enrol`"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::CheckedCertificate old, folder.Check(*holder));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos valid, ValidityOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(tls::AuthorityFolder authority, tls::AuthorityFolder::Open(flags.authority));
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::KeyAndRequest made, tls::MakeRequest());
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::SignedCertificate certificate,
                            authority.Sign(made.request, old.identity,
                                           HostsOf(old.identity, flags, old.hosts), ReadRealtime(), valid));
  LOCKSTEP_RETURN_IF_ERROR(WritePair(flags.tls_dir, made, certificate));
  std::printf("%s: %s, valid until %s instead of %s\n", flags.tls_dir.c_str(),
              tls::TextOf(old.identity).c_str(), DayOf(certificate.not_after).c_str(),
              DayOf(old.not_after).c_str());
  return absl::OkStatus();
}

absl::Status Revoke(const NodeFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<tls::Identity> holders, HoldersOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(tls::AuthorityFolder authority, tls::AuthorityFolder::Open(flags.authority));
  for (const tls::Identity& holder : holders) {
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t count, authority.Revoke(holder, ReadRealtime()));
    if (count == 0) {
      return absl::NotFoundError(absl::StrCat(tls::TextOf(holder), " has no valid certificate of ",
                                              flags.authority, ": see `lockstep node list`"));
    }
    std::printf("%s: %zu revoked\n", tls::TextOf(holder).c_str(), count);
  }
  if (flags.tls_dir.empty()) {
    std::printf("copy %s to the --tls-dir of the aggregator\n", authority.PathOf(tls::kRevokedFile).c_str());
    return absl::OkStatus();
  }
  return CopyRevoked(authority, flags.tls_dir);
}

absl::Status List(const NodeFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::AuthorityFolder authority,
                            tls::AuthorityFolder::Open(flags.authority));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<tls::IssuedCertificate> issued, authority.Issued());
  const HostTime now = ReadRealtime();
  for (const tls::IssuedCertificate& each : issued) {
    const std::string state = each.revoked           ? absl::StrCat("revoked ", DayOf(*each.revoked))
                              : each.not_after < now ? "expired"
                                                     : "valid";
    std::printf("%-30s %-20s until %s  %s\n", each.identity ? tls::TextOf(*each.identity).c_str() : "other",
                state.c_str(), DayOf(each.not_after).c_str(), each.serial.c_str());
  }
  return absl::OkStatus();
}

void AddAuthority(CLI::App& verb, NodeFlags& flags) {
  verb.add_option("--authority", flags.authority, "Folder of the authority")
      ->type_name(kFolderValue)
      ->required();
}

void AddHolders(CLI::App& verb, NodeFlags& flags) {
  verb.add_option("NAME", flags.names, "Ids of nodes (--node-id), or names of users");
  verb.add_option("--kind", flags.kind, "Kind of the holders: node, user or aggregator")
      ->check(CLI::IsMember(kKinds))
      ->type_name(OneOf({"node", "user", "aggregator"}))
      ->capture_default_str();
}

void AddMaking(CLI::App& verb, NodeFlags& flags) {
  verb.add_option("--host", flags.hosts,
                  "Name or address of the machine, for browsers and other programs that check it; may be "
                  "repeated");
  verb.add_option("--valid", flags.valid, "Time for which the certificate is valid")
      ->check(CLI::Validator(settings::CheckDuration, "DURATION"))
      ->capture_default_str();
}

}  // namespace

void AddNode(CLI::App& app, Chosen& chosen) {
  CLI::App* node = AddCommand(app, "node", kNodeAbout);
  auto flags = std::make_shared<NodeFlags>();
  CLI::App* authority = AddVerb(*node, "authority", kAuthorityAbout, flags, chosen, MakeAuthority);
  authority->add_option("FOLDER", flags->authority, "Folder to create")->type_name(kFolderValue)->required();
  authority
      ->add_option("--token-file", flags->token_file, "The aggregator's token file; created if it is missing")
      ->type_name(kFileValue);
  CLI::App* enrol = AddVerb(*node, "enrol", kEnrolAbout, flags, chosen, Enrol);
  AddHolders(*enrol, *flags);
  AddAuthority(*enrol, *flags);
  enrol->add_option("-o,--output", flags->output, "Folder for the folders of the holders")
      ->type_name(kFolderValue)
      ->required();
  AddMaking(*enrol, *flags);
  CLI::App* rotate = AddVerb(*node, "rotate", kRotateAbout, flags, chosen, Rotate);
  rotate->add_option("--tls-dir", flags->tls_dir, "Folder of the holder")
      ->type_name(kFolderValue)
      ->required();
  AddAuthority(*rotate, *flags);
  AddMaking(*rotate, *flags);
  CLI::App* revoke = AddVerb(*node, "revoke", kRevokeAbout, flags, chosen, Revoke);
  AddHolders(*revoke, *flags);
  AddAuthority(*revoke, *flags);
  revoke->add_option("--tls-dir", flags->tls_dir, "The aggregator's folder, which gets the new ca.crl")
      ->type_name(kFolderValue);
  AddAuthority(*AddVerb(*node, "list", kListAbout, flags, chosen, List), *flags);
  node->require_subcommand(1);
}

}  // namespace lockstep::cli
