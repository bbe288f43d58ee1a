# ./dev attack: attacks a daemon and an aggregator as another user, and measures what their owner notices. It needs root.
. tools/dev/lib.sh
if [ "${1:-}" = --help ]; then
  echo "usage: ./dev attack [--calls N] [--most-status MS] [--only ATTACK] [--table FILE]"
  exit
fi
install build
say "building (release)"
configure_and_build release lockstep lockstepd lockstep-aggregator lockstep-sim-rank lockstep_client lockstep-attacker
say "attacking"
exec python3 tests/attack/attacks_test.py build/release/bin build/release/testing --calls 100 "$@"
