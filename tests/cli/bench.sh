#!/usr/bin/env bash
# qkv bench: the table, the file, the choice of rows, refusals, an interruption. It does not test speed.
. "$(dirname "$0")/common.sh"
row="64x384x384 x.wT fp32"
bench() { "$QKV" bench "$@" $(usual '--threads 1 --rounds 3 --seconds 0.001' "$@"); }

try 0 "$QKV" bench --list
cp out rows
for group in products attention experts training order generation reduce; do has out "^$group "; done
for label in "products 4096x768x768 dyT.x fp32" "products 1x4096x4096 x.wT fp32" \
    "attention MHA D64 T2048 full backward fp32" \
    "attention MQA D128 T1/8192 decode fp32" "training nano-gpt 12x64 step fp32" \
    "generation baby-gpt after 128 token fp32"; do
    has out "^$label$"
done
has out '^training gpt2-small 8x1024 step fp32 \(big\)$'
same "$(sort rows | uniq -d)" "" "labels that two rows have"

# ---- one row: the table and the file ----
try 0 bench -f "$row" --json one.json
has out 'kernels (scalar|avx2|avx512|avx512bf16|amx|neon)'
has out '^peaks: [0-9.]+ GFLOP/s in fp32.* [0-9.]+ GB/s read(; bf16 would be emulated)?$'
has out '^products: '
has out '^  64x384x384 +x\.wT +fp32 +[0-9.]+ [mu]?s +[0-9.]+ GFLOP/s +[0-9]+ % of peak'
same "$(grep -c '64x384x384' out)" 1 "rows of the table"
hasnt err "products" # progress without a terminal
cp one.json out
has out '^\{"version": "[0-9.]+", "date": "20[0-9-]+T[0-9:]+Z",$'
has out '"cpu": ".+", "compiler": ".+", "isa": "[a-z0-9]+", "threads": 1, "cache_bytes": \[[0-9]+, [0-9]+, [0-9]+\]'
has out '"fp32_flops": [0-9.e+]+, "bf16_flops": [0-9.e+]+, "read_bytes": [0-9.e+]+\},$'
has out '^\{"group": "products", "name": "64x384x384", "form": "x.wT", "precision": "fp32", "left_out": null, '
has out '"seconds": [0-9.e-]+, .*"flops": 18874368, .*"share": [0-9.e-]+, .*"peers": \[.*\]\}$'
has out '^"complete": true\}$'
# The JSON is valid: read as a spec, only its keys are wrong.
refuse 1 'version|key' "$QKV" info --spec one.json
hasnt err 'line 1|syntax|expected|invalid token'
sed 's/,$/;/' one.json >broken.json
refuse 1 'broken\.json' "$QKV" info --spec broken.json
last="a broken file"
has err 'line 1'

cp one.json before.json
refuse 1 'one\.json exists.*--force' bench -f "$row" --json one.json
cmp -s one.json before.json || fail "a refused run has changed the file"
try 0 bench -f "$row" --json one.json --force
cmp -s one.json before.json && fail "--force has not replaced the file"

# ---- refusals ----
refuse 2 'no row .*"xyzzy".*products, attention, experts, training, order, generation, reduce' bench -f xyzzy
refuse 2 'no row .*"xyzzy"' bench -f "$row" -f xyzzy
refuse 2 'precision is "fp99".*fp32' bench --precision fp99
refuse 2 '--seconds needs a number greater than 0' bench --seconds 0
refuse 2 '--seconds' bench --seconds -1
refuse 2 '--rounds needs a whole number' bench --rounds 0
refuse 2 '--force' bench --force -f "$row"
refuse 2 'one argument too many' bench products
refuse 1 'nowhere/one\.json' bench -f "$row" --json nowhere/one.json
refuse 1 'missing\.txt' bench -f "nano-gpt recipe" --text missing.txt
try 0 bench -f "nano-gpt recipe"
has out 'left out: no text'

# ---- several ranks: messages between threads ----
try 0 bench -f reduce
same "$(grep -cE '^  (8 bytes|64 KiB|2 MiB) +exchange fp32 +[0-9.]+ [mu]?s ' out)" 3 "rows of messages"
has out '^  2 MiB +add +fp32 +[0-9.]+ [mu]?s '
has out '^  baby-gpt +adamw +fp32 +[0-9.]+ [mu]?s '

# ---- Ctrl-C: what was measured stays ----
rm -f out err # what shows that it has begun must be its own
(
    exec env --default-signal=INT "$QKV" bench --threads 1 --seconds 2 -f 64x384x384 --json cut.json >out 2>err
) &
child=$!
eventually grep -qs '^  64x384x384' out
kill -INT $child
wait $child
same $? 130 "the exit code of bench after Ctrl-C"
last="bench, interrupted"
has out '^  64x384x384 +x\.wT'
has err '^qkv: interrupted after [12] rows?; they are in cut\.json$'
cp cut.json out
has out '^\{"group": "products", "name": "64x384x384"'
has out '^"complete": false\}$'
same "$(ls -A | grep -c 'json.*tmp')" 0 "temporary files that were left"
finish
