#!/bin/sh
# Slurm's Prolog, for sites that load no SPANK plugins: tells the node's daemon whose the job is. docs/slurm.md
# Runs as root on every node of a job before its first task. Nothing here fails or holds up the job.
# Slurm gives a prolog hardly any PATH.
lockstep=${LOCKSTEP_PREFIX:-/opt/lockstep}/bin/lockstep
/usr/bin/timeout -k 1 2 "$lockstep" job begin --id "$SLURM_JOB_ID" --uid "$SLURM_JOB_UID" \
  ${SLURM_ARRAY_JOB_ID:+--array-job "$SLURM_ARRAY_JOB_ID" --array-task "$SLURM_ARRAY_TASK_ID"} ||
  /usr/bin/logger -t lockstep "the daemon was not told of job $SLURM_JOB_ID" || true
exit 0
