#include "cli/completion.h"

#include <memory>

#include "cli/candidates.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"

namespace lockstep::cli {

std::string BashCompletion() {
  return R"script(# bash completion of lockstep: source it, or put it into
# ~/.local/share/bash-completion/completions/lockstep
_lockstep() {
    local -a words=()
    local -i at split=0
    local cur stem= colon= line
    # bash splits words at ":" and "=". It replaces only the part after the last of them.
    for (( at = 1; at <= COMP_CWORD; ++at )); do
        if (( at > 1 )) && [[ ${COMP_WORDS[at]} == : || ${COMP_WORDS[at-1]} == : ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[at]}
            split=1
        else
            words+=("${COMP_WORDS[at]}")
            split=0
        fi
    done
    local -i last=$(( ${#words[@]} - 1 ))
    cur=${words[last]}
    if (( last > 0 )) && [[ $cur == = ]]; then
        stem=${words[last-1]}= cur=
    elif (( last > 1 )) && [[ ${words[last-1]} == = ]]; then
        stem=${words[last-2]}=
    fi
    (( split )) && colon=${cur%"${cur##*:}"}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files)
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                COMPREPLY=("${COMPREPLY[@]#"$colon"}") ;;
            :programs)
                mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
            *)
                line=${line%%$'\t'*}
                [[ $line == *= ]] && compopt -o nospace 2>/dev/null
                COMPREPLY+=("${line#"$stem$colon"}") ;;
        esac
    done < <("${COMP_WORDS[0]/#\~/$HOME}" complete -- "${words[@]}" 2>/dev/null)
}
complete -F _lockstep lockstep
)script";
}

std::string ZshCompletion() {
  return R"script(#compdef lockstep
# zsh completion of lockstep: put it as _lockstep into a folder of $fpath
_lockstep() {
  local line word about
  local -i at=${words[(i)--]}
  if [[ $words[2] == run ]] && (( at < CURRENT )); then
    # Completes the user's command as if it stood alone.
    shift $at words
    (( CURRENT -= at ))
    _normal
    return
  fi
  local -a found open
  for line in "${(@f)$(${~words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    word=${line%%$'\t'*} about=
    [[ $line == *$'\t'* ]] && about=${line#*$'\t'}
    case $word in
      ('') ;;
      (:files) _files ;;
      (*=) open+=("${word//:/\\:}${about:+:$about}") ;;
      (*) found+=("${word//:/\\:}${about:+:$about}") ;;
    esac
  done
  (( $#found )) && _describe value found
  (( $#open )) && _describe value open -S ''
}
if [ "$funcstack[1]" = _lockstep ]; then _lockstep "$@"; else compdef _lockstep lockstep; fi
)script";
}

std::string FishCompletion() {
  return R"script(# fish completion of lockstep: put it into ~/.config/fish/completions/lockstep.fish
function __lockstep_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :programs
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c lockstep -f -a '(__lockstep_complete)'
)script";
}

void AddCompletion(CLI::App& app, Chosen& chosen) {
  CLI::App* sub =
      AddCommand(app, "completion",
                 "Print the completion script of a shell.\n"
                 "\n"
                 "Examples:\n"
                 "  lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep\n"
                 "  lockstep completion zsh > ~/.zfunc/_lockstep\n"
                 "  lockstep completion fish > ~/.config/fish/completions/lockstep.fish\n"
                 "  source <(lockstep completion bash)                      this shell only\n");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->callback([shell, &chosen] {
    chosen.action = [shell] {
      return PrintText(*shell == "bash"  ? BashCompletion()
                       : *shell == "zsh" ? ZshCompletion()
                                         : FishCompletion(),
                       {});
    };
  });
}

void AddComplete(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "complete", "Print the words that can follow, for completion scripts.");
  sub->group("");
  sub->callback([&app, &chosen] {
    chosen.action = [&app, words = chosen.command] {
      return PrintText(CandidateLines(CandidatesFor(settings::OptionTable(app), words, ProgramSources())),
                       {});
    };
  });
}

}  // namespace lockstep::cli
