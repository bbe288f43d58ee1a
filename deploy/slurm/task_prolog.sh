#!/bin/sh
# Slurm's TaskProlog: prints variables that Slurm adds to the task's environment. It applies to tasks with LOCKSTEP=1 in their environment
# (LOCKSTEP=1 srun …). For all jobs, add LOCKSTEP=${LOCKSTEP:-1} here. See docs/slurm.md.
[ "${LOCKSTEP:-0}" = 1 ] || exit 0
# Only one task of a node prints messages.
[ "${SLURM_LOCALID:-0}" = 0 ] || exec 2>/dev/null
/usr/bin/timeout -k 1 2 "${LOCKSTEP_PREFIX:-/opt/lockstep}/bin/lockstep" run --print-environment
exit 0
