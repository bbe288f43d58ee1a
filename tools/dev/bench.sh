# ./dev bench [NAME-PART]: runs all micro-benchmarks, each of which prints its floor, then an import as a user runs it, and captures of
# many simulated nodes.
. tools/dev/lib.sh
if [ "${1:-}" = --help ]; then
  echo "usage: ./dev bench [part of a name]"
  echo "  import  reads a recorded trace as a user does"
  echo "  fleet   captures up to 1,024 simulated nodes: trigger and verdict, with goals and floors (docs/performance.md)"
  echo "  others  micro-benchmarks beside their sources (docs/measurements.md)"
  exit
fi
install build
say "building (release)"
configure_and_build release benches lockstep lockstep-aggregator lockstep-sim-fleet
part=${1:-}
for program in build/release/bench/*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  case "$(basename "$program")" in *"$part"*) ;; *) continue ;; esac
  say "$(basename "$program")"
  "$program" --benchmark_min_time=0.2
done
traces=../shared/traces/resnet50_ddp_2rank
case import in *"$part"*)
  if [ -d "$traces" ]; then
    say "import"
    python3 tools/dev/import_bench.py build/release/bin/lockstep "$traces" --hta 4.89 --zcat 0.298
  else
    echo "import: $traces does not exist, so the import benchmark was skipped" >&2
  fi ;;
esac
case fleet in *"$part"*)
  say "fleet"
  python3 tools/dev/fleet_bench.py build/release/bin ;;
esac
