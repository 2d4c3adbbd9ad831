#!/usr/bin/env bash
# Encoders from the command line, on small models with random weights: classify, fill, embed, and eval on pairs and
# labelled lines.
# labels: numeric
. "$(dirname "$0")/common.sh"
tool=$BINARY/tests/cli/make_model
for kind in classifier many encoder pairs decoder; do try 0 "$tool" $kind $kind; done

# ---- classify ----
try 0 "$QKV" classify classifier "what is the name of the queen ?" "London"
cp out two
same "$(wc -l <out)" 2 "lines of classify"
has out '^(place|person|Größe und Gewicht)	0\.[0-9]{4}	[^	]+	0\.[0-9]{4}	[^	]+	0\.[0-9]{4}$'
awk -F'\t' '{if (($2 + $4 + $6 - 1) ^ 2 > 1e-6 || $2 < $4 || $4 < $6) bad = 1} END {exit bad}' out ||
    fail "probabilities do not add up or are not in order: $(cat out)"
printf 'what is the name of the queen ?\n\nLondon' >lines.txt
"$QKV" classify classifier <lines.txt >out 2>err
same "$(cat out)" "$(sed -n 1p two; echo; sed -n 2p two)" "classify of standard input with a blank line"
printf 'what is the name of the queen ?\r\n \r\nLondon\r\n' >dos.txt
try 0 "$QKV" classify classifier --input dos.txt --output classes.tsv
[ ! -s out ] || fail "classify --output writes to standard output too"
same "$(cat classes.tsv)" "$(sed -n 1p two; echo; sed -n 2p two)" "classify --input --output"
same "$(ls)" "$(ls | grep -v part)" "no temporary file is left"
try 0 "$QKV" classify classifier London --top 1
same "$(cat out)" "$(sed -n 2p two | cut -f1,2)" "classify --top 1"
try 0 "$QKV" classify many London --top 100
same "$(awk -F'\t' '{print NF}' out)" 40 "classify --top 100 of 20 classes"
has out '^1?[0-9]	'
: >empty.txt
try 0 "$QKV" classify classifier --input empty.txt
[ ! -s out ] || fail "classify of an empty file says something"
refuse 1 'classify needs a model with a classify head; this one has head.kind lm' "$QKV" classify encoder London
refuse 1 'line 2 has [0-9]+ tokens, but the model.s context is 40' "$QKV" classify many x "$(printf 'x%.0s' $(seq 60))"
long=$(printf 'xy%.0s' $(seq 30))
printf 'short\n%s\n\n%s\n' "$long" "$long" >long.txt
printf '%s\n' short "${long:0:38}" "" "${long:0:38}" >cut.txt
refuse 2 '^qkv: --long is "cut"; it must be error, skip, keep-start or keep-end \(".*qkv help classify" explains it\)$' "$QKV" classify nowhere x --long cut
refuse 2 '^qkv: --long is ""; it must be' "$QKV" embed nowhere x --text --long ""
try 0 "$QKV" classify many --input cut.txt
cp out expected
try 0 "$QKV" classify many --input long.txt --long keep-start
cmp -s out expected || fail "classify --long keep-start is not that of lines cut by hand"
has err \
    '^qkv: 2 of 4 lines have more tokens than the model.s context of 40 and were cut to the first tokens \(--long keep-start\)$'
try 0 "$QKV" classify many --input long.txt --long skip
same "$(cat out)" "$(sed -n 1p expected)" "classify --long skip"
same "$(wc -l <out)" 4 "lines of classify --long skip"
has err '2 of 4 lines .* and were skipped'
try 0 "$QKV" classify many short --long keep-end
drop_emulation
[ ! -s err ] || fail "--long says something where no line is long"
refuse 2 'name a model folder' "$QKV" classify
refuse 2 'input has no effect' "$QKV" classify classifier London --input lines.txt
refuse 2 'top' "$QKV" classify classifier London --top 0
refuse 1 'cannot read missing\.txt' "$QKV" classify classifier --input missing.txt
printf 'a\0b\n' >nul.txt
refuse 1 'nul\.txt:1: a NUL byte' "$QKV" classify classifier --input nul.txt
refuse 1 'cannot write no/where' "$QKV" classify classifier London --output no/where
echo keep >classes.tsv
refuse 1 'context is 40' "$QKV" classify many "$(printf 'x%.0s' $(seq 60))" --output classes.tsv --force
same "$(cat classes.tsv)" keep "an output that was there before a failure"
cp -r classifier mute && rm mute/tokenizer.json
refuse 1 'classify: the model has no tokenizer' "$QKV" classify mute London

# JSON, pairs, and models of one class, which have a score.
try 0 "$QKV" classify classifier "what is the name of the queen ?" --top 3
cut -f1,2 out >first
try 0 "$QKV" classify classifier "what is the name of the queen ?" "" --json
has out \
    '^\{"text": "what is the name of the queen \?", "label": "[^"]+", "probabilities": \{"[^"]+": 0\.[0-9]+, "[^"]+": [0-9.e-]+, "[^"]+": [0-9.e-]+\}\}$'
has out '^\{"text": "", "label": null\}$'
same "$(sed -nE '1s/.*"label": "([^"]*)".*/\1/p' out)" "$(cut -f1 first)" "the label of classify --json"
try 0 "$QKV" classify classifier --pairs London Paris --json --top 1
has out '^\{"text": "London", "pair": "Paris", "label": "[^"]+", "probabilities": \{"[^"]+": [0-9.e-]+\}\}$'
try 0 "$QKV" classify classifier --pairs London Paris
cp out first
printf 'London\tParis\n\nParis\tLondon\n' >pairs.tsv
try 0 "$QKV" classify classifier --pairs --input pairs.tsv
same "$(sed -n 1p out)" "$(cat first)" "a pair of a file"
same "$(sed -n 2p out)" "" "an empty pair"
same "$(wc -l <out)" 3 "lines of classify --pairs"
[ "$(sed -n 1p out)" != "$(sed -n 3p out)" ] || fail "the order of a pair changes nothing"
refuse 2 '^qkv: classify: --pairs takes two texts for each pair; give an even number of texts$' \
    "$QKV" classify classifier --pairs London
printf 'a\tb\nno tab\n' >bad.tsv
refuse 1 '^qkv: bad\.tsv:2: no tab in this line; with --pairs a line is two texts with one tab between them$' \
    "$QKV" classify classifier --pairs --input bad.tsv
printf 'a\tb\tc\n' >bad.tsv
refuse 1 '^qkv: bad\.tsv:1: more than one tab' "$QKV" classify classifier --pairs --input bad.tsv
printf 'a\tb\nx\t%s\n' "$(printf 'x%.0s' $(seq 60))" >long.tsv
refuse 1 '^qkv: long\.tsv:2: pair 2 has [0-9]+ tokens, but the model.s context is 40' "$QKV" classify classifier \
    --pairs --input long.tsv
try 0 "$QKV" classify classifier --pairs --input long.tsv --long keep-start
same "$(wc -l <out)" 2 "pairs that are cut"
has err '1 of 2 pairs has more tokens .* cut to the first tokens'
cp -r "$SOURCE/tests/golden/hf/camembert_classify" score
awk 'BEGIN {
    printf "{\"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"post_processor\": null, "
    printf "\"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"w0\", \"vocab\": {"
    for (i = 0; i < 24; i++) printf "%s\"w%d\": %d", i ? ", " : "", i, i
    print "}}}"
}' >score/tokenizer.json
try 0 "$QKV" classify score "w5 w6 w7" "" "w9 w8"
same "$(awk 'NF {print NF}' out | tr '\n' ' ')" "1 1 " "what is said of a model of one class"
same "$(sed -n 2p out)" "" "the score of a blank line"
[ "$(sed -n 1p out)" != "$(sed -n 3p out)" ] || fail "all scores are the same"
cp out scores
try 0 "$QKV" classify score "w5 w6 w7" "" --json
has out "^\\{\"text\": \"w5 w6 w7\", \"score\": $(sed -n 1p scores | cut -c1-5)"
has out '^\{"text": "", "score": null\}$'
refuse 1 'head\.classes is 1: a model with one score' "$QKV" train --from score \
    --examples "$SOURCE/tests/golden/hf/camembert_classify/case.safetensors" --out no-run

# ---- fill ----
try 0 "$QKV" fill encoder "the <mask> of England"
same "$(wc -l <out)" 5 "lines of fill"
has out '^1	0\.[0-9]{4}	".*"	the .* of England$'
try 0 "$QKV" fill encoder "<mask> name of <mask> ?" --top 2
same "$(cut -f1 out | tr '\n' ' ')" "1 1 2 2 " "the masks of fill"
has out '^2	[0-9.]+	"[^"]*"	<mask> name of [^<]* \?$'
try 0 "$QKV" fill encoder "the <mask>" --top 1000000
awk -F'\t' '{sum += $2; if (NR > 1 && $2 > last) bad = 1; last = $2} END {exit bad || (sum - 1) ^ 2 > 1e-3}' out ||
    fail "all fillings do not add up to 1, or are not in order"
refuse 1 'there is no <mask> in the text' "$QKV" fill encoder "the queen"
refuse 1 'fill needs an encoder alone; this model has a decoder alone: use generate' "$QKV" fill decoder "the <mask>"
refuse 1 'use translate' "$QKV" fill pairs "the <mask>"
refuse 1 'head\.kind classify' "$QKV" fill classifier "the <mask>"
many=$(printf 'the queen %.0s' $(seq 19))
refuse 1 'the text has [0-9]+ tokens, but the model.s context is 40; .*--long skip, keep-start or keep-end' \
    "$QKV" fill encoder "<mask> ${many}name <mask> of"
try 0 "$QKV" fill encoder "<mask> ${many}name <mask> of" --top 1 --long keep-end
same "$(cut -f1 out)" 2 "the mask that fill --long keep-end keeps"
has out '	<mask> the queen the .* name '
has err \
    '^qkv: the text has more tokens than the model.s context of 40 and was cut to the last tokens; masks in the rest are not filled$'
try 0 "$QKV" fill encoder "<mask> ${many}name <mask> of" --top 1 --long keep-start
same "$(cut -f1 out)" 1 "the mask that fill --long keep-start keeps"
refuse 1 'have no <mask> among them' "$QKV" fill encoder "the ${many}name <mask> of" --long keep-start
try 0 "$QKV" fill encoder "<mask> ${many}name of" --long skip
[ ! -s out ] || fail "fill --long skip fills masks"
has err 'and was skipped$'
refuse 2 'name a text' "$QKV" fill encoder
refuse 2 'name a model folder' "$QKV" fill
refuse 2 'one argument too many' "$QKV" fill encoder the "<mask>"

# The mask of a published tokenizer has a writing of its own, which stands for it as <mask> does, wherever the file
# finds it.
cp -r encoder wordpiece
awk 'BEGIN {
    for (i = 0; i < 270; i++) key[i] = i < 26 ? sprintf("%c", 97 + i) : i < 52 ? sprintf("##%c", 71 + i) : "word" i
    key[0] = "[UNK]"; key[1] = "[MASK]"; key[2] = "the"; key[3] = "of"; key[4] = "england"
    printf "{\"added_tokens\": [{\"id\": 1, \"content\": \"[MASK]\", \"single_word\": false, \"lstrip\": true, "
    printf "\"rstrip\": false, \"normalized\": false, \"special\": true}], \"normalizer\": {\"type\": \"Lowercase\"}, "
    printf "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"post_processor\": null, \"decoder\": null, "
    printf "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "
    printf "\"max_input_chars_per_word\": 100, \"vocab\": {"
    for (i = 0; i < 270; i++) printf "%s\"%s\": %d", i ? ", " : "", key[i], i
    print "}}}"
}' >wordpiece/tokenizer.json
echo '{"tokenizer_class": "BertTokenizer", "mask_token": "[MASK]"}' >wordpiece/tokenizer_config.json
try 0 "$QKV" fill wordpiece --ignore-digest "the <mask> of  <mask>, of England <mask>"
cp out angles
try 0 "$QKV" fill wordpiece --ignore-digest "the [MASK] of  [MASK], of England [MASK]"
same "$(cut -f1-3 out)" "$(cut -f1-3 angles)" "masks in the tokenizer's own writing"
same "$(wc -l <out)" 15 "lines of fill with three masks"
sed -E \
    's/^1\t.*" (.*)"\t/the \1 of  [MASK], of England [MASK]\t/; s/^2\t.*" (.*)"\t/the [MASK] of  \1, of England [MASK]\t/;
    s/^3\t.*" (.*)"\t/the [MASK] of  [MASK], of England \1\t/' out >pairs.txt
same "$(cut -f1 pairs.txt)" "$(cut -f2 pairs.txt)" "texts with [MASK] filled"
try 0 "$QKV" fill wordpiece --ignore-digest "<mask> [MASK]<mask>[MASK]" --top 1
has out '^1	.*	[^][<>]+ \[MASK\]<mask>\[MASK\]$'
has out '^2	.*	<mask> [^][<>]+<mask>\[MASK\]$'
has out '^3	.*	<mask> \[MASK\][^][<>]+\[MASK\]$'
has out '^4	.*	<mask> \[MASK\]<mask>[^][<>]+$'

# ---- embed ----
try 0 "$QKV" embed decoder "the queen of London" --text
cp out last
try 0 "$QKV" embed decoder "the queen of London" --text --pool last
cmp -s out last || fail "the vector of a decoder is not that of its last token"
try 0 "$QKV" embed decoder "the queen of London" --text --pool mean
cmp -s out last && fail "--pool changes nothing of a decoder's vector"
try 0 "$QKV" embed encoder --input lines.txt --text
same "$(wc -l <out)" 3 "lines of embed --text"
same "$(awk -F'\t' 'NR == 2 {for (i = 1; i <= NF; i++) n += $i != 0; print NF, n}' out)" "16 0" \
    "the vector of a blank line"
try 0 "$QKV" embed encoder --input lines.txt -o vectors.npy
[ ! -s out ] || fail "embed -o writes to standard output too"
has err '^vectors\.npy: 3 vectors of 16 numbers, [0-9]+ bytes$'
# The file byte by byte: magic, version, header of 118 bytes, then the floats that --text shows.
same "$(head -c 8 vectors.npy | od -An -tx1 | tr -d ' ')" 934e554d50590100 "the magic of a .npy file"
same "$(tail -c +9 vectors.npy | head -c 2 | od -An -tu1 | tr -s ' ')" " 118 0" "the length of its header"
same "$(tail -c +11 vectors.npy | head -c 117 | sed 's/ *$//')" \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 16), }" "its header"
same "$(tail -c +128 vectors.npy | head -c 1 | od -An -tx1)" " 0a" "the end of its header"
same "$(wc -c <vectors.npy)" $((128 + 3 * 16 * 4)) "its size"
try 0 "$QKV" embed encoder --input lines.txt --text
tail -c +129 vectors.npy | od -An -v -tf4 -w64 | tr -s ' ' '\t' | sed 's/^\t//' >floats
paste out floats \
    | awk -F'\t' '{for (i = 1; i <= 16; i++) if (($i - $(i + 16)) ^ 2 > 1e-12) bad = 1} END {exit bad || NR != 3}' ||
    fail "the floats of the .npy file are not those of --text"
try 0 "$QKV" embed encoder "what is the name of the queen ?" --text --normalize
awk -F'\t' '{for (i = 1; i <= NF; i++) sum += $i * $i} END {exit (sum - 1) ^ 2 > 1e-9}' out \
    || fail "--normalize: $(cat out)"
try 0 "$QKV" embed encoder the --text --pool first
cp out first
try 0 "$QKV" embed encoder the --text --pool mean
cmp -s out first || fail "one token: its first is its mean"
try 0 "$QKV" embed encoder "the queen of London" --text --pool first
cp out first
try 0 "$QKV" embed encoder "the queen of London" --text
cmp -s out first && fail "--pool changes nothing"
try 0 "$QKV" embed pairs London --text
printf 'London\n%s\n' "$long" >long.txt
try 0 "$QKV" embed pairs --input long.txt --text --long skip
same "$(awk -F'\t' 'NR == 2 {for (i = 1; i <= NF; i++) n += $i != 0; print NF, n}' out)" "16 0" \
    "the vector of a skipped line"
has err '1 of 2 lines has .* and was skipped'
try 0 "$QKV" embed pairs --nearest queen --among long.txt --long skip
same "$(cut -f2,3 out)" "1	London" "the nearest of lines of which one is skipped"
printf 'London\n\n%s\n' "$long" >gap.txt
try 0 "$QKV" embed pairs --nearest queen --among gap.txt --long skip
has err '1 of 2 lines has more tokens than the model.s context of [0-9]+ and was skipped' # blank ones are not compared
try 0 "$QKV" embed pairs --nearest "$long" --among long.txt --long keep-end
same "$(head -1 out | cut -f1,2)" "1.0000	2" "the nearest to a text that is cut"
has err 'the text of --nearest has more tokens .* cut to the last tokens'
refuse 1 'the text of --nearest: line 1 has' "$QKV" embed pairs --nearest "$long" --among long.txt --long skip
try 0 "$QKV" embed classifier London --text -o vectors.txt
same "$(awk -F'\t' '{print NF}' vectors.txt)" 16 "numbers of embed --text -o"
try 0 "$QKV" embed encoder --nearest London --among lines.txt
same "$(head -1 out)" "1.0000	3	London" "the line nearest to itself"
same "$(wc -l <out)" 2 "lines near, without the blank one"
try 0 "$QKV" embed encoder --nearest London --among lines.txt --top 1
same "$(wc -l <out)" 1 "lines near with --top 1"
refuse 2 'name a file for the vectors' "$QKV" embed encoder London
refuse 2 'need each other' "$QKV" embed encoder --nearest London
refuse 2 'need each other' "$QKV" embed encoder --among lines.txt --text
refuse 2 'reads no other lines' "$QKV" embed encoder --nearest London --among lines.txt Paris
refuse 2 'not blank' "$QKV" embed encoder --nearest " " --among lines.txt
refuse 2 '--pool is "worst"; it must be first, mean, last or max' "$QKV" embed encoder London --text --pool worst
refuse 1 'cannot read missing' "$QKV" embed encoder --nearest London --among missing
if [ -w /dev/full ]; then
    "$QKV" embed encoder London --text >/dev/full 2>err
    same $? 1 "the exit code of embed with a full disk"
fi

# ---- eval on labelled lines: what classify says is right ----
printf 'London\nthe queen\nEngland\nname of\n' >texts
"$QKV" classify classifier --input texts --top 1 | cut -f1 | paste - texts >right.tsv
try 0 "$QKV" eval classifier --labeled right.tsv
has out '^accuracy  100\.00 %$'
has out '^macro F1  100\.00 %$'
has out '^loss      0\.[0-9]{4} nats a line$'
has out '^over      4 lines of 3 classes'
has out '^Größe und Gewic\. +[0-9]+ +[0-9]+ +[0-9]+$'
[ ! -s err ] || fail "eval says something off a terminal"
printf '\n' >>right.tsv
head -1 right.tsv | sed 's/^[^\t]*/\n/' | tail -1 | sed "s/^/$(cut -f1 right.tsv | head -1 \
    | sed 's/place/other/;s/person/place/;s/other/person/')/" >>right.tsv
try 0 "$QKV" eval classifier --labeled right.tsv --json
has out \
    '^\{"loss": [0-9.]+, "accuracy": (0\.8|1), "macro_f1": [0-9.]+, "lines": 5, "classes": 3, "labels": \["place", "person", "Größe und Gewicht"\], "confusion": \[\[[0-9]+, [0-9]+, [0-9]+\], \[.*\], \[.*\]\], "seconds": [0-9.]+\}$'
printf '3\tLondon\n4\tthe queen\n3\tEngland\n' >numbers.tsv
try 0 "$QKV" eval many --labeled numbers.tsv
has out '^confused most often'
printf 'place\tLondon\nplant\tEngland\n' >strange.tsv
refuse 1 'strange\.tsv:2: the model has no class "plant"; its classes are place, person, Größe' "$QKV" eval classifier \
    --labeled strange.tsv
printf 'place\tLondon\n\nplace England\n' >notab.tsv
refuse 1 'notab\.tsv:3: no tab in this line; write a label, a tab and a text' "$QKV" eval classifier --labeled notab.tsv
printf '3\t%s\n' "$(printf 'x%.0s' $(seq 60))" >long.tsv
refuse 1 'long\.tsv:1: the text has 62 tokens, but the model.s context is 40' "$QKV" eval many --labeled long.tsv
refuse 1 'empty\.txt is empty' "$QKV" eval classifier --labeled empty.txt
refuse 1 'classify needs' "$QKV" eval encoder --labeled right.tsv

# ---- eval on pairs: what translate says is right ----
printf 'London\nthe queen\nEngland\nname of\n' | tee sources | "$QKV" translate pairs -q --max-tokens 12 >targets
paste sources targets >right.tsv
printf 'London\tqueen\n' >>right.tsv
try 0 "$QKV" eval pairs --pairs right.tsv --max-tokens 12
has out '^exact        100\.00 %$'
has out '^token error  0\.00 %$'
has out '^chrF2        100\.00$'
has out '^loss         [0-9.]+ nats a token$'
has out '^over         4 sources \(5 pairs\)'
try 0 "$QKV" eval pairs --pairs right.tsv --beam 3 --length-penalty 1 --no-repeat 2 --batch 2 --max-tokens 12 --json
has out \
    '^\{"loss": [0-9.]+, "exact": [0-9.]+, "token_error": [0-9.]+, "bleu": [0-9.]+, "chrf": [0-9.]+, "sources": 4, "pairs": 5, "seconds": [0-9.]+, "search_seconds": [0-9.]+\}$'
refuse 1 'has an encoder beside its decoder' "$QKV" eval pairs --data strange.tsv
printf 'a\tb\nc\td\te\n' >tabs.tsv
refuse 1 'tabs\.tsv:2: more than one tab in this line; write a source, one tab and a target' "$QKV" eval pairs \
    --pairs tabs.tsv
printf 'a\tb\n%s\tb\n' "$(printf 'x%.0s' $(seq 60))" >long.tsv
refuse 1 'long\.tsv:2: the source has 61 tokens with its end, but the model.s context is 40' "$QKV" eval pairs \
    --pairs long.tsv
printf 'a\t%s\n' "$(printf 'x%.0s' $(seq 60))" >long.tsv
refuse 1 'long\.tsv:1: the target has 61 tokens with its end' "$QKV" eval pairs --pairs long.tsv
refuse 1 'pairs need an encoder, a decoder and an lm head; this model has a decoder alone' "$QKV" eval decoder \
    --pairs right.tsv
refuse 1 'this model has an encoder alone' "$QKV" eval encoder --pairs right.tsv
refuse 2 'exclude each other' "$QKV" eval pairs --pairs right.tsv --data right.tsv
refuse 2 'name a text, pairs, labelled lines, examples or talks' "$QKV" eval pairs
finish
