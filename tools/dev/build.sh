. tools/dev/lib.sh
preset=dev
if [ "${1:-}" = --preset ]; then preset=${2:?"--preset needs a name: dev, release, asan, tsan"}; fi
if [ "${1:-}" = --help ]; then echo "usage: ./dev build [--preset dev|release|asan|tsan]"; exit; fi
install build
say "building ($preset)"
configure_and_build "$preset"
link_outputs "$preset"
echo "programs: build/bin   client library: build/lib/liblockstep_client.so"
