#!/usr/bin/env bash
# qkv export: a model in half the bytes gives the results of the rounded numbers in fp32; qkv info on it, training from
# it, and refusals.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_spec
make_text 400 >text.txt
try 0 train run 30 --quiet

for dtype in bf16 f16; do
    try 0 "$QKV" export run --dtype $dtype -o small.$dtype
    [ ! -s out ] || fail "export writes to standard output"
    has err "^small\\.$dtype: [0-9,]+ parameters, the matrices in $dtype\$"
    same "$(wc -l <err)" 1 "lines of export"
    # The same numbers in fp32.
    try 0 "$QKV" export small.$dtype --dtype f32 -o wide.$dtype
    for precision in fp32 bf16; do
        for folder in small wide; do
            try 0 "$QKV" generate $folder.$dtype --prompt "the king " -n 40 --seed 7 --precision $precision
            cp out text.$folder
            try 0 "$QKV" eval $folder.$dtype --data text.txt --precision $precision --json
            grep -oE '"loss": *[0-9.e-]+' out >loss.$folder || fail "$last: no loss"
        done
        cmp -s text.small text.wide || fail "$dtype, $precision: another text than the same numbers in fp32 give"
        cmp -s loss.small loss.wide || fail "$dtype, $precision: another loss than the same numbers in fp32 give"
    done
    bytes=$(stat -c %s small.$dtype/model.safetensors) all=$(stat -c %s wide.$dtype/model.safetensors)
    [ $((bytes * 100)) -lt $((all * 65)) ] || fail "$bytes bytes of $dtype are not about half of $all"
    cmp -s run/tokenizer.json small.$dtype/tokenizer.json || fail "another tokenizer"
    try 0 "$QKV" info small.$dtype
    has out "^  weights .* in $dtype, biases and norms in fp32"
    hasnt out 'their copy in bf16'
    try 0 "$QKV" info small.$dtype --precision bf16
    has out 'more: their copy as products read it'
    try 0 "$QKV" info small.$dtype --json
    has out "\"dtype\": ?\"$dtype\""
done
try 0 "$QKV" info run
has out '^  weights .* in fp32$'
# By all its names the folder is the same.
for option in --out --output; do
    try 0 "$QKV" export run --dtype bf16 $option named
    cmp -s named/model.safetensors small.bf16/model.safetensors || fail "$option writes another model"
    rm -r named
done

# ---- training from it ----
try 0 "$QKV" train --from small.bf16 --data text.txt --steps 3 --batch 2 --out again --quiet
has err 'weights of .*small.bf16 are bf16; the run learns fp32 copies of them'
try 0 "$QKV" info again
has out '^  weights .* in fp32$'

# ---- a published family: what it has more than the model, biases here, is zeros ----
try 0 train plain 20 --quiet --set decoder.attention.bias=false --set decoder.ffn.bias=false \
    --set decoder.norm.bias=false
try 0 "$QKV" export plain --to huggingface --dtype f32 -o plain.hf
has plain.hf/config.json '"model_type": *"gpt2"'
has plain.hf/tokenizer_config.json '"tokenizer_class": *"PreTrainedTokenizerFast"'
for folder in plain plain.hf; do
    try 0 "$QKV" eval $folder --data text.txt --precision fp32 --json
    grep -oE '"loss": *[0-9.e-]+' out >loss.$folder || fail "$last: no loss"
done
cmp -s loss.plain loss.plain.hf || fail "zeros in place of no biases: another loss"
try 0 "$QKV" export plain --to huggingface --dtype f32 -o plain.hf --force
try 0 "$QKV" export plain.hf --to huggingface --dtype f32 -o again.hf
try 0 "$QKV" eval again.hf --data text.txt --precision fp32 --json
[ "$(grep -oE '"loss": *[0-9.e-]+' out)" = "$(cat loss.plain)" ] \
    || fail "another loss of what was read and written again"
# A refusal names the settings of a model that leaves.
try 0 train far 3 --quiet --set decoder.attention.window=5 --set head.bias=true
refuse 1 \
    'nearest, .*decoder.attention.window is 5 .--set decoder.attention.window=0.*head.bias is true|head.bias is true.*window is 5' \
    "$QKV" export far --to huggingface --dtype f32 -o far.hf
[ ! -e far.hf ] || fail "a refused export left a folder"

# ---- what a published model has and does not use ----
base=$SOURCE/tests/golden/hf/bert_model
try 0 "$QKV" export "$base" --to huggingface --dtype f32 -o base.hf
hasnt err 'pooler'
grep -aq '"pooler.dense.weight"' base.hf/model.safetensors || fail "an export of a base model has no pooler"
try 0 "$QKV" export "$base" --dtype f32 -o base
has err '^qkv: base has no .*pooler\.dense\.weight.*, which the model does not use; .*--to huggingface'
# A model of images needs no tokenizer.
try 0 "$QKV" export "$SOURCE/tests/golden/hf/vit" --to huggingface --dtype f32 -o images
hasnt err tokenizer

# ---- refusals ----
refuse 2 '--dtype is "q4"; it must be f32, f16 or bf16' "$QKV" export run --dtype q4 -o other
refuse 2 'name a number format' "$QKV" export run -o other
refuse 2 'name a folder to write' "$QKV" export run --dtype bf16
refuse 2 'one model folder' "$QKV" export --dtype bf16 -o other
refuse 1 'config.json exists; --force replaces it' "$QKV" export run --dtype bf16 -o small.bf16
try 0 "$QKV" export run --dtype bf16 -o small.bf16 --force
refuse 1 'is a file of the model or run in run' "$QKV" export run --dtype bf16 -o run --force
refuse 1 'train.json belongs to another model or run' "$QKV" export run --dtype bf16 -o again --force
cp -r small.bf16 cut && truncate -s -100 cut/model.safetensors
refuse 1 'cut off' "$QKV" generate cut --prompt a -n 2
[ ! -e other ] || fail "a refused export left a folder"
finish
