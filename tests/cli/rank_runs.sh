#!/usr/bin/env bash
# 50 steps of a GPT, an encoder-decoder and a mixture of experts, in fp32 and bf16, with and without accumulation, on 1 to 4 ranks of one
# thread: equal losses and weights.
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
make_text 2000 >text.txt
cat >experts.json <<'END'
{"format": "qkv", "version": 2, "d_model": 64, "context": 64, "embed": {"position": {"kind": "learned"}},
 "decoder": {"layers": 2, "attention": {"heads": 4},
             "ffn": {"kind": "swiglu", "d_ff": 64, "experts": {"count": 8, "top_k": 2, "correction": true}}}}
END
awk 'BEGIN {for (i = 0; i < 300; i++) {w = ""; for (j = 0; j <= i % 7; j++) w = w sprintf("%c", 97 + (i * 7 + j * j) % 9); print w "\t" w w}}' >pairs.tsv
for kind in gpt pairs experts; do
    case $kind in
    gpt) model="--preset nano-gpt --tokenizer chars --data text.txt" ;;
    pairs) model="--preset tiny-seq2seq --tokenizer chars --pairs pairs.tsv" ;;
    experts) model="--spec experts.json --data text.txt" ;;
    esac
    for precision in fp32 bf16; do
        for accumulate in 1 3; do
            first=$kind-$precision-$accumulate-1
            for n in 1 2 3 4; do
                name=$kind-$precision-$accumulate-$n
                launcher="mpirun -n $n"
                [ $n != 1 ] || launcher=
                try 0 $launcher "$QKV" train $model --precision $precision --accumulate $accumulate --batch 12 --steps 50 \
                    --warmup 5 --eval-every 25 --threads 1 --quiet --out $name
                [ $n != 1 ] || continue
                same "$(losses $first)" "$(losses $name)" "losses of $name"
                cmp -s $first/model.safetensors $name/model.safetensors || fail "$name: other weights"
            done
            rm -rf $kind-$precision-$accumulate-[234]
        done
    done
done
finish
