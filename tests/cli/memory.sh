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

# ---- embedding, classifying, translating, evaluating, exporting: checked before weights are read ----
if [ "${SANITIZE:-0}" != 1 ]; then
    # refuses WHAT WAYS LIMIT COMMAND...: needs more than LIMIT KiB; the sentence names what needs less.
    refuses() {
        local left="but only [0-9.]+ MiB are left by the limit of addresses \(ulimit -v\)"
        refuse 1 "^qkv: $1: [0-9.]+ [MG]iB are needed, $left; choose $2.*--ignore-memory\$" within "${@:3}" --threads 1
    }
    new() { try 0 "$QKV" new "$@" --quiet; }
    make_lines() { # make_lines LENGTH
        awk -v n="$1" 'BEGIN {for (i = 0; i < 64; i++) {s = i; while (length(s) < n) s = s " abc"; print s}}'
    }
    new --preset gpt2-small --set vocab=4096 --set decoder.layers=2 --out lm
    new --preset tiny-seq2seq --set context=2048 --out seq2seq
    new --preset text-classifier --set head.classes=3 --set context=1024 \
        --set d_model=512 --set encoder.ffn.d_ff=4096 --out classifier
    make_lines 1000 >lines.txt
    sed 's/^/0\t/' lines.txt >labels.tsv
    sed 's/.*/&\t&/' lines.txt >pairs.tsv
    refuses embedding 'shorter lines \(.*, or a smaller model' 160000 "$QKV" embed lm --input lines.txt -o vectors
    refuses embedding 'fewer lines at once \(.*, or a smaller model' 160000 \
        "$QKV" embed lm --input <(yes a | head -30000) -o vectors
    refuses evaluating 'a smaller --batch \(.*, a smaller --context \(.*, or a smaller model' 200000 \
        "$QKV" eval lm --data lines.txt
    refuses translating '--beam 1 \(.*, a smaller --max-tokens \(' 120000 "$QKV" translate seq2seq abc --beam 4000
    refuses translating 'a smaller --batch \(' 120000 "$QKV" translate seq2seq --input lines.txt --batch 64
    refuses evaluating 'a smaller --batch \(' 120000 "$QKV" eval seq2seq --pairs pairs.tsv --batch 64
    refuses classifying 'shorter lines \(.*, --precision bf16 \(' 170000 "$QKV" classify classifier --input lines.txt
    refuses evaluating 'shorter lines \(.*, --precision bf16 \(' 170000 "$QKV" eval classifier --labeled labels.tsv
    new --preset vit-tiny --set head.classes=10 --set d_model=512 --set encoder.ffn.d_ff=2048 --out images
    header='{"in.pixels":{"dtype":"F32","shape":[64,1,28,28],"data_offsets":[0,200704]}}'
    printf -v header '%-176s' "$header" # which is less than 256 bytes, so one byte says its length
    { printf '\260\0\0\0\0\0\0\0%s' "$header" && head -c 200704 /dev/zero; } >images.safetensors
    # The file is mapped besides, so addresses are not limited.
    images_within() { (ulimit -d "$1" && exec "$QKV" "${@:2}" images --examples images.safetensors --threads 1); }
    refuse 1 '^qkv: classifying: [0-9.]+ MiB are needed, .* left by the limit of data.*; choose .*a smaller model' \
        images_within 60000 classify
    try 0 images_within 200000 classify
    refuse 1 '^qkv: images.safetensors has no in.targets' images_within 60000 eval
    header='{"in.pixels":{"dtype":"F32","shape":[64,1,28,28],"data_offsets":[0,200704]},'
    header+='"in.targets":{"dtype":"I32","shape":[64],"data_offsets":[200704,200960]}}'
    printf -v header '%-176s' "$header"
    { printf '\260\0\0\0\0\0\0\0%s' "$header" && head -c 200960 /dev/zero; } >images.safetensors
    refuse 1 '^qkv: evaluating: [0-9.]+ MiB are needed, .* left by the limit of data.*; choose .*a smaller model' \
        images_within 60000 eval
    try 0 images_within 200000 eval
    rm -r images images.safetensors
    export_within() { (ulimit -d 60000 && exec "$QKV" export lm --dtype bf16 --out small "$@"); }
    sentence='^qkv: exporting: [0-9.]+ MiB are needed, but only [0-9.]+ MiB are left by the limit of data'
    refuse 1 "$sentence" export_within
    refuse 1 "$sentence" export_within --to huggingface
    [ ! -e small ] && [ ! -e vectors ] || fail "a command that is refused leaves something"
    # lines of standard input are checked when they are there; what fits is not refused
    within 160000 "$QKV" embed lm -o vectors --threads 1 <lines.txt >out 2>err
    last="embed lm <lines.txt"
    has err '^qkv: embedding: [0-9.]+ MiB are needed'
    try 0 within 160000 "$QKV" embed lm abc -o vectors --threads 1
    try 0 within 200000 "$QKV" eval lm --data text.txt --batch 1 --context 64 --threads 1
    try 0 within 120000 "$QKV" translate seq2seq abc --max-tokens 5 --threads 1
    # a line has fewer tokens than bytes: it is refused only where its tokens are too many
    for i in 1 2 3 4 5 6 7 8; do printf 'word%0900d ' $i; done >words.txt
    try 0 "$QKV" train --preset tiny-lm --set context=8192 --set decoder.ffn.d_ff=16384 --lines words.txt \
        --valid words.txt --tokenizer whitespace --out words --steps 1 --batch 1 --warmup 0 --threads 1 --quiet
    try 0 within 100000 "$QKV" embed words --input words.txt -o vectors --force --threads 1
    rm -r lm seq2seq classifier words vectors
fi

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
refuse 1 '^qkv: options/train\.json has other options' resume options/ --steps 7
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
