# ./dev fuzz [--seconds N]: every fuzzer, with clang's libFuzzer, address and undefined-behaviour sanitizers.
. tools/dev/lib.sh
seconds=60
[ "${1:-}" = --seconds ] && seconds=${2:?}
install build all
say "building the fuzzers"
log=$(mktemp)
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
  -DLOCKSTEP_FUZZ=ON -DLOCKSTEP_WERROR=OFF -DLOCKSTEP_SANITIZE=address,undefined >"$log" 2>&1 || { cat "$log" >&2; die "configuring the fuzzers failed"; }
cmake --build build/fuzz --target fuzzers -- -j "$(jobs)" >"$log" 2>&1 || { tail -n 50 "$log" >&2; die "building the fuzzers failed"; }
rm -f "$log"
failed=0
found=0
for fuzzer in build/fuzz/fuzz/*_fuzzer; do
  [ -x "$fuzzer" ] || continue
  found=1
  name=$(basename "$fuzzer")
  mkdir -p "build/fuzz/corpus/$name"
  if "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=1024 -print_final_stats=1 "build/fuzz/corpus/$name" >"build/fuzz/$name.log" 2>&1; then
    echo "$name: $(grep -o 'stat::number_of_executed_units: *[0-9]*' "build/fuzz/$name.log" | grep -o '[0-9]*$') runs, no finding"
  else
    tail -n 30 "build/fuzz/$name.log" >&2
    echo "$name: FOUND SOMETHING (build/fuzz/$name.log)"
    failed=1
  fi
done
[ $found = 1 ] || die "no fuzzer was built"
exit $failed
