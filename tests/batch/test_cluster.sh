#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The recipes of docs/cluster.md: Slurm, on a cluster of two nodes that this script starts, and GNU parallel.
#
#   test_cluster.sh BUILD_DIR
#
# Skips Slurm where it cannot be started: it wants root and Debian's slurm-wlm and munge.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/slurm.sh"
clean_up() {
  slurm_stop
  rm -rf "$tmp"
}
chmod 755 "$tmp"
cd "$tmp" || exit 2

# recipe NAME: the code after "<!-- test: NAME -->".
recipe() {
  awk -v mark="<!-- test: $1 -->" '$0 == mark { wanted = 1; next }
    /^```/ { if (inside) exit; if (wanted) inside = 1; next }
    inside { print }' "$root/docs/cluster.md"
}

# The preset of the recipes, with the test's small network.
mkdir presets
sed 's/^operation=.*/&\nmodel=fast/' "$root/presets/high-iso-photo.preset" >presets/high-iso-photo.preset
export ZENITH_PRESETS="$tmp/presets" PATH="$build/batch:$PATH"
for i in $(seq 24); do convert -size 640x480 plasma:red-blue -seed "$i" -attenuate 0.5 +noise Gaussian -quality 92 "in/photo $i.jpg"; done
go 0 "one after the other" --jobs 1 --preset "High ISO photo" "$tmp/in" "$tmp/want"
sums want >want.sums
count() { find "$1" -name '*.jpg' 2>/dev/null | wc -l; }
export ZENITH_IN="$tmp/in" ZENITH_THREADS=2

# ---- GNU parallel --------------------------------------------------------------------------------------------

if parallel --version 2>/dev/null | grep -q 'GNU parallel'; then
  recipe parallel >parallel.sh
  check "parallel: the recipe is in the manual" "it is not" test -s parallel.sh
  ZENITH_OUT="$tmp/parallel-out" bash parallel.sh >parallel.log 2>&1 </dev/null
  check "parallel: exit status" "$? $(tail -n 2 parallel.log)" test $? = 0
  check "parallel: 24 pictures, the same bytes" "$(count parallel-out) of 24" test "$(sums parallel-out)" = "$(cat want.sums)"
else
  skip "parallel" "there is no GNU parallel"
fi

# ---- Slurm ---------------------------------------------------------------------------------------------------

if ! slurm_start "$tmp/slurm"; then
  skip "slurm" "$why"
  finish
fi
recipe slurm >zenith.sbatch
check "slurm: the recipe is in the manual" "it is not" grep -q '^#SBATCH --array=1-6' zenith.sbatch
export ZENITH_OUT="$tmp/out"

# ended JOB: waits until none of its tasks is left.
ended() {
  for _ in $(seq 6000); do # ten minutes: a busy machine is no failure
    [ -n "$(squeue -h -r -j "$1" 2>/dev/null)" ] || return 0
    sleep 0.1
  done
  return 1
}
states() { scontrol -o show job "$1" 2>/dev/null | sed -nE 's/.*ArrayTaskId=([0-9]+).*JobState=([A-Z_]+).*ExitCode=([0-9:]+).*/\1 \2 \3/p' | sort -n | tr '\n' ','; }

# The task with most pictures is killed when it has done its first.  It is stopped at once then, so that it is not done before
# Slurm's signal comes; on a busy machine it may be done even before that, and all begins again.
mkdir bin
cat >bin/zenith-batch <<TEXT
#!/bin/sh
echo \$\$ >"$tmp/pid-\$SLURM_ARRAY_TASK_ID"
exec "$batch" "\$@"
TEXT
chmod 755 bin/zenith-batch
export PATH="$tmp/bin:$PATH"
for i in 1 2 3 4 5 6; do
  n=$("$batch" --preset "High ISO photo" --dry-run --shard $i/6 in nowhere | grep -c '^would do')
  echo "$n $i"
done | sort -rn | head -n 1 >most
victim=$(cut -d' ' -f2 most)
for try in 1 2 3 4 5 6 7 8; do
  rm -rf out pid-?
  job=$(sbatch --parsable zenith.sbatch 2>sbatch.err) || not_ok "slurm: sbatch" "$(cat sbatch.err)"
  for _ in $(seq 60000); do
    [ -s "out/.zenith-batch.$victim-of-6" ] && break
    sleep 0.01
  done
  kill -STOP "$(cat "pid-$victim")" 2>/dev/null
  scancel --full --signal=KILL "${job}_$victim"
  ended "$job" || break
  done_first=$(count out)
  [ "$done_first" = 24 ] || break
done
check "slurm: the job ends" "try $try: $(squeue -h -r -j "$job")" test -z "$(squeue -h -r -j "$job" 2>/dev/null)"
check "slurm: task $victim was killed in the middle" "$done_first of 24 are there; $(states "$job")" \
  test "$done_first" -lt 24 -a "$done_first" -ge 18
check "slurm: the other tasks are done" "$(states "$job")" test "$(states "$job" | tr ',' '\n' | grep -c 'COMPLETED 0:0')" = 5
differing=$(cd out && for f in *.jpg; do cmp "$f" "../want/$f"; done 2>&1)
check "slurm: what is there is whole" "$differing" test -z "$differing"
check "slurm: both nodes had work" "$(ls)" test "$(scontrol -o show job "$job" | grep -o ' NodeList=[a-z]*' | sort -u | wc -l)" = 2

# The same again: the killed one goes on, the others have nothing to do.
again=$(sbatch --parsable zenith.sbatch)
check "slurm: the second job ends" "$(squeue -h -r -j "$again")" ended "$again"
check "slurm: all of its tasks are done" "$(states "$again")" test "$(states "$again" | tr ',' '\n' | grep -c 'COMPLETED 0:0')" = 6
check "slurm: only what was missing was done" "$(tail -qn 1 zenith-?.log | tr '\n' ' ')" \
  test "$(sed -n 's/^\([0-9]*\) done, .*/\1/p' zenith-?.log | awk '{ n += $1 } END { print n }')" = $((24 - done_first))
check "slurm: 24 pictures, the same bytes as one after the other" "$(count out) of 24" test "$(sums out)" = "$(cat want.sums)"
check "slurm: no temporary files" "$(ls -A out)" test "$(clutter out)" = 0
# One task alone, as the manual says.
third=$(sbatch --parsable --array=3 zenith.sbatch)
ended "$third"
check "slurm: one task alone keeps its part" "$(tail -n 1 zenith-3.log)" grep -q '^0 done, [0-9]* done before, 0 skipped' zenith-3.log
finish
