#!/usr/bin/env bash
# qkv doctor: its output is what other commands do; the environment and limits change it; missing parts are named.
# labels: quick
. "$(dirname "$0")/common.sh"
value() { sed -nE 's/.*"'"$1"'": "?([^",]*)"?[,}].*/\1/p' out; }

unset QKV_ISA QKV_PRECISION QKV_THREADS
try 0 "$QKV" doctor
for row in qkv processor kernels precision threads memory libraries ranks; do has out "^$row +[^ ]"; done
has out '^qkv +[0-9.]+$'
[ "$(awk 'length > 80' out | wc -l)" = 0 ] || fail "doctor is wider than a terminal"

# The tables are those that messages list, and each of them is taken when it is named.
try 0 "$QKV" doctor --json
best=$(value kernels)
tables=$(QKV_ISA=none "$QKV" info --preset nano-gpt 2>&1 | sed -n 's/.*kernel tables: //p')
same "$(sed -nE 's/.*"tables": \[([^]]*)\].*/\1/p' out | tr -d '"')" "$tables" "the tables of doctor"
same "$best" "${tables%%,*}" "the table that is chosen"
for table in ${tables//,/}; do
    try 0 env QKV_ISA="$table" "$QKV" doctor --json
    same "$(value kernels)" "$table" "the kernels of QKV_ISA"
    has out '"kernels_why": "as QKV_ISA says"'
done
if [ "$best" != scalar ]; then
    try 0 "$QKV" doctor --isa scalar
    has out 'as --isa says'
    has out '^what could be better:'
    has out '^  - better kernels are there'
fi

for precision in fp32 bf16; do
    try 0 env QKV_PRECISION=$precision "$QKV" doctor --json
    same "$(value precision)" $precision "the precision of QKV_PRECISION"
    has out 'as QKV_PRECISION says'
done
try 0 "$QKV" doctor --json --threads 1
same "$(value threads)" 1 "the threads of --threads"
try 0 env QKV_THREADS=1 "$QKV" doctor --json
has out '"threads_why": "as QKV_THREADS says'

# Memory: what a limit leaves.
if [ "${SANITIZE:-0}" != 1 ]; then
    try 0 bash -c 'ulimit -v 4000000; exec "$0" doctor --json --threads 1' "$QKV"
    [ "$(value memory_bytes)" -lt 4096000000 ] || fail "a limit of 4,000,000 KiB leaves $(value memory_bytes) bytes"
    has out 'ulimit -v|memory of this machine|control group'
fi

# Where the system says nothing of memory and of control groups, doctor says so, and works.
hide='mount --bind /dev/null /proc/meminfo && mount -t tmpfs none /sys/fs/cgroup'
if unshare -m bash -c "$hide" 2>/dev/null; then
    try 0 unshare -m bash -c "$hide"' && exec "$0" doctor' "$QKV"
    has out '^memory +unknown'
    tr -s ' \n' ' ' <out >flat
    has flat 'unknown by control groups'
    has flat 'control groups cannot be read'
    has flat 'does not say how much memory is left'
    try 0 unshare -m bash -c "$hide"' && exec "$0" doctor --json' "$QKV"
    has out '"memory_bytes": null'
else
    echo 'left out: files of the system cannot be hidden here'
fi

# Ranks: where there is no module, what to install.
try 0 env QKV_MPI=/nowhere/qkv-mpi.so "$QKV" doctor
has out '^ranks +no module'
has out 'install Open MPI'
try 0 env QKV_MPI=/nowhere/qkv-mpi.so "$QKV" doctor --json
has out '"ranks_module": null'
if [ -e "$BINARY/qkv-mpi.so" ]; then
    try 0 "$QKV" doctor
    has out '^ranks +.*qkv-mpi\.so$'
fi

try 2 env QKV_ISA=none "$QKV" doctor
has err 'kernel tables: '
try 2 "$QKV" doctor now
try 2 "$QKV" docter
has err 'did you mean doctor'
finish
