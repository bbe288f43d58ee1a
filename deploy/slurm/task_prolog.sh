#!/bin/sh
# Slurm's TaskProlog: prints what Slurm puts into the task's environment. For the tasks that ask for it, with LOCKSTEP=1 in their
# environment (LOCKSTEP=1 srun …); write LOCKSTEP=${LOCKSTEP:-1} here to have it in every job. docs/slurm.md
[ "${LOCKSTEP:-0}" = 1 ] || exit 0
# One task of a node says what was set.
[ "${SLURM_LOCALID:-0}" = 0 ] || exec 2>/dev/null
/usr/bin/timeout -k 1 2 "${LOCKSTEP_PREFIX:-/opt/lockstep}/bin/lockstep" run --print-environment
exit 0
