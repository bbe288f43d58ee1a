# ./dev gpu-check [--bundle DIR] [--out DIR] [--simulate]
. tools/dev/lib.sh
bundle= out=build/gpu-check simulate=()
while [ $# -gt 0 ]; do
  case "$1" in
    --bundle) bundle=${2:?}; shift ;;
    --out) out=${2:?}; shift ;;
    --simulate) simulate=(--simulate build/bin) ;;
    *) echo "usage: ./dev gpu-check [--bundle DIR] [--out DIR] [--simulate]
  Runs from an unpacked bundle on a machine with a GPU and PyTorch; installs nothing when --bundle is given.
  --simulate: the same check over simulated ranks, to test it where no GPU is." >&2; exit 2 ;;
  esac
  shift
done
if [ -z "$bundle" ]; then
  bash tools/dev/bundle.sh
  bundle=build/lockstep-$(cat VERSION)-x86_64
fi
if [ ${#simulate[@]} -gt 0 ] && [ ! -x build/bin/lockstep-sim-rank ]; then bash tools/dev/build.sh; fi
exec python3 tools/gpu_check/gpu_check.py --bundle "$bundle" --out "$out" "${simulate[@]}"
