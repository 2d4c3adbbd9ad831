#!/usr/bin/env bash
# The toy models of tutorials, each by one command: parameters, losses, and what the models then write. And tokenizers
# made by "qkv tokenize --train".
# labels: numeric
. "$(dirname "$0")/common.sh"

printf 'the cat sat on the mat\nthe dog sat on the rug\n\nthe bird sat on the tree\n' >toy.txt
printf 'i like cats\tj'\'' aime les chats\ni like dogs\tj'\'' aime les chiens\n' >pairs.tsv

# loss STEP FILE: of the log of a run
loss() { sed -n "s/.*\"step\":$1,\"loss\":\([^,]*\),.*/\1/p" "$2"; }
# within VALUE LOW HIGH
within_range() {
    checks=$((checks + 1))
    awk -v x="$1" -v a="$2" -v b="$3" 'BEGIN { exit !(x >= a && x <= b) }' || fail "$last: $1 is not from $2 to $3"
}
parameters() { "$QKV" info "$1" --json | sed -n 's/.*"parameters": *\([0-9]*\).*/\1/p' | head -1; }

# ---- a decoder ----

try 0 "$QKV" train --preset tiny-lm --lines toy.txt --out lm --threads 1
has err '^data .*toy.txt, 3 lines \(24 tokens\) to train on, 0 to validate on'
has err 'vocabulary 12, context 16'
same "$(parameters lm)" 17932 'parameters of tiny-lm'
within_range "$(loss 1 lm/log.jsonl)" 2.3 2.9
within_range "$(loss 40 lm/log.jsonl)" 0.9 1.6
within_range "$(loss 200 lm/log.jsonl)" 0.10 0.25
try 0 "$QKV" generate lm --temp 0 -q
has out '^the (cat sat on the mat|dog sat on the rug|bird sat on the tree)$'
try 0 "$QKV" generate lm --temp 0 --prompt 'the dog'
has out '^the dog sat on the rug$'
has err 'then the text ended'
try 0 "$QKV" generate lm --temp 0 --prompt 'the bird'
has out '^the bird sat on the tree$'
try 0 "$QKV" tokenize lm 'the cat'
same "$(tr ' ' '\n' <out | wc -l)" 2 'a token a word'
try 0 "$QKV" tokenize lm --specials --pieces 'cat'
has out '^1.*<s>'
try 1 "$QKV" generate lm --prompt 'the fish'
has err '"fish" is no word of the vocabulary'
checks=$((checks + 1))
[ ! -s out ] || fail "a prompt that is refused is written: $(cat out)"
# goes on as if it had never stopped
try 0 "$QKV" train --preset tiny-lm --lines toy.txt --out part --threads 1 --steps 120 --quiet
try 0 "$QKV" train --resume part --steps 200 --quiet
same "$(loss 200 part/log.jsonl)" "$(loss 200 lm/log.jsonl)" 'the last loss of a run that was interrupted'

# ---- an encoder ----

try 0 "$QKV" train --preset tiny-encoder --lines toy.txt --out enc --threads 1
has err '18 lines \(144 tokens\) to train on'
has err 'vocabulary 13'
within_range "$(loss 200 enc/log.jsonl)" 0 1
while IFS='|' read -r text word; do
    try 0 "$QKV" fill enc "$text" --top 1
    has out "$word"
done <<'END'
the <mask> sat on the mat|cat
the <mask> sat on the rug|dog
the bird sat on the <mask>|tree
the bird <mask> on the tree|sat
END
# masks drawn at random, some of each line
try 0 "$QKV" train --preset bert-tiny --lines toy.txt --valid toy.txt --tokenizer whitespace --mask-probability 0.3 \
    --steps 20 --warmup 2 \
    --out drawn --threads 1
has err '3 lines'
has err 'best validation loss'

# ---- an encoder and a decoder ----

try 0 "$QKV" train --preset tiny-translator --pairs pairs.tsv --out pairs --threads 1
same "$(parameters pairs)" 44044 'parameters of tiny-translator'
within_range "$(loss 200 pairs/log.jsonl)" 0 0.1
try 0 "$QKV" translate pairs 'i like cats'
has out "^j' aime les chats$"
try 0 "$QKV" translate pairs 'i like dogs'
has out "^j' aime les chiens$"

# ---- what is wrong ----

printf 'the fish sat\n' >unknown.txt
try 1 "$QKV" train --preset tiny-lm --lines toy.txt --valid unknown.txt --out none
has err '"fish" is no word of the vocabulary.*unknown.txt:1'
printf '\n \n' >blank.txt
try 1 "$QKV" train --preset tiny-lm --lines blank.txt --out none
has err 'blank.txt is empty; give a file with a text in each line'
printf 'word' >one.txt
try 0 "$QKV" train --preset tiny-lm --lines one.txt --out one --steps 30 --quiet --threads 1
try 0 "$QKV" generate one --temp 0 -q
has out '^word$'
try 0 "$QKV" train --preset tiny-encoder --lines one.txt --out one-enc --steps 30 --quiet --threads 1
seq -s ' ' 30 >long.txt
try 1 "$QKV" train --preset tiny-lm --lines long.txt --out none
has err 'long.txt:1: the line has 32 tokens with <s> and </s>, more than the context of 16'
try 2 "$QKV" train --preset tiny-lm --lines toy.txt --data toy.txt --out none
has err 'data and lines exclude each other'
try 2 "$QKV" train --preset tiny-lm --data toy.txt --mask-each --out none
has err '--mask-each is given, but only lines'
try 2 "$QKV" train --preset tiny-encoder --lines toy.txt --mask-probability 0.3 --out none
has err '--mask-probability is given, but --mask-each hides each token once'

# ---- tokenizers ----

for kind in bytes chars chars+bytes words whitespace bpe bpe:300 words:260 whitespace:6; do
    try 0 "$QKV" tokenize --train toy.txt --tokenizer "$kind" --special '<mask>' -o "$kind.json"
    has err 'json: [0-9]+ tokens, made in'
    try 0 "$QKV" tokenize "$kind.json" --specials '<mask>'
    has out '^[0-9]+$'
done
try 0 "$QKV" tokenize --train toy.txt --train pairs.tsv --tokenizer whitespace -o both.json
has err 'both.json: 19 tokens'
mkdir texts && cp toy.txt pairs.tsv texts/
try 0 "$QKV" tokenize --train texts --tokenizer whitespace -o folder.json -q
same "$(wc -c <folder.json)" "$(wc -c <both.json)" 'bytes of a tokenizer of the same files'
try 0 "$QKV" train --preset nano-gpt --data toy.txt --tokenizer ./bpe:300.json --context 8 --steps 2 \
    --valid-fraction 0 --out made --quiet --threads 1
try 1 "$QKV" tokenize --train toy.txt -o both.json
has err 'both.json exists'
try 0 "$QKV" tokenize --train toy.txt -o both.json --force
try 1 "$QKV" tokenize --train toy.txt -o toy.txt --force
try 1 "$QKV" tokenize --train missing.txt -o x.json
has err 'missing.txt'
try 2 "$QKV" tokenize --train toy.txt
has err 'name a file for the tokenizer: -o FILE'
try 2 "$QKV" tokenize --train missing.txt --tokenizer bpe:x -o x.json
has err 'must come the size'
try 2 "$QKV" tokenize --train toy.txt --tokenizer word -o x.json
has err 'kinds that are trained are'
try 2 "$QKV" tokenize both.json --tokenizer words hello
has err 'no tokenizer is made'
try 2 "$QKV" tokenize both.json --train toy.txt -o x.json
has err 'makes a tokenizer from the files that it names; leave'

# ---- characters, and a preset's own vocabulary ----

printf 'First Citizen:\nBefore we proceed any further, hear me speak.\n%.0s' 1 2 3 4 5 6 7 8 >text.txt
count=$(grep -o . text.txt | sort -u | wc -l)
try 0 "$QKV" train --preset nano-gpt --data text.txt --context 16 --steps 2 --out letters --threads 1
has err "vocabulary $((count + 2)), context 16" # with the newline and <unk>
try 0 "$QKV" generate letters -n 300 --temp 2 --seed 1 -q
hasnt out '<unk>|�'
try 0 "$QKV" generate letters -n 5 --prompt 'ÄÖ' -q
printf 'speak: ÄÖÜ further%.0s' 1 2 3 4 5 6 >foreign.txt
try 0 "$QKV" train --preset nano-gpt --data text.txt --valid foreign.txt --context 16 --steps 1 --out foreign \
    --threads 1
has err '18 tokens of .*foreign.txt are not in the vocabulary: each is <unk>'
try 0 "$QKV" train --preset gpt2-small --set d_model=24 --set decoder.layers=1 --set decoder.attention.heads=2 \
    --context 16 --batch 1 --accumulate 1 --data text.txt --steps 1 --valid-fraction 0 \
    --out small --threads 1
has err 'vocab is [0-9]+, as the tokenizer has it, in place of the 50257 of preset gpt2-small'
finish
