#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/common/command.h"
#include "cli/man_pages.h"

namespace lockstep::cli {
namespace {

using settings::CommandHelp;
using settings::OptionHelp;
using settings::OptionTable;

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<CommandHelp> Table() {
  CLI::App app("About.", "lockstep");
  Chosen chosen;
  AddRun(app, chosen);
  AddTrace(app, chosen);
  AddExport(app, chosen);
  AddCompletion(app, chosen);
  return OptionTable(app);
}

const CommandHelp& Command(const std::vector<CommandHelp>& table, const std::string& name) {
  for (const CommandHelp& command : table) {
    if (command.name == name) return command;
  }
  ADD_FAILURE() << name;
  return table[0];
}

const OptionHelp& Option(const CommandHelp& command, const std::string& name) {
  for (const OptionHelp& option : command.options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return option;
  }
  ADD_FAILURE() << name;
  return command.options[0];
}

TEST(OptionTable, HoldsAllOptionsOfTheParser) {
  const std::vector<CommandHelp> table = Table();
  const OptionHelp& via = Option(Command(table, "trace"), "--via");
  EXPECT_THAT(via.choices, ElementsAre("auto", "cupti", "kineto"));
  EXPECT_EQ(via.preset, "auto");
  EXPECT_EQ(Option(Command(table, "trace"), "--aggregator").variable, "LOCKSTEP_AGGREGATOR");
  const OptionHelp& output = Option(Command(table, "export"), "-o");
  EXPECT_THAT(output.names, ElementsAre("-o", "--output"));
  EXPECT_TRUE(output.required);
  EXPECT_EQ(Option(Command(table, "trace"), "--force").value, "") << "a flag takes nothing";
}

// Returns bash's completions of the last of `words`.
std::string Completed(const std::string& words) {
  const std::string folder = ::testing::TempDir() + "/completion";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/script") << BashCompletion(Table());
  const std::string command =
      "cd " + folder + " && bash -c 'source ./script; COMP_WORDS=(" + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lockstep; printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  for (int c; (c = std::fgetc(pipe)) != EOF;) out.push_back(static_cast<char>(c));
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return out;
}

TEST(BashCompletion, OffersCommandsOptionsAndValues) {
  EXPECT_EQ(Completed("lockstep tr"), "trace\n");
  EXPECT_EQ(Completed("lockstep trace --via \"\""), "auto\ncupti\nkineto\n");
  EXPECT_EQ(Completed("lockstep trace --via ku"), "\n");
  EXPECT_EQ(Completed("lockstep trace --start-on-s"), "--start-on-step\n");
  EXPECT_EQ(Completed("lockstep completion z"), "\n") << "files";
  EXPECT_EQ(Completed("lockstep export scr"), "script\n");
  EXPECT_THAT(Completed("lockstep run -- prin"), HasSubstr("printf\n")) << "the user's command";
  EXPECT_EQ(Completed("lockstep run -- cat scr"), "script\n");
}

TEST(OtherShells, HaveEveryCommandAndOption) {
  const std::vector<CommandHelp> table = Table();
  const std::string zsh = ZshCompletion(table), fish = FishCompletion(table);
  for (const CommandHelp& command : table) {
    if (command.name.empty()) continue;
    EXPECT_THAT(zsh, HasSubstr("    " + command.name + ")\n"));
    EXPECT_THAT(fish, HasSubstr(" -a " + command.name + " "));
    for (const OptionHelp& option : command.options) {
      for (const std::string& name : option.names) {
        EXPECT_THAT(zsh, HasSubstr("'" + name + "["));
        if (name.starts_with("--")) {
          EXPECT_THAT(fish, HasSubstr(" -l " + name.substr(2)));
        }
      }
    }
  }
}

TEST(ManPages, AreValidRoff) {
  const std::vector<CommandHelp> table = Table();
  const std::string page = ManPage(Command(table, "trace"), table);
  EXPECT_THAT(page, HasSubstr(".TH LOCKSTEP\\-TRACE 1"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-start\\-on\\-step\\fR"));
  for (size_t at = 0; (at = page.find("\n.", at)) != std::string::npos; ++at) {
    const std::string request = page.substr(at + 2, 2);
    EXPECT_THAT((std::vector<std::string>{"TP", "SH", "PP", "nf", "fi", "B ", "BR", "TH"}), Contains(request))
        << page.substr(at + 1, 40);
  }
  EXPECT_EQ(ManFileName(table[0]), "lockstep.1");
  EXPECT_THAT(ManPage(table[0], table), HasSubstr("lockstep\\-trace"));
}

}  // namespace
}  // namespace lockstep::cli
