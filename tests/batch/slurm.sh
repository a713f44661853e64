# SPDX-License-Identifier: MIT
# slurm.sh - a cluster on one machine: munge, slurmctld and two slurmd, all private to a folder; sourced after lib.sh.
#
#   slurm_start FOLDER    sets SLURM_CONF; on failure $why
#   slurm_stop            ends what it started
slurm_pids=""

# daemon LOG COMMAND...: in the foreground of a background process, so that its id is known.
daemon() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  slurm_pids="$! $slurm_pids"
}

free_port() { # [FROM]: a port that nobody listens on
  local p=$1
  while (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do p=$((p + 1)); done
  echo "$p"
}

slurm_start() {
  local dir=$1 host port tool
  why=""
  [ "$(id -u)" = 0 ] || { why="only root can start slurmd" && return 1; }
  for tool in munged slurmctld slurmd sbatch scontrol; do
    PATH=$PATH:/usr/sbin command -v $tool >/dev/null || { why="there is no $tool (Debian: slurm-wlm, munge)" && return 1; }
  done
  mkdir -p "$dir/state" "$dir/spool" "$dir/run"
  chmod 755 "$dir"
  host=$(hostname -s)
  port=$(free_port $((20000 + $$ % 400 * 30))) # another run of the tests may be about to take its own
  head -c 128 /dev/urandom >"$dir/munge.key"
  chmod 600 "$dir/munge.key"
  daemon "$dir/munged.out" /usr/sbin/munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/run/munge" \
    --pid-file="$dir/run/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" --num-threads=2
  cat >"$dir/slurm.conf" <<TEXT
ClusterName=zenith
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,defer_batch
MinJobAge=300
KillWait=2
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port $((port + 1))) CPUs=2
NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port $((port + 11))) CPUs=2
PartitionName=all Nodes=one,two Default=YES MaxTime=INFINITE State=UP
TEXT
  export SLURM_CONF=$dir/slurm.conf PATH=$PATH:/usr/sbin
  for _ in $(seq 600); do [ -S "$dir/run/munge" ] && break || sleep 0.1; done
  [ -S "$dir/run/munge" ] || { why="munged did not start: $(tail -n 1 "$dir/munged.out" "$dir/munged.log" 2>/dev/null)" && return 1; }
  daemon "$dir/slurmctld.out" slurmctld -D -c
  daemon "$dir/one.out" slurmd -D -N one
  daemon "$dir/two.out" slurmd -D -N two
  for _ in $(seq 600); do
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = 2 ] && return 0
    sleep 0.2
  done
  why="the nodes did not come up: $(tail -qn 1 "$dir/slurmctld.log" "$dir/slurmd.one.log" "$dir/one.out" 2>/dev/null | tr '\n' ' ')"
  return 1
}

slurm_stop() {
  local p
  [ -z "$slurm_pids" ] || scancel --quiet --user=root 2>/dev/null
  for p in $slurm_pids; do kill "$p" 2>/dev/null; done
  for p in $slurm_pids; do wait "$p" 2>/dev/null; done
  slurm_pids=""
}
