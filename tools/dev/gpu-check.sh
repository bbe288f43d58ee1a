# ./dev gpu-check [--bundle DIR] [--out DIR] [--simulate] [--only SECTIONS] [--limit SECONDS] [--plan]
. tools/dev/lib.sh
bundle= out=build/gpu-check simulate=0 more=()
while [ $# -gt 0 ]; do
  case "$1" in
    --bundle) bundle=${2:?"--bundle needs a folder"}; shift ;;
    --out) out=${2:?"--out needs a folder"}; shift ;;
    --simulate) simulate=1 ;;
    --plan) exec python3 tools/gpu_check/gpu_check.py --plan ;;
    --only|--limit) more+=("$1" "${2:?"$1 needs a value"}"); shift ;;
    *) echo "usage: ./dev gpu-check [--bundle DIR] [--out DIR] [--simulate] [--only SECTIONS] [--limit SECONDS] [--plan]
  What a machine with a GPU has to show: OUT/results.md, OUT/results.json, OUT/gpu_check.tar.gz (OUT: build/gpu-check). docs/gpu-check.md.
  --bundle DIR  an unpacked bundle: then nothing is installed or built, and bash and python3 (with PyTorch) are all it needs
  --plan        prints the calls that run every section within ten minutes each
  --simulate    over the simulated CUPTI: tests the check itself where no GPU is" >&2
       case "$1" in -h|--help) exit 0 ;; *) exit 2 ;; esac ;;
  esac
  shift
done
name=lockstep-$(cat VERSION)-x86_64
if [ $simulate = 1 ]; then
  install build
  say "building (dev)"
  configure_and_build dev lockstep lockstepd lockstep-aggregator lockstep_client lockstep_starter lockstep_sim_cupti lockstep_sim_cuda lockstep_train_loop \
    lockstep_sim_stack_cupti
  link_outputs dev
  more+=(--simulate build/dev/bin)
  if [ -z "$bundle" ]; then
    bash tools/dev/bundle.sh --built build/dev --out build/gpu-check-bundle --level 3 >&2
    bundle=build/gpu-check-bundle/$name
  fi
elif [ -z "$bundle" ]; then
  bash tools/dev/bundle.sh >&2
  bundle=build/$name
fi
# Use the check of this checkout instead of the bundle's copy, because it may be newer.
exec python3 tools/gpu_check/gpu_check.py --bundle "$bundle" --out "$out" "${more[@]}"
