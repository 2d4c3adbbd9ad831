#!/usr/bin/env bash
# Errors of users: one line that names the file or option and what to do, exit code 1 or 2, and nothing is lost.
. "$(dirname "$0")/common.sh"
make_spec
make_text 400 >text.txt
try 0 train good 10 --quiet
cp -r good pristine
untouched() { diff -r good pristine >/dev/null || fail "$last: it changed the run"; }

# ---- texts ----
start() { # start OPTIONS: a training that must not begin
    rm -rf run
    "$QKV" train --out run --steps 3 --quiet --threads 1 "$@"
}
printf '' >empty.txt
printf 'too short' >short.txt
refuse 1 'missing\.txt' start --spec spec.json --data missing.txt
refuse 1 'empty\.txt' start --spec spec.json --data empty.txt
refuse 1 'short\.txt.*context|context.*short\.txt|context' start --spec spec.json --data short.txt
mkdir bare
refuse 1 'bare holds no files' start --spec spec.json --data bare
refuse 1 'pairs need an encoder' "$QKV" eval good --pairs bare
head -c 20000 /dev/urandom >binary.dat
refuse 1 'binary\.dat' start --spec spec.json --data binary.dat
refuse 1 'missing\.txt' start --spec spec.json --data text.txt --valid missing.txt

# ---- specs ----
spec() { # spec SED: the spec with a change
    sed "$1" spec.json >changed.json
}
wrong() { # wrong PATTERN SED
    spec "$2"
    refuse 1 "$1" start --spec changed.json --data text.txt
    [ ! -e run/checkpoint.safetensors ] || fail "$last: left a run behind"
}
wrong 'head_count' 's/"heads"/"head_count"/'
wrong 'decoder\.attention\.heads' 's/"heads": 4/"heads": 0/'
wrong 'decoder\.attention\.heads' 's/"heads": 4/"heads": 5/'
wrong 'decoder\.attention\.heads' 's/"heads": 4/"heads": -4/'
wrong 'decoder\.attention\.heads' 's/"heads": 4/"heads": 4.5/'
wrong 'decoder\.attention\.heads' 's/"heads": 4/"heads": "four"/'
wrong 'd_model' 's/"d_model": 32/"d_model": 99999999999/'
wrong 'changed\.json: d_model is 1e23' 's/"d_model": 32/"d_model": 99999999999999999999999/'
wrong 'decoder\.layers' 's/"layers": 2/"layers": 1000000000/'
wrong 'd_ff' 's/"d_ff": 64/"d_ff": 0/'
wrong 'kv_heads' 's/"heads": 4/"heads": 4, "kv_heads": 3/'
wrong 'dropout' 's/"dropout": 0.1/"dropout": 1.5/'
wrong 'format|version' 's/"version": 1/"version": 7/'
wrong 'changed\.json' 's/{/[/'
wrong 'changed\.json' 's/.*//'
head -c 3000 /dev/urandom >changed.json
refuse 1 'changed\.json' start --spec changed.json --data text.txt
refuse 1 'missing\.json' start --spec missing.json --data text.txt
refuse 1 'vocab' start --spec spec.json --set vocab=5 --data text.txt
refuse 1 'decoder\.attention\.heads' start --spec spec.json --set decoder.attention.heads=3 --data text.txt
refuse 2 'layer' start --spec spec.json --set decoder.layer=3 --data text.txt
refuse 2 '=' start --spec spec.json --set decoder --data text.txt

# ---- options ----
for option in steps=0 batch=0 batch=-1 rate=-1 rate=0 weight-decay=x beta1=1 dropout=1 optimizer=adamq schedule=round \
    valid-fraction=1 \
    accumulate=5 batch=99999999999999999999; do
    rm -rf run
    name=${option%%=*}
    refuse 2 "${name//-/[-_]}" "$QKV" train --spec spec.json --data text.txt --out run --batch 4 --quiet --$option
done
refuse 1 'context' start --spec spec.json --data text.txt --context 64
refuse 2 'context is 65' start --preset nano-gpt --data text.txt --context 65
refuse 2 'size of the vocabulary' start --spec spec.json --data text.txt --tokenizer bpe:x
refuse 1 'tokenizer|missing\.json' start --spec spec.json --data text.txt --tokenizer missing.json
refuse 1 'good.*resume|resume.*good' "$QKV" train --spec spec.json --data text.txt --out good --steps 3
untouched

# ---- a loss that is no number ----
refuse 1 '(loss|finite).*(rate|step)|(rate|step).*(loss|finite)' train exploded 30 --quiet --rate 1e30 --clip 0 \
    --warmup 0
[ ! -e exploded/model.safetensors ] || fail "a model was left of a training that failed at once"
try 0 train lucky 5 --quiet --warmup 0
cp lucky/model.safetensors before
cp lucky/train.json saved.json && sed -E 's/"rate": *[^,}]+/"rate": 1e30/; s/"clip": *[^,}]+/"clip": 0/' saved.json \
    >lucky/train.json
try 1 resume lucky --steps 30 --quiet --ignore-digest
has err 'the loss is not a finite number'
cmp -s lucky/model.safetensors before || fail "a loss that is no number harms the best model"
cp saved.json lucky/train.json
try 0 resume lucky --steps 8 --quiet

# ---- disks and permissions ----
refuse 1 '/dev/null/run|null' "$QKV" train --spec spec.json --data text.txt --out /dev/null/run --quiet
nobody() { # as a user who may not write everywhere
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
if [ "$(id -u)" != 0 ] || nobody true 2>/dev/null; then
    cp "$QKV" "$folder/qkv-copy"
    mkdir -m 555 readonly
    cp -r good locked
    chmod 644 locked/* && chmod 555 locked
    # A folder above that others may not enter hides the test's own files from them.
    if nobody test -r "$folder/spec.json"; then
        refuse 1 'readonly.*(denied|permission)|(denied|permission).*readonly' nobody "$folder/qkv-copy" train \
            --spec spec.json \
            --data text.txt --out readonly/run --quiet
        refuse 1 'locked.*(denied|permission)|(denied|permission).*locked' nobody "$folder/qkv-copy" train \
            --resume locked \
            --steps 15 --quiet
        chmod 000 locked/model.safetensors
        refuse 1 'model\.safetensors.*(denied|permission)' nobody "$folder/qkv-copy" generate locked -q
        cp -r "$SOURCE/tests/golden/gpt2" case && chmod -R a+rX case
        refuse 1 'readonly' nobody "$folder/qkv-copy" forward case --inputs case/case.safetensors \
            -o readonly/out.safetensors
    else
        echo "(the files of this test are hidden from other users: permissions not tested)"
    fi
    chmod -R u+w locked readonly
fi
# A file that may not grow is what a full disk looks like to a program.
cp -r good full
limited() { (
    ulimit -f 8
    "$@"
); }
try 1 limited resume full --steps 20 --quiet
has err 'full/'
if ! cmp -s full/checkpoint.safetensors good/checkpoint.safetensors; then fail "a full disk harms the checkpoint"; fi
try 0 resume full --steps 12 --quiet
refuse 1 'fresh' limited "$QKV" train --spec spec.json --data text.txt --out fresh --steps 3 --quiet
if [ -w /dev/full ]; then
    "$QKV" forward "$SOURCE/tests/golden/gpt2" --inputs "$SOURCE/tests/golden/gpt2/case.safetensors" -o /dev/full >out \
        2>err
    same $? 1 "forward into a full disk"
fi

# ---- models that are no models ----
damage() { # damage FILE HOW PATTERN COMMAND...: a copy of the run with one file harmed
    local file=$1 how=$2 pattern=$3
    shift 3
    rm -rf hurt
    cp -r good hurt
    case $how in
    missing) rm hurt/$file ;;
    empty) : >hurt/$file ;;
    binary) head -c 5000 /dev/urandom >hurt/$file ;;
    truncated) head -c $(($(stat -c %s good/$file) * 2 / 3)) good/$file >hurt/$file ;;
    folder) rm hurt/$file && mkdir hurt/$file ;;
    esac
    refuse 1 "$pattern" "$@"
}
for how in missing empty binary truncated folder; do
    damage config.json $how 'config\.json' "$QKV" generate hurt -q
    damage model.safetensors $how 'model\.safetensors' "$QKV" generate hurt -q
    damage model.safetensors $how 'model\.safetensors' "$QKV" eval hurt --data text.txt
    damage config.json $how 'config\.json' "$QKV" info hurt
    damage checkpoint.safetensors $how 'checkpoint' resume hurt --steps 15 --quiet
    damage train.json $how 'train\.json' resume hurt --steps 15 --quiet
    damage config.json $how 'config\.json' resume hurt --steps 15 --quiet
    damage tokenizer.json $how 'tokenizer' resume hurt --steps 15 --quiet
    damage tokenizer.json $how 'tokenizer' "$QKV" tokenize hurt text
    damage tokenizer.json $how 'tokenizer' "$QKV" generate hurt -q
done
refuse 1 'nowhere' "$QKV" generate nowhere -q
refuse 1 'nowhere' "$QKV" info nowhere
refuse 1 'nowhere' resume nowhere --quiet
refuse 1 'spec\.json' "$QKV" generate spec.json -q
rm -rf hurt && cp -r good hurt
rm hurt/tokens*.bin
try 0 resume hurt --steps 12 --quiet
rm -rf hurt && cp -r good hurt
sed -i -E 's/"d_ff": *64/"d_ff": 32/' hurt/config.json
refuse 1 'checkpoint|spec|d_ff|ffn' resume hurt --steps 12 --quiet
refuse 1 'ffn|d_ff|shape' "$QKV" generate hurt -q
rm -rf hurt && cp -r good hurt
echo "another text altogether" >text.txt
rm hurt/tokens*.bin
refuse 1 'text\.txt' resume hurt --steps 12 --quiet
make_text 400 >text.txt

# ---- inputs of forward ----
golden=$SOURCE/tests/golden
refuse 1 'missing' "$QKV" forward $golden/gpt2 --inputs missing --force -o out.safetensors
refuse 1 'in\.ids' "$QKV" forward $golden/gpt2 --inputs $golden/gpt2/model.safetensors --force -o out.safetensors
refuse 1 'in\.source' "$QKV" forward $golden/gpt2 --inputs $golden/tiny_seq2seq/case.safetensors --force \
    -o out.safetensors
refuse 1 'in\.source' "$QKV" forward $golden/tiny_seq2seq --inputs $golden/gpt2/case.safetensors --force \
    -o out.safetensors
refuse 1 'in\.targets' "$QKV" forward $golden/classifier_mean --inputs $golden/gpt2/case.safetensors --force \
    -o out.safetensors
refuse 1 'output_gradient' "$QKV" forward $golden/encoder_hidden --inputs $golden/gpt2/case.safetensors -o o --gradients
make_inputs() { # make_inputs SHAPE I32...: a safetensors file by hand
    local shape=$1 header n
    shift
    header="{\"in.ids\":{\"dtype\":\"I32\",\"shape\":[$shape],\"data_offsets\":[0,$((4 * $#))]}}"
    n=${#header}
    {
        printf "$(printf '\\x%02x' $((n & 255)) $((n >> 8)) 0 0 0 0 0 0)%s" "$header"
        for id; do printf "$(printf '\\x%02x' $((id & 255)) $((id >> 8 & 255)) $((id >> 16 & 255)) \
            $((id >> 24 & 255)))"; done
    } >ids.safetensors
}
make_inputs 1,3 5 6 7
try 0 "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors
refuse 1 'in\.targets' "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors --gradients
make_inputs 1,3 5 29 7
refuse 1 '29' "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors
make_inputs 1,3 5 -1 7
refuse 1 '\-1' "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors
make_inputs 1,17 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
refuse 1 '17.*16|16.*17' "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors
make_inputs 3 5 6 7
refuse 1 'in\.ids has the shape \(3\)' "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors
make_inputs 0,3
refuse 1 'in\.ids has the shape' "$QKV" forward $golden/gpt2 --inputs ids.safetensors --force -o out.safetensors
untouched
finish
