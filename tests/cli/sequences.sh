#!/usr/bin/env bash
# Training encoders and encoder-decoders as a user sees it: pairs, labelled lines and masks, going on, and bad files.
. "$(dirname "$0")/common.sh"

words() { # words N SEED: lines of a few letters
    awk -v n="$1" -v x="$2" 'BEGIN { for (i = 0; i < n; i++) { w = ""
        for (j = 0; j < 6; j++) { x = (x * 1103515245 + 12345) % 2147483648; k = int(x / 65536) % 8; if (k < 5 || j < 2) w = w substr("abcdefgh", k + 1, 1) }
        print w } }'
}
words 200 1 | awk '{ r = ""; for (i = length($1); i; i--) r = r substr($1, i, 1); print $1 "\t" r }' >pairs.tsv
words 40 2 | awk '{ r = ""; for (i = length($1); i; i--) r = r substr($1, i, 1); print $1 "\t" r }' >valid.tsv
words 200 3 | awk '{ print (length($1) > 4 ? "long" : "short") "\t" $1 }' >labels.tsv
make_text 200 >text.txt
small="--set d_model=16 --threads 1 --batch 8 --steps 6 --warmup 2 --eval-every 3 --save-every 3"

# ---- pairs ----
try 0 "$QKV" train --preset tiny-seq2seq --pairs pairs.tsv --valid valid.tsv --out pairs $small --sample 5
has err '^data .*200 pairs \(.*tokens\) to train on, 40 to validate on'
has err '^run .*6 steps of 8 lines'
has err 'step 6: loss [0-9.]+, validation loss [0-9.]+'
has err '^    [a-h]+ -> '
has err 'translate pairs'
for file in config.json tokenizer.json source_tokenizer.json train.json tokens.data.beside.bin tokens.valid.bin; do
    [ -s pairs/$file ] || fail "the run has no $file"
done
try 0 "$QKV" train --resume pairs --steps 9 --threads 1
has err '9 steps done'
same "$(wc -l <pairs/log.jsonl)" 9 "lines of the log"
try 0 "$QKV" train --preset g2p --pairs pairs.tsv --out spent $small --batch 0 --batch-tokens 64 --metric token_error --patience 1 --rate 1e-30 --min-rate 0
has err 'at most 64 tokens'
has err 'token_error [0-9.]+'

# ---- labelled lines ----
try 0 "$QKV" train --preset text-classifier --labeled labels.tsv --out labels $small
has err 'lines of 2 classes'
has err 'accuracy [0-9.]+'
has err 'classify labels'
has labels/log.jsonl '"accuracy":'
same "$(cat labels/labels.txt)" "$(printf 'long\nshort')" "the labels"

# ---- masks ----
try 0 "$QKV" train --preset bert-tiny --data text.txt --tokenizer words --out masks $small --context 16
has err 'fill masks'

# ---- bad files and options ----
printf 'ab\tba\nabc\n' >bad.tsv
refuse 1 'bad.tsv:2: no tab in this line; write a source, a tab and a target' \
    "$QKV" train --preset tiny-seq2seq --pairs bad.tsv --out none $small --quiet
printf 'good\tab\nbad\tba\ngood\tb\n' >few.tsv
printf 'ugly\tab\n' >ugly.tsv
refuse 1 'ugly.tsv:1: the label "ugly" does not occur in training; the known ones are bad, good' \
    "$QKV" train --preset text-classifier --labeled few.tsv --valid ugly.tsv --out none $small --quiet
refuse 1 'this model has no encoder' "$QKV" train --preset nano-gpt --pairs pairs.tsv --out none
refuse 1 'need head.kind classify' "$QKV" train --preset nano-gpt --labeled labels.tsv --out none
refuse 2 'exclude each other' "$QKV" train --preset tiny-seq2seq --pairs pairs.tsv --data text.txt --out none
refuse 2 'sample shows what a model writes' "$QKV" train --preset text-classifier --labeled labels.tsv --out none --sample 3
[ ! -e none ] || fail "a refused run left a folder"
finish
