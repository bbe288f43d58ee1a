// `lockstep audit`: verifies audit logs.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "base/log/audit_chain.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

constexpr char kAuditAbout[] =
    "Verify that nobody has changed an audit log.\n"
    "\n"
    "Each line of an audit log has the hash of the line before it (docs/formats/audit.md). `verify` prints "
    "the\n"
    "hash of the last line. Keep it elsewhere: with --head it later proves that no line was cut off.\n"
    "\n"
    "Examples:\n"
    "  lockstep audit verify /var/lib/lockstep/audit.jsonl\n"
    "  lockstep audit verify audit.jsonl.2 audit.jsonl.1 audit.jsonl       rotated, oldest first\n"
    "  lockstep audit verify audit.jsonl --head "
    "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef\n";

struct AuditFlags {
  std::vector<std::string> files;
  std::string head;
};

ExitCode Verify(const AuditFlags& flags) {
  AuditChain chain;
  size_t faults = 0;
  for (const std::string& file : flags.files) {
    const std::optional<std::string> text = FileText(file);
    if (!text) return Fail(absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", file)));
    for (const AuditFault& fault : chain.Add(*text)) {
      std::printf("%s:%zu: %s\n", file.c_str(), fault.line, fault.text.c_str());
      ++faults;
    }
  }
  if (chain.torn() > 0) std::printf("%zu lines were cut off by a full disk\n", chain.torn());
  if (chain.begins_late()) std::printf("the first line follows a line that is in none of the files\n");
  if (!flags.head.empty() && !chain.Has(flags.head)) {
    std::printf("no line has the hash %s: lines after it, or it, are missing or changed\n",
                flags.head.c_str());
    ++faults;
  }
  std::printf("%zu lines of %zu runs, %zu faults; last line: %s\n", chain.lines(), chain.runs(), faults,
              chain.head().empty() ? "none" : chain.head().c_str());
  return faults == 0 ? ExitCode::kDone : ExitCode::kFailed;
}

}  // namespace

void AddAudit(CLI::App& app, Chosen& chosen) {
  CLI::App* audit = AddCommand(app, "audit", kAuditAbout);
  auto flags = std::make_shared<AuditFlags>();
  CLI::App* verify = audit->add_subcommand("verify", "Check every line; exit code 1 if one does not fit");
  verify->add_option("FILE", flags->files, "The files of one audit log, oldest first")
      ->type_name(kFileValue)
      ->required();
  verify->add_option("--head", flags->head, "Hash of a line that must be there")->type_name("HASH");
  verify->callback([flags, &chosen] { chosen.action = [flags] { return Verify(*flags); }; });
  audit->require_subcommand(1);
}

}  // namespace lockstep::cli
