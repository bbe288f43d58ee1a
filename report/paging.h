// Pager says which teams can fix the losses of a report, and where they have to look.
#ifndef LOCKSTEP_REPORT_PAGING_H_
#define LOCKSTEP_REPORT_PAGING_H_

#include <map>
#include <string>
#include <vector>

#include "report/model.h"

namespace lockstep::report {

// Collects losses, and says whom to page for them. The loss that was added first decides the order. Not
// thread-safe.
class Pager {
 public:
  // Adds the team for a loss that all ranks share, by SharedLossRow::kind.
  void AddSharedLoss(const std::string& kind);
  // Adds the team for lost time without an owner.
  void AddUnexplained();
  // Adds the teams for the straggler's cause. Hosts are those of its ranks.
  void AddStraggler(const StragglerRow& straggler);

  // The teams, and those to ask if the first ones find nothing: "the hardware team (host n1)".
  std::string Teams() const;
  // Teams(), followed by the team that need not be paged: ". Not the training owner". None is named if a
  // cause is not known. If the first cause is not known, the text says so.
  std::string Text() const;

 private:
  enum class Team { kTraining, kHardware, kNetwork, kCluster };
  struct Places {
    std::vector<std::string> hosts;
    std::vector<RankId> ranks_of_unnamed_hosts;  // the source does not name their hosts
  };

  static std::string NameOf(Team team);
  static std::vector<Team> TeamsFor(const std::string& cause);
  static std::string PlacesText(const Places& places);
  void AddTeams(const std::vector<Team>& teams);
  std::string TextOf(Team team) const;

  std::vector<Team> first_, next_;  // next_: if the first ones find nothing
  std::map<Team, Places> places_;   // of the teams that work on a host
  bool is_input_ = false;           // the input pipeline often has an owner of its own
  bool is_first_known_ = true, are_all_known_ = true;
};

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_PAGING_H_
