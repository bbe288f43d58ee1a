. tools/dev/lib.sh
if [ "${1:-}" = --all ]; then install build all; else install build; fi
