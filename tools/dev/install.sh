. tools/dev/lib.sh
if [ "${1:-}" = --all ]; then install build check all; else install build; fi
