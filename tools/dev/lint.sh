# ./dev lint [--all | --changed]
. tools/dev/lib.sh
case "${1:-}" in
  --help|-h) echo "usage: ./dev lint [--all | --changed]
  without an option: builds everything with clang and runs clang-tidy on each source (build/lint)
  --all: only runs clang-tidy, on every source
  --changed: only runs clang-tidy, on at most 60 sources that changed since the last tag, and for about a minute and a half"; exit ;;
esac
install build check all
case "${1:-}" in
  --all|--changed)
    log=$(mktemp)
    cmake --preset lint >"$log" 2>&1 || { cat "$log" >&2; die "configuring preset lint failed"; }
    rm -f "$log"
    if [ "$1" = --all ]; then python3 tools/dev/tidy.py; else python3 tools/dev/tidy.py --changed; fi ;;
  *) configure_and_build lint ;;
esac
