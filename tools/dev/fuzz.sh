# ./dev fuzz [--seconds N | --total N | --hours N] [--only NAME]: runs the fuzzers with clang's libFuzzer, address and
# undefined-behaviour sanitizers, in the tree of preset asan.
. tools/dev/lib.sh

usage() {
  cat <<'TEXT'
usage: ./dev fuzz [--seconds N | --total N | --hours N] [--only NAME] [--keep]

  --seconds N   run each fuzzer for N seconds (60)
  --total N     run all fuzzers within about N seconds, each for the same time
  --hours N     run all fuzzers within about N hours
  --only NAME   run one fuzzer, such as columns_fuzzer; more than one --only is possible
  --keep        afterwards keep the 24 inputs that reach the most code in tests/corpus/, beside those with names

Each fuzzer starts with its inputs in tests/corpus/. It stores new ones in build/asan/fuzz/corpus/ and a finding in
build/asan/fuzz/findings/. docs/fuzzing.md describes the fuzzers.
TEXT
}

seconds=60 total=0 only=() keep=0
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=${2:?}; shift 2 ;;
    --total) total=${2:?}; shift 2 ;;
    --hours) total=$(awk -v h="${2:?}" 'BEGIN { printf "%d", h * 3600 }'); shift 2 ;;
    --only) only+=("${2:?}"); shift 2 ;;
    --keep) keep=1; shift ;;
    --help) usage; exit ;;
    *) usage >&2; die "no option '$1'" ;;
  esac
done

install build all
say "building the fuzzers (asan)"
configure_and_build asan "${only[@]:-fuzzers}"
export folder=build/asan/fuzz
fuzzers=$(cd "$folder" 2>/dev/null && ls ./*_fuzzer 2>/dev/null) || die "no fuzzer was built"
[ ${#only[@]} -eq 0 ] || fuzzers=$(printf './%s\n' "${only[@]}")
# Fuzzers run side by side, one per processor.
[ "$total" = 0 ] || seconds=$((total * $(jobs) / $(wc -w <<<"$fuzzers")))
[ "$seconds" -gt 0 ] || die "less than one second for each fuzzer: give a longer time"
export seconds

# Without it, the undefined-behaviour sanitizer only prints a line.
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Prints the options of all runs. The programs' own output is closed; libFuzzer and the sanitizers keep theirs.
limits() { echo "-rss_limit_mb=2048 -timeout=10 -close_fd_mask=3"; }

run_fuzzer() {
  local name=$1
  local log=$folder/$name.log kept=tests/corpus/${1%_fuzzer}
  mkdir -p "$folder/corpus/$name" "$folder/findings"
  # libFuzzer writes to the first folder only.
  # shellcheck disable=SC2046
  if "$folder/$name" -max_total_time="$seconds" $(limits) -print_final_stats=1 -artifact_prefix="$folder/findings/$name-" \
       "$folder/corpus/$name" "$kept" >"$log" 2>&1; then
    echo "$name: $(grep -o 'stat::number_of_executed_units: *[0-9]*' "$log" | grep -o '[0-9]*$') runs, no finding"
  else
    tail -n 30 "$log" >&2
    echo "$name: FINDING ($log)"
    return 1
  fi
}

# The merge writes the inputs in the order of how much new code they reach. Inputs that a person named stay.
keep_inputs() {
  local name=$1
  local kept=tests/corpus/${1%_fuzzer} merged=$folder/merged/$name input
  rm -rf "$merged"
  mkdir -p "$merged"
  # shellcheck disable=SC2046
  "$folder/$name" -set_cover_merge=1 -use_counters=0 -max_len=2048 $(limits) "$merged" "$kept" "$folder/corpus/$name" \
    >"$folder/$name.merge.log" 2>&1
  find "$kept" -regextype egrep -regex '.*/[0-9a-f]{40}' -delete
  for input in $(cd "$merged" && ls -tr | head -n 24); do
    sha1sum "$kept"/* | grep -q "^$input " || cp "$merged/$input" "$kept/"
  done
  echo "$name: $(find "$kept" -type f | wc -l) inputs, $(du -sb "$kept" | cut -f1) bytes"
}
export -f run_fuzzer keep_inputs limits

say "running each fuzzer for $seconds s"
status=0
xargs -P "$(jobs)" -I {} bash -c 'run_fuzzer "$(basename {})"' <<<"$fuzzers" || status=1
[ $keep = 0 ] || xargs -P "$(jobs)" -I {} bash -c 'keep_inputs "$(basename {})"' <<<"$fuzzers"
exit $status
