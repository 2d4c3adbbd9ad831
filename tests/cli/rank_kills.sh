#!/usr/bin/env bash
# Killed (SIGKILL) 20 times at random steps, one rank or all of them, and each time gone on with by another number of ranks: the run has
# the losses and weights of one that was never stopped.
. "$(dirname "$0")/common.sh"
if [ ! -e "$BINARY/qkv-mpi.so" ] || ! command -v mpirun >/dev/null; then
    echo "there is no Open MPI here: nothing is tested"
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none QKV_RANK_SECONDS=300
export ASAN_OPTIONS=detect_leaks=0 # those of Open MPI, which the command does not own
if ! mpirun -n 2 true >/dev/null 2>why; then
    echo "Open MPI is installed, but starts nothing here; nothing is tested: $(grep -m1 '[a-z]' why)"
    exit 0
fi
single=$QKV
RANDOM=${QKV_TEST_SEED:-1}
make_spec
make_text 400 >text.txt
options="2000 --quiet --save-every 7 --eval-every 100 --set dropout=0.1"
try 0 train whole $options
lines() { cat killed/log.jsonl 2>/dev/null | wc -l; }
# begin N: N ranks begin the run, or go on with it, as $child.
begin() {
    printf '#!/bin/sh\nexec mpirun -n %d "%s" "$@"\n' "$1" "$single" >ranks
    chmod +x ranks
    QKV=$folder/ranks
    if [ -e killed/checkpoint.safetensors ]; then
        "$QKV" train --resume killed --quiet >out 2>err </dev/null &
    else
        rm -rf killed
        train killed $options >out 2>err </dev/null &
    fi
    child=$!
}
n=$((RANDOM % 4 + 1))
for ((kills = 0; kills < 20; kills++)); do
    until_line=$(($(lines) + RANDOM % 60 + 3))
    begin $n
    for ((i = 0; i < 6000; i++)); do
        [ "$(lines)" -lt $until_line ] || break
        kill -0 $child 2>/dev/null || break
        sleep 0.01
    done
    launcher=$(pgrep -P $child mpirun || echo $child)
    members=$(pgrep -P "$launcher")
    if [ $((RANDOM % 2)) = 0 ]; then
        kill -KILL $members 2>/dev/null
    else
        kill -KILL $(echo "$members" | sort -R | head -1) 2>/dev/null
    fi
    wait $child 2>/dev/null
    echo "$n ranks killed after step $(lines)"
    n=$(((n + RANDOM % 3) % 4 + 1))
done
begin $n
wait $child || fail "the last time: $(head -3 err)"
same "$(losses whole)" "$(losses killed)" "losses of a run that was killed 20 times"
cmp -s whole/model.safetensors killed/model.safetensors || fail "a run that was killed 20 times has other weights"
finish
