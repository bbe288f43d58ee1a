// lockstep profile: shows the counts of Python's cProfile, with the ranks side by side.
#ifndef LOCKSTEP_VIEWS_CATALOG_PROFILE_VIEW_H_
#define LOCKSTEP_VIEWS_CATALOG_PROFILE_VIEW_H_

#include <span>
#include <string_view>

#include "capture/model/python_profile.h"
#include "views/catalog/views.h"
#include "views/host/python_functions.h"

namespace lockstep::views {

// Columns shown on a terminal without -c.
inline constexpr std::string_view kProfileColumns =
    "rank,slowest_rank,function,file,line,calls,self_ns,self_min_ns,self_max_ns,total_ns,ranks";
// The names of pstats.
std::span<const Alias> ProfileAliases();

MadeView MakeProfile(std::span<const capture::PythonProfile> profiles, views::PythonRows rows);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_CATALOG_PROFILE_VIEW_H_
