#!/usr/bin/env bash
# Places of ranks. Bound to CPUs by the launcher: all threads of a rank stay there, and a message reports once if all
# ranks got one CPU. On two hosts, which are this machine under two names: the bits are the same, and a rank that hangs
# or dies there ends the run.
. "$(dirname "$0")/ranks_common.sh"
make_spec
make_text 400 >text.txt
run="train --spec spec.json --data text.txt --batch 6 --warmup 1 --quiet"
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$1"; }

# ---- bound ----
first=$(allowed /proc/self/status | grep -oE '^[0-9]+')
if [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null; then
    try 0 taskset -c "$first" mpirun -n 2 "$single" $run --steps 2 --out bound
    same "$(ours | grep -c 'the launcher has bound the 2 ranks of .* to 1 of its [0-9]* CPUs')" 1 \
        "reports that all ranks have one CPU"
    try 0 mpirun -n 2 "$single" $run --steps 2 --out free
    hasnt err 'the launcher has bound'
    alike bound free "ranks that are bound and that are not"
    # Each to a core of its own; without --threads.
    OMPI_MCA_hwloc_base_binding_policy=core mpirun -n 2 "$single" $run --steps 3000 --out own >out 2>err </dev/null &
    child=$!
    for ((i = 0; i < 3000; i++)); do
        [ "$(cat own/log.jsonl 2>/dev/null | wc -l)" -lt 3 ] || break
        sleep 0.02
    done
    launcher=$child
    for rank in $(pgrep -P "$launcher"); do
        lists=$(for task in "/proc/$rank/task"/*/status; do allowed "$task"; done | sort -u)
        [ -n "$lists" ] || fail "rank $rank has ended"
        echo "$lists"
    done | sort >bindings
    same "$(uniq -d bindings)" "" "CPUs that both of two bound ranks may use"
    same "$(wc -l <bindings)" 2 "sets of CPUs of the threads of two bound ranks"
    kill -INT "$launcher"
    wait $child
    hasnt err 'the launcher has bound'
fi

# ---- two hosts ----
printf '#!/bin/sh\nhost=$1\nshift\nexec unshare -u sh -c "hostname $host; $*"\n' >agent
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_btl_tcp_if_include=lo \
    OMPI_MCA_oob_tcp_if_include=lo
hosts="--host $(hostname):1,other-host:1 -n 2"
if ! unshare -u true 2>why || ! timeout 60 mpirun $hosts true >/dev/null 2>why; then
    echo "there can be no second host here: ranks on two are not tested: $(grep -m1 '[a-z]' why)"
    finish
fi
try 0 "$single" $run --threads 1 --steps 4 --out one
try 0 mpirun $hosts "$single" $run --threads 1 --steps 4 --out two
alike one two "ranks on two hosts"
# away SIGNAL RANK: sends it to that rank, the only one of its host, while it trains.
away() {
    rm -rf "$1"
    try 0 "$single" $run --threads 1 --steps 4 --out "$1"
    timeout 100 mpirun $hosts "$single" train --resume "$1" --steps 100000 --quiet >out 2>err </dev/null &
    child=$!
    for ((i = 0; i < 3000; i++)); do
        [ "$(wc -l <"$1/log.jsonl")" -lt 8 ] || break
        sleep 0.02
    done
    for rank in $(pgrep -f -- "--resume $1 --steps 100000"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$rank/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2" && kill "-$1" "$rank"
    done
    wait $child
    code=$?
    cp err said
    [ $code != 0 ] && [ $code != 124 ] || fail "rank $2, alone on its host, got SIG$1: exit code $code"
    try 0 "$single" train --resume "$1" --steps 6 --quiet
}
export QKV_RANK_SECONDS=4
away STOP 1
has said '^qkv: rank 0 has waited 4 seconds for rank 1, which hangs'
died() { # RANK RANKS HOST
    away KILL "$1"
    has said \
        "^qkv: rank $1 of $2 \\(process [0-9]* on $3\\) has died, which ends all ranks; the checkpoint of step [0-9]+ is whole; go on with: .* train --resume KILL\$"
    same "$(grep -c '^qkv: rank' said)" 1 "lines of ours when rank $1 of $2 has died"
}
died 1 2 other-host
died 0 2 "$(hostname)"
hosts="--host $(hostname):1,other-host:1,third-host:1 -n 3"
died 2 3 third-host
finish
