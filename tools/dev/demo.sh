. tools/dev/lib.sh
case " $* " in *" --help "*|*" -h "*) ;; *)
  install build
  say "building"
  configure_and_build unity lockstep lockstepd lockstep-sim-rank lockstep_client lockstep_sim_cupti
  link_outputs unity ;;
esac
exec python3 tools/dev/demo.py "$@"
