. tools/dev/lib.sh
install build check all
configure_and_build lint
