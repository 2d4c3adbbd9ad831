#!/usr/bin/env bash
# qkv translate: lines in, as many lines out, in their order; several results a line; files; bad input.
# labels: numeric quick
. "$(dirname "$0")/common.sh"
make=$BINARY/tests/cli/make_model
"$make" pairs model || fail "no model to test with"
"$make" decoder decoder || fail "no decoder to test with"
"$make" encoder encoder || fail "no encoder to test with"
printf 'the queen\n\nEngland\n  \nwhat is the name ?\nthe queen\nof' >lines.txt

# ---- lines and files ----
try 0 "$QKV" translate model --input lines.txt
same "$(wc -l <out)" 7 "the number of lines"
has err '^7 lines in [0-9.]+ s \([0-9]+ lines/s, [0-9]+ tokens/s\)$'
same "$(sed -n 2p out)$(sed -n 4p out)" "" "blank lines"
same "$(sed -n 1p out)" "$(sed -n 6p out)" "the same line twice"
cp out first
"$QKV" translate model <lines.txt >out 2>err
cmp -s out first || fail "standard input gives another text"
"$QKV" translate model --input - <lines.txt >out 2>err
cmp -s out first || fail "--input - gives another text"
try 0 "$QKV" translate model -q --input lines.txt --output out.txt
[ ! -s out ] && [ ! -s err ] || fail "--output -q says something"
cmp -s out.txt first || fail "--output gives another text"
try 0 "$QKV" translate model -q "the queen" "" England
same "$(cat out)" "$(sed -n 1,3p first)" "texts on the command line"
for batch in 1 2 100; do
    try 0 "$QKV" translate model -q --input lines.txt --batch $batch --threads 1
    cmp -s out first || fail "--batch $batch gives another text"
done
printf 'the queen\r\nEngland\r\n' >dos.txt
try 0 "$QKV" translate model -q --input dos.txt
same "$(cat out)" "$(sed -n '1p;3p' first)" "lines that end with CR LF"
: >empty.txt
try 0 "$QKV" translate model -q --input empty.txt
[ ! -s out ] || fail "an empty file gives lines"

# ---- options ----
try 0 "$QKV" translate model -q --input lines.txt --beam 4 --n-best 3 --max-tokens 6
same "$(grep -acE '^[1-7]	[1-3]	-[0-9.]+	' out)" 15 "lines with number, rank, score and text"
same "$(grep -ac '^$' out)" 2 "blank lines among them"
same "$(cut -f 1 out | tr -d '\n')" 111333555666777 "the numbers"
awk -F '\t' 'NF && $1 == line && $3 > score { exit 1 } { line = $1; score = $3 }' out || fail "n-best is not sorted"
[ -z "$(cut -f 1,4 out | grep -a . | sort | uniq -d | tr -d "\0")" ] || fail "the same result twice for a line"
try 0 "$QKV" translate model -q --input lines.txt --beam 4 --max-tokens 6 --scores
same "$(grep -acE '^-[0-9.]+	' out)" 5 "scores"
try 0 "$QKV" translate model -q "the queen" --max-tokens 8 --no-repeat 1
LC_ALL=C grep -aqE '(.).*\1' out && fail "--no-repeat 1: a character twice: $(cat out)"
try 0 "$QKV" translate model -q --input lines.txt --sample --seed 3 --temp 0.9 --top-k 20 --top-p 0.9
cp out drawn
try 0 "$QKV" translate model --input lines.txt --sample --seed 3 --temp 0.9 --top-k 20 --top-p 0.9 --batch 1
cmp -s out drawn || fail "the same seed gives another text"
has err 'seed 3$'
try 0 "$QKV" translate model -q --input lines.txt --sample --seed 4 --temp 0.9 --top-k 20 --top-p 0.9
cmp -s out drawn && fail "another seed gives the same text"
same "$(wc -l <out)" 7 "the number of drawn lines"
try 0 "$QKV" translate model -q "the queen" --sample --seed 3 --n-best 5
same "$(wc -l <out)" 5 "several draws"

# ---- bad input ----
refuse 2 'name a model folder' "$QKV" translate
refuse 1 'nowhere' "$QKV" translate nowhere text
refuse 1 'translate needs an encoder and a decoder; this model has a decoder alone; use generate' \
    "$QKV" translate decoder text
refuse 1 'this model has an encoder alone' "$QKV" translate encoder text
refuse 2 'n-best 3 needs --beam 3' "$QKV" translate model --n-best 3 text
refuse 2 'add --sample' "$QKV" translate model --temp 2 text
refuse 2 'beam has no effect: --sample' "$QKV" translate model --sample --beam 3 text
refuse 2 'input has no effect' "$QKV" translate model --input lines.txt text
refuse 2 'whole number from 1' "$QKV" translate model --beam 0 text
refuse 2 'top-p needs a number greater than 0 and at most 1' "$QKV" translate model --sample --top-p 2 text
refuse 1 '[-]-max-tokens is 40, but the model.s context of 40 holds 39' "$QKV" translate model --max-tokens 40 text
refuse 1 'missing.txt' "$QKV" translate model --input missing.txt
printf 'fine\n\n%s\n' "$(printf 'x%.0s' $(seq 60))" >long.txt
refuse 1 'long\.txt, line 3 has 61 tokens, but the model.s context is 40' "$QKV" translate model --input long.txt
printf '%s\n' fine "" "$(printf 'x%.0s' $(seq 39))" >cut.txt
try 0 "$QKV" translate model --input cut.txt -q
cp out expected
try 0 "$QKV" translate model --input long.txt --long keep-end -q
cmp -s out expected || fail "translate --long keep-end is not that of a line cut by hand"
has err \
    '^qkv: 1 of 3 lines has more tokens than the model.s context of 40 and was cut to the last tokens \(--long keep-end\)$'
try 0 "$QKV" translate model --input long.txt --long skip -q
same "$(sed -n 1p out; sed -n '2,3p' out)" "$(sed -n 1p expected)" "translate --long skip"
refuse 2 'long is "all"; it must be' "$QKV" translate nowhere text --long all
echo old >kept.txt
refuse 1 'line 3 has' "$QKV" translate model --input long.txt --output kept.txt --force
same "$(cat kept.txt)" old "the file of before, after a failure"
[ "$(ls | grep -c 'kept.txt')" = 1 ] || fail "a failure leaves a temporary: $(ls)"
refuse 1 'cannot write nowhere/out.txt' "$QKV" translate model --output nowhere/out.txt text
printf 'a\0b\n' >binary.txt
refuse 1 'NUL' "$QKV" translate model --input binary.txt
printf '\377\376 bytes\n' >bytes.txt
try 0 "$QKV" translate model -q --input bytes.txt
same "$(wc -l <out)" 1 "a line that is no UTF-8"
finish
