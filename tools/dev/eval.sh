. tools/dev/lib.sh
live=
case " $* " in *" --live "*) live=yes ;; esac
case " $* " in *" --help "*|*" -h "*) ;; *)
  install build
  say "building"
  if [ -n "$live" ]; then
    configure_and_build dev lockstep lockstepd lockstep-sim-rank lockstep_client lockstep_sim_cupti
  else
    configure_and_build dev lockstep list_collectives
  fi
  link_outputs dev ;;
esac
if [ -n "$live" ]; then exec python3 tools/dev/eval.py "$@"; fi
exec python3 tests/scenario/evaluate.py "$@"
