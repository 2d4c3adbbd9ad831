# ranks_common.sh: what the tests of several ranks share; each sources it in place of common.sh. Nothing is tested where Open MPI cannot
# start programs.
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
