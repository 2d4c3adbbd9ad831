#!/usr/bin/env bash
# Settings and options of training without effect, and values out of range, are refused before a file is read; their
# messages. options.sh tests the options of the other commands.
# labels: quick
. "$(dirname "$0")/common.sh"
make_text 40 >text.txt

# ---- numbers out of range: the exit code is that of a wrong command line ----
refuse 2 'tokenizer is "bpe:256"; .* from 257 to 16777216' "$QKV" train --preset nano-gpt --data missing \
    --tokenizer bpe:256 --out run
refuse 2 'tokenizer is "chars:1"; .* from 2 to' "$QKV" train --preset nano-gpt --data missing --tokenizer chars:1 \
    --out run
refuse 2 'tokenizer is "chars.bytes:255"; .* from 256 to' "$QKV" train --preset nano-gpt --data missing \
    --tokenizer chars+bytes:255 --out run
refuse 2 'name a folder for the run' "$QKV" train --preset nano-gpt --data missing --out ''
refuse 2 'name a folder for the runs and the results' "$QKV" compare --data missing --axis kv=mha,mqa --out ''

# ---- without effect beside the others ----
for name in dropout=0.2 context=16; do
    refuse 2 "--set $name and --${name%=*} .* set the same number" \
        "$QKV" train --preset nano-gpt --data text.txt --out run --set $name --${name%=*} 0
    refuse 2 "--set $name and --${name%=*} .* set the same number" \
        "$QKV" compare --data text.txt --out both --axis kv=mha,mqa --set $name --${name%=*} 0
done

# ---- messages: numbers as they were written, marks, permissions, one path once ----
refuse 2 'decoder\.layers is 1e3; it must be a whole number from 1 to 1000; "[^"]* help spec decoder\.layers" explains it$' "$QKV" info --preset nano-gpt \
    --set decoder.layers=1e3
refuse 2 ': dropout is 1\.0000; it must be' "$QKV" info --preset nano-gpt --set dropout=1.0000
refuse 2 'softcap is 1e-40; it must be a number from 2\.94e-39 to 3\.4e38, or 0 for none; "[^"]* help spec [a-z.]*softcap" explains it$' \
    "$QKV" info --preset nano-gpt --set decoder.attention.softcap=1e-40
make_spec
try 0 train run 2 --quiet --warmup 0 --rate 1e-5
cp -r run marked
mark() { # mark FILE: a byte order mark in front of it
    printf '\xef\xbb\xbf' | cat - "run/$1" >"marked/$1"
}
for file in tokenizer.json train.json config.json; do
    mark $file
    refuse 1 "marked/$file.* begins with a byte order mark \(BOM\)" "$QKV" eval marked --data text.txt --ignore-digest
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

# ---- a default that is adjusted is reported with the digits that count ----
try 0 "$QKV" train --preset nano-gpt --set d_model=16 --set decoder.layers=1 --data text.txt --context 8 --out small \
    --steps 2 \
    --warmup 0 --rate 1e-5 --quiet --threads 1
has err '[-]-min-rate is 1e-06 in place of the default 0\.0001'

finish
