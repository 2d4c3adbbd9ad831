#!/usr/bin/env bash
# Options that change nothing are refused, and numbers out of range too, before a file is read: no model is there.
. "$(dirname "$0")/common.sh"
make_text 40 >text.txt

# ---- numbers out of range: the exit code is that of a command line that makes no sense ----
refuse 2 '^qkv: --temp needs a number of at least 0, not "-1"$' "$QKV" generate missing --temp -1
refuse 2 '^qkv: --top-p needs a number greater than 0 and at most 1, not "1\.50"$' "$QKV" generate missing --top-p 1.50
refuse 2 '^qkv: --top-p .* not "0"$' "$QKV" generate missing --top-p 0
refuse 2 '^qkv: --min-p needs a number from 0 to 1, not "2"$' "$QKV" generate missing --min-p 2
refuse 2 '^qkv: --repeat-penalty needs a number greater than 0, not "0"$' "$QKV" generate missing --repeat-penalty 0
refuse 2 '^qkv: --temp .* not "-1"$' "$QKV" translate missing x --sample --temp -1
refuse 2 '^qkv: --top-p .* not "3"$' "$QKV" translate missing x --sample --top-p 3
for good in "--temp 1e9" "--top-p 1" "--min-p 1" "--repeat-penalty 0.5" "--repeat-penalty 1.2 --repeat-last 5" "--temp 0"; do
    # shellcheck disable=SC2086
    refuse 1 'missing is not a model folder' "$QKV" generate missing $good
done

refuse 2 'tokenizer is "bpe:256"; .* from 257 to 16777216' "$QKV" train --preset nano-gpt --data missing --tokenizer bpe:256 --out run
refuse 2 'tokenizer is "chars:255"; .* from 256 to' "$QKV" train --preset nano-gpt --data missing --tokenizer chars:255 --out run
refuse 2 'say where the run shall be' "$QKV" train --preset nano-gpt --data missing --out ''
refuse 2 'say where the runs and the results shall be' "$QKV" compare --data missing --axis kv=mha,mqa --out ''

# ---- without effect beside the others ----
for idle in "--top-k 5" "--top-p 0.5" "--min-p 0.1" "--seed 3"; do
    # shellcheck disable=SC2086
    refuse 2 '--temp 0 takes the likeliest token' "$QKV" generate missing --temp 0 $idle
done
refuse 2 '--repeat-last is for --repeat-penalty' "$QKV" generate missing --repeat-last 5
refuse 2 '--length-penalty changes nothing' "$QKV" translate missing x --length-penalty 1
refuse 1 'missing is not a model folder' "$QKV" translate missing x --length-penalty 1 --scores
for idle in "--beam 3" "--length-penalty 1" "--max-tokens 5" "--no-repeat 2"; do
    # shellcheck disable=SC2086
    refuse 2 'are for --pairs' "$QKV" eval missing --data text.txt $idle
    # shellcheck disable=SC2086
    refuse 2 'are for --pairs' "$QKV" eval missing --labeled text.txt $idle
done
refuse 2 '--length-penalty changes nothing without a --beam' "$QKV" eval missing --pairs text.txt --length-penalty 1
refuse 2 '--context is for --data' "$QKV" eval missing --pairs text.txt --context 8
refuse 2 '--context is for --data' "$QKV" eval missing --labeled text.txt --context 8
refuse 2 '--batch is for --data and --pairs' "$QKV" eval missing --labeled text.txt --batch 8
refuse 2 '--top is for --nearest' "$QKV" embed missing x --text --top 3
refuse 2 '--normalize changes nothing' "$QKV" embed missing --nearest x --among text.txt --normalize
for name in dropout=0.2 context=16; do
    refuse 2 "--set $name has no effect beside --${name%=*} " \
        "$QKV" train --preset nano-gpt --data text.txt --out run --set $name --${name%=*} 0
    refuse 2 "--set $name has no effect beside --${name%=*} " \
        "$QKV" compare --data text.txt --out both --axis kv=mha,mqa --set $name --${name%=*} 0
done

# ---- rows of the benchmark ----
try 0 "$QKV" bench --list
grep 'decode fp32' out >wanted
try 0 "$QKV" bench --list --filter DECODE --precision fp32
same "$(cat out)" "$(cat wanted)" "the rows that --filter and --precision choose"
refuse 2 'no row matches' "$QKV" bench --list --filter nothing-like-this
refuse 2 '--list measures nothing' "$QKV" bench --list --json rows.json
refuse 2 '--list measures nothing' "$QKV" bench --list --rounds 3

# ---- messages: numbers as they were written, marks, permissions, one path once ----
refuse 2 'decoder\.layers is 1e3; it must be a whole number from 1 to 1000$' "$QKV" info --preset nano-gpt --set decoder.layers=1e3
refuse 2 ': dropout is 1\.0000; it must be' "$QKV" info --preset nano-gpt --set dropout=1.0000
refuse 2 'softcap is 1e-40; it must be a number from 2\.94e-39 to 3\.4e38, or 0 for none$' \
    "$QKV" info --preset nano-gpt --set decoder.attention.softcap=1e-40
make_spec
try 0 train run 2 --quiet --warmup 0 --rate 1e-5
cp -r run marked
mark() { # mark FILE: a byte order mark in front of it
    printf '\xef\xbb\xbf' | cat - "run/$1" >"marked/$1"
}
for file in tokenizer.json train.json config.json; do
    mark $file
    refuse 1 "marked/$file.* begins with a byte order mark \(BOM\)" "$QKV" eval marked --data text.txt
    same "$(grep -o "marked/$file" err | wc -l)" 1 "mentions of $file"
    cp "run/$file" marked
done
printf '{"a": "\\u0000"}' >nul.json
refuse 1 'nul\.json is not valid JSON: line 1.* the character U\+0000' "$QKV" info --spec nul.json
hasnt err 'JSON_'
if [ "$(id -u)" != 0 ]; then
    chmod 000 marked
    refuse 1 'marked/config\.json: no permission; check the permissions' "$QKV" eval marked --data text.txt
    refuse 1 'marked/train\.json: no permission; check the permissions' resume marked
    refuse 1 'marked/log\.jsonl: no permission; check the permissions' "$QKV" report marked
    chmod 755 marked
fi

# ---- a default that gives way is told in the digits that count ----
try 0 "$QKV" train --preset nano-gpt --set d_model=16 --set decoder.layers=1 --data text.txt --context 8 --out small --steps 2 \
    --warmup 0 --rate 1e-5 --quiet --threads 1
has err 'min_rate is 1e-06 in place of the default 0\.0001'

finish
