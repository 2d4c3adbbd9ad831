#!/usr/bin/env bash
# Untrained models: qkv new, and --preset, --spec, --set and --seed of inspect, attend and forward. Their weights are
# those that training begins with.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_text 60 >text.txt
make_spec

# ---- the weights are those that training begins with: a step at a rate that moves none of them ----
small=(--preset nano-gpt --set d_model=16 --set decoder.layers=2 --set context=16)
try 0 "$QKV" train "${small[@]}" --data text.txt --tokenizer bytes --out trained --steps 1 --warmup 0 --rate 1e-30 \
    --min-rate 0 \
    --weight-decay 0 --batch 2 --quiet --threads 1 --precision fp32 --seed 5
try 0 "$QKV" new "${small[@]}" --seed 5 --out new
has out '^new/: [0-9,]+ parameters as seed 5 draws them; a tokenizer by bytes of 256 tokens$'
has out 'try: .* inspect new '
cmp -s new/model.safetensors trained/model.safetensors || fail "new has other weights than training begins with"
for file in config.json tokenizer.json; do cmp -s new/$file trained/$file \
    || fail "$file of new differs from training's"; done
try 0 "$QKV" new "${small[@]}" --out other --quiet
[ ! -s out ] || fail "$last: --quiet prints"
cmp -s new/model.safetensors other/model.safetensors && fail "another seed gives the same weights"

# ---- and training goes on from it as from a spec ----
try 0 "$QKV" new "${small[@]}" --out begun --quiet
common="--data text.txt --steps 3 --warmup 1 --batch 2 --eval-every 2 --quiet --threads 1 --precision fp32"
try 0 "$QKV" train --from begun $common --rate 1e-3 --out from-new
try 0 "$QKV" train "${small[@]}" --tokenizer bytes --set dropout=0 $common --rate 1e-3 --beta2 0.999 --out from-spec
same "$(losses from-new | sed 's/.*"loss": *\([^,]*\),.*/\1/' | head -1)" \
    "$(losses from-spec | sed 's/.*"loss": *\([^,]*\),.*/\1/' | head -1)" "the first loss"
refuse 1 'begun' "$QKV" train --resume begun

# ---- whatever reads a model opens it ----
try 0 "$QKV" generate new --prompt "the king" -n 5 --seed 1
try 0 "$QKV" eval new --data text.txt --threads 1
try 0 "$QKV" embed new "the king" --text
try 0 "$QKV" tokenize new "the king"
try 0 "$QKV" info new
has out 'decoder'
try 0 "$QKV" export new --dtype bf16 -o halved
printf 'a\tb\n' >rows.tsv
try 0 "$QKV" new --preset tiny-seq2seq --set d_model=16 --set decoder.layers=1 --set encoder.layers=1 --out pair --quiet
try 0 "$QKV" translate pair word --max-tokens 5
try 0 "$QKV" attend pair --prompt ab --target ba
try 0 "$QKV" new --preset text-classifier --set d_model=16 --out classes --quiet
try 0 "$QKV" classify classes word
try 0 "$QKV" new --preset bert-tiny --set d_model=16 --set encoder.layers=1 --out masked --quiet
try 0 "$QKV" fill masked 'a <mask> c'
try 0 "$QKV" embed masked "a b" --text
try 0 "$QKV" new spec.json --out plain --quiet
try 0 "$QKV" inspect plain --prompt "a b"

# ---- without a folder: the same numbers as with it ----
numbers() { sed 's/"name":"[^"]*",//; s/"model":"[^"]*",//' "$1"; }
fresh=("${small[@]}" --seed 5 --threads 1)
try 0 "$QKV" inspect new --prompt "the king" --json folder.json --threads 1
try 0 "$QKV" inspect "${fresh[@]}" --prompt "the king" --json fresh.json
same "$(numbers fresh.json)" "$(numbers folder.json)" "inspect --preset"
try 0 "$QKV" inspect "${fresh[@]}" --ids --prompt "116,104 101 32 107 105 110 103" --json ids.json
same "$(numbers ids.json)" "$(numbers folder.json)" "inspect --ids"
try 0 "$QKV" attend new --prompt "the king" --json folder.json --force --threads 1
try 0 "$QKV" attend "${fresh[@]}" --prompt "the king" --json fresh.json --force
same "$(numbers fresh.json)" "$(numbers folder.json)" "attend --preset"
try 0 "$QKV" attend "${fresh[@]}" --ids --prompt "116 104 101 32 107 105 110 103" --json ids.json --force
same "$(numbers ids.json)" "$(numbers folder.json)" "attend --ids"
case=$SOURCE/tests/golden/gpt2
settings=(--spec "$case/config.json")
try 0 "$QKV" new "${settings[@]}" --seed 3 --out golden
has out 'no tokenizer, as the vocabulary of [0-9]+ has no room for the 256 bytes .*: give --ids$'
try 0 "$QKV" forward golden --inputs "$case/case.safetensors" -o a.safetensors --threads 1
try 0 "$QKV" forward "${settings[@]}" --seed 3 --inputs "$case/case.safetensors" -o b.safetensors --threads 1
has err '^b\.safetensors: [0-9]+ arrays, loss [0-9.]+, [0-9.]+ KiB$'
cmp -s a.safetensors b.safetensors || fail "forward --spec differs from forward of the folder that new makes"

# ---- dropout is on where a seed names its masks ----
dropped() { # dropped FILE SEED
    try 0 "$QKV" forward "${settings[@]}" --set dropout=0.2 --inputs "$case/case.safetensors" -o "$1" --weights \
        --threads 1 \
        --dropout-seed "$2"
}
dropped a3.safetensors 3
dropped b3.safetensors 3
dropped a4.safetensors 4
cmp -s a3.safetensors b3.safetensors || fail "the same --dropout-seed gives something else"
cmp -s a3.safetensors a4.safetensors && fail "another --dropout-seed gives the same"
grep -aq '"out\.dropped\.decoder\.layers\.0\.attn"' a3.safetensors || fail "no weights after dropout"
refuse 1 "dropout-seed has no effect: every dropout of the model's spec is 0" "$QKV" forward "${settings[@]}" \
    --inputs "$case/case.safetensors" -o c3.safetensors --dropout-seed 3

# ---- a vocabulary without bytes reads ids, a tokenizer of a file its words ----
try 0 "$QKV" inspect golden --ids --prompt "1 3 4 5 2"
has out 'of the next of 5 tokens'
try 0 "$QKV" attend golden --ids --prompt "1 3 4" --json named.json
grep -q '"texts":\["1","3","4"\]' named.json || fail "ids are not shown as numbers"
refuse 1 'no tokenizer, .* or give token ids' "$QKV" inspect golden --prompt "a b"
refuse 1 '"x" is not a token id; .* whole numbers' "$QKV" inspect golden --ids --prompt "1 x"
refuse 1 'is not a token id' "$QKV" attend golden --ids --prompt "1 99999999999"
refuse 1 '29' "$QKV" attend golden --ids --prompt "1 29"
refuse 1 'is empty' "$QKV" attend golden --ids --prompt " "
words=trained/tokenizer.json
try 0 "$QKV" new --spec spec.json --tokenizer $words --out worded
has out 'the tokenizer of 256 tokens'
pairs=$SOURCE/tests/golden/tiny_seq2seq/config.json
try 0 "$QKV" inspect --spec "$pairs" --ids --prompt "3 4 5" --target "1 3"
has out 'of the next of 2 tokens'
refuse 1 "the id that begins a target is unknown" "$QKV" attend --spec "$pairs" --ids --prompt "3 4 5"

# ---- models that read numbers: examples in place of texts ----
# floats NAME COUNT: so many 1.0; of a file of one array.
array() { # array FILE NAME SHAPE COUNT
    local header="{\"$2\":{\"dtype\":\"F32\",\"shape\":[$3],\"data_offsets\":[0,$((4 * $4))]}}"
    while [ $((${#header} % 8)) -gt 0 ]; do header+=' '; done
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" >"$1"
    for ((i = 0; i < $4; i++)); do printf '\0\0\200\77'; done >>"$1"
}
array images in.pixels 2,1,28,28 1568
array frames in.features 2,4,9 72
array vectors in.vectors 2,5,6 60
try 0 "$QKV" new --preset vit-tiny --out vit
has out '^vit/: .* no tokenizer, as the model reads no tokens'
has out 'inspect vit --examples FILE'
[ ! -e vit/tokenizer.json ] || fail "a model without tokens has a tokenizer"
stack='"encoder":{"layers":1,"attention":{"heads":2}}}'
for kind in frames vectors; do
    channels=4 stride=',"stride":2'
    [ $kind = frames ] || channels=6 stride=
    echo '{"format":"qkv","version":2,"d_model":16,"context":8,"head":{"kind":"classify","classes":2},' \
        "\"embed\":{\"input\":{\"kind\":\"$kind\",\"channels\":$channels$stride}},$stack" >$kind.json
done
for kind in images frames vectors; do
    model="--spec $kind.json"
    [ $kind != images ] || model=vit
    try 0 "$QKV" attend $model --examples $kind --example 1 --threads 1
    has out '^encoder, layer '
    [ $kind != images ] || has out '^ *class .*'
    [ $kind != images ] || has out '^ *3,3 '
    [ $kind = images ] || has out '^ *4 '
    try 0 "$QKV" attend $model --examples $kind -o $kind.html --json $kind.look --threads 1
    has $kind.html '</html>'
    hasnt $kind.look '"ids"'
    [ $kind != images ] || has $kind.look '"patch": ?7'
    try 0 "$QKV" inspect $model --examples $kind --threads 1
    has out 'loss [0-9.]+ nats, of the class'
    try 0 "$QKV" inspect $model --examples $kind --target 1 --threads 1
    has out 'of the class'
    refuse 1 "$kind has no example 2; its examples are 0 to 1" "$QKV" attend $model --examples $kind --example 2
    for command in attend inspect; do
        refuse 1 'reads numbers and no text; give it an example' "$QKV" $command $model --prompt a
        refuse 2 '--prompt, --file and --examples exclude each other' "$QKV" $command $model --examples $kind --prompt a
        refuse 2 '--ids has no effect' "$QKV" $command $model --examples $kind --ids
        refuse 2 '--example has no effect' "$QKV" $command $model --prompt a --example 1
    done
done
refuse 1 'in.pixels' "$QKV" attend vit --examples frames
refuse 2 'the model reads no tokens' "$QKV" new --preset vit-tiny --tokenizer vit/config.json --out x

# ---- one model, and nothing that is without effect ----
for command in inspect attend; do
    refuse 2 "$command: name a model folder, or a model with --preset or --spec" "$QKV" $command --prompt a
    refuse 2 'a model folder and --preset exclude each other' "$QKV" $command new --preset nano-gpt --prompt a
    refuse 2 '--preset and --spec exclude each other' "$QKV" $command --preset nano-gpt --spec spec.json --prompt a
    refuse 2 '"nanogpt", and there is no such preset; did you mean nano-gpt' "$QKV" $command --preset nanogpt --prompt a
    refuse 2 '--set has no effect: a folder has its own model' "$QKV" $command new --set d_model=8 --prompt a
    refuse 2 '--seed has no effect: a folder has its own model' "$QKV" $command new --seed 3 --prompt a
    refuse 2 '--ignore-digest has no effect: a fresh model' "$QKV" $command --preset nano-gpt --ignore-digest --prompt a
done
refuse 2 'forward: name a model folder, or a model with --preset' "$QKV" forward --inputs x -o y
refuse 2 'new: name a model' "$QKV" new --out x
refuse 2 'new: name a folder' "$QKV" new --preset nano-gpt
refuse 2 'the file of a spec and --preset exclude' "$QKV" new spec.json --preset nano-gpt --out x
refuse 2 'tokenizer is "bpe:300", but a fresh model has no text' "$QKV" new spec.json --tokenizer bpe:300 --out x
refuse 2 'd_modell' "$QKV" new --preset nano-gpt --set d_modell=8 --out x
refuse 1 'nowhere' "$QKV" new nowhere.json --out x
[ ! -e x ] || fail "a refused model has left its folder"

# ---- nothing is replaced ----
md5sum new/* >before
refuse 1 'new is not empty, and a new model replaces nothing' "$QKV" new "${small[@]}" --out new
md5sum new/* >after
cmp -s before after || fail "a model was replaced"
refuse 1 'text\.txt is a file' "$QKV" new "${small[@]}" --out text.txt
mkdir there
try 0 "$QKV" new "${small[@]}" --out there/
has out '^there/: '
finish
