#!/usr/bin/env bash
# Commands open each file of a model once, from every kind of place that models are read from (scripts/check-opens).
. "$(dirname "$0")/common.sh"
check="$SOURCE/scripts/check-opens"
# A process that is traced cannot look for its own leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
echo some >some.txt
"$check" . cat some.txt >out 2>&1
if [ $? = 77 ]; then
    echo "skipped: $(cat out)"
    exit 0
fi

# The script itself: it counts, and fails for a file that is opened twice, and for none.
try 0 "$check" . cat some.txt
has out '^1 files, each opened once$'
try 1 "$check" . cat some.txt some.txt
has out '^2 some\.txt$'
try 1 "$check" . true
has out '^no file of the folder was opened$'

make_text 60 >text.txt
make_spec
try 0 train run 5 --quiet --keep 2
try 0 "$QKV" export run --dtype f16 --out small
try 0 "$QKV" export run --to huggingface --dtype bf16 --out published

once() { # once FOLDER FILES COMMAND...: opens the files, which are some of the folder's, once each
    local place=$1 file
    shift
    local files=$1
    shift
    try 0 env QKV_OPENS=all "$check" "$place" "$@"
    for file in $files; do has out "^1 $file\$"; done
}
texts="tokenizer.json config.json"
once run "$texts model.safetensors train.json" "$QKV" generate run -n 1
once run "$texts checkpoint.safetensors" "$QKV" generate run/checkpoint.safetensors -n 1
once small "$texts model.safetensors" "$QKV" generate small -n 1
once published "$texts model.safetensors" "$QKV" generate published -n 1
once published "$texts model.safetensors" "$QKV" generate published -n 1 --precision bf16
once small "$texts model.safetensors" "$QKV" eval small --data text.txt
once run "$texts model.safetensors" "$QKV" embed run "the king" --text
once published "$texts model.safetensors" "$QKV" export published --dtype f32 --out other

hf="$SOURCE/tests/golden/hf"
once "$hf/llama_sharded" "config.json model.safetensors.index.json" "$QKV" generate "$hf/llama_sharded" \
    --ids --prompt "1 2 3" -n 1
# Without a precision modules.json is also read to find a train.json.
once "$hf/embeddings" "modules.json config.json 2_Dense/model.safetensors" "$QKV" embed "$hf/embeddings" "the king" \
    --text --precision fp32
once "$SOURCE/tests/golden/gguf" gpt2_11_005_usual.gguf "$QKV" generate \
    "$SOURCE/tests/golden/gguf/gpt2_11_005_usual.gguf" --prompt "the then" -n 1
finish
