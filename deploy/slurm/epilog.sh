#!/bin/sh
# Slurm's Epilog beside prolog.sh. It reports the end of the job on this node to the daemon. See docs/slurm.md.
/usr/bin/timeout -k 1 2 "${LOCKSTEP_PREFIX:-/opt/lockstep}/bin/lockstep" job end --id "$SLURM_JOB_ID" ||
  /usr/bin/logger -t lockstep "could not report the end of job $SLURM_JOB_ID to the daemon" || true
exit 0
