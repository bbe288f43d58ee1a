# Functions for the verbs of ./dev. The scripts source this file, with the repository root as working directory.
set -euo pipefail

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }

# packages SECTION...: prints the names in those sections of tools/packages.txt.
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

# without_services COMMAND...: runs the command and prevents packages from starting services. It needs root and a separate shell.
# Debian's packages query policy-rc.d first. An existing policy-rc.d is the machine's own and is kept.
without_services() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap "rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
  fi
  "$@"
}

# install SECTION...: installs the missing packages of those sections, and starts no service.
install() {
  local missing=() name provided
  # A package may provide another one: a nodejs from outside Debian may contain npm and conflict with Debian's npm.
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

# The programs that are installed. The client library is installed too.
programs="lockstep lockstepd lockstep-aggregator"

# build_installed PRESET: builds the files of a release.
build_installed() {
  say "building ($1)"
  # shellcheck disable=SC2086
  configure_and_build "$1" $programs lockstep_client lockstep_starter
}

# equal_surroundings: makes what follows independent of the time and the user's language. The same sources give the same bytes.
equal_surroundings() {
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)}
  export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
}

# sources: prints words that name the sources.
sources() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) || { echo "sources without a git commit"; return; }
  echo "git commit $commit$([ -z "$(git status --porcelain)" ] || echo " with further changes")"
}

# write_sbom ARTEFACT FOLDER [OPTION...]: writes ARTEFACT.spdx.json for the released file with the content in FOLDER.
write_sbom() {
  /usr/bin/python3 tools/dev/sbom.py "$1" "$2" --version "$(cat VERSION)" --commit "$(sources)" --created "$SOURCE_DATE_EPOCH" "${@:3}"
}

# static_everywhere: prints the Debian packages with code in every linked file.
static_everywhere() { echo "libc6-dev libgcc-$(gcc -dumpversion)-dev"; }

# Open MPI runs as root only with both variables.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Other programs rely on these paths: programs in build/bin, the client library in build/lib.
link_outputs() {
  local preset=$1
  ln -sfn "$preset/bin" build/bin
  ln -sfn "$preset/lib" build/lib
}
