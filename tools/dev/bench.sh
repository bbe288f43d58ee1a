# ./dev bench [NAME-PART]: every micro-benchmark (each prints its floor beside it), then the import as a user runs it.
. tools/dev/lib.sh
if [ "${1:-}" = --help ]; then echo "usage: ./dev bench [part of a name]"; exit; fi
install build
say "building (release)"
configure_and_build release benches lockstep
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
    echo "import: $traces is not here, so the import bench was left out" >&2
  fi ;;
esac
