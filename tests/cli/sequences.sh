#!/usr/bin/env bash
# Training encoders and encoder-decoders as a user sees it: pairs, labelled lines and masks, going on, and bad files.
# labels: numeric
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
try 0 "$QKV" train --preset g2p --pairs pairs.tsv --out spent ${small/--batch 8/--batch 0} --batch-tokens 64 \
    --metric token_error --patience 1 --rate 1e-30 --min-rate 0
has err 'at most 64 tokens'
has err 'token_error [0-9.]+'

# ---- labelled lines ----
try 0 "$QKV" train --preset text-classifier --labeled labels.tsv --out labels $small
has err 'lines of 2 classes'
has err 'accuracy [0-9.]+'
has err 'classify labels'
has labels/log.jsonl '"accuracy":'
same "$(cat labels/labels.txt)" "$(printf 'long\nshort')" "the labels"

# ---- lines that are longer than the context ----
awk '{print} NR % 50 == 1 {print "long\tabcdeabcdeabcdeabcdeabcde"}' labels.tsv >longer.tsv
with="--preset text-classifier --labeled longer.tsv $small --context 16 --tokenizer bytes"
refuse 1 \
    'longer\.tsv:2: the text has 27 tokens .*or what becomes of long lines \(--long skip, keep-start or keep-end\)$' \
    "$QKV" train $with --out long --quiet
try 0 "$QKV" train $with --long skip --out long --quiet
has err \
    '^qkv: .*4 of 204 lines of .*longer\.tsv have more tokens than the context of 16 and were skipped \(long skip\)$'
has long/train.json '"long": "skip"'
has long/train.json '"lines": 200, "long": 4'
try 0 "$QKV" train --preset text-classifier --labeled labels.tsv --out short $small --context 16 --tokenizer bytes \
    --quiet
same "$(losses long)" "$(losses short)" "the losses of a run that skips what the other has not"
try 0 "$QKV" train --resume long --steps 8 --threads 1 --quiet
refuse 2 'train: --long cannot change with --resume: another value would give other numbers' "$QKV" train \
    --resume long --steps 9 --long keep-end
refuse 2 'long is "cut"; it must be error, skip, keep-start or keep-end' "$QKV" train $with --long cut --out cut
refuse 2 'long is given, but the windows of a text' "$QKV" train --preset nano-gpt --data text.txt --long skip --out cut
[ ! -e cut ] || fail "a refused run has made its folder"

# ---- masks ----
try 0 "$QKV" train --preset bert-tiny --data text.txt --tokenizer words --out masks $small --context 16
has err 'fill masks'

# ---- strings that were never seen are reversed ----
if [ "${SANITIZE:-0}" = 0 ]; then
    awk 'function draw(n) { x = (x * 16807) % 2147483647; return int(x / 16) % n }
        BEGIN { x = 5; for (n = 0; n < 6000; n++) { s = r = ""; size = 2 + draw(5)
            for (i = 0; i < size; i++) { c = substr("abcdefgh", draw(8) + 1, 1); s = s c; r = c r }
            if (!seen[s]++) print s "\t" r > (n < 5600 ? "strings.tsv" : "unseen.tsv") } }'
    try 0 "$QKV" train --preset tiny-seq2seq --set d_model=32 --pairs strings.tsv --valid unseen.tsv --out reverse \
        --steps 800 \
        --rate 4e-3 --eval-every 0 --save-every 0 --threads 1 --quiet
    try 0 "$QKV" eval reverse --pairs unseen.tsv --threads 1
    exact=$(awk '$1 == "exact" { print $2 }' out)
    checks=$((checks + 1))
    awk -v x="$exact" 'BEGIN { exit !(x >= 99) }' || fail "only $exact % of unseen strings are reversed"
    cut -f1 unseen.tsv >sources.txt
    try 0 "$QKV" translate reverse --input sources.txt --beam 3 --threads 1 --quiet
    same "$(paste out <(cut -f2 unseen.tsv) | awk '$1 == $2 { n++ } END { print (n >= 0.99 * NR) }')" 1 \
        "most unseen strings are reversed by beam search"
fi

# Masks that the embedding counts are tokens of a vocabulary that is not known before the text is read.
tr -d '\t' <pairs.tsv >masked.txt
masked="--preset bert-tiny --data masked.txt --tokenizer chars --task mlm --steps 2 --warmup 0 --batch 2 --quiet"
try 0 "$QKV" train $masked --set encoder.embed.masked.token=3 --out masked
refuse 1 'encoder.embed.masked.token is 5000, but the ids of [0-9]+ tokens end at' \
    "$QKV" train $masked --set encoder.embed.masked.token=5000 --out none

# ---- bad files and options ----
printf 'ab\tba\nabc\n' >bad.tsv
refuse 1 'bad.tsv:2: no tab in this line; write a source, a tab and a target' \
    "$QKV" train --preset tiny-seq2seq --pairs bad.tsv --out none $small --quiet
printf 'good\tab\nbad\tba\ngood\tb\n' >few.tsv
printf 'ugly\tab\n' >ugly.tsv
refuse 1 'ugly.tsv:1: the label "ugly" does not occur in training; the known ones are bad, good' \
    "$QKV" train --preset text-classifier --labeled few.tsv --valid ugly.tsv --out none $small --quiet
{ head -90 labels.tsv | sed 's/^[a-z]*/seen/'; tail -10 labels.tsv | sed 's/^[a-z]*/late/'; } >sorted.tsv
refuse 1 'the label "late" stands only in the last 10 lines of .*shuffle the lines' \
    "$QKV" train --preset text-classifier --labeled sorted.tsv --out none $small --quiet
refuse 2 '--mask-probability is given, but only the task mlm' \
    "$QKV" train --preset tiny-seq2seq --pairs pairs.tsv --out none $small --mask-probability 0.3 --quiet
refuse 2 '--valid-fraction has no place beside' \
    "$QKV" train --preset tiny-seq2seq --pairs pairs.tsv --valid valid.tsv --valid-fraction 0.2 --out none $small \
    --quiet
refuse 2 'or set metric to loss' \
    "$QKV" train --preset text-classifier --labeled labels.tsv --valid-fraction 0 --metric accuracy --out none --quiet
refuse 2 '--eval-every is given, but nothing is kept for validation' \
    "$QKV" train --preset text-classifier --labeled labels.tsv --valid-fraction 0 --eval-every 3 --out none --quiet
refuse 2 'this model has no encoder' "$QKV" train --preset nano-gpt --pairs pairs.tsv --out none
refuse 2 'need head.kind classify' "$QKV" train --preset nano-gpt --labeled labels.tsv --out none
refuse 2 'exclude each other' "$QKV" train --preset tiny-seq2seq --pairs pairs.tsv --data text.txt --out none
refuse 2 'sample shows what a model writes' "$QKV" train --preset text-classifier --labeled labels.tsv --out none \
    --sample 3
[ ! -e none ] || fail "a refused run left a folder"
finish
