#!/usr/bin/env bash
# Golden cases, computed by another program in float64, through "qkv forward": outputs, attention weights, gradients,
# AdamW steps; with the kernels of $QKV_ISA (not set: the best of this machine) and with the scalar ones.
# labels: numeric
. "$(dirname "$0")/common.sh"
compare=$BINARY/tests/cli/compare_case
cases=0
for isa in "${QKV_ISA:-}" scalar; do
    export QKV_ISA=$isa
    for case in "$SOURCE"/tests/golden/*/case.safetensors; do
        model=$(dirname "$case") weights=
        cases=$((cases + 1))
        grep -aq 'out\.weights\.' "$case" && weights=--weights
        try 0 "$QKV" forward --threads 1 "$model" --inputs "$case" --force -o got.safetensors --gradients $weights \
            --adamw 3,0.01,0.9,0.95,1e-8,0.1
        try 0 "$compare" "$case" got.safetensors
        grep -q ' 0 differ' out || cat out
        sed -nE 's/^([0-9]+) tensors compared.*errors (.*) of outputs, (.*) of gradients$/\1 \2 \3/p' out >>errors
    done
done
[ $cases -ge 20 ] || fail "only $cases golden cases were found"
awk '{ n += $1; if ($2 > y) y = $2; if ($3 > g) g = $3 }
    END {
        printf "%d comparisons of %d tensors; ", NR, n
        printf "the largest relative errors are %.1e of outputs, %.1e of gradients\n", y, g
    }' errors
# README has the number of cases, and of the folders that test_family compares.
grep -qE "^- \*\*Correct\.\*\* $((cases / 2)) golden cases" "$SOURCE/README.md" ||
    fail "README.md does not say that there are $((cases / 2)) cases"
folders=$(ls -d "$SOURCE"/tests/golden/hf/*/ "$SOURCE"/tests/golden/hf_random/*/ | wc -l)
grep -q "$folders folders written by transformers" "$SOURCE/README.md" ||
    fail "README.md does not say that there are $folders folders"
# The comparison can fail: another model's case, and a result without gradients.
model=$SOURCE/tests/golden/gpt2
try 0 "$QKV" forward --threads 1 "$model" --inputs "$model/case.safetensors" --force -o got.safetensors
try 1 "$compare" "$model/case.safetensors" got.safetensors
has out 'grad\..*missing'
try 0 "$QKV" forward --threads 1 "$model" --inputs "$model/case.safetensors" --force -o got.safetensors --gradients \
    --weights --adamw 3,0.011,0.9,0.95,1e-8,0.1
try 1 "$compare" "$model/case.safetensors" got.safetensors
has out 'out.adamw_losses: differs'
finish
