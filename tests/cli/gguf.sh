#!/usr/bin/env bash
# GGUF files as models: every command that opens a published folder opens one.
. "$(dirname "$0")/common.sh"
golden=$SOURCE/tests/golden
file=$golden/gguf/gpt2_11_005_usual.gguf

# ---- text ----
try 0 "$QKV" info "$file"
has out 'token.weight'
try 0 "$QKV" tokenize "$file" "the then"
same "$(cat out)" "28 6 1 28 6 15" "the ids of a text"
try 0 "$QKV" tokenize "$file" --ids "28 6 1 28 6 15"
same "$(cat out)" "the then" "the text of ids"
try 0 "$QKV" generate "$file" --prompt "the then" -n 12 --temp 0 --precision fp32 -q
has out .
cp out said
printf 'the then in a thin hen\nhe in the hint\n' >text.txt
try 0 "$QKV" eval "$file" --data text.txt --precision fp32
cp out evaluated

# ---- a folder made of a file gives the same text ----
try 0 "$QKV" export "$file" --to huggingface --dtype f32 -o there
try 0 "$QKV" generate there --prompt "the then" -n 12 --temp 0 --precision fp32 -q
same "$(cat out)" "$(cat said)" "the text of an exported folder"
try 0 "$QKV" eval there --data text.txt --precision fp32
same "$(sed 's/there//' out)" "$(sed "s|$file||" evaluated)" "the loss of an exported folder"

# ---- a file and the folder that it was made of ----
ids() { try 0 "$QKV" generate "$1" --ids -q --prompt "5 6 7" -n 12 --temp 0 --precision fp32; }
for name in llama_11_004 mpt_11_004; do
    ids "$golden/hf_random/$name"
    cp out said
    ids "$golden/gguf/$name.gguf"
    same "$(cat out)" "$(cat said)" "$name: the ids of a file and of its folder"
done
ids "$golden/hf_random/llama_11_004"
cp out said
ids "$golden/gguf/split/llama_11_004-00001-of-00005.gguf"
same "$(cat out)" "$(cat said)" "the ids of several files and of their folder"

# ---- refusals ----
refuse 1 'llama_11_004-00002-of-00005.gguf is one of 5 files; name the first of them' \
    "$QKV" info "$golden/gguf/split/llama_11_004-00002-of-00005.gguf"
cp "$golden/gguf/split/"*-0000[12]-of-00005.gguf .
refuse 1 'cannot read .*00003-of-00005.gguf' "$QKV" info llama_11_004-00001-of-00005.gguf
cp llama_11_004-00002-of-00005.gguf llama_11_004-00003-of-00005.gguf
refuse 1 'split.no and split.count are not those of file 3 of 5' "$QKV" info llama_11_004-00001-of-00005.gguf
head -c 9000 "$file" >cut.gguf
refuse 1 'cut.gguf: tensor ".*": .*it was cut off' "$QKV" info cut.gguf
refuse 1 'there is no missing.gguf|cannot read missing.gguf' "$QKV" info missing.gguf
sed 's/general.architecture\(....\)\(........\)gpt2/general.architecture\1\2gptx/' "$file" >other.gguf
refuse 1 'other.gguf: general.architecture is "gptx", which no known family of models has' "$QKV" info other.gguf
sed 's/gpt2.context_length/gpt2.context_lengtx/' "$file" >key.gguf
refuse 1 'key.gguf has no key gpt2.context_length, which models of type gpt2 need' "$QKV" info key.gguf
sed 's/gpt2.vocab_size/gpt2.vocab_sizx/' "$file" >unknown.gguf
refuse 1 'unknown.gguf: models of type gpt2 have no key gpt2.vocab_sizx' "$QKV" info unknown.gguf
finish
