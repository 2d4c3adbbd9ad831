#!/usr/bin/env bash
# Toys are added to a copy of the sources as docs/design.md says: a position, an activation, a form of block, a form of
# attention with a weight of its own, two types of stored numbers, in blocks of 32 and of 256, a type with a product of
# its own, an instruction set and a column for it, a page type, and a kind of training data, each one file and one line
# (a weight is another line). The copy is built (with the kernels of scalar and of the toy only) and knows them: in its
# help, specs, settings, training, export, kernel tables, and in the tests over random models, of kernels and over the
# lists.
. "$(dirname "$0")/../cli/common.sh"
if [ "$SANITIZE" = 1 ]; then
    echo "NOT TESTED: toys, under the sanitizers; .ci/run builds them without"
    exit 0
fi
toys=$SOURCE/tests/toys
mkdir copy && tar -C "$SOURCE" --exclude=./build* --exclude=./.git --exclude=./tests/runs -cf - . | tar -C copy -xf - \
    || fail "the sources cannot be copied"
cp -r copy before

# toy FILE ROOM HEADER ENTRY LINE: the file into its room, the line behind an entry of the list.
toy() {
    cp "$toys/$1" "copy/src/$2/$1"
    sed -i "/^    X($4/a\\    $5 \\\\" "copy/$3"
    same "$(diff -r before copy | grep -c '^[<>]')" "$((++lines))" "lines changed after $1"
    same "$(diff -rq before copy | grep -c '^Only in copy')" "$((++files))" "files added after $1"
}
lines=0 files=0
toy position_ramp.c model include/qkv/kinds.h 'SINUSOIDAL,' 'X(RAMP, "ramp", "a ramp", ramp)'
toy activation_softsign.c kernel/isa include/qkv/kinds.h 'RELU,' \
    'X(SOFTSIGN, "softsign", "x / (1 + |x|)", softsign, false)'
toy block_stream.c model include/qkv/kinds.h 'PRE,' \
    'X(STREAM, "stream", "norm(x) + f(norm(x))", stream, true, ONE, false)'
toy form_one.c attention src/attention/form.h 'heads)' 'X(one)'
sed -i '/^    X(ATTN_V,/a\    X(ATTN_KV, "attn.kv", d->Hkv * d->D, d->M, LINEAR, true) \\' copy/src/op/weights.h
same "$(diff -r before copy | grep -c '^[<>]')" "$((++lines))" "lines changed after the role of form_one.c"
toy type_toy32.c type include/qkv/tensors.h 'F64,' 'X(TOY32, toy32)'
toy type_toy256.c type include/qkv/tensors.h 'F64,' 'X(TOY256, toy256)'
toy type_toydot.c type include/qkv/tensors.h 'F64,' 'X(TOYDOT, toydot)'
toy product_toydot.c kernel src/kernel/product.h 'f32)' 'X(toydot)'
toy page_f64_columns.c kernel src/kernel/page.h 'f32)' 'X(f64_columns)'
toy dataset_cycle.c data include/qkv/training.h 'COUNT, steps,' \
    'X(DATA, cycle, NULL, "data", "file with the length of a cycle to train on")'
toy simd_pair.h kernel/isa include/qkv/context.h 'scalar,' 'X(pair, TABLE)'
toy simd_pairrun.h kernel/isa include/qkv/context.h 'pair,' 'X(pairrun, COLUMNS)'
cp "$toys/test_columns.c" copy/tests/

tests='test_model test_op test_spec test_spec_presets test_spec_trips test_formats test_stored_products'
tests+=' test_type_blocks test_dtype test_products test_epilogues test_kernels test_columns test_page_types test_pages'
try 0 cmake -S copy -B built -DCMAKE_BUILD_TYPE=Toys -DCMAKE_C_FLAGS_TOYS=-O1 -DQKV_KERNEL_LEVEL=-O1 -DQKV_BENCH=OFF \
    '-DQKV_KERNELS=scalarfma;pair;pairrun'
try 0 cmake --build built -j2 --target qkv $tests
toy=built/qkv
export QKV_ISA=scalar

try 0 $toy doctor
has out 'pair, scalar'
hasnt out 'pairrun'
refuse 2 'scalar, pair, avx2, ' $toy info --preset nano-gpt --isa pairs
try 0 $toy help compare
for word in ramp stream-rms softsign; do has out "$word"; done
try 0 $toy help export
for word in toy32 toy256; do has out $word; done
refuse 2 "ramp" $toy info --preset nano-gpt --set position.kind=xyz
refuse 2 "softsign" $toy info --preset nano-gpt --set decoder.ffn.kind=xyz
refuse 2 "stream" $toy info --preset nano-gpt --set decoder.norm.placement=xyz
make_text 100 >text.txt
make_spec
try 0 $toy train --spec spec.json --set position.kind=ramp --set decoder.ffn.kind=softsign \
    --set decoder.norm.placement=stream --data text.txt \
    --tokenizer bytes --steps 20 --batch 4 --threads 1 --out run --quiet
has run/config.json '"stream"'
has run/config.json '"softsign"'
has run/config.json '"ramp"'
# The form of attention is that of specs that fit it. A pass and a cache agree about it, which test_model shows, and it
# is trained.
try 0 $toy train --spec spec.json --set decoder.attention.bias=kv --data text.txt --tokenizer bytes --steps 20 \
    --batch 4 --threads 1 --out one --quiet
has one/model.safetensors 'attn.kv.weight'
hasnt one/model.safetensors 'attn.[kv].weight'
try 0 $toy info one
has out ', one'
try 0 $toy generate one --prompt a --tokens 5 --threads 1
# The kind of training data has an option, its runs learn and are resumed, and messages about the kinds know it.
echo 7 >cycle.txt
try 0 $toy help train
has out 'cycle FILE'
refuse 2 'cycle FILE' $toy train --spec spec.json --out none
refuse 2 'data and cycle exclude each other' $toy train --spec spec.json --data text.txt --cycle cycle.txt --out none
refuse 2 'only pairs have sources' $toy train --spec spec.json --cycle cycle.txt --source-tokenizer bytes --out none
try 0 $toy train --spec spec.json --cycle cycle.txt --steps 40 --warmup 5 --rate 1e-2 --batch 4 --threads 1 \
    --out cycle --quiet
has cycle/config.json '"vocab": 7'
has cycle/train.json '"cycle": "[^"]*/cycle.txt"'
cycle_loss() { grep -oE '"valid_loss": *[0-9.e-]+' cycle/log.jsonl | tail -1 | grep -oE '[0-9.e-]+$'; }
loss=$(cycle_loss)
checks=$((checks + 1))
awk -v loss="$loss" 'BEGIN { exit !(loss > 0 && loss < 1) }' || fail "a cycle is not learnt: its loss is $loss"
try 0 $toy train --resume cycle --steps 60 --threads 1 --quiet
checks=$((checks + 1))
awk -v loss="$(cycle_loss)" -v before="$loss" 'BEGIN { exit !(loss < before) }' \
    || fail 'a resumed run learns nothing'
echo 8 >cycle.txt
refuse 1 'cycle.txt' $toy train --resume cycle --steps 80 --threads 1 --quiet
try 0 $toy eval run --data text.txt --threads 1
cp out loss
try 0 $toy eval run --data text.txt --threads 1 --isa pair
same "$(grep -oE 'loss +[0-9]+\.[0-9]' out)" "$(grep -oE 'loss +[0-9]+\.[0-9]' loss)" "the loss of kernels of pair"
for type in toy32 toy256; do
    try 0 $toy new --preset nano-gpt --set d_model=256 --set decoder.layers=1 --out new-$type
    try 0 $toy export new-$type --dtype $type -o $type
    try 0 $toy info $type
    has out "$type"
    try 0 $toy export $type --dtype f32 -o $type-f32
    try 0 $toy eval $type-f32 --data text.txt --threads 1
    cp out loss
    try 0 $toy eval $type --data text.txt --threads 1
    same "$(grep loss out)" "$(grep loss loss)" "the loss of weights in $type"
    try 0 $toy train --from $type --data text.txt --steps 2 --batch 2 --threads 1 --out tuned-$type --quiet
    checks=$((checks + 1))
    [ $(($(wc -c <$type/model.safetensors) * 3)) -lt "$(wc -c <$type-f32/model.safetensors)" ] \
        || fail "$type is no smaller"
done
# Its products are exact: near those of the same numbers in fp32, and the same at any number of threads.
try 0 $toy new --preset nano-gpt --set d_model=256 --set decoder.layers=1 --out new-toydot
try 0 $toy export new-toydot --dtype toydot -o toydot
try 0 $toy export toydot --dtype f32 -o toydot-f32
try 0 $toy eval toydot-f32 --data text.txt --threads 1 --precision fp32
number() { grep -oE 'loss +[0-9.]+' out | grep -oE '[0-9.]+'; }
near=$(number)
try 0 $toy eval toydot --data text.txt --threads 1 --precision fp32
cp out loss
exact=$(number)
checks=$((checks + 1))
awk -v a="$near" -v b="$exact" 'BEGIN { d = a > b ? a - b : b - a; exit !(a > 0 && d > 0 && d < a / 100) }' \
    || fail "the loss of exact products is $exact, of the same numbers in fp32 $near"
try 0 $toy eval toydot --data text.txt --threads 2 --precision fp32
same "$(grep loss out)" "$(grep loss loss)" 'the loss of exact products with two threads'
try 0 $toy train --from toydot --data text.txt --steps 2 --batch 2 --threads 1 --out tuned-toydot --quiet
refuse 1 'rows of .* have [0-9]+ numbers, which cannot be cut into blocks of 256 \(toy256\)' \
    $toy export run --dtype toy256 -o none
for test in $tests; do
    try 0 built/tests/$test
    hasnt err 'SKIPPED'
    hasnt out 'SKIPPED'
done
try 0 built/tests/test_page_types
has out 'page types: .*f64_columns'
finish
