#!/usr/bin/env bash
# qkv export --to gguf and qkv quantize: files of runs, folders and GGUF files, their messages, and refusals.
. "$(dirname "$0")/common.sh"
golden=$SOURCE/tests/golden
file=$golden/gguf/gpt2_11_005_usual.gguf

# ---- a file of a folder is the same model ----
try 0 "$QKV" export "$golden/hf_random/llama_11_004" --to gguf -o llama.gguf
has err '^llama.gguf: [0-9,]+ parameters, f32, '
for model in "$golden/hf_random/llama_11_004" llama.gguf; do
    try 0 "$QKV" generate "$model" --ids -q --prompt "5 6 7" -n 12 --temp 0 --precision fp32
    cp out said.$(basename $model)
done
cmp -s said.llama_11_004 said.llama.gguf || fail "a GGUF file generates other ids than its folder"

# ---- few bits: from a file, a folder and a run, names in any case ----
try 0 "$QKV" quantize "$file" --to q8_0 -o few.gguf
has err 'rows are no whole blocks: .* f16 instead of q8_0'
try 0 "$QKV" quantize "$file" --to q4_k -o mix.gguf
has err 'mix.gguf: [0-9,]+ parameters, Q4_K_M, architecture gpt2, '
try 0 "$QKV" export "$file" --to gguf --dtype q4_k -o pure.gguf --json
has out '"format": ?"q4_K", ?"architecture": ?"gpt2"'
try 0 "$QKV" generate few.gguf --prompt "the then" -n 4 --temp 0 -q
make_spec
make_text 60 >text.txt
try 0 train run 3 --quiet
try 0 "$QKV" quantize run --to Q4_0 --keep '*attn*=f16' -o run.gguf --json
has out '"format": ?"Q4_0"'
try 0 "$QKV" eval run.gguf --data text.txt
try 0 "$QKV" info run.gguf
has out 'parameters'

# ---- fine-tuning one, of the architecture that only qkv reads too ----
try 0 "$QKV" quantize run --to Q4_0 --family qkv -o own.gguf
try 0 "$QKV" train --from own.gguf --data text.txt --steps 1 --batch 1 --out tuned
has err 'weights of .*/own.gguf are q8_0; the run learns fp32 copies of them, and saves fp32; begin with the model '

# ---- weights that stay where the file has them ----
try 0 "$QKV" generate own.gguf --prompt "the" -n 8 --temp 0 -q
cp out packed.txt
try 0 "$QKV" generate own.gguf --prompt "the" -n 8 --temp 0 -q --map
cmp -s out packed.txt || fail "--map gives another text"
hasnt err 'map'
try 0 "$QKV" generate run --prompt "the" -n 2 --temp 0 -q --map --precision fp32
has err '--map changes nothing for run: products read no packed copy of its weights'
try 0 "$QKV" info own.gguf
has out 'more: their copy as products read it; none with --map'

# ---- importance that is measured ----
try 0 "$QKV" quantize run --to q4_0 --calibrate text.txt -o seen.gguf
hasnt err 'importance for' # all matrices were measured
try 0 "$QKV" quantize run --to q4_0 -o blind.gguf
! cmp -s seen.gguf blind.gguf || fail "--calibrate changes nothing"
try 0 "$QKV" eval seen.gguf --data text.txt --against run
refuse 2 '--imatrix has no effect: --calibrate measures' "$QKV" quantize run --to q4_0 --imatrix text.txt \
    --calibrate text.txt -o x.gguf
refuse 2 'no matrix of the file is in blocks, so the importance of columns \(text.txt\) has no effect' \
    "$QKV" quantize run --to f16 --calibrate text.txt -o x.gguf
refuse 1 'missing.txt' "$QKV" quantize run --to q4_0 --calibrate missing.txt -o x.gguf

# ---- the output ----
refuse 1 'run.gguf exists.*--force' "$QKV" quantize run --to q4_1 -o run.gguf
try 0 "$QKV" quantize run --to q4_1 -o run.gguf --force
refuse 1 'cannot write missing/run.gguf: No such file' "$QKV" quantize run --to q4_1 -o missing/run.gguf
refuse 1 'run.gguf is also read; write to another file' "$QKV" quantize run.gguf --to q8_0 -o run.gguf --force

# ---- the command line ----
refuse 2 'name one model: .*quantize RUN --to Q4_K_M' "$QKV" quantize --to q8_0 -o x.gguf
refuse 2 'name a mix or a type: --to Q4_K_M' "$QKV" quantize run -o x.gguf
refuse 2 'name a file to write: --out FILE.gguf' "$QKV" quantize run --to q8_0
refuse 2 'the type "q9" is not known; there are F32, ' "$QKV" quantize run --to q9 -o x.gguf
refuse 2 'the rule "head" is not PATTERN=TYPE, such as head\*=q8_0' "$QKV" quantize run --to q8_0 --keep head -o x.gguf
refuse 2 'the type "q9" is not known; there are ' "$QKV" quantize run --to q8_0 --keep 'head*=q9' -o x.gguf
refuse 1 'no matrix has a name like "tail\*"' "$QKV" quantize run --to q8_0 --keep 'tail*=q8_0' -o x.gguf
refuse 2 'the type "q4_k_m" is not known; there are .*; qkv quantize writes mixes' \
    "$QKV" export run --to gguf --dtype q4_k_m -o x.gguf
refuse 1 'text.txt is not a file of importance' "$QKV" quantize run --to q8_0 --imatrix text.txt -o x.gguf
refuse 2 'GGUF files have no family "lama"' "$QKV" quantize run --to q8_0 --family lama -o x.gguf
refuse 1 'models of type llama do not have all of this model; .*: embed.position.kind is learned' \
    "$QKV" export run --to gguf --family llama -o x.gguf
refuse 2 '--dtype is "q8_0"; it must be f32' "$QKV" export run --dtype q8_0 -o folder
refuse 2 'name a file to write: --out FILE.gguf' "$QKV" export run --to gguf
refuse 2 '--quiet has no effect: folders and adapters are written without progress' \
    "$QKV" export run --dtype f16 -o folder --quiet
[ ! -e x.gguf ] && [ ! -e folder ] || fail "a refused command has written something"
[ -z "$(find . -name '.*.tmp')" ] || fail "a temporary file is left"
finish
