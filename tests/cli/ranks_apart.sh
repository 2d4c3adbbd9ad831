#!/usr/bin/env bash
# Work that ranks under mpirun divide without training together: evaluations and comparisons give the results of one
# rank.
. "$(dirname "$0")/ranks_common.sh"
make_spec
make_text 600 >text.txt
awk \
    'BEGIN {for (i = 0; i < 700; i++) {w = ""; for (j = 0; j <= i % 6; j++) w = w sprintf("%c", 97 + (i * 7 + j * j + int(i / 26)) % 26); print w "\t" w w}}' >pairs.tsv
awk 'BEGIN {for (i = 0; i < 2500; i++) print (i % 3 ? "odd" : "even") "\t" "a" i % 10 " b" int(i / 7) % 10}' >labels.tsv

# ---- evaluations: the same numbers, to the last digit ----
# alike_eval FOLDER OPTIONS: one rank and three give the same JSON but for the seconds.
alike_eval() {
    local n
    for n in $counts; do
        ranks $n
        try 0 "$QKV" eval "$@" --json --quiet
        same "$(ours | sort | uniq -d)" "" "what several ranks say twice"
        sed -E 's/, "[a-z_]*seconds": [0-9.]+//g' out >eval-$n
        [ -s eval-$n ] || fail "$last: no result"
        cmp -s eval-1 eval-$n || fail "$last: $(cat eval-$n) is not $(cat eval-1)"
    done
}
ranks 1
for precision in fp32 bf16; do
    try 0 train text-$precision 4 --quiet --precision $precision
    alike_eval text-$precision --data text.txt
done
alike_eval text-fp32 --data text.txt --context 17 --batch 3
try 0 "$single" train --preset tiny-seq2seq --tokenizer chars --pairs pairs.tsv --steps 6 --warmup 2 --threads 1 \
    --quiet --out pairs
alike_eval pairs --pairs pairs.tsv
alike_eval pairs --pairs pairs.tsv --beam 2 --batch 5 --max-tokens 8
try 0 "$single" train --preset text-classifier --labeled labels.tsv --steps 4 --warmup 2 --threads 1 --quiet \
    --out labels
alike_eval labels --labeled labels.tsv
try 0 "$single" train --from "$SOURCE/tests/golden/hf/gpt2" --examples "$SOURCE/tests/golden/hf/gpt2/case.safetensors" \
    --in-order \
    --batch 2 --valid-fraction 0 --steps 1 --warmup 0 --threads 1 --quiet --out examples
alike_eval examples --examples "$SOURCE/tests/golden/hf/gpt2/case.safetensors"
ranks 3
printf 'even\ta\nnone\tb\n' >bad.tsv
try 1 "$QKV" eval labels --labeled bad.tsv
same "$(ours)" 'qkv: bad.tsv:2: the model has no class "none"; its classes are even, odd' \
    "what three ranks say of a label"

# ---- evaluations by ranks that differ: the rank and the difference are named, and there are no numbers ----
# unlike_eval PATTERN ENVIRONMENT OPTIONS...: rank 1 runs in ./elsewhere.
unlike_eval() {
    local pattern=$1 environment=$2
    shift 2
    try 1 mpirun -n 1 "$single" eval "$@" --quiet : -n 1 -wdir "$folder/elsewhere" env "$environment" "$single" eval \
        "$@" --quiet
    has err "^qkv: rank 1: $pattern"
    same "$(ours | wc -l)" 1 "lines of ours of: $last"
    [ ! -s out ] || fail "$last: numbers besides"
}
afresh() {
    rm -rf elsewhere
    mkdir elsewhere
    cp -r text.txt pairs.tsv labels.tsv text-fp32 pairs labels elsewhere
}
afresh
tr a-e b-f <text.txt >elsewhere/text.txt
unlike_eval 'the data differ: text.txt of ' A=1 text-fp32 --data text.txt
head -c 3000 text.txt >elsewhere/text.txt
unlike_eval 'the data differ: text.txt of 3000 bytes ' A=1 text-fp32 --data text.txt
head -300 pairs.tsv >elsewhere/pairs.tsv
unlike_eval 'the data differ: pairs.tsv of ' A=1 pairs --pairs pairs.tsv
head -300 labels.tsv >elsewhere/labels.tsv
unlike_eval 'the data differ: labels.tsv of ' A=1 labels --labeled labels.tsv
afresh
cp text-bf16/model.safetensors elsewhere/text-fp32
unlike_eval 'the models differ: weights ' A=1 text-fp32 --data text.txt
afresh
sed -i 's/"q"/"Q"/' elsewhere/text-fp32/tokenizer.json
unlike_eval 'the models differ: tokenizer ' A=1 text-fp32 --data text.txt --ignore-digest
afresh
if [ "${QKV_ISA:-}" != scalar ] && QKV_ISA=avx2 "$single" info text-fp32 >out 2>err; then
    unlike_eval 'kernel table scalar here and ' QKV_ISA=scalar text-fp32 --data text.txt
fi
rm elsewhere/text.txt
unlike_eval 'cannot read text.txt: ' A=1 text-fp32 --data text.txt

# ---- comparisons: the same runs, whoever makes them ----
compare="--spec spec.json --data text.txt --axis warmup=0,2 --axis kv=mha,mqa --seeds 2 --batch 4 --cache 32 --threads 1"
for n in 1 3; do
    ranks $n
    try 0 "$QKV" compare $compare --steps 4 --quiet --out compare-$n
    cut -d, -f1-4 compare-$n/results.csv >results-$n
    [ -s compare-$n/index.html ] || fail "$n ranks write no page"
    same "$(grep -c '^warmup\|^mha\|^mqa' out)" 4 "rows of the table of $n ranks"
done
cmp -s results-1 results-3 || fail "three ranks compare otherwise than one: $(diff results-1 results-3 | head -4)"
for run in compare-1/*/; do
    name=$(basename "$run")
    cmp -s "$run/model.safetensors" "compare-3/$name/model.safetensors" || fail "$name: three ranks train it otherwise"
done
ranks 2
try 0 "$QKV" compare $compare --steps 4 --out compare-1 # goes on: nothing is left to train
cmp -s <(cut -d, -f1-4 compare-1/results.csv) results-1 \
    || fail "two ranks have other results of a comparison that has ended"
try 1 "$QKV" compare $compare --steps 3 --quiet --out compare-1
has err '^qkv: the comparison in compare-1 was begun with other options: training was'

# Ranks whose numbers could not be compared.
other=$([ "${QKV_PRECISION:-}" = fp32 ] && echo bf16 || echo fp32) # than rank 0 is given
try 1 mpirun -n 1 env QKV_PRECISION=$([ $other = fp32 ] && echo bf16 || echo fp32) "$single" compare $compare \
    --steps 4 --quiet --out mixed : \
    -n 1 env QKV_PRECISION=$other "$single" compare $compare --steps 4 --quiet --out mixed
has err "^qkv: rank 1: precision auto is $other here and "
[ ! -e mixed ] || fail "a comparison that was refused has left a folder"

# A variant that only rank 1 trains, and cannot: the others go on, and its rank is told.
ranks 3
mkdir blocked
try 0 "$QKV" compare --spec spec.json --data text.txt --axis kv=mha,mqa,gqa:2 --steps 2 --batch 4 --cache 32 \
    --threads 1 --quiet --out blocked
rm -r blocked/mqa
printf '{}' >blocked/mqa
try 0 "$QKV" compare --spec spec.json --data text.txt --axis kv=mha,mqa,gqa:2 --steps 2 --batch 4 --cache 32 \
    --threads 1 --quiet --out blocked
has out '^mqa .*failed: rank 1: '
has err '^qkv: 1 of 3 variants failed; the table says why'
finish
