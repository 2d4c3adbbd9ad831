#!/usr/bin/env bash
# 50 steps of a GPT, an encoder-decoder and a mixture of experts, in fp32 and bf16, with and without accumulation, on 1
# to 4 ranks of one thread: equal losses and weights.
# labels: slow
. "$(dirname "$0")/ranks_common.sh"
export QKV_RANK_SECONDS=300
make_text 2000 >text.txt
make_experts 64 8 >experts.json
make_pairs 300 >pairs.tsv
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
                try 0 $launcher "$QKV" train $model --precision $precision --accumulate $accumulate --batch 12 \
                    --steps 50 \
                    --warmup 5 --eval-every 25 --threads 1 --quiet --out $name
                [ $n != 1 ] || continue
                alike $first $name $name
            done
            rm -rf $kind-$precision-$accumulate-[234]
        done
    done
done
finish
