. tools/dev/lib.sh
live=
script=tests/scenario/evaluate.py
case " $* " in
  *" --recorded "*) live=yes script=tools/dev/eval_recorded.py ;;
  *" --live "*) live=yes script=tools/dev/eval.py ;;
  *" --predict "*) live=yes script=tests/e2e/predicted_gain_live.py ;;
esac
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
exec python3 "$script" "$@"
