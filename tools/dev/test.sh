# ./dev test [--all] [ctest options]
. tools/dev/lib.sh
all=0
[ "${1:-}" = --all ] && { all=1; shift; }
if [ "${1:-}" = --help ]; then
  echo "usage: ./dev test [--all] [ctest options]"
  echo "  without --all: builds once and runs every test that needs no more, and names what it left out"
  echo "  --all: also address, undefined-behaviour and thread sanitizers, and a minute of each fuzzer"
  exit
fi

install build
[ $all = 1 ] && install all
say "building (dev)"
configure_and_build dev
link_outputs dev

if [ $all = 0 ]; then
  say "testing (dev)"
  echo "left out (./dev test --all runs them): the address/undefined and thread sanitizer builds, the fuzzers," \
       "and tests labelled 'more'" >&2
  exec ctest --preset dev -LE more "$@"
fi

failed=0
for preset in asan tsan; do
  say "building and testing ($preset)"
  configure_and_build "$preset" sanitized
  ctest --preset "$preset" "$@" || failed=1
done
bash tools/dev/fuzz.sh --seconds "${LOCKSTEP_FUZZ_SECONDS:-60}" || failed=1
say "testing (dev)"
ctest --preset dev "$@" || failed=1
echo "left out: GPU tests (label gpu): ./dev gpu-check runs them on a machine with a GPU" >&2
exit $failed
