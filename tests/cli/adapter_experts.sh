#!/usr/bin/env bash
# Adapters of experts on the command line: trained, resumed, used, chosen by name, merged, exported to a family, and
# refused.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_text 200 >text.txt
tac text.txt >other.txt
cat >spec.json <<'JSON'
{"format": "qkv", "version": 2, "d_model": 32, "context": 32,
 "decoder": {"layers": 2, "norm": {"kind": "rmsnorm"},
  "attention": {"heads": 4, "bias": false, "position": {"kind": "rope"}},
  "ffn": {"kind": "swiglu", "d_ff": 48, "bias": false, "experts": {"count": 4, "top_k": 2}}}}
JSON
try 0 train base 5 --quiet

# ---- trained, resumed, used, merged ----
adapt() { # adapt OUT LORA [OPTIONS]
    local out=$1 lora=$2
    shift 2
    try 0 "$QKV" train --from base --data other.txt --lora "$lora" --rate 1e-2 --warmup 0 --steps 12 --eval-every 4 \
        --out "$out" "$@"
}
# 4 matrices of attention, a router and 12 of experts in each layer
adapt whole rank=4,rslora=true,dropout=0.1
has err 'the adapters of 34 matrices'
adapt cut rank=4,rslora=true,dropout=0.1 --save-every 4 --keep 3
try 0 "$QKV" train --resume cut/checkpoint-8.safetensors --quiet
try 0 cmp whole/adapter_model.safetensors cut/adapter_model.safetensors
loss_of() { # loss_of MODEL [OPTIONS]
    try 0 "$QKV" eval "$@" --data other.txt --precision fp32 --json
    sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' out
}
same() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' || fail "$3: the loss is $1, not $2"
}
before=$(loss_of base)
after=$(loss_of base --adapter whole)
awk -v a="$before" -v b="$after" 'BEGIN { exit !(a - b > 0.01) }' || fail "the loss was $before and is $after"
try 0 "$QKV" export base --adapter whole --dtype f32 --out merged
same "$(loss_of merged)" "$after" "merged"

# ---- over a quantised file, and several by name ----
try 0 "$QKV" export base --to gguf --family qkv --dtype q8_0 --out small.gguf
try 0 "$QKV" eval small.gguf --adapter whole --data other.txt
adapt down rank=2,targets=experts.down
has down/adapter_config.json '"lora_dropout": *0'
requests() { # requests NAME...: a request for each name of a model
    local name
    for name; do
        printf '{"custom_id": "%s", "body": {"model": "%s", "prompt": "the king", "max_tokens": 12, %s}}\n' "$name" \
            "$name" '"seed": 3, "temperature": 0.8'
    done
}
answer() { # answer FILE NAME: the text of an answer
    grep -E "\"custom_id\": ?\"$2\"" "$1" | sed -E 's/.*"text": ?("([^"\\]|\\.)*").*/\1/'
}
requests small whole down >all.in
try 0 "$QKV" batch small.gguf --adapter whole=whole --adapter down=down --input all.in --output all.jsonl --quiet
for name in whole down; do
    requests any >one.in
    try 0 "$QKV" batch small.gguf --adapter "$name" --input one.in --output one.jsonl --quiet --force
    [ "$(answer all.jsonl "$name")" = "$(answer one.jsonl any)" ] || fail "$name answers otherwise among others"
done
[ "$(answer all.jsonl whole)" != "$(answer all.jsonl small)" ] || fail "the adapter changes nothing"
try 0 "$QKV" info base --lora rank=4 --batch 2

# ---- files of a family ----
try 0 "$QKV" export base --to huggingface --family mixtral --dtype f32 --out published
try 0 "$QKV" train --from published --data other.txt --lora rank=2,targets=w1,w3,experts.1.down --warmup 0 --steps 2 \
    --out named
has named/adapter_config.json '"w1"'
has named/adapter_config.json 'block_sparse_moe.experts.1.w2"'
named=$(loss_of published --adapter named)
try 0 "$QKV" export published --to gguf --family mixtral --dtype f32 --out published.gguf
same "$(loss_of published.gguf --adapter named)" "$named" "over a GGUF file"
try 1 "$QKV" export published --adapter named --to gguf-adapter --out named.gguf
has err 'no matrix for an adapter of decoder.layers.0.ffn.experts.0'

# ---- refused ----
try 1 "$QKV" train --from base --data other.txt --lora rank=2,dora=true --warmup 0 --steps 2 --out bad
has err 'is a matrix of an expert, which cannot have an adapter with magnitudes'
try 1 "$QKV" train --from base --data other.txt --lora rank=2,targets=experts.4.up --warmup 0 --steps 2 --out bad
has err 'no weight of the model has the name experts.4.up'
finish
