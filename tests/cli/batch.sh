#!/usr/bin/env bash
# "qkv batch": requests in a file and their answers, which are those that qkv generate makes of each alone; faults of
# requests; answers that are there already.
. "$(dirname "$0")/common.sh"
export QKV_THREADS=1
make_spec
make_text 80 >text.txt
try 0 train run 4 --quiet

# field NAME KEY: a value of the answer to a request, as it stands in the line of JSON.
field() {
    grep -F "\"custom_id\": \"$1\"," answers.jsonl \
        | grep -oE "\"$2\": (\"([^\"\\\\]|\\\\.)*\"|[0-9.-]+|null)" | head -1 | cut -d' ' -f2-
}
# batch OPTIONS...: all requests, from the beginning.
batch() { "$QKV" batch run --input requests.jsonl --output answers.jsonl --force "$@" >out 2>err; }

# ---- each answer is the one that the request gets alone ----
cat >requests.jsonl <<'END'
{"custom_id": "greedy", "url": "/v1/completions", "body": {"prompt": "the king", "max_tokens": 12, "temperature": 0}}

{"prompt": "a queen", "max_tokens": 9, "temperature": 0.7, "seed": 11, "top_k": 20}
{"prompt": "the king sees", "n": 3, "max_tokens": 7, "temperature": 1.1, "seed": 4}
{"custom_id":"stop","prompt":"the king","temperature":0,"stop":["e","a","s","t","n","i","h","o","g","k","q","\n"," "]}
{"custom_id": "several", "prompt": ["one", "this fool"], "max_tokens": 5, "temperature": 0, "echo": true}
{"custom_id": "unsaid", "prompt": "ghost"}
END
text_alone() { "$QKV" generate run -q "$@" 2>/dev/null; }
for way in "" "--rows 1" "--rows 3 --memory 2 --drafts 7" "--threads 2 --rows 7" "--draft run --rows 4"; do
    checks=$((checks + 1))
    batch $way --temp 0 -n 6 || fail "qkv batch $way: exit code $?"
    same "$(wc -l <answers.jsonl)" 6 "lines of answers ($way)"
    same "\"$(text_alone --prompt "the king" -n 12 --temp 0 | sed '$!s/$/\\n/' | tr -d '\n' | sed 's/^the king//')\"" \
        "$(field greedy text)" "a greedy answer ($way)"
    same "\"$(text_alone --prompt "a queen" -n 9 --temp 0.7 --seed 11 --top-k 20 | sed '$!s/$/\\n/' | tr -d '\n' |
        sed 's/^a queen//')\"" "$(field line-3 text)" "a sampled answer ($way)"
    same "$(field stop finish_reason)" '"stop"' "the end of an answer with stop texts ($way)"
    same "$(grep -cF '"custom_id": "line-4"' answers.jsonl)" 1 "lines of one request ($way)"
    same "$(grep -F '"custom_id": "line-4"' answers.jsonl | grep -oE '"index"' | wc -l)" 3 "choices of n 3 ($way)"
    grep -F '"custom_id": "several"' answers.jsonl | grep -qF '"text": "this fool' || fail "no echo ($way)"
    same "$(field unsaid completion_tokens)" 6 "the tokens of a request that does not say them ($way)"
    sed -E 's/"(created|cached_tokens)": [0-9]+//g' answers.jsonl | sort >sorted
    [ -n "${first:-}" ] || { cp sorted first.txt && first=1; }
    cmp -s sorted first.txt || fail "other answers with $way"
done
hasnt err 'refused'
batch --json --temp 0 -n 12 --draft run --drafts 3
has out '"drafted": [1-9][0-9]*, "accepted": [1-9]'
batch --json --temp 0 -n 6
has out '"drafted": 0, "accepted": 0'
has out '^\{"file": "answers.jsonl", "requests": 6, "answered": 6, "refused": 0, "kept": 0, "tokens": [0-9]+, '

# ---- log-probabilities ----
cat >requests.jsonl <<'END'
{"custom_id": "echo", "prompt": "the king sees a queen", "max_tokens": 0, "logprobs": 3, "echo": true}
{"custom_id":"chat","messages":[{"role":"user","content":"hi"}],"max_tokens":3,"logprobs":true,"top_logprobs":2}
END
batch || fail "log-probabilities: exit code $?"
grep -F '"echo"' answers.jsonl | grep -qE '"token_logprobs": \[null, -[0-9.]+,' \
    || fail "a prompt without log-probabilities"
grep -F '"chat"' answers.jsonl | grep -qE '"content": \[\{"token": ".*", "logprob": -[0-9.]+, "bytes": \[' \
    || fail "a chat without log-probabilities"
has err '^qkv: the talk is plain text'
# Their sum is the loss of qkv eval, whose first token counts no more than this one's.
printf 'the king sees a queen' >one.txt
try 0 "$QKV" eval run --data one.txt --json
loss=$(grep -oE '"loss": [0-9.]+' out | cut -d' ' -f2)
mean=$(grep -F '"echo"' answers.jsonl | grep -oE '"token_logprobs": \[[^]]*' | tr ',' '\n' | grep -oE -- '-[0-9.e-]+' |
    awk '{s -= $1} END {printf "%.9f", s / NR}')
awk -v a="$loss" -v b="$mean" 'BEGIN {d = a - b; exit !(d < 1e-5 && d > -1e-5)}' ||
    fail "echo gives the loss $mean, qkv eval $loss"

# ---- encoder-decoders, and beams ----
pair=$SOURCE/tests/golden/beams/t5
cat >requests.jsonl <<'END'
{"custom_id": "greedy", "prompt": "t5 t9 t12 t20", "max_tokens": 12, "temperature": 0}
{"custom_id": "beams", "prompt": "t5 t9 t12 t20", "max_tokens": 12, "use_beam_search": true, "best_of": 4, "n": 2}
{"custom_id":"short","prompt":"t7 t9","max_tokens":9,"use_beam_search":true,"best_of":3,"length_penalty":-1}
{"custom_id":"true","prompt":"t7 t9","max_tokens":9,"use_beam_search":true,"best_of":3,"early_stopping":true}
{"custom_id": "drawn", "prompt": "t5", "use_beam_search": true, "temperature": 0.5}
{"custom_id": "alone", "prompt": "t5", "best_of": 4}
{"custom_id": "wide", "prompt": "t5", "use_beam_search": true, "best_of": 5}
END
texts() { grep -F "\"custom_id\": \"$1\"" answers.jsonl | grep -oE '"text": "[^"]*"' | cut -d'"' -f4; }
"$QKV" batch "$pair" --input requests.jsonl --output answers.jsonl --force --rows 4 >out 2>err
same $? 1 "the exit code where beams are refused"
beams() { "$QKV" translate "$pair" -q --beam "$@"; }
same "$(texts greedy)" "$("$QKV" translate "$pair" "t5 t9 t12 t20" -q --max-tokens 12)" "a greedy target"
same "$(texts beams)" "$(beams 4 "t5 t9 t12 t20" --n-best 2 --max-tokens 12 --length-penalty 1 \
    --early-stopping false | cut -f4)" "targets of beams"
same "$(texts short)" "$(beams 3 "t7 t9" --max-tokens 9 --length-penalty -1 --early-stopping false)" "short beams"
same "$(texts true)" "$(beams 3 "t7 t9" --max-tokens 9 --length-penalty 1 --early-stopping true)" "beams that stop"
grep -F '"drawn"' answers.jsonl | grep -qF 'a search with beams has no temperature' || fail "beams with a temperature"
grep -F '"alone"' answers.jsonl | grep -qF 'add use_beam_search true' || fail "best_of without beams"
grep -F '"wide"' answers.jsonl | grep -qF 'needs as many rows' || fail "more beams than rows"

# ---- faults of requests are answers ----
cat >requests.jsonl <<'END'
{"custom_id": "field", "prompt": "a", "max_tokenz": 3}
no JSON
{"custom_id": "range", "prompt": "a", "temperature": -1}
{"custom_id": "kind", "prompt": "a", "n": 1.5}
{"custom_id": "none", "max_tokens": 2}
{"custom_id": "role", "messages": [{"content": "x"}]}
{"custom_id": "stream", "prompt": "a", "stream": true}
{"custom_id": "url", "url": "/v1/embeddings", "body": {"prompt": "a"}}
{"custom_id": "id", "prompt": [3, 99999]}
{"custom_id": "bias", "prompt": "a", "logit_bias": {"x": 1}}
{"custom_id": "long", "prompt": "the king sees the queen. the king sees the queen. the king sees the queen."}
{"custom_id": "empty stop", "prompt": "a", "stop": ""}
{"custom_id": "fine", "prompt": "a", "max_tokens": 2, "user": "me", "logit_bias": null}
{"custom_id": "list", "prompt": []}
[1]
END
batch
same $? 1 "the exit code where requests are refused"
has err '^qkv: 14 requests were refused; answers.jsonl says why$'
same "$(wc -l <answers.jsonl)" 15 "answers to faults"
same "$(field fine status_code)" 200 "the status of a request that is fine"
for fault in 'field|max_tokenz.*did you mean max_tokens' 'line-2|no JSON' 'range|temperature must be a number from 0' \
    'kind|n must be a whole number' 'none|no prompt' 'role|has no text .*role' 'stream|answers are whole' \
    'url|/v1/embeddings' 'id|99999' 'bias|token ids as keys' 'long|tokens' 'empty stop|is empty' 'list|0 items' \
    'line-15|must be an object'; do
    checks=$((checks + 1))
    line=$(grep -F "\"custom_id\": \"${fault%%|*}\"," answers.jsonl)
    [[ $line == *'"status_code": 400'* && $line == *invalid_request_error* ]] && grep -qE "${fault#*|}" <<<"$line" \
        || fail "${fault%%|*}: $line"
done

# ---- answers that are there stay ----
for i in 1 2 3 4 5; do
    echo "{\"custom_id\": \"r$i\", \"prompt\": \"the king $i\", \"max_tokens\": 4}"
done >requests.jsonl
batch --seed 3
cp answers.jsonl all.jsonl
{ head -2 all.jsonl; sed -n 3p all.jsonl | head -c 50; } >answers.jsonl
try 0 "$QKV" batch run --input requests.jsonl --output answers.jsonl --seed 3
has err '^qkv: answers.jsonl has 2 of 5 answers; the others are added$'
has err 'answers.jsonl: 3 answers'
same "$(sed 's/"created": [0-9]*//' answers.jsonl | sort)" "$(sed 's/"created": [0-9]*//' all.jsonl | sort)" \
    "answers that were added"
try 0 "$QKV" batch run --input requests.jsonl --output answers.jsonl --seed 3
has err '^qkv: answers.jsonl has 5 of 5 answers$'
cp answers.jsonl whole.jsonl
refuse 1 'missing' "$QKV" batch missing --input requests.jsonl --output answers.jsonl --force
cmp -s answers.jsonl whole.jsonl || fail "a command without a model has changed the answers"
echo '{"custom_id": "other"}' >>answers.jsonl
refuse 1 'answers.jsonl, line 6, answers no request of requests.jsonl; .*--force' \
    "$QKV" batch run --input requests.jsonl --output answers.jsonl
same "$(wc -l <answers.jsonl)" 6 "answers of a refused command"

# ---- interrupted ----
for i in $(seq 300); do echo "{\"prompt\": \"the king $i\", \"max_tokens\": 20}"; done >requests.jsonl
batch --seed 3 && cp answers.jsonl all.jsonl
rm answers.jsonl
"$QKV" batch run --input requests.jsonl --output answers.jsonl --seed 3 --rows 2 >out 2>err &
pid=$!
while [ "$(wc -l <answers.jsonl 2>/dev/null || echo 0)" -lt 2 ] && kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -INT $pid 2>/dev/null
wait $pid
code=$?
if [ $code != 0 ]; then # it may have been done before
    same $code 130 "the exit code of an interrupted command"
    has err '^qkv: answers.jsonl has [0-9]+ of 300 answers; the same command goes on$'
    hasnt err 'cancel'
fi
try 0 "$QKV" batch run --input requests.jsonl --output answers.jsonl --seed 3
normal() { sed -E 's/"(created|cached_tokens)": [0-9]+//g' "$1" | sort; }
same "$(normal answers.jsonl | cksum)" "$(normal all.jsonl | cksum)" "answers after an interruption"

# ---- the command line ----
refuse 2 'name a model: .*batch MODEL --input FILE' "$QKV" batch
refuse 2 'name a file of requests' "$QKV" batch run --output x.jsonl
refuse 2 'name a file for the answers' "$QKV" batch run --input requests.jsonl
refuse 1 'missing.jsonl' "$QKV" batch run --input missing.jsonl --output x.jsonl
: >empty.jsonl
refuse 1 'empty.jsonl has no request' "$QKV" batch run --input empty.jsonl --output x.jsonl
printf '{"custom_id": "a", "prompt": "x"}\n{"custom_id": "a", "prompt": "y"}\n' >twice.jsonl
refuse 1 'line 2: another request has the custom_id "a" too' "$QKV" batch run --input twice.jsonl --output x.jsonl
refuse 1 'requests.jsonl is also read' "$QKV" batch run --input requests.jsonl --output requests.jsonl --force
refuse 1 'more than the model' "$QKV" batch run --input requests.jsonl --output x.jsonl --context 4000
[ ! -s x.jsonl ] || fail "a refused command has written something"
finish
