#!/usr/bin/env bash
# A run is killed (SIGKILL) 20 times at random steps, one rank or all of them, and resumed with another number of ranks
# each time: it has the losses and weights of a run without interruption.
# labels: slow
. "$(dirname "$0")/ranks_common.sh"
export QKV_RANK_SECONDS=300
RANDOM=${QKV_TEST_SEED:-1}
make_spec
make_text 400 >text.txt
options="2000 --quiet --save-every 7 --eval-every 100 --set dropout=0.1"
try 0 train whole $options
lines() { cat killed/log.jsonl 2>/dev/null | wc -l; }
# begin N: N ranks begin the run, or go on with it, as $child.
begin() {
    printf '#!/bin/sh\nexec mpirun -n %d "%s" "$@"\n' "$1" "$single" >ranks # one rank has a launcher too
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
alike whole killed "a run that was killed 20 times"
finish
