#!/usr/bin/env bash
# Training, evaluation and comparisons on several files; and notes about texts that look like something else.
# labels: quick
. "$(dirname "$0")/common.sh"
make_spec
mkdir texts
make_text 100 >texts/a.txt
make_text 300 | tail -200 >texts/b.txt
make_text 400 | tail -100 >texts/c.txt
half='--data texts/a.txt --data texts/b.txt'

try 0 train both 10 $half --tokenizer bpe:300
has err '^data    .*texts/a\.txt and 1 more file, [0-9,]+ tokens'
has err '^valid   the end of .*texts/b\.txt'
has both/train.json '"data": \[".*texts/a\.txt", ".*texts/b\.txt"\]'
has both/train.json \
    '"path": ".*texts/b\.txt", "bytes": [0-9]+, "hash": "[0-9a-f]{16}", "tokens": [0-9]+, "held_out": [1-9]'
try 0 train one 10 --data texts/a.txt --tokenizer bpe:300
[ "$(stat -c %s both/tokens.data.bin)" -gt "$(($(stat -c %s one/tokens.data.bin) * 2))" ] \
    || fail "the second file is not learnt from"

# The same files by their folder; the run goes on with the ones it began with, whatever comes into the folder.
rm texts/c.txt
try 0 train folder 10 --data texts --tokenizer bpe:300
cmp -s both/tokens.data.bin folder/tokens.data.bin || fail "a folder gives other tokens than its files"
same "$(losses both)" "$(losses folder)" "losses of a folder and of its files"
echo 'a new text' >texts/0.txt
rm folder/tokens.data.bin
try 0 resume folder --steps 12
cmp -s both/tokens.data.bin folder/tokens.data.bin || fail "$last: other tokens than before"
rm folder/tokens.data.bin texts/0.txt
sed -i 's/king/kong/' texts/b.txt
refuse 1 'texts/b\.txt has changed since the run began' resume folder --steps 14 --quiet
sed -i 's/kong/king/' texts/b.txt

# Several to validate on.
try 0 train valid 10 --data texts/a.txt --valid texts/b.txt --valid texts/a.txt --quiet
has valid/train.json '"valid": \[".*texts/b\.txt", ".*texts/a\.txt"\]'

# Evaluation: the same text, from files, from their folder, and from one file with the end token written in it.
(cat texts/a.txt; printf '<|endoftext|>'; cat texts/b.txt) >joined.txt
# Its 13 bytes are bytes of that file and of no other: the bits of the whole are the same.
numbers() { sed -E 's/, "seconds.*//; s/"bits_per_byte": [0-9.]+, //; s/"bytes": [0-9]+, //' out; }
bits() { sed -nE 's/.*"bits_per_byte": ([0-9.]+), .*"bytes": ([0-9]+), .*/\1 \2/p' out \
    | awk -v more="$1" '{ printf "%d %.4f", $2 + more, $1 * $2 }'; }
try 0 "$QKV" eval both --data joined.txt --json
joined=$(numbers) joined_bits=$(bits 0)
try 0 "$QKV" eval both $half --json
same "$(numbers)" "$joined" "eval of two files"
same "$(bits 13)" "$joined_bits" "bytes and bits of two files"
try 0 "$QKV" eval both --data texts --json
same "$(numbers)" "$joined" "eval of a folder"
same "$(bits 13)" "$joined_bits" "bytes and bits of a folder"
refuse 2 'pairs takes one value' "$QKV" eval both --pairs a.tsv --pairs b.tsv

# Comparisons share one text of all files.
try 0 "$QKV" compare $half --tokenizer bpe:300 --spec spec.json --axis kv=mha,mqa --steps 4 --batch 2 --warmup 1 \
    --threads 1 --cache 8 --quiet --out cmp
cat cmp/train.txt cmp/valid.txt | cmp -s - joined.txt \
    || fail "the texts of compare are not the files with an end token between them"
try 0 "$QKV" compare $half --valid texts/a.txt --valid texts/b.txt --spec spec.json --axis kv=mha,mqa --steps 4 \
    --batch 2 --warmup 1 --threads 1 --cache 8 --quiet --out cmp2
cat texts/a.txt texts/b.txt >bare.txt # chars have no end token
cmp -s cmp2/train.txt bare.txt && cmp -s cmp2/valid.txt bare.txt || fail "$last: other texts"

# A folder of plain texts is compared; one with JSON lines or packed files is refused, as by train.
short="--spec spec.json --axis kv=mha,mqa --steps 2 --batch 2 --warmup 1 --threads 1 --cache 8 --quiet"
try 0 "$QKV" compare --data texts --tokenizer bpe:300 $short --out cmp4
cat cmp4/train.txt cmp4/valid.txt | cmp -s - joined.txt || fail "compare of a folder: other texts"
mkdir rows packed
sed 's/.*/{"text": "&"}/' texts/a.txt >rows/a.jsonl
gzip -c texts/a.txt >packed/a.txt.gz
for data in '--data rows' '--data packed' '--data texts/a.txt --valid packed' '--data texts/a.txt --valid rows'; do
    refuse 1 'is in a folder of plain texts, but its name says that it has JSON lines or is packed' \
        "$QKV" compare $data $short --out cmp5
    [ ! -e cmp5 ] || fail "compare $data left a folder"
done

# Files that variants read themselves must have the same bytes whenever a run begins.
compared() { try "$1" "$QKV" compare "${data[@]}" --tokenizer bpe:300 $short --out "$2"; }
changing() { # NAME FILE DATA...: the second variant is to begin anew
    local name=$1 file=$2
    shift 2
    data=("$@")
    compared 0 $name
    cp -p "$file" before
    for change in 's/king/kong/' '$s/$/ more/'; do
        sed -i "$change" "$file"
        compared 0 $name # nothing is trained
        mv $name/mqa begun
        refuse 1 "$file has other bytes than when the comparison in $name began" \
            "$QKV" compare "${data[@]}" --tokenizer bpe:300 $short --out $name
        mv begun $name/mqa
        cp before "$file"
    done
    rm -r $name/mqa
    touch "$file"
    compared 0 $name
    [ -s $name/mqa/model.safetensors ] || fail "$name: a run whose files were only touched is not made"
}
changing cmp6 texts/a.txt --data texts/a.txt --valid texts/b.txt
changing cmp7 texts/b.txt --data texts/a.txt --valid texts/b.txt
changing cmp8 rows/a.jsonl --data rows/a.jsonl
cp rows/a.jsonl rows/b.jsonl
changing cmp9 rows/b.jsonl --data 'rows/*.jsonl'
cp rows/a.jsonl rows/c.jsonl
rm -r cmp9/mqa
refuse 1 'there are 3 files with texts, 1 more than when the comparison in cmp9 began' \
    "$QKV" compare --data 'rows/*.jsonl' --tokenizer bpe:300 $short --out cmp9
rm rows/c.jsonl
# A folder that has moved with its texts, a record of an earlier version, and one that is damaged.
mkdir moved
cp -r cmp9 rows spec.json moved
cd moved || exit 2
try 0 "$QKV" compare --data 'rows/*.jsonl' --tokenizer bpe:300 $short --out cmp9
sed -i 's/,"files":"[^"]*"//' cmp9/compare.json
rm -r cmp9/mqa
try 0 "$QKV" compare --data 'rows/*.jsonl' --tokenizer bpe:300 $short --out cmp9
grep -q '"files":"' cmp9/compare.json || fail "a record of an earlier version gets no list of files"
cd ..
sed -i 's/\("files":"[0-9]*\) /\1x/' cmp9/compare.json
refuse 1 'compare.json: files has a line that is not a size, a time and a hash' \
    "$QKV" compare --data 'rows/*.jsonl' --tokenizer bpe:300 $short --out cmp9
# Files that are joined are read once.
rm -rf cmp4
data=(--data texts --valid bare.txt)
compared 0 cmp4
rm -r cmp4/mqa
cp texts/a.txt before
echo more >>texts/a.txt
compared 0 cmp4
cp before texts/a.txt

# Pairs from two files.
printf 'one\teins\ntwo\tzwei\n%.0s' 1 2 3 4 5 6 >first.tsv
printf 'three\tdrei\n%.0s' 1 2 3 4 5 6 >second.tsv
try 0 "$QKV" train --preset g2p --set d_model=16 --pairs first.tsv --pairs second.tsv --out pairs --steps 2 --batch 4 \
    --warmup 1 --threads 1 --sample 5
has err 'first\.tsv and 1 more file, 17 pairs'
has pairs/train.json '"lines": 12, "held_out": 0'
has pairs/train.json '"lines": 6, "held_out": 1'

# What a text looks like is said, by --quiet too, and the training goes on.
sed 's/.*/{"id": 1, "text": "&"}/' texts/a.txt >lines.jsonl
cp lines.jsonl lines.txt # a name that says nothing of JSON
try 0 train json 2 --data lines.txt --quiet --warmup 1
has err '^qkv: .*lines\.txt looks like JSONL: its first 5 lines are JSON objects.*jq -r \.text'
[ -e json/model.safetensors ] || fail "$last: no model"
sed 's/$/\r/; s/king/k\xefng/' texts/a.txt >other.txt
try 0 train other 2 --data other.txt --warmup 1
has err '^qkv: .*other\.txt has Windows line ends \(CR LF: 100 of 100 lines\)'
has err '^qkv: .*other\.txt is not UTF-8: .*Latin-1.*iconv -f ISO-8859-1 -t UTF-8'
try 0 "$QKV" compare --data lines.txt --spec spec.json --axis kv=mha,mqa --steps 2 --batch 2 --warmup 1 --threads 1 \
    --cache 8 --quiet --out cmp3
same "$(grep -c 'train.txt looks like JSONL' err)" 1 "notes of a comparison"
finish
