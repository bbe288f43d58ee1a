#include "cli/man_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/common/command.h"

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

TEST(OptionTable, LeavesOutHiddenCommands) {
  CLI::App app("About.", "lockstep");
  Chosen chosen;
  AddComplete(app, chosen);
  EXPECT_EQ(OptionTable(app).size(), 1u) << "the program itself";
}

TEST(OptionTable, HoldsAllOptionsOfTheParser) {
  const std::vector<CommandHelp> table = Table();
  const OptionHelp& via = Option(Command(table, "trace"), "--via");
  EXPECT_THAT(via.choices, ElementsAre("auto", "cupti", "kineto"));
  EXPECT_EQ(via.preset, "auto");
  const OptionHelp& formats = Option(Command(table, "trace"), "--formats");
  EXPECT_EQ(formats.value, "LIST");
  EXPECT_THAT(formats.choices, Contains("kineto"));
  EXPECT_EQ(Option(Command(table, "trace"), "--aggregator").variable, "LOCKSTEP_AGGREGATOR");
  const OptionHelp& output = Option(Command(table, "export"), "-o");
  EXPECT_THAT(output.names, ElementsAre("-o", "--output"));
  EXPECT_TRUE(output.required);
  EXPECT_EQ(Option(Command(table, "trace"), "--force").value, "") << "a flag takes nothing";
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
