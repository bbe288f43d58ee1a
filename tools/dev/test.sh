# ./dev test [--all] [ctest options]
. tools/dev/lib.sh
all=0
[ "${1:-}" = --all ] && { all=1; shift; }
if [ "${1:-}" = --help ]; then
  echo "usage: ./dev test [--all] [ctest options]"
  echo "  without --all: builds once, runs every test without further needs, and lists the skipped tests"
  echo "  --all: also the checks of ./dev check, clang-tidy on what changed since the last tag (for a minute and a half), address,"
  echo "         undefined-behaviour and thread sanitizers, a minute and a half of fuzzers, and the client for ARM processors;"
  echo "         unit tests then run only with the sanitizers"
  exit
fi

install build
if [ $all = 1 ]; then
  install check all aarch64
  say "checking the sources"
  bash tools/dev/check.sh
  say "checking what changed since the last tag (clang-tidy)"
  bash tools/dev/lint.sh --changed
fi
preset=unity
[ $all = 1 ] && preset=ci
say "building"
configure_and_build $preset
link_outputs $preset

if [ $all = 0 ]; then
  say "testing"
  echo "left out (./dev test --all runs them): the address/undefined and thread sanitizer builds, the fuzzers," \
       "and tests labelled 'more'" >&2
  exec ctest --preset unity -LE more "$@"
fi

failed=0
for sanitizer in asan tsan; do
  say "building and testing ($sanitizer)"
  configure_and_build "$sanitizer" sanitized
  ctest --preset "$sanitizer" "$@" || failed=1
done
bash tools/dev/fuzz.sh --total "${LOCKSTEP_FUZZ_SECONDS:-90}" || failed=1
say "building and testing the client for ARM processors (aarch64)"
configure_and_build aarch64
ctest --preset aarch64 "$@" || failed=1
say "testing"
ctest --preset $preset "$@" || failed=1
echo "left out: GPU tests (label gpu): ./dev gpu-check runs them on a machine with a GPU" >&2
exit $failed
