#!/usr/bin/env bash
# The pages that people look things up in: "qkv help spec" and "qkv help files" say what is true, the pages in docs/ are
# what they print, and a message about a key names the call that explains it.
# labels: quick
. "$(dirname "$0")/common.sh"
export QKV_THREADS=1

# ---- keys ----
try 0 "$QKV" help spec
cp out keys
has out '^  qkv help spec KEY|^  qkv help spec kv_heads '
for part in embed decoder decoder.attention decoder.norm decoder.ffn head init; do has out "^$part: "; done
tr -s ' \n' ' ' <out >flat
has flat ' heads The number of heads of the queries\. .*\(must be given\) kv_heads '
[ "$(awk 'length > 100' out | wc -l)" = 0 ] || fail "$last: a line longer than 100 columns"
try 0 "$QKV" help spec decoder.attention.kv_heads
cp out key
has out '^decoder.attention.kv_heads: The number of heads of keys and values\.'
has out '^values +a whole number from 1 to 1048576$'
has out '^default +the same as heads$'
has out '^  qkv info --preset nano-gpt --set decoder.attention.kv_heads=2$'
has out '^  \{"decoder": \{"attention": \{"kv_heads": 2\}\}\}$'
for words in "decoder.attention.kv_heads" "spec kv_heads"; do
    try 0 "$QKV" help $words
    cmp -s out key || fail "$last differs from qkv help spec decoder.attention.kv_heads"
done
try 0 "$QKV" help spec decoder.ffn.kind
has out '^ +swiglu +silu\(gate\) times up'
try 0 "$QKV" help spec decoder.kinds.local.attention
has out '^  window +A position attends'
try 0 "$QKV" help spec eps
has out '^4 keys are called eps'
has out '^  decoder\.norm\.eps'
refuse 2 'no key "decoder\.attention\.kvheads"; did you mean decoder\.attention\.kv_heads\? \(".*help spec" lists' \
    "$QKV" help decoder.attention.kvheads
refuse 2 'no key "kvheads"; did you mean decoder\.attention\.kv_heads\?' "$QKV" help spec kvheads
refuse 2 'no key "xyzzy" \(' "$QKV" help spec xyzzy
refuse 2 'one argument too many: "two"' "$QKV" help spec heads two
refuse 2 'one argument too many: "two"' "$QKV" help files two
refuse 2 'markdown prints all keys' "$QKV" help spec heads --markdown

# The examples that the page shows as options work on the preset; test_spec_help reads those that it shows as JSON.
examples=0
while read -r options; do
    eval "set -- $options"
    try 0 "$QKV" info --preset nano-gpt "$@"
    examples=$((examples + 1))
done < <("$QKV" help spec --markdown | sed -n 's/^Example: `\(--set .*\)`$/\1/p' | grep -v -- '--set version=')
[ $examples -gt 100 ] || fail "found only $examples examples"

# ---- messages ----
refuse 2 'key decoder\.attention\.windw; did you mean window\?.*; ".*qkv help spec decoder\.attention" explains it$' \
    "$QKV" info --preset nano-gpt --set decoder.attention.windw=3
refuse 2 'one of relu, .*; did you mean swiglu\? ".*qkv help spec decoder\.ffn\.kind" explains it$' \
    "$QKV" info --preset nano-gpt --set decoder.ffn.kind=swiglue
refuse 2 'unknown key nothing;.*; ".*qkv help spec" explains it$' "$QKV" info --preset nano-gpt --set nothing=3
printf '%s' '{"format": "qkv", "version": 2, "d_model": 8, "context": 8, "decoder": {"layers": 0}}' >bad.json
refuse 1 'decoder\.layers is 0; .*; ".*qkv help spec decoder\.layers" explains it$' "$QKV" info --spec bad.json
refuse 2 'no variant can be built: mha: .*did you mean kind\?.*; ".*qkv help spec decoder\.ffn" explains it$' \
    "$QKV" compare --data bad.json --axis kv=mha,mqa --set decoder.ffn.kid=relu --out compared
# What it names, it explains.
try 0 "$QKV" help spec decoder.layers

# ---- files ----
# fields FILE: the names of the fields of its last line; described FILE: those that the help has.
fields() { tail -n 1 "$1" | grep -oE '[{,]"[a-z_]+":' | tr -d '{,":' | tr '\n' ' '; }
described() { awk -v file="$1" '$0 == file ", a line:" { inside = 1; next } /^$/ { inside = 0 }
    inside && /^  [a-zA-Z_]+ / { print $1 }' files | tr '\n' ' '; }
try 0 "$QKV" help files
cp out files
make_text 400 >text.txt
make_spec
learn="--data text.txt --tokenizer chars --batch 2 --eval-every 2 --quiet"
try 0 "$QKV" train --spec spec.json $learn --steps 4 --save-every 2 --keep 2 --sample 5 --out run
for file in state.json machine.jsonl samples.jsonl; do
    same "$(fields run/$file)" "$(described $file)" "fields of $file"
done
for file in log.jsonl state.json machine.jsonl samples.jsonl; do
    shown=$(awk -v file="$file" '$0 == file ", a line:" { inside = 1; next } inside { sub(/^ +/, ""); printf "%s", $0 }
        /}$/ { inside = 0 }' files)
    same "$(fields run/$file)" "$(fields <(printf '%s\n' "$shown"))" "fields of the example of $file"
done
sed 's/"ffn": {/"ffn": {"experts": {"count": 2}, /; s/"version": 1/"version": 2/' spec.json >experts.json
try 0 "$QKV" train --spec experts.json $learn --steps 2 --out experts
same "$(fields experts/log.jsonl)METRIC " "$(described log.jsonl)" 'fields of log.jsonl'
# answer FILE: what its row says to "may be removed?", the beginning.
answer() {
    sed 's/checkpoint-[0-9]*\./checkpoint-STEP./' <<<"$1" | awk 'NR == FNR { file = $1; next } /^$/ { own = 0 }
        $1 == file && NF == 1 { own = 1 } own && sub(/^ +may be removed\? +/, "") { print; exit }' - files
}
# remove_each RUN STEPS COUNT: every file of the run has a row; a file that may be removed is not missed when the run is
# resumed, one that may not be removed is; and what may be removed if the run is not resumed is missed by that alone.
remove_each() {
    local run=$1 steps=$2 count=$3 removed=0 file whole
    cp -r "$run" copy
    try 0 "$QKV" train --resume copy --steps "$steps" --quiet
    whole=$(cksum <copy/model.safetensors)
    for file in $(ls "$run"); do
        rm -rf copy
        cp -r "$run" copy
        rm "copy/$file"
        case $(answer "$file") in
        "Yes, if the run will not be resumed"*)
            try 0 "$QKV" info copy
            try 1 "$QKV" train --resume copy --steps "$steps" --quiet ;;
        Yes*)
            try 0 "$QKV" info copy
            try 0 "$QKV" train --resume copy --steps "$steps" --quiet
            same "$(cksum <copy/model.safetensors)" "$whole" "the weights of a run that is resumed without $file"
            removed=$((removed + 1)) ;;
        No*) ;;
        *) fail "qkv help files has no $file" ;;
        esac
    done
    rm -rf copy
    [ $removed -ge "$count" ] || fail "removed only $removed files of $run"
}
remove_each run 6 7
seq 40 | awk '{ print "good\tthe king sees " $1; print "bad\ta fool fears " $1 }' >labelled.tsv
try 0 "$QKV" train --preset text-classifier --set d_model=16 --set encoder.layers=1 --set encoder.attention.heads=2 \
    --labeled labelled.tsv --valid labelled.tsv --tokenizer chars --batch 4 --steps 4 --eval-every 2 --quiet \
    --out classes
remove_each classes 6 6
# What may not be removed is missed.
for file in config.json tokenizer.json model.safetensors; do
    rm -rf copy
    cp -r run copy
    rm "copy/$file"
    try 1 "$QKV" generate copy -n 1 --prompt the
done
for file in train.json checkpoint.safetensors; do
    rm -rf copy
    cp -r run copy
    rm "copy/$file"
    try 1 "$QKV" train --resume copy --steps 6 --quiet
done

# ---- the pages ----
try 0 bash "$SOURCE/scripts/make-docs" --check "$QKV"
# Specs that the page shows are read.
awk '/^```json$/ { n++; inside = 1; next } /^```$/ { inside = 0 }
    inside { print > ("shown" n ".json") }' "$SOURCE/docs/spec.md"
try 0 "$QKV" info --spec shown1.json --set vocab=100
start='{"format": "qkv", "version": 2, "d_model": 64, "context": 64,'
printf '%s\n%s}\n' "$start" "$(cat shown2.json)" >shown.json
try 0 "$QKV" info --spec shown.json --set vocab=100
# A page that says something else is stale.
mkdir -p copied/scripts copied/docs
cp "$SOURCE"/scripts/{make-docs,spec-head.md,api.awk} copied/scripts
cp "$SOURCE"/docs/{commands,spec,files,api}.md copied/docs
cp -r "$SOURCE/include" copied/include
try 0 bash copied/scripts/make-docs --check "$QKV"
for page in commands spec files api; do
    cp "copied/docs/$page.md" kept
    sed -i '40s/$/ more/' "copied/docs/$page.md"
    try 1 bash copied/scripts/make-docs --check "$QKV"
    has err "^docs/$page.md is stale"
    cp kept "copied/docs/$page.md"
done
finish
