#!/usr/bin/env bash
# Adapters on the command line: trained, resumed, used, merged, and refused.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_text 200 >text.txt
tac text.txt >other.txt
make_spec
try 0 train base 5 --quiet
try 0 "$QKV" export base --to huggingface --family gpt2 --dtype f32 --out published
lora=rank=4,alpha=8,targets=o,down

# ---- trained, resumed, used, merged ----
adapt() { # adapt OUT STEPS [OPTIONS]
    local out=$1 steps=$2
    shift 2
    try 0 "$QKV" train --from base --data other.txt --lora "$lora" --rate 1e-2 --warmup 0 --steps "$steps" \
        --eval-every 4 --out "$out" "$@"
}
adapt whole 12
has err 'the adapters of 4 matrices'
suggested=$(sed -n 's/^try: //p' err)
has err '^try: .*qkv generate [^ ]*base --adapter whole -n 300$'
try 0 $suggested
[ -e whole/model.safetensors ] && fail "the run has written the whole model"
adapt cut 12 --save-every 4 --keep 3
try 0 "$QKV" train --resume cut/checkpoint-8.safetensors --quiet
try 0 cmp whole/adapter_model.safetensors cut/adapter_model.safetensors
loss_of() { # loss_of MODEL [OPTIONS]
    try 0 "$QKV" eval "$@" --data other.txt --precision fp32 --json
    sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' out
}
before=$(loss_of base)
after=$(loss_of base --adapter whole)
awk -v a="$before" -v b="$after" 'BEGIN { exit !(a - b > 0.01) }' || fail "the loss was $before and is $after"
try 0 "$QKV" export base --adapter whole --dtype f32 --out merged
hasnt err 'merging rounds'
merged=$(loss_of merged)
awk -v a="$after" -v b="$merged" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' ||
    fail "the loss is $after, and $merged when the adapter is merged"
# a merge into few bits says what it costs
try 0 "$QKV" export base --to gguf --dtype q8_0 --out small.gguf
hasnt err 'merging rounds'
cost='merging rounds [0-9]+ matrices: their errors are 0\.[0-9]+% of the exact sums'
try 0 "$QKV" export small.gguf --adapter whole --to gguf --dtype q8_0 --out small-merged.gguf
has err "$cost"
try 0 "$QKV" eval small-merged.gguf --data other.txt
try 0 "$QKV" export base --adapter whole --dtype bf16 --out merged-bf16
has err "$cost"
try 0 "$QKV" export base --adapter whole --to huggingface --family gpt2 --dtype bf16 --out merged-gpt2
has err "$cost"
try 0 "$QKV" export small.gguf --adapter whole --to gguf --dtype q8_0 --out small-merged.gguf --force --json
has out '"merge": *\{'
has out '"worst": *"decoder'
try 0 "$QKV" export base --adapter whole --dtype bf16 --out merged-bf16 --force --json
has out '"worst_error": *0\.'
for command in "generate base --prompt to -n 3 --temp 0" "embed base word --text"; do
    # shellcheck disable=SC2086 # words of the command
    try 0 "$QKV" $command --adapter whole
done
try 0 "$QKV" train --from published --data other.txt --lora rank=2,targets=mlp.c_fc,attn.c_proj --warmup 0 --steps 2 \
    --out named
has named/adapter_config.json '"c_fc"'
has named/adapter_config.json '"fan_in_fan_out": true'
try 0 "$QKV" eval published --adapter named --data other.txt

# ---- magnitudes, and one adapter of q, k and v ----
adapt_dora() { lora=rank=4,dora=true,dropout=0.1,targets=q,down adapt "$@"; }
adapt_dora dora 12
adapt_dora dora-cut 12 --save-every 4 --keep 3
try 0 "$QKV" train --resume dora-cut/checkpoint-8.safetensors --quiet
try 0 cmp dora/adapter_model.safetensors dora-cut/adapter_model.safetensors
has dora/adapter_config.json '"use_dora": true'
try 0 "$QKV" info base --lora rank=4,dora=true --batch 2
after=$(loss_of base --adapter dora)
awk -v a="$before" -v b="$after" 'BEGIN { exit !(a - b > 0.005) }' || fail "the loss was $before, with dora $after"
try 0 "$QKV" export base --adapter dora --dtype f32 --out merged-dora
merged=$(loss_of merged-dora)
awk -v a="$after" -v b="$merged" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' ||
    fail "the loss is $after with dora, and $merged when it is merged"
refuse 1 'magnitudes .DoRA., which GGUF files of adapters cannot have' \
    "$QKV" export base --adapter dora --to gguf-adapter --out dora.gguf
[ -e dora.gguf ] && fail "a refused adapter has left a file"
try 0 "$QKV" export base --adapter dora --to peft --out dora-again
same "$(loss_of base --adapter dora-again)" "$after" "the loss with the copy of the folder"
try 0 "$QKV" train --from published --data other.txt --lora rank=2,targets=c_attn --warmup 0 --steps 2 --out fused
has fused/adapter_config.json '"c_attn"'
try 0 "$QKV" eval published --adapter fused --data other.txt
after=$(loss_of base --adapter whole)

# ---- GGUF files and folders of PEFT ----
try 0 "$QKV" export base --adapter whole --to gguf-adapter --out whole.gguf
has err '^whole.gguf: [0-9,]* parameters of an adapter in f32, architecture qkv'
same "$(loss_of base --adapter whole.gguf)" "$after" "the loss with the adapter's GGUF file"
try 0 "$QKV" export base --to gguf --dtype f32 --out base.gguf
same "$(loss_of base.gguf --adapter whole.gguf)" "$after" "the loss with both GGUF files"
try 0 "$QKV" export base --adapter whole.gguf --to peft --out again
same "$(loss_of base --adapter again)" "$after" "the loss with the folder made of the GGUF file"
refuse 1 'again/adapter_config.json exists; --force replaces it' \
    "$QKV" export base --adapter whole --to peft --out again
mkdir others
echo mine >others/config.json
for force in "" --force; do
    # shellcheck disable=SC2086 # an option, or none
    try 0 "$QKV" export base --adapter whole --to peft --out others $force
done
same "$(cat others/config.json) $(ls others | wc -l)" 'mine 3' "a folder that had another file"
try 0 "$QKV" export base --adapter whole --to gguf-adapter --dtype bf16 --out whole.gguf --force --json
has out '"architecture": "qkv"'
try 0 "$QKV" export base --adapter whole --to gguf-adapter --dtype F16 --out upper.gguf
try 0 "$QKV" eval base --adapter whole.gguf --data other.txt
refuse 1 'general.type is "adapter"' "$QKV" generate whole.gguf --prompt to
refuse 1 'general.type is "model"' "$QKV" eval base --adapter base.gguf --data other.txt
refuse 2 '--to gguf-adapter writes an adapter; say which one' "$QKV" export base --to gguf-adapter --out a.gguf
refuse 2 '--to peft writes an adapter; say which one' "$QKV" export base --to peft --out a
refuse 2 'adapters have f32, f16 or bf16' "$QKV" export base --adapter whole --to gguf-adapter --dtype q8_0 --out a.gguf
refuse 2 'folders of PEFT have f32' "$QKV" export base --adapter whole --to peft --dtype f32 --out a
refuse 2 'name a file to write' "$QKV" export base --adapter whole --to gguf-adapter
refuse 2 'GGUF files have no family "nothing"' \
    "$QKV" export base --adapter whole --to gguf-adapter --family nothing --out a.gguf
head -c 200 whole.gguf >cut.gguf
refuse 1 'cut.gguf' "$QKV" eval base --adapter cut.gguf --data other.txt

# ---- refused ----
bad() { # bad CODE LORA PATTERN [OPTIONS]
    local code=$1 text=$2 pattern=$3
    shift 3
    refuse "$code" "$pattern" "$QKV" train --from base --data other.txt --lora "$text" --warmup 0 --steps 2 --out bad \
        "$@"
    [ -e bad ] && fail "$text has left a folder"
}
bad 2 rank=0 'rank is "0"'
bad 2 nothing 'is no setting'
bad 2 dora=1 'dora is "1"'
bad 1 rank=4,targets=nothing 'no weight of the model has the name nothing'
bad 1 targets=embed.token 'cannot have an adapter'
bad 2 rank=4 '--dropout has no place' --dropout 0.1
bad 2 rank=4 '--new-head has no place' --new-head
refuse 1 'holds several weights in one matrix' \
    "$QKV" train --from published --data other.txt --lora targets=q --warmup 0 --steps 2 --out bad
refuse 2 'which one with --from' \
    "$QKV" train --spec spec.json --data other.txt --lora rank=4 --warmup 0 --steps 2 --out bad
refuse 1 'has an adapter and no model' "$QKV" generate whole --prompt to
refuse 1 'whole/checkpoint.safetensors is a checkpoint of an adapter and has no model; open its model, .*/base, with' \
    "$QKV" generate whole/checkpoint.safetensors --prompt to
refuse 1 'adapter_config.json' "$QKV" generate base --adapter base --prompt to
refuse 1 'whole/checkpoint.safetensors has no adapter_config.json; name the folder of an adapter' \
    "$QKV" generate base --adapter whole/checkpoint.safetensors --prompt to
lora=rank=2,dora=true,targets=o adapt lengths 2
sed -i 's/"use_dora": true/"use_dora": false/' lengths/adapter_config.json
refuse 1 'has .*lora_magnitude_vector, but lengths/adapter_config.json has no use_dora' \
    "$QKV" generate base --adapter lengths --prompt to
# another model, of the same shapes and of others
try 0 train twin 6 --quiet --seed 5
refuse 1 'was trained for another model' "$QKV" eval twin --adapter whole --data other.txt
try 0 "$QKV" eval twin --adapter whole --data other.txt --ignore-digest
try 0 train wide 3 --quiet --set d_model=64
refuse 1 'is for another model' "$QKV" eval wide --adapter whole --data other.txt
damage() { # damage KEY VALUE PATTERN: the adapter's settings with another value
    rm -rf damaged
    cp -r whole damaged
    sed -i "s/\"$1\": [^,]*/\"$1\": $2/" damaged/adapter_config.json
    refuse 1 "$3" "$QKV" eval base --adapter damaged --data other.txt
}
damage peft_type '"LOHA"' 'peft_type'
damage use_dora true 'use_dora'
damage bias '"all"' 'bias'
damage r 3 'need \(3, '
damage r '"many"' 'r is "many"'
damage lora_alpha 1e99 'lora_alpha'
damage lora_dropout 2 'lora_dropout'
damage lora_dropout '"0.1"' 'lora_dropout is "0.1"'
damage lora_alpha '"16"' 'lora_alpha is "16"'
damage use_rslora '"yes"' 'use_rslora is "yes"'
damage use_dora 'false, "rank_pattern": 3' 'rank_pattern is 3'
head -c 100 whole/adapter_model.safetensors >damaged/adapter_model.safetensors
cp whole/adapter_config.json damaged
refuse 1 'adapter_model.safetensors' "$QKV" eval base --adapter damaged --data other.txt
# The adapter is the model's, not that of the model that guesses.
echo '{"prompt": "to", "max_tokens": 8, "temperature": 0}' >requests.jsonl
answer() { # answer OPTIONS: the text of the one request
    try 0 "$QKV" batch base --input requests.jsonl --output answers.jsonl --force "$@"
    grep -oE '"text": "([^"\\]|\\.)*"' answers.jsonl
}
same "$(answer --adapter whole --draft wide)" "$(answer --adapter whole)" "an answer with an adapter and guesses"
finish
