#!/usr/bin/env bash
# A trained model used from the command line: generate, eval, info, tokenize.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_spec
make_text 400 >text.txt
try 0 train run 30 --quiet --tokenizer chars+bytes

# ---- generate ----
try 0 "$QKV" generate run --prompt "the king " -n 40 --seed 7
cp out first
has out '^the king '
has err 'prompt: [0-9]+ tokens .*tokens/s.*made: 40 tokens .*tokens/s.*seed 7'
try 0 "$QKV" generate run/ --prompt "the king " -n 40 --seed 7
cmp -s out first || fail "the same seed gives another text"
try 0 "$QKV" generate run --prompt "the king " -n 40 --seed 8
cmp -s out first && fail "another seed gives the same text"
for seed in 7 8 9; do
    echo "--- $((seed - 6)) of 3, seed $seed ---"
    "$QKV" generate run --prompt "the king " -n 150 --seed $seed -q 2>err || fail "seed $seed: $(cat err)"
    echo
done >several
try 0 "$QKV" generate run --prompt "the king " -n 150 --seed 7 --count 3 -q
cmp -s out several || fail "three continuations are not those of their seeds"
try 0 "$QKV" generate run --prompt "the king " -n 40 --seed 7 --count 2
has err 'prompt: [0-9]+ tokens .*made: 80 tokens '
try 0 "$QKV" generate run --prompt "the king " -n 150 --seed 7 --samples 3 -q
cmp -s out several || fail "--samples gives other continuations than --count"
refuse 2 'samples and --count are the same' "$QKV" generate run --prompt a --samples 3 --count 3
# standard input, where it is a pipe or a file; without its line end
printf 'the king ' | "$QKV" generate run -n 40 --seed 7 >out 2>err
cmp -s out first || fail "a prompt from a pipe gives another text: $(cat err)"
printf 'the king \n' >line.txt
"$QKV" generate run -n 40 --seed 7 <line.txt >out 2>err
cmp -s out first || fail "a prompt from a file on standard input gives another text: $(cat err)"
try 0 "$QKV" generate run --prompt-file line.txt -n 40 --seed 7
cmp -s out first || fail "--prompt-file keeps the line end"
printf 'the king \n\n' | "$QKV" generate run -n 0 >out 2>err
same "$(cat out; echo .)" "$(printf 'the king \n.')" "two line ends, of which one is dropped"
echo "not read" | "$QKV" generate run --prompt "" -n 30 --seed 7 >out 2>err
cp out none
try 0 "$QKV" generate run -n 30 --seed 7
cmp -s out none || fail "--prompt \"\" reads standard input"
: | "$QKV" generate run -n 30 --seed 7 >out 2>err
cmp -s out none || fail "an empty pipe is no empty prompt"
# ids
ids=$("$QKV" tokenize run "the king ")
try 0 "$QKV" generate run --ids --prompt "$ids" -n 40 --seed 7
same "$("$QKV" tokenize run --ids "$(cat out)"; echo .)" "$(cat first; echo .)" "the text of --ids"
cp out ids
echo "[${ids// /, }]" | "$QKV" generate run --ids -n 40 --seed 7 -q >out 2>err
same "$ids $(cat out)" "$(cat ids)" "the ids of --ids -q, from standard input"
try 0 "$QKV" generate run --ids --prompt "$ids" -n 40 --seed 6 --samples 2
same "$(sed -n 4p out)" "$(cat ids)" "the second of two samples of ids"
refuse 1 'id 2 of the prompt is 99999, but the model.s ids are 0 to [0-9]+$' "$QKV" generate run --ids \
    --prompt "1 99999" -n 3
refuse 1 'the prompt: "king" is not a token id' "$QKV" generate run --ids --prompt "1 king" -n 3
refuse 1 '"-1" is not a token id' "$QKV" generate run --ids --prompt "-1" -n 3
# JSON: what reads JSON here finds no fault but its keys
reads_json() {
    cp out made.json
    refuse 1 '^qkv: made\.json: unknown key prompt' "$QKV" info --spec made.json
    cp made.json out
}
try 0 "$QKV" generate run --prompt "the king " -n 40 --top-k 3 --seed 7
cp out likely
try 0 "$QKV" generate run --prompt "the king " -n 40 --top-k 3 --seed 7 --json -q
reads_json
same "$(grep -c '"logprob": -' out)" 41 "log-probabilities of 40 tokens and of their sum"
same "the king $(sed -n 's/.*"seed": 7, "text": "\([^"]*\)", "ended_by": "length".*/\1/p' out)" \
    "$(sed ':a;N;$!ba;s/\n/\\n/g' likely)" "the text in the JSON"
awk -F'"logprob": ' 'NR > 1 && /"ended_by"/ {split($2, a, ","); all = a[1]} /"id"/ {split($2, a, "}"); sum += a[1]}
    END {exit !(sum < 0 && (sum - all) ^ 2 < 1e-6 * sum ^ 2)}' out \
        || fail "log-probabilities do not add up: $(head -c 400 out)"
try 0 "$QKV" generate run --ids --prompt "$ids" -n 3 --seed 7 --json --samples 2 -q
reads_json
has out "\"prompt_ids\": \[${ids// /, }\], \"prompt_tokens\": $(echo "$ids" | wc -w)"
has out '"seed": 8'
try 0 "$QKV" generate run --prompt "the" -n 200 --seed 3 --stop " l" --json -q
has out '"ended_by": "stop"'
# tokens that cut characters: bytes of an untrained text
try 0 train bytewise 3 --quiet --tokenizer bytes
try 0 "$QKV" generate bytewise --prompt "é" -n 60 --temp 3 --seed 1 --json -q
reads_json
has out '"text": "\\ufffd|"text": "�", "bytes": \[(1[2-9][0-9]|2[0-9][0-9])\], "logprob"'
# prompts that are too long
long=$(printf 'the king sees a fool and %.0s' 1 2 3)
refuse 1 'the prompt has [0-9]+ tokens, .*--long keep-start or keep-end' "$QKV" generate run --prompt "$long" -n 3 -q
refuse 2 '^qkv: --long is "cut"; it must be error, skip, keep-start or keep-end ' "$QKV" generate nowhere --prompt a --long cut
try 0 "$QKV" generate bytewise --prompt "$long" -n 30 --seed 3 -q --long keep-end
has err \
    '^qkv: the prompt has 75 tokens, more than the model.s context of 32, and was cut to the last tokens \(--long keep-end\)$'
cp out kept
try 0 "$QKV" generate bytewise --prompt "${long: -32}" -n 30 --seed 3 -q
cmp -s out kept || fail "--long keep-end does not go on from the prompt's end"
try 0 "$QKV" generate bytewise --prompt "$long" -n 30 --seed 3 --long keep-start
cp out kept
try 0 "$QKV" generate bytewise --prompt "${long:0:32}" -n 30 --seed 3 -q
cmp -s out kept || fail "--long keep-start does not go on from the prompt's start, or writes the prompt"
try 0 "$QKV" generate bytewise --prompt "$long" -n 30 --long skip
has err 'the prompt has 75 tokens, .* and was skipped'
[ ! -s out ] || fail "a prompt that is skipped is continued"
try 0 "$QKV" generate bytewise --prompt "$long" -n 30 --long skip --json -q
reads_json
has out '"prompt_tokens": 0, "long_prompt": 75,$'
try 0 "$QKV" generate run --prompt "the king " -n 40 --seed 7 --threads 1 --isa scalar
has out '^the king '
try 0 "$QKV" generate run --prompt "the king " -n 40 --seed 7 -q
drop_emulation
[ ! -s err ] || fail "-q says something"
hasnt out '^the king the king'
same "the king $(cat out; echo .)" "$(cat first; echo .)" "the continuation alone"
printf 'the king ' >prompt.txt
try 0 "$QKV" generate run --prompt-file prompt.txt -n 40 --seed 7
cmp -s out first || fail "--prompt-file gives another text"
"$QKV" generate run --prompt-file - -n 40 --seed 7 <prompt.txt >out 2>err
cmp -s out first || fail "--prompt-file - gives another text"
try 0 "$QKV" generate run -n 10
try 0 "$QKV" generate run --prompt "" -n 0
[ ! -s out ] || fail "-n 0 without a prompt writes something"
try 0 "$QKV" generate run --prompt "the" -n 300 --temp 0
has err 'made: 300 tokens'
try 0 "$QKV" generate run --prompt "a" -n 60 --top-k 5 --top-p 0.9 --min-p 0.05 --repeat-penalty 1.2 --repeat-last 8 \
    --seed 1
try 0 "$QKV" generate run --prompt "the" -n 200 --seed 3
if grep -q ' l' <(tail -c +4 out); then
    try 0 "$QKV" generate run --prompt "the" -n 200 --seed 3 --stop " l" --stop XYZ
    has err 'then the text ended'
    hasnt out ' l'
else
    fail "a text of 200 characters without \" l\": nothing to test --stop with"
fi
refuse 2 'temp needs a number of at least 0' "$QKV" generate run --temp -1 -n 3 -q
refuse 2 'top-p needs a number greater than 0' "$QKV" generate run --top-p 2 -n 3 -q
refuse 1 'no special token "<end>"' "$QKV" generate run --end '<end>' -n 3 -q
refuse 1 'context' "$QKV" generate run -q --prompt "$(printf 'x%.0s' $(seq 100))"
"$QKV" generate run --prompt the -n 300 2>err | head -c 10 >out
same "$(head -c 3 out)" the "the first characters through a pipe that closes"
drop_emulation
grep -q '^qkv:' err && fail "generate | head complains: $(cat err)"
rm -f out err # what shows that it has begun must be its own
(
    # What a shell without job control, or nohup, lets its children ignore.
    exec env --default-signal=INT "$QKV" generate run --prompt the -n 100000000 >out 2>err
) &
child=$!
eventually test -s out
kill -INT $child
wait $child
same $? 130 "the exit code of generate after Ctrl-C"
last="generate and Ctrl-C"
has err 'made: [0-9]+ tokens .*, interrupted; seed'
if [ -w /dev/full ]; then
    "$QKV" generate run --prompt the -n 30 >/dev/full 2>err
    same $? 1 "the exit code of generate with a full disk"
fi

# ---- rotations that depend on the length of a text: --context, else the tokens of the prompt and -n ----
dynamic='{"kind": "dynamic", "factor": 2, "original_context": 8}'
try 0 "$QKV" new --preset nano-gpt --set decoder.layers=1 --set position.kind=rope --set context=64 \
    --set "position.scaling=$dynamic" --out turned
try 0 "$QKV" info turned
has out 'rotation scaled +dynamic  decoder: factor 2, from an original context of 8, by the length of a sequence'
made_turned() { # without the seed, which is from the clock
    try 0 "$QKV" generate turned --ids --prompt "5 6 7 8" -n 12 --temp 0 --json -q "$@"
    sed 's/"seed": [0-9]*//' out
}
same "$(made_turned --context 16)" "$(made_turned)" "4 tokens and -n 12, which are decided for 16"
[ "$(made_turned --context 64)" != "$(made_turned)" ] || fail "--context 64 decides nothing"
refuse 1 'a session of 65 positions is longer than the model.s context of 64' "$QKV" generate turned --ids \
    --prompt "5" --context 65
refuse 1 'the prompt has 4 tokens, but the context holds 3' "$QKV" generate turned --ids --prompt "5 6 7 8" --context 3
refuse 2 'position\.scaling\.factor is 0\.5; it must be a number of at least 1' \
    "$QKV" info --preset nano-gpt --set position.kind=rope --set position.scaling.kind=linear \
    --set position.scaling.factor=0.5

# ---- eval ----
try 0 "$QKV" eval run --data text.txt
has out '^loss +[0-9.]+ nats a token'
has out '^perplexity +[0-9.]+'
has out '^bits per byte +[0-9.]+'
drop_emulation
[ ! -s err ] || fail "eval says something off a terminal"
try 0 "$QKV" eval run --data text.txt --json --batch 3 --context 16
awk -F'[:,}]' '/"loss"/ {loss = $2; perplexity = $4; bits = $6; n = $8}
    END {exit !(loss > 0 && (exp(loss) - perplexity)^2 < 1e-6 * perplexity^2 && (loss / log(2) - bits)^2 < 1e-4 && n > 1000)}' out ||
    fail "loss, perplexity and bits per byte do not agree: $(cat out)"
# Bytes are those of the text, whatever its tokens are: seven here, of which two are of unknown characters.
try 0 train plain 2 --quiet --tokenizer chars --warmup 0
printf 'th\342\202\254\303\270 e\n' >foreign.txt
try 0 "$QKV" eval plain --data foreign.txt
has out '^over +6 tokens \(9 bytes\)'
has out '^unknown +2 of the tokens: what they stand for is not in the vocabulary$'
try 0 "$QKV" eval plain --data foreign.txt --json
has out '"bytes": 9, "unknown": 2,'
try 0 "$QKV" generate plain --prompt "$(cat foreign.txt)" -n 2 --temp 0 --quiet
has err '^qkv: 2 of the 6 tokens of the prompt are unknown: what they stand for is not in the vocabulary$'
try 0 "$QKV" generate plain --prompt "the king" -n 2 --temp 0 --quiet
hasnt err unknown
try 0 "$QKV" eval run --data foreign.txt
hasnt out '^unknown'
refuse 1 'missing\.txt' "$QKV" eval run --data missing.txt

# ---- eval against another model ----
try 0 "$QKV" export run --dtype bf16 --out halves
try 0 "$QKV" eval halves --data foreign.txt --against run
has out '^loss +[0-9.]+ nats a token; [0-9.]+ of run$'
has out '^divergence +[0-9.e-]+ nats a token from the other.s distribution, standard error [0-9.e-]+$'
has out '^likeliest token +the same for [0-9.]+ % of the tokens$'
try 0 "$QKV" eval run --data foreign.txt --against run --json
has out '"divergence": 0, "divergence_error": 0, "same_likeliest": 1, '
# Each model has its own precision, and only that of bf16 is told.
try 0 train in_bf16 3 --quiet --precision bf16 --tokenizer run/tokenizer.json
try 0 train in_fp32 3 --quiet --precision fp32 --tokenizer run/tokenizer.json
try 0 "$QKV" eval in_fp32 --data foreign.txt --against in_bf16
hasnt err '^qkv: in_fp32 was trained in bf16'
# The windows have the smaller context, and so has the plan of memory.
try 0 "$QKV" new --spec spec.json --set position.kind=rope --set context=16000000 --tokenizer run/tokenizer.json \
    --out huge
try 0 "$QKV" eval run --data foreign.txt --against huge
refuse 1 'the two models have different vocabularies' "$QKV" eval run --data foreign.txt --against plain
refuse 2 'one window at a time' "$QKV" eval run --data foreign.txt --against run --batch 2
refuse 2 'only the predictions of a text' "$QKV" eval run --pairs foreign.txt --against run
: >empty.txt
refuse 1 'empty' "$QKV" eval run --data empty.txt

# ---- info ----
try 0 "$QKV" info run
has out '─ decoder'
has out 'layers\.0 to 1 .*\(2 times\)'
has out 'q\.weight +32 x 32 +1,024'
has out '^  parameters +[0-9,]+'
has out '^  memory to train +[0-9.]+ [KM]iB'
has out '^  memory to run '
# 2 layers x (32 + 32) x 4 bytes; in bf16 half of it, or as much as kernels take for heads of 8 as for 32
has out '^  cache a token +((256|384|512|640) bytes|1\.0 KiB)'
has out '^  pages +[1-9][0-9]*  of [0-9]+ positions, .* each, hold a context of [0-9]+$'
has out '^  FLOPs a token '
try 0 "$QKV" info run --threads 3
has out '^  threads +3  as --threads says$'
try 0 env QKV_THREADS=2 OMP_NUM_THREADS=1 "$QKV" info run
has out '^  threads +2  as .QKV_THREADS says; OMP_NUM_THREADS is not read, --threads is$'
bytes() { # bytes KEY OPTIONS...: of the plan
    local key=$1
    shift
    "$QKV" info run --json "$@" | grep -o "\"$key\": [0-9]*" | cut -d' ' -f2
}
[ "$(bytes train_bytes --threads 8)" -gt "$(bytes train_bytes --threads 1)" ] \
    || fail "8 threads take no memory of their own"
same "$(bytes threads --threads 8)" 8 "the threads in JSON"

# ---- types of the cache ----
whole=$(bytes cache_bytes_per_token --cache f32)
same "$whole" $((2 * $(bytes cache_bytes_per_token --cache f16))) "a cache of f32, in those of f16"
same $((3 * whole)) $((4 * $(bytes cache_bytes_per_token --cache k=f32,v=bf16))) \
    "a cache of f32, in those of f32 and bf16"
[ "$(bytes run_bytes --cache f16)" -lt "$(bytes run_bytes --cache f32)" ] || fail "a cache of f16 takes no less memory"
"$QKV" info --preset nano-gpt --json --cache q8_0 >small.json
"$QKV" info --preset nano-gpt --json --cache f32 >whole.json
cache_of() {
    grep -o '"cache_bytes_per_token": [0-9]*' "$1" | cut -d' ' -f2
}
same $((128 * $(cache_of small.json))) $((34 * $(cache_of whole.json))) "34 bytes of q8_0 for 32 numbers of 4 bytes"
same "$(grep -o '"f32": [0-9]*, "bf16_packed": [0-9]*, "bf16": [0-9]*, "f16": [0-9]*, "q8_0": [0-9]*' small.json |
    sed 's/"bf16_packed": [0-9]*, //')" \
    "\"f32\": $((64 * $(cache_of whole.json))), \"bf16\": $((32 * $(cache_of whole.json))), \
\"f16\": $((32 * $(cache_of whole.json))), \"q8_0\": $((64 * $(cache_of small.json)))" "caches of 64 positions"
try 0 "$QKV" info run
has out '^  cache by type +f32 [0-9.]+ [KM]iB, .*, f16 [0-9.]+ [KM]iB$'
hasnt out 'q8_0'
try 0 "$QKV" generate run --prompt "the king " -n 40 --temp 0 -q --precision fp32
mv out usual.txt
try 0 "$QKV" generate run --prompt "the king " -n 40 --temp 0 -q --precision fp32 --cache f32
same "$(cat out)" "$(cat usual.txt)" "the text with the usual cache in fp32"
try 0 "$QKV" generate run --prompt "the king " -n 40 --temp 0 -q --cache k=bf16,v=f16
refuse 1 'pages of q8_0 hold blocks of 32 channels, but the keys of layer 0 have 8 a head \(choose f32' \
    "$QKV" generate run --prompt a --cache q8_0
for wrong in 'k=q8_0;v=f16' 'f16;f32'; do
    refuse 2 "as \"k=q8_0,v=bf16\" for keys and values apart, not as \"$wrong\"" \
        "$QKV" generate run --prompt a --cache "$wrong"
done
refuse 2 'caches have no type "q9" \(choose f32, .* or q8_0\)' "$QKV" generate run --prompt a --cache k=q9
refuse 2 'only a search has a cache' "$QKV" eval run --data foreign.txt --cache f16
if command -v taskset >/dev/null; then
    [ "$(nproc --all)" = 1 ] || try 0 env -u QKV_THREADS taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" \
        "$QKV" info run
    [ "$(nproc --all)" = 1 ] \
        || has out \
        '^  threads +1  (the CPUs that this process may run on \(affinity\), of [0-9]+|the limit of this process)'
fi
LC_ALL=C "$QKV" info run >out
last="info in the C locale"
has out '\|- '
LC_ALL=C grep -qP '[\x80-\xff]' out && fail "info writes UTF-8 in the C locale"
try 0 "$QKV" info --preset gpt2-small
has out '^  parameters +124,439,808'
has out '^  weights +475 MiB'
try 0 "$QKV" info --preset gpt2-small --set decoder.layers=48 --set d_model=8192 --set decoder.attention.heads=64
has out 'GiB'
try 0 "$QKV" info --preset nano-gpt
has out 'from the tokenizer; shown for 256'
try 0 "$QKV" info --preset nano-gpt --set vocab=65 --json
has out '"parameters": [0-9]+'
has out '"name": "decoder.layers.3.ffn.down.weight", "shape": \[128, 512\]'
try 0 "$QKV" info --spec spec.json --set decoder.attention.kv_heads=1
has out 'k\.weight +8 x 32 +256'
refuse 2 'context' "$QKV" info --preset gpt2-small --context 4096
try 0 "$QKV" info --preset gpt2-small --prefix 1000 --continuations 50
has out '^  with a shared prefix +57  hold 50 such contexts that share a prefix of 1000: 7 once, 1 for each'
try 0 "$QKV" info --preset gpt2-small --set context=1200 --context 1030 --prefix 1000 --continuations 50 --json
has out '"shared_pages": 107'
refuse 2 'context of 1024' "$QKV" info --preset gpt2-small --prefix 1025 --continuations 2
refuse 2 'continuations' "$QKV" info --preset gpt2-small --prefix 1000
refuse 2 'prefix' "$QKV" info --preset gpt2-small --continuations 50
refuse 2 'no decoder' "$QKV" info --preset bert-base --set vocab=100 --prefix 10 --continuations 2
refuse 2 'decoder\.attention\.heads' "$QKV" info --preset gpt2-small --set decoder.attention.heads=7
refuse 2 'gpt2-smal' "$QKV" info --preset gpt2-smal

# ---- tokenize ----
try 0 "$QKV" tokenize run "the king sees"
has out '^[0-9]+( [0-9]+)*$'
ids=$(cat out)
try 0 "$QKV" tokenize run --ids "$ids"
same "$(cat out)" "the king sees" "text from its ids"
try 0 "$QKV" tokenize run/tokenizer.json "the king sees"
same "$(cat out)" "$ids" "ids by the tokenizer's own file"
head -c 3000 /dev/urandom >bytes
"$QKV" tokenize run <bytes >out && "$QKV" tokenize run --ids <out >back
cmp -s bytes back || fail "random bytes do not come back from their ids"
make_text 80000 >long
"$QKV" tokenize run <long >out && "$QKV" tokenize run --ids <out | cmp -s - long \
    || fail "a long text does not come back"
try 0 "$QKV" tokenize run --pieces 'a"ü'
has out '^[0-9]+	"a"$'
has out '^[0-9]+	"\\""$'
try 0 "$QKV" tokenize run ""
same "$(cat out)" "" "the ids of no text"
refuse 1 '9999999' "$QKV" tokenize run --ids "1 9999999"
# A template stands around the text where special tokens are asked for, and only there.
piece='{"SpecialToken": {"id": "x", "type_id": 0}}' text='{"Sequence": {"id": "A", "type_id": 0}}'
template="{\"type\": \"TemplateProcessing\", \"single\": [$piece, $text, $piece], \"special_tokens\": {\"x\": {\"id\": \"x\", \"ids\": [1, 2], \"tokens\": [\"x\", \"y\"]}}}"
sed "s|\"post_processor\": null|\"post_processor\": $template|" run/tokenizer.json >template.json
plain=$("$QKV" tokenize run "the king")
same "$("$QKV" tokenize template.json "the king")" "$plain" "tokenize without --specials"
same "$("$QKV" tokenize template.json --specials "the king")" "1 2 $plain 1 2" "tokenize --specials"
same "$(printf 'the king' | "$QKV" tokenize template.json --specials)" "1 2 $plain 1 2" \
    "tokenize --specials of a stream"
refuse 1 'not a token id' "$QKV" tokenize run --ids "1 x 2"
refuse 1 'not a token id' "$QKV" tokenize run --ids "1 -2"
refuse 1 'not a token id' "$QKV" tokenize run --ids "123456789012345678901234567890"
finish
