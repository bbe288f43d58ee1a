#!/bin/sh
# Slurm's Prolog, for sites without SPANK plugins: reports the job and its user to the node's daemon. See docs/slurm.md.
# It runs as root on every node of a job, before the first task. It neither fails nor delays the job. The commands have full paths, because
# Slurm gives a prolog a minimal PATH.
lockstep=${LOCKSTEP_PREFIX:-/opt/lockstep}/bin/lockstep
/usr/bin/timeout -k 1 2 "$lockstep" job begin --id "$SLURM_JOB_ID" --uid "$SLURM_JOB_UID" \
  ${SLURM_ARRAY_JOB_ID:+--array-job "$SLURM_ARRAY_JOB_ID" --array-task "$SLURM_ARRAY_TASK_ID"} ||
  /usr/bin/logger -t lockstep "could not report job $SLURM_JOB_ID to the daemon" || true
exit 0
