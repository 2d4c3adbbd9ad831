#!/usr/bin/env bash
# Models of SentencePiece and ranks of tiktoken: qkv tokenize, train --tokenizer, folders without a tokenizer.json, and
# export, which says what other readers of the tokenizer.json read differently.
. "$(dirname "$0")/common.sh"
golden=$SOURCE/tests/golden/spm
make_spec
make_text 400 >text.txt

# ---- qkv tokenize ----
try 0 "$QKV" tokenize "$golden/bpe.model" "the sea"
cp out ids
[ "$(wc -w <ids)" -ge 2 ] || fail "only $(cat ids)"
try 0 "$QKV" tokenize "$golden/bpe.model" --ids "$(cat ids)"
same "$(cat out)" "the sea" "the text of ids"
try 0 "$QKV" tokenize "$golden/qwen.tiktoken" --pieces "the sea <|im_start|>" --specials
has out '^381.*<.im_start.>'
cp "$golden/qwen.tiktoken" unknown.tiktoken
refuse 1 'unknown\.tiktoken has ranks of tiktoken, but neither its name nor a config\.json .* the families qwen' \
    "$QKV" tokenize unknown.tiktoken "the"
head -c 2000 "$golden/bpe.model" >cut.model
refuse 1 'cut\.model: byte [0-9]+: the message .* ends inside a field; the file is cut short' \
    "$QKV" tokenize cut.model "the"


# ---- training and export ----
for kind in unigram bpe_bytes; do
    try 0 train "$kind" 6 --quiet --tokenizer "$golden/$kind.model"
    try 0 "$QKV" tokenize "$golden/$kind.model" "the  king Bär 😀"
    cp out ids
    try 0 "$QKV" tokenize "$kind" "the  king Bär 😀"
    same "$(cat out)" "$(cat ids)" "$kind: the ids of the run and of the model that it was given"
    try 0 "$QKV" export "$kind" --to huggingface --dtype f32 -o "$kind.hf"
    cp err said
    try 0 "$QKV" tokenize "$kind.hf" "the  king Bär 😀"
    same "$(cat out)" "$(cat ids)" "$kind: the ids of the exported folder"
    try 0 "$QKV" export "$kind" --to gguf -o "$kind.gguf"
    try 0 "$QKV" tokenize "$kind.gguf" "the king sees"
    cp out ids
    try 0 "$QKV" tokenize "$kind" "the king sees"
    same "$(cat out)" "$(cat ids)" "$kind: the ids of the GGUF file"
    mv said said.$kind
    try 0 "$QKV" info "$kind.hf"
    has out '^  tokenizer +[0-9,]+ +tokens, of a model of SentencePiece'
done
has said.unigram '^qkv: unigram\.hf/tokenizer\.json: .* read these differently than the model of Sent.*U\+0041'
has said.bpe_bytes 'read these differently'
same "$(grep -c differently said.unigram)" 1 "lines about one tokenizer"
try 0 train ranks 6 --quiet --tokenizer "$golden/qwen.tiktoken"
try 0 "$QKV" tokenize "$golden/qwen.tiktoken" "the king"
cp out ids
try 0 "$QKV" tokenize ranks "the king"
same "$(cat out)" "$(cat ids)" "the ids of ranks and of their run"
has ranks/tokenizer.json '"merge_groups"'

# ---- a folder without a tokenizer.json ----
cp -r unigram.hf folder
rm folder/tokenizer.json folder/tokenizer_config.json
refuse 1 'folder has no tokenizer: no tokenizer\.json, .* no tokenizer\.model, no spiece\.model' \
    "$QKV" tokenize folder "the"
cp "$golden/unigram.model" folder/tokenizer.model
try 0 "$QKV" tokenize folder "the king"
cp out ids
try 0 "$QKV" tokenize "$golden/unigram.model" "the king"
same "$(cat out)" "$(cat ids)" "the ids of a folder's tokenizer.model"
refuse 1 'a file of a tokenizer that exists \(tokenizer\.json, a \.model of SentencePiece, a \.tiktoken\)' \
    train other 3 --tokenizer nowhere.model
finish
