# Shared by the verbs of ./dev; sourced, with the repository root as working directory.
set -euo pipefail

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }

# packages SECTION...: the names in those sections of tools/packages.txt
packages() {
  local want=" $* " section="" line
  while read -r line; do
    case "$line" in
      ''|'#'*) ;;
      '['*) section=${line#[}; section=${section%]} ;;
      *) case "$want" in *" $section "*) echo "$line" ;; esac ;;
    esac
  done < tools/packages.txt
}

# without_services COMMAND...: as root and in a shell of its own, with no package's service started while it runs. Debian's packages ask
# policy-rc.d first; one that is there already is the machine's own policy, and stays.
without_services() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap "rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
  fi
  "$@"
}

# install SECTION...: installs what is missing of them, and starts no service.
install() {
  local missing=() name provided
  # A package may come inside another one: the nodejs of node's makers has npm, and conflicts with Debian's.
  provided=$(dpkg-query -W -f='${db:Status-Status} ${Provides}\n' | sed -n 's/^installed //p' | tr ',' '\n' | sed 's/(.*//; s/ //g')
  for name in $(packages "$@"); do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q '^install ok installed' || grep -qxF "$name" <<<"$provided" || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || die "these packages are missing and there is no apt-get: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -q &&
         "${sudo[@]}" bash -c "$(declare -f without_services)"'; without_services "$@"' bash \
           env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get could not install: ${missing[*]} (whole log: $log)"
  fi
  rm -f "$log"
}

jobs() { nproc; }

# configure_and_build PRESET TARGET...
configure_and_build() {
  local preset=$1
  shift
  local log
  log=$(mktemp)
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    die "configuring preset $preset failed"
  fi
  rm -f "$log"
  cmake --build --preset "$preset" -- -j "$(jobs)" "$@" >&2
}

# What is installed, besides the client library.
programs="lockstep lockstepd lockstep-aggregator"

# build_installed PRESET
build_installed() {
  say "building ($1)"
  # shellcheck disable=SC2086
  configure_and_build "$1" $programs lockstep_client
}

# As root Open MPI asks to be told twice; a laptop has fewer cores than ranks.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Contract: programs in build/bin, the client library in build/lib.
link_outputs() {
  local preset=$1
  ln -sfn "$preset/bin" build/bin
  ln -sfn "$preset/lib" build/lib
}
