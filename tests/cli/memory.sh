#!/usr/bin/env bash
# Work that needs more memory than the machine has is refused before it begins; also models and options edited by hand.
. "$(dirname "$0")/common.sh"

make_text 400 >text.txt
make_spec
within() { # within KIB COMMAND...: with so many addresses
    (
        ulimit -v "$1"
        shift
        exec "$@"
    )
}
large="--set d_model=1024 --set decoder.layers=8 --set decoder.ffn.d_ff=4096"

# ---- training ----
if [ "${SANITIZE:-0}" != 1 ]; then # whose shadow is larger than any limit
    # shellcheck disable=SC2086
    refuse 1 \
        '^qkv: training: [0-9.]+ GiB are needed, but only [0-9.]+ MiB are left by the limit of addresses \(ulimit -v\); .*--ignore-memory$' \
        within 500000 "$QKV" train --spec spec.json $large --data text.txt --out large --batch 4 --threads 1
    [ ! -e large ] || fail "a refused run has made its folder"
    # shellcheck disable=SC2086
    refuse 1 'out of memory' \
        within 500000 "$QKV" train --spec spec.json $large --data text.txt --out large --batch 4 --threads 1 --quiet \
        --ignore-memory
    [ ! -e large ] || fail "a run that failed has left its folder"
fi
if [ "${SANITIZE:-0}" != 1 ]; then # pairs are held in memory while they are encoded
    awk 'BEGIN {for (i = 0; i < 3000000; i++) print "abcdefghijk\tkjihgfedcba" i}' >pairs.tsv
    refuse 1 '^qkv: .*pairs\.tsv: [0-9.]+ MiB are needed, but only [0-9.]+ MiB are left by the limit of addresses' \
        within 60000 "$QKV" train --preset tiny-seq2seq --tokenizer bytes --pairs pairs.tsv --out pairs --steps 1 \
        --threads 1 --quiet
    [ ! -e pairs ] || fail "a run that was refused for its pairs has left its folder"
    rm pairs.tsv
fi
try 0 train run 5 --quiet --set position.kind=alibi
try 0 "$QKV" generate run -n 5 -q --threads 1

# ---- specs changed by hand ----
sed 's/"context": 32/"context": 1000000/' run/config.json >longer && cp longer run/config.json
refuse 1 'model\.safetensors: these weights belong to another spec than config\.json .*--ignore-digest$' \
    "$QKV" generate run -n 5
refuse 1 'another spec' "$QKV" eval run --data text.txt --context 16
refuse 1 'another spec' "$QKV" attend run --prompt "the king"
refuse 1 'another spec' "$QKV" inspect run --prompt "the king"
refuse 1 'another spec' "$QKV" embed run "the king" --text
try 0 "$QKV" eval run --data text.txt --context 16 --threads 1 --ignore-digest
if [ "${SANITIZE:-0}" != 1 ]; then
    refuse 1 '^qkv: generating: [0-9.]+ [MG]iB are needed, but only [0-9.]+ MiB are left by the limit of addresses' \
        within 500000 "$QKV" generate run -n 5 -q --threads 1 --ignore-digest
fi

# ---- options changed by hand ----
try 0 train options 5 --quiet
sed 's/"rate": 0.001/"rate": 0.002/' options/train.json >other && cp other options/train.json
refuse 1 'options/train\.json has other options than the checkpoint .*--ignore-digest$' resume options --steps 7
try 0 resume options --steps 7 --quiet --ignore-digest
try 0 resume options --steps 8 --quiet # the digest is now that of the options that it went on with


# ---- ranks: what they plan fits together ----
# planned KEY: the sum over the ranks of the latest plan.
planned() { grep '^{"rank": ' out | sed -E "s/.*\"$1\": ([0-9.e+]+).*/\1/" \
    | awk '{sum += $1} END {printf "%.0f", sum}'; }
try 0 "$QKV" info --preset baby-gpt --json --ranks 1 --threads 1
moments=$(planned optimizer_bytes) rows=$(planned rows)
same "$(planned gradient_sent)$(planned weight_sent)$(planned received)" 000 "what one rank sends"
for ranks in 2 3 8; do
    try 0 "$QKV" info --preset baby-gpt --json --ranks $ranks --threads 1
    same "$(grep -c '^{"rank": ' out)" $ranks "ranks that are planned"
    same "$(planned optimizer_bytes)" "$moments" "moments of $ranks ranks together"
    same "$(planned rows)" "$rows" "rows of $ranks ranks together"
    same "$(awk "BEGIN {printf \"%.0f\", $(planned gradient_sent) + $(planned weight_sent)}")" "$(planned received)" \
        "what $ranks ranks send and receive"
done
try 0 "$QKV" info --preset baby-gpt --ranks 3 --batch 2 --network 1
has out '^3 ranks, 2 x 256 a step, 2 groups$'
has out '^     2      none     0 '
refuse 2 'there are 9 ranks and 8 groups of a batch' "$QKV" info --preset baby-gpt --ranks 9
try 0 "$QKV" info --preset baby-gpt --ranks 9 --groups 16
refuse 2 '\-\-network has no effect: it is for --ranks' "$QKV" info --preset baby-gpt --network 1
finish
