# ./dev format [--check]
. tools/dev/lib.sh
case "${1:-}" in
  --help|-h) echo "usage: ./dev format [--check]
  Formats every C and C++ file with clang-format 14 by .clang-format; --check changes nothing and names the files that differ."; exit ;;
esac
install check
files() { git ls-files -co --exclude-standard -- '*.cc' '*.h' '*.c' '*.cu'; }
if [ "${1:-}" = --check ]; then
  files | xargs -P "$(jobs)" -n 40 clang-format-14 --dry-run -Werror
else
  files | xargs -P "$(jobs)" -n 40 clang-format-14 -i
fi
