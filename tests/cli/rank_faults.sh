#!/usr/bin/env bash
# Several ranks under mpirun, one of which has a fault of its own: a full disk; another build.
. "$(dirname "$0")/ranks_common.sh"
export QKV_MPI=$BINARY/qkv-mpi.so
# other COMMAND: from here on $QKV is 3 ranks, of which rank 1 runs the shell command for "$@".
other() {
    QKV=$folder/ranks
    printf '#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 1 ] || { %s; }\nexec "%s" "$@"\n' "$1" "$single" >one
    printf '#!/bin/sh\nexec mpirun -n 3 "%s" "$@"\n' "$folder/one" >"$QKV"
    chmod +x one "$QKV"
}
make_spec
make_text 400 >text.txt

# ---- a full disk on one rank: the checkpoint before is whole, and goes on ----
QKV=$single
try 0 train whole 8 --quiet --set d_model=256 --set decoder.ffn.d_ff=1024
try 0 train full 4 --quiet --set d_model=256 --set decoder.ffn.d_ff=1024
cp full/checkpoint.safetensors before.safetensors
other 'ulimit -f 16384' # 8 MiB, which leaves Open MPI its shared memory
try 1 resume full --steps 8 --quiet
has err '^qkv: rank 1: cannot write full/checkpoint.safetensors: '
cmp -s full/checkpoint.safetensors before.safetensors \
    || fail "a checkpoint that could not be written has replaced the one before"
[ -z "$(ls full/.*.tmp 2>/dev/null)" ] || fail "half a checkpoint was left"

# ---- another build ----
version=$("$single" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1)
changed=$(printf '%s' "$version" | tr 0-9 1-90)
sed "s/${version//./\\.}/$changed/g" "$single" >old
chmod +x old
other "exec \"$folder/old\" \"\$@\""
try 2 train build 4 --quiet # said before a file is read
has err 'rank 1.*(version|build)'
[ ! -e build/train.json ] || fail "a run that was refused has left a folder"
finish
