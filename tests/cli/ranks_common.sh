# ranks_common.sh: shared by the tests of several ranks, which source it instead of common.sh. The tests are skipped if
# Open MPI cannot start programs.
. "$(dirname "$0")/common.sh"
if [ ! -e "$BINARY/qkv-mpi.so" ] || ! command -v mpirun >/dev/null; then
    echo "there is no Open MPI here: nothing is tested"
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none QKV_RANK_SECONDS=120
export ASAN_OPTIONS=detect_leaks=0 # those of Open MPI, which the command does not own
if ! mpirun -n 2 true >/dev/null 2>why; then
    echo "Open MPI is installed, but starts nothing here; nothing is tested: $(grep -m1 '[a-z]' why)"
    exit 0
fi
single=$QKV
# Numbers of ranks whose results are compared. Sanitizers change no result: one and three show them what all do.
counts='1 2 3' precisions='fp32 bf16'
[ "${SANITIZE:-0}" != 1 ] || counts='1 3' precisions=fp32
# ranks N: from here on $QKV is that many ranks of the command.
ranks() {
    QKV=$single
    [ "$1" != 1 ] || return 0
    QKV=$folder/ranks-$1
    printf '#!/bin/sh\nexec mpirun -n %d "%s" "$@"\n' "$1" "$single" >"$QKV"
    chmod +x "$QKV"
}
# Lines of ours among the launcher's.
ours() { grep '^qkv: ' err; }
# alike A B WHAT: two runs have the same losses and weights.
alike() {
    same "$(losses "$1")" "$(losses "$2")" "losses of $3"
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || fail "$3: other weights"
}
# in_background RUN LINES OPTIONS...: trains as $child, started by $launcher; returns when so many lines are in the log.
in_background() {
    local run=$1 lines=$2
    shift 2
    train "$run" "$@" >out 2>err </dev/null &
    child=$!
    eventually lines_in "$run/log.jsonl" "$lines" || fail "$run has no $lines steps"
    launcher=$(pgrep -P $child mpirun)
}
# make_experts WIDTH COUNT: the spec of a model with a mixture of so many experts. make_pairs N: lines of a source and
# its target.
make_experts() {
    cat <<END
{"format": "qkv", "version": 2, "d_model": $1, "context": $1, "embed": {"position": {"kind": "learned"}},
 "decoder": {"layers": 2, "attention": {"heads": 4},
             "ffn": {"kind": "swiglu", "d_ff": $1, "experts": {"count": $2, "top_k": 2, "correction": true}}}}
END
}
make_pairs() {
    awk -v n="$1" \
        'BEGIN {for (i = 0; i < n; i++) {w = ""; for (j = 0; j <= i % 7; j++) w = w sprintf("%c", 97 + (i * 7 + j * j) % 9); print w "\t" w w}}'
}
