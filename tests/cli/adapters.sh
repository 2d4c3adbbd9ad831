#!/usr/bin/env bash
# Several adapters of one model, by name: in qkv serve, qkv batch and qkv chat. Answers with an adapter are those of
# the commands that have this adapter alone.
# labels: numeric
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/cli/serve_common.sh"
export QKV_THREADS=2
make_text 120 >text.txt
make_spec
sed -i 's/"context": 32/"context": 128/' spec.json
try 0 train base 5 --quiet
for adapter in one:q,v two:all-linear; do
    make_text 90 | rev >other.txt
    # another text, so that the answers differ in every precision
    [ "${adapter%%:*}" = one ] || awk 'BEGIN { for (i = 0; i < 200; i++) print "ghost ghost ghost" }' >other.txt
    try 0 "$QKV" train --from base --data other.txt --lora "rank=4,targets=${adapter#*:}" --rate 5e-2 --warmup 0 \
        --steps 25 --quiet --out "${adapter%%:*}"
done

# ---- refused ----
for command in "serve base" "batch base --input in --output out.jsonl" "chat base"; do
    # shellcheck disable=SC2086 # words of the command
    {
        refuse 2 'several adapters need names: --adapter NAME=two' "$QKV" $command --adapter a=one --adapter two
        refuse 2 'two adapters have the name a; each needs its own' "$QKV" $command --adapter a=one --adapter a=two
        refuse 2 'a name in front of = has letters' "$QKV" $command --adapter 'a b=one'
        refuse 2 'a name in front of = has letters' "$QKV" $command --adapter =one
        refuse 2 'without a folder' "$QKV" $command --adapter a=
    }
done
: >in
refuse 2 'has the name of the model, base' "$QKV" batch base --input in --output out.jsonl --adapter base=one
refuse 1 'nowhere' "$QKV" chat base --adapter a=nowhere
try 0 train twin 6 --quiet --seed 5 --set context=128
refuse 1 'was trained for another model' "$QKV" chat twin --adapter a=one --adapter b=two

# ---- batch ----
lines() { # lines NAME...: two requests for each name of a model
    local n=0 name
    for name; do
        for prompt in "the king" "the king and a"; do
            n=$((n + 1))
            printf '{"custom_id": "%s-%s", "body": {"model": "%s", "prompt": "%s", "max_tokens": 12, %s}}\n' \
                "$name" "$n" "$name" "$prompt" '"seed": 3, "temperature": 0.8, "logprobs": 2'
        done
    done
}
texts() { # texts FILE PATTERN: the choices of the answers whose names have the pattern, without what times change
    grep -E "\"custom_id\": ?\"$2" "$1" | sed -E 's/.*"choices": ?(\[.*\]), ?"usage".*/\1/' | sort
}
lines any >base.in
try 0 "$QKV" batch base --input base.in --output base.jsonl --quiet
for name in one two; do
    try 0 "$QKV" batch base --adapter "$name" --input base.in --output "$name.jsonl" --quiet
done
lines one base two >all.in
try 0 "$QKV" batch base --adapter one=one --adapter two=two/ --input all.in --output all.jsonl --quiet
for name in base one two; do
    same "$(texts all.jsonl $name)" "$(texts "$name.jsonl" any)" "answers of $name among others"
    grep -q "\"model\": *\"$name\"" all.jsonl || fail "no answer says that $name has made it"
done
[ "$(texts one.jsonl any)" != "$(texts base.jsonl any)" ] || fail "adapter one changes nothing"
[ "$(texts one.jsonl any)" != "$(texts two.jsonl any)" ] || fail "both adapters answer alike"
lines onee >wrong.in
try 1 "$QKV" batch base --adapter one=one --input wrong.in --output wrong.jsonl --quiet
has err '2 requests were refused'
grep -q '"status_code": *404.*there is no model .*onee.*did you mean one' wrong.jsonl || fail "another refusal"
# A model that is no text; an adapter that is named as the model's path.
echo '{"model":7,"prompt":"the king"}' >wrong.in
try 1 "$QKV" batch base --adapter one=one --input wrong.in --output wrong.jsonl --quiet --force
grep -q '"status_code": *400.*model must be a text' wrong.jsonl || fail "a number is a model"
cp -r base base.gguf
lines base.gguf >path.in
try 0 "$QKV" batch base.gguf --adapter base.gguf=one --input path.in --output path.jsonl --quiet
same "$(texts path.jsonl base.gguf)" "$(texts one.jsonl any)" "answers of an adapter with the name of the path"

# ---- chat ----
talk() { # talk OPTIONS...: one answer to each of the lines of standard input
    "$QKV" chat base --temp 0 -n 8 "$@" 2>/dev/null
}
answers=()
for name in one two none; do
    answers[${#answers[@]}]=$(echo 'the king' | if [ $name = none ]; then talk; else talk --adapter $name; fi)
    same "$(printf '/adapter %s\nthe king\n' $name | talk --adapter two=two --adapter one=one)" "${answers[-1]}" \
        "an answer of $name"
done
checks=$((checks + 1))
[ "${answers[0]}" != "${answers[1]}" ] && [ "${answers[0]}" != "${answers[2]}" ] &&
    [ "${answers[1]}" != "${answers[2]}" ] || fail "talks with one, two and none: ${answers[*]}"
same "$(echo 'the king' | talk --adapter two)" "$(echo 'the king' | talk --adapter b=two --adapter a=one)" "the first"
same "$(echo /adapter | talk --adapter b=two --adapter a=one)" "b, of b, a, none" "the adapters"
echo '/adapter c' | "$QKV" chat base --adapter b=two >/dev/null 2>err
grep -q 'there is no adapter c; there are b, none' err || fail "an unknown adapter in a talk"

refuse 2 'has the name of no adapter, none' "$QKV" chat base --adapter none=one

# ---- serve ----
need_server "adapters of qkv serve"
refuse 2 'has the name of the model, base' "$QKV" serve base --adapter base=one
refuse 2 'adapter is for one model' "$QKV" serve base twin --adapter a=one
serve many base --adapter one=one --adapter two=two
ask GET /v1/models
expect 200 '"id": "base", .*"id": "one", .*"parent": "base".*"id": "two", .*"parent": "base"'
ask GET /v1/models/two
expect 200 '^\{"id": "two", "object": "model", .*"parent": "base"'
ask GET /v1/models/base
expect 200 '^\{"id": "base"'
grep -q parent body && fail "the model has a parent"
ask GET /v1/models/tow
expect 404 'there is no model ."tow."; did you mean two'
post /v1/completions '{"model":"three","prompt":"a"}'
expect 404 'there is no model'
post /v1/completions '{"model":7,"prompt":"a"}'
expect 400 'model must be a text'
fields='"prompt":"the king","max_tokens":12,"seed":3,"temperature":0.8,"logprobs":2'
for name in two base one; do
    post /v1/completions "{\"model\":\"$name\",$fields}"
    expect 200 "\"model\": \"$name\""
    same "$(sed -E 's/.*"choices": ?(\[.*\]), ?"usage".*/\1/' body)" "$(texts all.jsonl "$name-[135]\"")" \
        "an answer of $name over HTTP"
done
post /v1/completions "{$fields}"
same "$(sed -E 's/.*"choices": ?(\[.*\]), ?"usage".*/\1/' body)" "$(texts all.jsonl 'base-3"')" "an answer of no name"
post /v1/chat/completions '{"model":"two","messages":[{"role":"user","content":"Hi"}],"max_tokens":3,"stream":true}'
expect 200 '"object": "chat.completion.chunk", "created": [0-9]+, "model": "two"'
post /tokenize '{"model":"two","content":"a king"}'
expect 200 '"tokens"'
grep -q 'POST /v1/completions two' many.err || fail "the log does not say which adapter has answered"
stop many
# one adapter without a name: the model has it
serve single base --adapter one
post /v1/completions "{\"model\":\"base\",$fields}"
same "$(sed -E 's/.*"choices": ?(\[.*\]), ?"usage".*/\1/' body)" "$(texts all.jsonl 'one-1"')" "the only adapter"
ask GET /v1/models
same "$(grep -o '"id"' body | wc -l)" 1 "models with one adapter"
stop single
# vectors of an encoder
refuse 1 'masked tokens need --task mlm' "$QKV" train --spec spec.json --set decoder.attention.causal=false \
    --data text.txt --out none
masked() { "$QKV" train --data text.txt --task mlm --batch 2 --warmup 0 --quiet "$@" || fail "train $*"; }
masked --preset bert-tiny --set encoder.layers=1 --tokenizer bytes --steps 2 --out encoder
masked --from encoder --lora rank=2 --rate 5e-2 --steps 3 --out short
masked --from encoder --lora rank=2 --rate 5e-2 --steps 6 --out long
printf 'the king\na fool\n' >lines.txt
vectors_of() {
    "$QKV" embed encoder --input lines.txt --json "$@" 2>/dev/null | sed -E 's/.*"vector": (\[[^]]*\]).*/\1/'
}
vectors=$(vectors_of && vectors_of --adapter short && vectors_of --adapter long)
same "$(echo "$vectors" | sort -u | wc -l)" 6 "different vectors"
serve vectors encoder --adapter short=short --adapter long=long
for name in long encoder short; do
    post /v1/embeddings "{\"model\":\"$name\",\"input\":[\"the king\",\"a fool\"]}"
    expect 200 "\"model\": \"$name\""
    if [ $name = encoder ]; then lines=$(vectors_of); else lines=$(vectors_of --adapter $name); fi
    same "$(grep -o '"embedding": \[[^]]*\]' body | cut -d' ' -f2-)" "$lines" "vectors of $name"
done
stop vectors
finish
