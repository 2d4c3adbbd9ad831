#!/usr/bin/env bash
# What info plans is what a process takes: no more than 2 MiB less, and no more than 15 % and 10 MiB more. Of a model in each way that
# weights are read, and with PLANS=all, which takes minutes, of each preset that generates.
. "$(dirname "$0")/common.sh"
[ "${SANITIZE:-0}" != 1 ] || exit 0 # whose shadow is memory too
peak=$BINARY/tests/cli/peak

# plan MODEL: KiB to run, of the model and of the process.
plan() {
    "$QKV" info "$1" --json --threads 1 >plan.json || fail "no plan of $1"
    sed -nE 's/.*"run_bytes": ([0-9]+).*/\1/p; s/.*"process_bytes": ([0-9]+).*/\1/p' plan.json | awk '{sum += $1} END {printf "%d", sum / 1024}'
}
# compares WHAT PLANNED TAKEN, in KiB
compares() {
    checks=$((checks + 1))
    awk -v planned="$2" -v taken="$3" 'BEGIN {exit !(taken <= planned + 2048 && planned <= taken * 1.15 + 10240)}' ||
        fail "$1: $(($2 / 1024)) MiB are planned, $(($3 / 1024)) taken"
}
# generates MODEL: fills the whole context.
generates() {
    local context
    context=$(grep -o '"context": *[0-9]*' "$1/config.json" | grep -o '[0-9]*$')
    [ -n "$context" ] || context=$2
    seq -s ' ' $((2 * context)) | head -c $((context - 2)) >prompt
    try 0 "$peak" taken "$QKV" generate "$1" --prompt-file prompt -n 1 --temp 0 --threads 1 -q
    compares "generate $1" "$(plan "$1")" "$(cut -d' ' -f2 taken)"
}

if [ "${PLANS:-}" = all ]; then
    for preset in nano-gpt baby-gpt gpt2-small llama-style bloom-style mqa-style mla-tiny deepseek-style moe-tiny gemma-style neox-style \
        qwen3-style mixtral-style gpt-oss-style tiny-lm; do
        for dtype in f32 bf16; do
            rm -rf fresh model
            try 0 "$QKV" new --preset $preset --out fresh --quiet
            try 0 "$QKV" export fresh --dtype $dtype --out model
            generates model
        done
    done
    finish
fi

# ---- our own folders, and those of a family whose matrices are transposed and whose queries, keys and values are one tensor ----
try 0 "$QKV" new --preset gpt2-small --set vocab=16384 --set decoder.layers=3 --set context=256 --out own --quiet
for dtype in f32 f16 bf16; do
    try 0 "$QKV" export own --dtype $dtype --out own-$dtype
    generates own-$dtype 256
    try 0 "$peak" taken "$QKV" export own --to huggingface --dtype $dtype --out published-$dtype
    # weights are read in fp32; one tensor at a time is written
    compares "export to $dtype" "$(plan own-f32)" "$(cut -d' ' -f2 taken)"
    generates published-$dtype 256
done

# ---- a tokenizer of one long word: 10 to 12 bytes for each of its own ----
awk 'BEGIN {srand(1); for (i = 0; i < 4000000; i++) printf "%c", 97 + int(26 * rand())}' >word
head -c 4000000 /dev/zero | tr '\0' a >same
for text in word same; do
    try 0 "$peak" taken "$QKV" tokenize --train $text --tokenizer bpe:400 -o $text.json --quiet
    checks=$((checks + 1))
    [ "$(cut -d' ' -f1 taken)" -lt $((4000000 * 15 / 1024 + 4096)) ] || fail "a tokenizer of $text takes $(cat taken) KiB"
    (ulimit -d 40000 && "$QKV" tokenize --train $text --tokenizer bpe:400 -o $text.json --quiet --force) >out 2>err && fail "$text is not refused"
    last="tokenize --train $text"
    has err '^qkv: training the tokenizer: [0-9.]+ MiB are needed, but only [0-9.]+ MiB are left by the limit of data'
done
finish
