#!/bin/sh
# Slurm's Epilog beside prolog.sh: the job has left the node. docs/slurm.md
/usr/bin/timeout -k 1 2 "${LOCKSTEP_PREFIX:-/opt/lockstep}/bin/lockstep" job end --id "$SLURM_JOB_ID" ||
  /usr/bin/logger -t lockstep "the daemon was not told of the end of job $SLURM_JOB_ID" || true
exit 0
