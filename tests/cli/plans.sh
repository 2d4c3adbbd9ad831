#!/usr/bin/env bash
# What is planned is what a process takes: its peak is no more than the plan, and the plan at most 15 % above the peak,
# or, of small runs, 10 MiB. Plans are those of info, of models and of what they are used for, and of training what it
# says before its first step. Peaks are what the system counts. Where weights stay in the file and only some are used,
# those of the experts that tokens go to, the pages of it that were not read may be missing from the peak. Each way that
# weights are read and each use; with PLANS=all, which takes long, each preset.
. "$(dirname "$0")/common.sh"
[ "${SANITIZE:-0}" != 1 ] || exit 0 # whose shadow is memory too
peak=$BINARY/tests/cli/peak

# compares WHAT PLANNED TAKEN [UNREAD], in KiB
compares() {
    checks=$((checks + 1))
    printf '%s: %d KiB are planned, %d taken%s\n' "$1" "$2" "$3" "${4:+, $4 of the weights were not read}"
    awk -v planned="$2" -v taken="$3" -v unread="${4:-0}" 'BEGIN {
        used = planned - unread
        exit !(taken <= planned && (used <= taken * 1.15 || used <= taken + 10240))}' ||
        fail "$1: $(($2 / 1024)) MiB are planned, $(($3 / 1024)) taken"
}
# plan MODEL KEY: the KiB that info plans for a use of a model, those of the process among them.
plan() {
    "$QKV" info "$1" --json --threads 1 >plan.json || fail "no plan of $1"
    grep -oE "\"($2|process_bytes)\": [0-9]+" plan.json | awk '{sum += $2} END {printf "%d", sum / 1024}'
}
# takes COMMAND...: runs it; its peak becomes $taken, and what it mapped and did not read $unread, in KiB.
takes() {
    try 0 "$peak" taken.txt "$QKV" "$@" --threads 1
    taken=$(cut -d' ' -f2 taken.txt) unread=$(cut -d' ' -f3 taken.txt)
}
context() { "$QKV" info "$1" --json --threads 1 | sed -nE 's/.*"context": ([0-9]+),.*/\1/p' | tail -1; }

# Texts of a model with a token for each byte: 64 lines of LENGTH bytes, which fill a batch; pairs of them; labels
# before them.
make_lines() {
    awk -v n="$1" \
        'BEGIN {for (i = 0; i < 64; i++) {s = i " "; while (length(s) < n) s = s "abc " i " "; print substr(s, 1, n)}}' >lines.txt
    paste lines.txt lines.txt >pairs.tsv
    awk '{print (NR % 3) "\t" $0}' lines.txt >labels.tsv
}

# ---- the uses of a model ----

# "some" says that some weights stay in the file and are not read.
generates() { # MODEL LENGTH [some]; fills the whole context
    seq -s ' ' $((2 * $2)) | head -c $(($2 - 2)) >prompt
    takes generate "$1" --prompt-file prompt -n 1 --temp 0 -q
    compares "generate $1" "$(plan "$1" run_bytes)" "$taken" ${3:+"$unread"}
}
evaluates() {
    head -c $((10 * $2)) lines.txt >text.txt # eight windows are a batch
    takes eval "$1" --data text.txt -q
    compares "eval $1" "$(plan "$1" evaluate_bytes)" "$taken"
}
embeds() { # MODEL [some]
    takes embed "$1" --input lines.txt --long keep-start -o vectors.safetensors --force
    compares "embed $1" "$(plan "$1" lines_bytes)" "$taken" ${2:+"$unread"}
}
classifies() {
    takes classify "$1" --input lines.txt --long keep-start -o classes.txt --force
    compares "classify $1" "$(plan "$1" lines_bytes)" "$taken"
    takes eval "$1" --labeled labels.tsv -q
    compares "eval $1 --labeled" "$(plan "$1" evaluate_bytes)" "$taken"
}
translates() {
    takes translate "$1" --input lines.txt --long keep-start -o found.txt --force
    compares "translate $1" "$(plan "$1" search_bytes)" "$taken"
    takes eval "$1" --pairs pairs.tsv -q
    compares "eval $1 --pairs" "$(plan "$1" evaluate_bytes)" "$taken"
}
exports() { # MODEL OUT OPTIONS...
    local model=$1 out=$2 use=export_bytes
    shift 2
    [ "$1" != --to ] || use=publish_bytes
    try 0 "$peak" taken.txt "$QKV" export "$model" "$@" --out "$out" --force
    compares "export $model $*" "$(QKV_PRECISION=fp32 plan "$model" $use)" "$(cut -d' ' -f2 taken.txt)"
}
evaluates_images() { # of vit-tiny: 64 of them fill a batch; all are black, and of class 0
    local header='{"in.pixels":{"dtype":"F32","shape":[64,1,28,28],"data_offsets":[0,200704]},'
    header+='"in.targets":{"dtype":"I32","shape":[64],"data_offsets":[200704,200960]}}'
    printf -v header '%-176s' "$header" # which is less than 256 bytes, so one byte says its length
    { printf '\260\0\0\0\0\0\0\0%s' "$header" && head -c 200960 /dev/zero; } >images.safetensors
    takes eval "$1" --examples images.safetensors -q
    compares "eval $1 --examples" "$(plan "$1" evaluate_bytes)" "$taken"
}
# A folder of sentence-transformers; nearly all of its weights are two dense layers of zeros, from 16 to $1 and back.
make_dense() {
    cp -r "$SOURCE/tests/golden/hf/embeddings" dense
    local bytes=$((64 * $1)) header in=16 out=$1 layer
    for layer in 2_Dense 3_Dense; do
        printf '{"in_features": %d, "out_features": %d, "bias": false}' $in $out >dense/$layer/config.json
        printf -v header '{"linear.weight":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}' $out $in $bytes
        printf -v header '%-176s' "$header" # which is less than 256 bytes, so one byte says its length
        { printf '\260\0\0\0\0\0\0\0%s' "$header" && head -c $bytes /dev/zero; } >dense/$layer/model.safetensors
        in=$1 out=16
    done
}
# trains OPTIONS...: the plan is what it says before its first step.
trains() {
    rm -rf trained
    takes train --out trained --steps 4 --warmup 1 --plain "$@"
    compares "train $*" "$(sed -nE 's/^machine .*, ([0-9.]+) ([MG])iB of memory .*/\1 \2/p' err out |
        awk '{printf "%d", $1 * ($2 == "G" ? 1024 : 1) * 1024 + ($2 == "G" ? 10000 : 100)}')" "$taken"
}

# ---- what is run again and again: data of pairs ----
make_pairs() {
    awk \
        'BEGIN {srand(1); for (i = 0; i < 250000; i++) {a = b = ""; for (j = 0; j < 4; j++) {w = int(rand() * 5000); a = a " w" w; b = b " v" w}; print substr(a, 2) "\t" substr(b, 2)}}' >pairs.tsv
    awk -F'\t' '{print (NR % 3) "\t" $2}' pairs.tsv >labels.tsv
    cut -f2 pairs.tsv >lines.txt
}
# A small model of a family whose matrices are transposed, and whose queries, keys and values are one tensor. A second
# copy of its weights is more than the 10 MiB that a plan may be wrong by.
make_own() { try 0 "$QKV" new --preset gpt2-small --set vocab=16384 --set decoder.layers=3 --set context=256 \
    --set d_model=384 --out own --quiet; }

# ---- each preset ----

if [ "${PLANS:-}" = all ]; then
    for preset in nano-gpt baby-gpt gpt2-small llama-style bloom-style mqa-style mla-tiny deepseek-style moe-tiny \
        gemma-style neox-style \
        qwen3-style mixtral-style gpt-oss-style tiny-lm; do
        rm -rf fresh
        try 0 "$QKV" new --preset $preset --out fresh --quiet
        length=$(context fresh) experts=
        case $preset in moe-tiny | deepseek-style | mixtral-style | gpt-oss-style) experts=some ;; esac
        make_lines "$length"
        for dtype in f32 bf16; do
            rm -rf model
            exports fresh model --dtype $dtype
            if [ $dtype = bf16 ]; then generates model "$length" $experts; else generates model "$length"; fi
        done
        evaluates fresh "$length"
        embeds fresh
    done
    for preset in transformer-base t5-style g2p tiny-seq2seq tiny-translator; do
        rm -rf fresh
        shorter=() # a batch of the whole context takes an hour
        case $preset in transformer-base | t5-style) shorter=(--set context=64) ;; esac
        try 0 "$QKV" new --preset $preset "${shorter[@]}" --out fresh --quiet
        make_lines $(($(context fresh) - 2))
        translates fresh
    done
    for preset in bert-base bert-tiny tiny-encoder text-classifier; do
        rm -rf fresh
        classes=
        [ $preset != text-classifier ] || classes="--set head.classes=3"
        # shellcheck disable=SC2086
        try 0 "$QKV" new --preset $preset $classes --out fresh --quiet
        make_lines $(($(context fresh) - 2))
        [ $preset = text-classifier ] && classifies fresh
        embeds fresh
    done
    make_own
    exports own own-f16 --dtype f16
    generates own-f16 256
    exports own published-f16 --to huggingface --dtype f16
    generates published-f16 256
    make_pairs
    trains --preset tiny-seq2seq --pairs pairs.tsv --tokenizer bytes
    trains --preset tiny-seq2seq --pairs pairs.tsv --tokenizer bpe:400
    trains --preset tiny-lm --set context=64 --lines lines.txt
    finish
fi

# ---- our own folders, and those of a family whose matrices are transposed and whose queries, keys and values are one
# tensor ----
make_lines 256
make_own
for dtype in f32 bf16; do
    exports own own-$dtype --dtype $dtype
    generates own-$dtype 256
    exports own published-$dtype --to huggingface --dtype $dtype
    generates published-$dtype 256
done
evaluates own-f32 256
evaluates own-bf16 256
embeds published-f32
embeds own-bf16 some # of the table of tokens
for folder in llama_sharded deepseek_v3_fp8 gpt_oss_mxfp4; do # several files; numbers with a scale for each block
    exports "$SOURCE/tests/golden/hf/$folder" again --dtype f32
done
for folder in llama_sharded deepseek_v3_fp8 gpt_oss_mxfp4; do
    takes generate "$SOURCE/tests/golden/hf/$folder" --ids -p "1 2 3" -n 2 --temp 0 -q
    compares "generate $folder" "$(plan "$SOURCE/tests/golden/hf/$folder" run_bytes)" "$taken"
done

# ---- the other uses ----
make_lines 62
try 0 "$QKV" new --preset tiny-seq2seq --out seq2seq --quiet
translates seq2seq
try 0 "$QKV" new --preset text-classifier --set head.classes=3 --out classifier --quiet
make_lines 126
classifies classifier
try 0 "$QKV" new --preset vit-tiny --set head.classes=10 --out vit --quiet
evaluates_images vit
embeds classifier
make_dense 200000
embeds dense
exports dense again --dtype f32
rm -r dense again

# ---- training: of a text, of lines, of pairs with two tokenizers, of labels; its checkpoint ----
make_text 20000 >text.txt
trains --preset nano-gpt --data text.txt
generates trained/checkpoint.safetensors 64
takes compare --data text.txt --preset nano-gpt --axis kv=mha --steps 4 --warmup 1 --cache 64 --out compared
compares "compare" "$(plan trained none | awk -v bytes="$(grep -oE '"train_bytes": ?[0-9]+' compared/results.json \
    | grep -oE '[0-9]+')" '{printf "%d", $1 + bytes / 1024}')" "$taken"
make_pairs
trains --preset tiny-seq2seq --pairs pairs.tsv
trains --preset text-classifier --labeled labels.tsv

# ---- adapters, over weights that stay in their file ----
trains --from own-bf16 --lora rank=64 --data text.txt --context 256 --batch 2 --groups 1
compares "info --lora" "$("$QKV" info own-bf16 --lora rank=64 --batch 2 --context 256 --json --threads 1 |
    grep -oE '"(train_bytes|process_bytes)": [0-9]+' | awk '{sum += $2} END {printf "%d", sum / 1024}')" "$taken"
seq -s ' ' 512 | head -c 254 >prompt
takes generate own-f32 --adapter trained --prompt-file prompt -n 1 --temp 0 -q
compares "generate --adapter" "$("$QKV" info own-f32 --adapter trained --json --threads 1 |
    grep -oE '"(run_bytes|process_bytes)": [0-9]+' | awk '{sum += $2} END {printf "%d", sum / 1024}')" "$taken"

# ---- a tokenizer of one long word: 10 to 12 bytes for each of its own ----
awk 'BEGIN {srand(1); for (i = 0; i < 4000000; i++) printf "%c", 97 + int(26 * rand())}' >word
head -c 4000000 /dev/zero | tr '\0' a >same
for text in word same; do
    try 0 "$peak" taken "$QKV" tokenize --train $text --tokenizer bpe:400 -o $text.json --quiet
    checks=$((checks + 1))
    [ "$(cut -d' ' -f1 taken)" -lt $((4000000 * 15 / 1024 + 4096)) ] \
        || fail "a tokenizer of $text takes $(cat taken) KiB"
    (ulimit -d 40000 && "$QKV" tokenize --train $text --tokenizer bpe:400 -o $text.json --quiet --force) >out 2>err \
        && fail "$text is not refused"
    last="tokenize --train $text"
    has err '^qkv: training the tokenizer: [0-9.]+ MiB are needed, but only [0-9.]+ MiB are left by the limit of data'
done
finish
