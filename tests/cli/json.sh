#!/usr/bin/env bash
# --json of each command: standard output is JSON, by a parser that is not ours, and nothing else, for any text.
. "$(dirname "$0")/common.sh"
parse=$BINARY/tests/cli/parse_json
odd=$'a\t"b\\ \x01\x7f \xff\xfe end'
make_text 60 >text.txt
make_spec

# document COMMAND... [-- KEY...]: the command succeeds and prints one document with these keys.
# lines N COMMAND... [-- KEY...]: the command succeeds and prints N lines, each a document with these keys.
judge() {
    local kind=$1 expected=$2 code
    shift 2
    local -a words=() keys=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    keys=("$@")
    checks=$((checks + 1))
    last="${words[*]}"
    "${words[@]}" >out 2>err
    code=$?
    [ $code = 0 ] || { fail "$last: exit code $code"; show; }
    "$parse" $kind "${keys[@]}" <out >parsed 2>why || { fail "$last: $(cat why)"; show; return; }
    same "$(cat parsed)" "$expected" "documents of $last"
}
document() { judge '' 1 "$@" </dev/null; }
lines() { local n=$1; shift; judge --lines "$n" "$@" </dev/null; }

# ---- every command has it, or says why not ----
for command in $("$QKV" help --format list); do
    "$QKV" help $command | grep -qE '^ +--json' || fail "qkv $command has no --json"
    checks=$((checks + 1))
done

# ---- making models ----
document "$QKV" doctor --json -- version processor kernels memory_bytes advice
document "$QKV" new spec.json --out fresh --json -- folder parameters seed tokens
document "$QKV" new spec.json --out "fresh $odd" --json -- folder
document "$QKV" train --spec spec.json --data text.txt --out run --steps 4 --batch 4 --warmup 1 --eval-every 2 \
    --threads 1 --json \
    -- folder state step loss valid_loss metric best seconds parameters
grep -q '"state": "done"' out && grep -q '"step": 4' out || fail "train --json: $(cat out)"
document "$QKV" train --resume run --threads 1 --json -- state loss
grep -q '"loss": null' out || fail 'a run that was done before has a loss'
document "$QKV" train --spec spec.json --data text.txt --out sampled --steps 2 --batch 4 \
    --warmup 1 --sample 5 --plain --log-every 1 --threads 1 --json -- state
document "$QKV" train --spec spec.json --data text.txt --out quiet --steps 2 --batch 4 --warmup 1 \
    --valid-fraction 0 --quiet --threads 1 --json -- state
grep -q '"valid_loss": null' out || fail 'a run that validates nothing has a validation loss'
refuse 2 '--profile has no effect: --json' "$QKV" train --spec spec.json --data text.txt --out no --profile --json
document "$QKV" export run --dtype bf16 --out small --json -- folder dtype to
# A run that is interrupted says so.
"$QKV" train --spec spec.json --data text.txt --out stopped --steps 1000000 --batch 4 --threads 1 --json >out 2>err &
runner=$!
for i in $(seq 200); do [ -s stopped/log.jsonl ] && break; sleep 0.1; done
kill -TERM $runner
wait $runner
same $? 130 'the exit code of a run that is interrupted'
"$parse" state step <out >/dev/null 2>why || fail "train --json, interrupted: $(cat why)"
grep -q '"state": "interrupted"' out || fail "train --json, interrupted: $(cat out)"

# ---- texts ----
for text in "the king" "" "$odd"; do
    document "$QKV" generate run --prompt "$text" -n 3 --seed 1 --threads 1 --json -- prompt samples
    document "$QKV" tokenize run "$text" --json -- ids
    document "$QKV" tokenize run "$text" --pieces --json -- tokens
    document "$QKV" tokenize run "$text" --offsets --json -- tokens
    document "$QKV" tokenize fresh "$text" --offsets --specials --json -- tokens
done
document "$QKV" tokenize fresh --ids "104 105 255 0 10" --json -- text
document "$QKV" tokenize fresh --ids "" --json -- text
document "$QKV" tokenize --train text.txt --tokenizer bpe:300 -o tokenizer.json --json -- file tokens
document "$QKV" tokenize --train text.txt --tokenizer bytes --force --quiet -o tokenizer.json --json -- file tokens
# A stream is written as it is read, and ends as one document.
checks=$((checks + 1))
head -c 3000000 /dev/urandom | "$QKV" tokenize fresh --json | "$parse" ids >/dev/null 2>why ||
    fail "tokenize of a stream: $(cat why)"
lines 3 "$QKV" embed run "the king" "" "$odd" --json -- text vector
lines 0 "$QKV" embed run --input /dev/null --json -- text
refuse 2 '--text and --json exclude each other' "$QKV" embed run a --text --json
document "$QKV" embed run --nearest "the king" --among text.txt --top 2 --json -- nearest
document "$QKV" eval run --data text.txt --json -- loss perplexity
document "$QKV" attend run --prompt "the king" --json -- format
document "$QKV" attend run --json --prompt "the king" --layer 0 -- format
document "$QKV" attend run --prompt "the king" --json - -- format
try 0 "$QKV" attend run --prompt "the king" --json attention.json
[ ! -s out ] && "$parse" format <attention.json >/dev/null || fail 'attend --json FILE'
document "$QKV" inspect run fresh --prompt "the king" --json -- models
document "$QKV" inspect run --prompt "the king" -o page.html --json -- models
document "$QKV" report run --json -- runs
document "$QKV" report run sampled stopped --json -- runs
refuse 2 '--json has no effect' "$QKV" report run --json -o page.html
document "$QKV" info run --json -- parameters
document "$QKV" info --preset nano-gpt --json -- parameters

# ---- masks, pairs, labels ----
document "$QKV" new --preset bert-tiny --out masked --json -- tokens
for text in "a <mask> b <mask>" "$odd <mask>"; do
    document "$QKV" fill masked "$text" --top 300 --json -- text masks
done
printf 'a b\tc d\nb a\td c\n%.0s' 1 2 3 4 5 6 7 8 >pairs.tsv
document "$QKV" train --preset tiny-translator --tokenizer bytes --pairs pairs.tsv --out pairs \
    --steps 2 --warmup 1 --threads 1 --json -- state
lines 3 "$QKV" translate pairs "a b" "" "$odd" --json -- text translations
lines 2 "$QKV" translate pairs "a b" "b a" --beam 3 --n-best 2 --quiet --json -- text translations
same "$(grep -o '"score"' out | wc -l)" 4 'scores of two lines with two translations each'
lines 0 "$QKV" translate pairs --input /dev/null --json
document "$QKV" eval pairs --pairs pairs.tsv --json -- loss bleu
printf 'good\tthe king\n"b\\a\\d\ttwo fools\n%.0s' 1 2 3 4 5 6 7 8 >labels.tsv
document "$QKV" train --preset text-classifier --labeled labels.tsv --out labels --steps 2 \
    --warmup 1 --threads 1 --json -- state
lines 2 "$QKV" classify labels "the king" "$odd" --json -- text label probabilities
document "$QKV" eval labels --labeled labels.tsv --json -- accuracy confusion

# ---- comparing ----
document "$QKV" compare --spec spec.json --data text.txt --axis norm=pre,post --steps 2 --batch 4 --warmup 1 \
    --cache 8 --threads 1 --quiet \
    --out compared --json -- variants best
cmp -s out compared/results.json || fail 'compare --json is not results.json'
golden=$SOURCE/tests/golden
document "$QKV" forward $golden/gpt2 --inputs $golden/gpt2/case.safetensors -o case.safetensors \
    --gradients --json -- file loss arrays
document "$QKV" bench --filter "products 1x4096x4096 x.wT fp32" --seconds 0.01 --rounds 1 \
    --threads 1 --json -- machine rows
refuse 1 'nowhere' "$QKV" report nowhere --json
finish
