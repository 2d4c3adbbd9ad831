#!/usr/bin/env bash
# Classifying words: a word, a tab and its label in each line; training, resuming, evaluating, and bad files.
# labels: numeric
. "$(dirname "$0")/common.sh"

# A word is "num" where it is made of digits, "cap" behind the word "the", else "low": the second needs its neighbour.
tags() { # tags SENTENCES SEED
    awk -v n="$1" -v x="$2" 'function draw(n) { x = (x * 16807) % 2147483647; return int(x / 16) % n }
        BEGIN { for (i = 0; i < n; i++) { before = ""
            for (j = 3 + draw(4); j; j--) { k = draw(4); w = k == 0 ? "the" : ""
                if (k) for (l = 1 + draw(3); l; l--) w = w substr(k == 1 ? "0123" : "abcd", draw(4) + 1, 1)
                print w "\t" (before == "the" ? "cap" : k == 1 ? "num" : "low"); before = w }
            print "" } }'
}
tags 600 5 >train.conll
tags 60 7 >test.conll
words=$(awk 'NF' test.conll | wc -l)
model='--preset text-classifier --set head={"kind":"classify_tokens"} --set d_model=32 --context 40 --tokenizer chars --threads 1 --batch 16 --set encoder.layers=2'

# ---- a toy task is learnt, and evaluation counts what classify says ----
steps=500
[ "${SANITIZE:-0}" = 0 ] || steps=20
try 0 "$QKV" train $model --labeled train.conll --valid test.conll --out tagger --steps $steps --rate 4e-3 \
    --eval-every 0 --metric accuracy
has err 'train\.conll, 600 sentences of words of 3 classes .* 60 to validate on'
has err 'classify tagger "a sentence"'
same "$(cat tagger/labels.txt)" "$(printf 'cap\nlow\nnum')" "the labels"
try 0 "$QKV" eval tagger --labeled test.conll --threads 1
has out '^loss      [0-9.]+ nats a word$'
has out "^over      $words words of 3 classes"
accuracy=$(awk '$1 == "accuracy" { print $2 }' out)
if [ $steps = 500 ]; then
    checks=$((checks + 1))
    awk -v x="$accuracy" 'BEGIN { exit !(x > 95) }' || fail "only $accuracy % of the words are right"
fi
try 0 "$QKV" classify tagger --input test.conll --words --threads 1
cp out said
same "$(cut -f1 said)" "$(cut -f1 test.conll)" "the words and the ends of sentences"
right=$(paste said test.conll | awk -F'\t' '$1 != "" && $2 == $4 { n++ } END { print n + 0 }')
same "$(awk -v r="$right" -v n="$words" 'BEGIN { printf "%.2f", 100 * r / n }')" "$accuracy" \
    "the accuracy counted by hand"
awk '!NF { print s; s = ""; next } { s = s (s == "" ? "" : " ") $1 }' test.conll >plain.txt
try 0 "$QKV" classify tagger --input plain.txt --threads 1
same "$(cat out)" "$(cat said)" "sentences whose words white space parts"
try 0 "$QKV" classify tagger "the  abc 12" --threads 1
same "$(cut -f1 out | tr '\n' ' ')" "the abc 12  " "the words of the command line"
try 0 "$QKV" classify tagger "the abc" --top 2 --threads 1
same "$(awk -F'\t' 'NF { printf "%s ", NF }' out)" "5 5 " "two classes of a word with their probabilities"
try 0 "$QKV" classify tagger "the abc" "12" --json --top 2 --threads 1
same "$(wc -l <out)" 2 "sentences of JSON"
has out \
    '^\[\{"word": "the", "label": "(cap|low|num)", "probabilities": \{"[a-z]+": [0-9.e-]+, "[a-z]+": [0-9.e-]+\}\}, \{"word": "abc"'

# ---- with the weights of a model that learnt something else ----
try 0 "$QKV" train --preset bert-tiny --set d_model=32 --set encoder.layers=2 --data plain.txt --context 40 \
    --tokenizer chars --threads 1 --batch 4 --steps 4 --warmup 0 --eval-every 0 --out masks --quiet
from="--from masks --new-head --labeled train.conll --steps 4 --batch 8 --warmup 0 --eval-every 0 --threads 1"
try 0 "$QKV" train $from --task classify_tokens --valid test.conll --out tuned --metric accuracy
has err 'sentences of words of 3 classes'
has err 'head.weight is new \(--new-head\)'
hasnt err 'task classify_tokens'
has tuned/config.json '"kind": "classify_tokens"'
has tuned/train.json '"task": "classify_tokens"'
try 0 "$QKV" eval tuned --labeled test.conll --threads 1
has out "^over      $words words of 3 classes"
try 0 "$QKV" train --from tuned --labeled train.conll --steps 2 --batch 8 --warmup 0 --eval-every 0 --threads 1 \
    --out again
has err 'sentences of words of 3 classes'
awk 'NF { print $2 "\t" $1 }' train.conll | head -n 300 >train.tsv
try 0 "$QKV" train ${from/train.conll/train.tsv} --out lines
has err 'the new head classifies lines \(task classify\); for a label of each word it is task classify_tokens'
has lines/config.json '"kind": "classify"'
try 0 "$QKV" train --from lines --new-head --task classify_tokens --labeled train.conll --steps 2 --batch 8 --warmup 0 \
    --eval-every 0 --threads 1 --out words --quiet
try 0 "$QKV" train --preset nano-gpt --set d_model=32 --set decoder.layers=2 --data plain.txt --prefix 5 --context 40 \
    --batch 4 --steps 2 --warmup 0 --eval-every 0 --threads 1 --out prefix --quiet
has prefix/config.json '"prefix": true'
try 0 "$QKV" train ${from/masks/prefix} --task classify_tokens --out of_prefix --quiet
hasnt of_prefix/config.json '"prefix": true'
refuse 1 'labelled lines need a head of kind classify_tokens, but the one of lines is classify; begin with a new head' \
    "$QKV" train --from lines --task classify_tokens --labeled train.conll --out none
refuse 1 'labelled lines need a head of kind classify, but the one of tuned is classify_tokens' "$QKV" train \
    --from tuned --task classify --labeled train.conll --out none
refuse 2 'task classify_tokens learns from labelled lines \(labeled\) or examples, not from a text' "$QKV" train \
    --from masks --new-head --task classify_tokens --data plain.txt --out none
refuse 2 'task mlm learns from a text \(data\) or lines, not from labelled lines' "$QKV" train --from masks --new-head \
    --task mlm --labeled train.conll --out none
refuse 2 '--task is "tags"; it must be text, mlm, classify or classify_tokens' "$QKV" train \
    --from masks --new-head --task tags --labeled train.conll --out none
refuse 2 \
    'task classify_tokens needs head.kind classify_tokens, but head.kind is classify; set head.kind=classify_tokens' \
    "$QKV" train --preset text-classifier --task classify_tokens --labeled train.conll --out none
[ ! -e none ] || fail "a run that was refused has a folder"

# ---- going on, and parts of a batch ----
short="$model --labeled train.conll --dropout 0 --steps 6 --save-every 3 --eval-every 3 --quiet"
try 0 "$QKV" train $short --out once
try 0 "$QKV" train $short --out parts --accumulate 4
same "$(losses parts)" "$(losses once)" "the losses of batches in four parts"
try 0 "$QKV" train ${short/--steps 6/--steps 3} --schedule constant --out resumed
try 0 "$QKV" train --resume resumed --steps 6 --threads 1 --quiet
try 0 "$QKV" train $short --schedule constant --out whole
same "$(losses resumed)" "$(losses whole)" "the losses of a run that goes on"
try 0 cmp resumed/model.safetensors whole/model.safetensors

# ---- bad files ----
printf 'the\tlow\nabc\n' >bad.conll
refuse 1 'bad\.conll:2: no tab in this line; write a word, a tab and a label' "$QKV" train $model --labeled bad.conll \
    --out none --quiet
refuse 1 'bad\.conll:2: no tab in this line' "$QKV" eval tagger --labeled bad.conll
printf 'the\tlow\n\nabc\tlow\nabc\tnoun\n' >new.conll
refuse 1 'new\.conll:4: the label "noun" does not occur in training; the known ones are cap, low, num' \
    "$QKV" train $model --labeled train.conll --valid new.conll --out none --quiet
refuse 1 'new\.conll:4: the model has no class "noun"; its classes are cap, low, num' "$QKV" eval tagger \
    --labeled new.conll
{ printf 'a\tlow\n\n'; for i in $(seq 30); do printf 'abc\tlow\n'; done; } >long.conll
refuse 1 \
    'long\.conll:3: the sentence that begins here has 121 tokens .*more than the context of 40; put an empty line into it' \
    "$QKV" train $model --labeled train.conll --valid long.conll --out none --quiet
refuse 1 'long\.conll:3: the sentence that begins here has 121 tokens, but the model.s context is 40' \
    "$QKV" eval tagger --labeled long.conll
refuse 1 'long\.conll:3: sentence 2 has 121 tokens' "$QKV" classify tagger --input long.conll --words
try 0 "$QKV" classify tagger --input long.conll --words --long keep-end
same "$(sed -n 3p out)" "$(printf 'abc\t')" "a word that was cut away"
refuse 1 'test\.conll:1: a tab in this line; .*add --words' "$QKV" classify tagger --input test.conll
refuse 2 '.' "$QKV" classify tagger --words "a text"
[ ! -e none ] || fail "a refused run left a folder"
finish
