. tools/dev/lib.sh
install build all
configure_and_build lint
