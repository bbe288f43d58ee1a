# ./dev soak: kills, stops, starves and cuts off Lockstep's programs in the middle of captures, and checks their promises.
# Rows that need namespaces of their own are left out without root.
. tools/dev/lib.sh
for word in "$@"; do
  case "$word" in
    -h|--help|--list) exec python3 tests/soak/soak_test.py build/unity/bin "$word" ;;
  esac
done
install build soak
say "building"
configure_and_build unity e2e_programs lockstep_client_test lockstep_nvtx_chain_test guest_test
say "soaking"
exec python3 tests/soak/soak_test.py build/unity/bin "$@"
