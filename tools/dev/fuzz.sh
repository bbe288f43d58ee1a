# ./dev fuzz [--seconds N]: runs all fuzzers with clang's libFuzzer, address and undefined-behaviour sanitizers, in the tree of preset asan.
. tools/dev/lib.sh
seconds=60
[ "${1:-}" = --seconds ] && seconds=${2:?}
install build all
say "building the fuzzers (asan)"
configure_and_build asan fuzzers
export folder=build/asan/fuzz seconds

run_fuzzer() {
  local name=$1
  local log=$folder/$name.log
  mkdir -p "$folder/corpus/$name"
  if "$folder/$name" -max_total_time="$seconds" -rss_limit_mb=1024 -print_final_stats=1 "$folder/corpus/$name" >"$log" 2>&1; then
    echo "$name: $(grep -o 'stat::number_of_executed_units: *[0-9]*' "$log" | grep -o '[0-9]*$') runs, no finding"
  else
    tail -n 30 "$log" >&2
    echo "$name: FINDING ($log)"
    return 1
  fi
}
export -f run_fuzzer
fuzzers=$(cd "$folder" 2>/dev/null && ls ./*_fuzzer 2>/dev/null) || die "no fuzzer was built"
say "running each fuzzer for $seconds s"
xargs -P "$(jobs)" -I {} bash -c 'run_fuzzer "$(basename {})"' <<<"$fuzzers"
