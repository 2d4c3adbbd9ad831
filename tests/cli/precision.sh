#!/usr/bin/env bash
# The precision of a run: train records it, every command that opens the run uses it, --precision changes it, and a
# message reports emulation; $QKV_PRECISION is the meaning of auto.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_spec
make_text 400 >text.txt
number() { grep -o "\"$1\": *[^,}]*" "${2:-out}" | head -1 | sed 's/.*: *//'; } # number KEY [FILE]
export QKV_PRECISION=

# ---- what is recorded ----
for precision in fp32 bf16; do
    QKV_PRECISION=$precision
    try 0 train $precision 10 -q
    same "$(number precision $precision/train.json)" "\"$precision\"" \
        "the record of a run with QKV_PRECISION=$precision"
    QKV_PRECISION=auto
    try 0 train named-$precision 10 -q --precision $precision
    cmp -s $precision/model.safetensors named-$precision/model.safetensors \
        || fail "QKV_PRECISION=$precision is not --precision $precision"
done
cmp -s fp32/model.safetensors bf16/model.safetensors && fail "fp32 and bf16 train the same weights"
QKV_PRECISION=fp16
refuse 2 'QKV_PRECISION is "fp16"; it must be fp32, bf16 or auto' "$QKV" eval fp32 --data text.txt

# ---- what is used: the record, whatever the variable says ----
for precision in fp32 bf16; do
    other=$([ $precision = fp32 ] && echo bf16 || echo fp32)
    for QKV_PRECISION in fp32 bf16 auto; do
        try 0 "$QKV" eval $precision --data text.txt --json --threads 1
        recorded=$(number loss)
        try 0 "$QKV" eval $precision --data text.txt --json --threads 1 --precision $precision
        same "$(number loss)" "$recorded" "the loss of a run in $precision, said and recorded"
        try 0 "$QKV" eval $precision --data text.txt --json --threads 1 --precision $other
        [ "$(number loss)" != "$recorded" ] || fail "the loss of a run in $precision is the same in $other"
        try 0 "$QKV" info $precision --json
        same "$(number precision)" "\"$precision\"" "the precision that info shows"
        bytes=$(number train_bytes)
        try 0 "$QKV" info $precision --json --precision $other
        same "$(number precision)" "\"$other\"" "the precision that info was told"
        [ "$(number train_bytes)" != "$bytes" ] || fail "training in $other takes as much memory as in $precision"
    done
done

# ---- models without a record, and with a damaged one ----
QKV_PRECISION=bf16
try 0 "$QKV" info --preset nano-gpt --json
same "$(number precision)" '"bf16"' "the precision of a preset is that of new runs"
try 0 "$QKV" info --preset nano-gpt --json --precision fp32
same "$(number precision)" '"fp32"' "the precision of a preset that info was told"
cp -r bf16 bare && rm bare/train.json
try 0 "$QKV" info bare --json
same "$(number precision)" '"fp32"' "the precision of a model without a record"
try 0 "$QKV" info bare --lora rank=2 --json
same "$(number precision)" '"bf16"' "the precision of an adapter to be trained"
cp -r bf16 damaged && echo '{"format": "qkv-train",' >damaged/train.json
refuse 1 'damaged/train.json is not valid JSON: line 2.*it records the precision: restore it' "$QKV" eval damaged \
    --data text.txt
try 0 "$QKV" eval damaged --data text.txt --precision fp32

# ---- compare, eval and info agree, in either ----
for QKV_PRECISION in fp32 bf16; do
    try 0 "$QKV" compare --out compare-$QKV_PRECISION --spec spec.json --data text.txt --steps 6 --batch 4 --warmup 2 \
        --eval-every 3 \
        --threads 1 --cache 8 --plain --axis kv=mha,mqa
    sed 's/{"name":/\n&/g' compare-$QKV_PRECISION/results.json | grep -F '{"name":"mqa",' >mqa.json
    try 0 "$QKV" info compare-$QKV_PRECISION/mqa --batch 4 --json --threads 1
    same "$(number precision)" "\"$QKV_PRECISION\"" "the precision of a variant"
    for key in train_bytes run_bytes; do same "$(number $key)" "$(number $key mqa.json)" \
        "$key of info and compare, $QKV_PRECISION"; done
    try 0 "$QKV" eval compare-$QKV_PRECISION/mqa --data compare-$QKV_PRECISION/valid.txt --json --threads 1
    same "$(number loss)" "$(number valid_loss mqa.json)" "loss of eval and compare, $QKV_PRECISION"
done
QKV_PRECISION=auto

# ---- emulation is said, with the way out ----
emulated='bf16 was trained in bf16, which is emulated with the scalar kernels: .*--precision fp32'
chosen=${QKV_ISA:-}
export QKV_ISA=scalar
for command in "eval bf16 --data text.txt" "generate bf16 -n 2 --seed 1" "info bf16" "inspect bf16 --prompt the" \
    "attend bf16 --prompt the"; do
    try 0 "$QKV" $command
    has err "$emulated"
    try 0 "$QKV" $command --precision fp32
    hasnt err 'emulated'
    try 0 "$QKV" $command --precision bf16
    has err 'bf16 is emulated with the scalar kernels'
done
try 0 "$QKV" eval fp32 --data text.txt
hasnt err 'emulated'
QKV_ISA=$chosen

# ---- auto is what the kernels multiply themselves; forward is fp32 unless told ----
"$QKV" info bf16 2>&1 | grep -q emulated && best=fp32 || best=bf16
try 0 train own 2 -q --warmup 1
same "$(number precision own/train.json)" "\"$best\"" "what auto stands for"
golden=$SOURCE/tests/golden/gpt2
cp -r "$golden" recorded && chmod -R u+w recorded && cp bf16/train.json recorded/
for precision in "" auto fp32 bf16; do
    try 0 "$QKV" forward recorded --inputs "$golden/case.safetensors" -o "out${precision:+-$precision}.safetensors" \
        --threads 1 \
        ${precision:+--precision $precision}
done
cmp -s out.safetensors out-fp32.safetensors || fail "forward without --precision is not fp32"
cmp -s out-auto.safetensors out-bf16.safetensors || fail "forward with --precision auto is not what the run records"
cmp -s out-fp32.safetensors out-bf16.safetensors && fail "forward is the same in fp32 and bf16"
finish
