. tools/dev/lib.sh
install build
exec python3 tools/dev/one.py "$@"
