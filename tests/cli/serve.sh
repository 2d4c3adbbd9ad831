#!/usr/bin/env bash
# "qkv serve": paths, fields and streams; answers among others are those of qkv batch; limits; hostile HTTP; the end.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/cli/serve_common.sh"
export QKV_THREADS=1
refuse 2 'name a model' "$QKV" serve
refuse 2 '^qkv: --memory needs a size from 1M to 16384G, such as 512M or 8G, not "x"' "$QKV" serve nowhere --memory x
refuse 2 'each has no effect' "$QKV" serve nowhere --each 3
refuse 2 '^qkv: serve: --draft guesses for one model, and there are 2' "$QKV" serve one two --draft three
need_server "qkv serve"
make_spec
make_text 80 >text.txt
try 0 train run 4 --quiet
tool=$BINARY/tests/cli/make_model
for kind in classifier encoder pairs languages decoder; do try 0 "$tool" $kind $kind; done
refuse 2 'two models have the name run; name them' "$QKV" serve run run
refuse 2 '^qkv: --allow-origin is "example.org"; it is a site' "$QKV" serve run --allow-origin example.org
refuse 2 '^qkv: --allow-host is "a b"; it is a name' "$QKV" serve run --allow-host 'a b'
refuse 2 '^qkv: --name is "a/b"; a name has' "$QKV" serve run --name a/b
refuse 1 'is no address' "$QKV" serve run --host nowhere.invalid --port 0
refuse 1 '^qkv: --memory is 1.0 MiB, but models and the network need [0-9.]+ MiB already' "$QKV" serve run --memory 1
: >nothing.txt
refuse 1 'nothing.txt has no key' "$QKV" serve run --keys nothing.txt

sed 's/"context": 32/"context": 512/' spec.json >wide.json
try 0 "$QKV" new wide.json --tokenizer decoder/tokenizer.json --out wide

# ---- paths ----
cp -r pairs named
printf '{"source_lang": "en", "target_lang": "de"}\n' >named/tokenizer_config.json
serve all run classifier encoder pairs wide named --log json --body 1 --temp 0.8
same "$(cat all.out)" "http://127.0.0.1:$port" "what is printed"
grep -q '^qkv: at most [0-9.]* MiB of memory' all.err || fail "no plan of memory"
grep -q '^qkv: it listens on this machine alone' all.err || fail "nothing about who can reach it"
ask GET /health
expect 200 '^\{"status": "ok"\}$'
ask GET /v1/models
expect 200 '"id": "run", "object": "model", .*"id": "classifier".*"id": "encoder".*"id": "pairs"'
ask GET /v1/models/pairs
expect 200 '^\{"id": "pairs"'
ask GET /v1/models/pair
expect 404 'there is no model ."pair."; did you mean pairs'
ask GET /languages
expect 200 '^\[\]$'
ask GET /v1/completion
expect 404 'did you mean /v1/completions\?.*"code": "not_found"'
ask DELETE /v1/completions
expect 405 '/v1/completions takes POST'
grep -q '^Allow: POST$' head || fail "status 405 without Allow"
ask GET /
expect 200 '<!doctype html>'
grep -q "^Content-Security-Policy: default-src 'none'" head || fail "the page has no policy"
ask HEAD /
same "$(wc -c <body)" 0 "the body of HEAD"
ask GET /metrics
expect 200 '^qkv_requests_total\{status="2xx"\} [0-9]+$'
same "$(grep -cE '^(#.*|qkv_[a-z_0-9]+(\{[^}]*\})? [0-9.e+-]+)$' body)" "$(wc -l <body)" "lines of /metrics"

# ---- continuations ----
post /v1/completions '{"model":"run","prompt":"the king","max_tokens":9,"temperature":0}'
expect 200 '"object": "text_completion".*"finish_reason": "length"'
same "\"$("$QKV" generate run -q --prompt "the king" -n 9 --temp 0 2>/dev/null | sed '$!s/$/\\n/' | tr -d '\n' |
    sed 's/^the king//')\"" "$(value text)" "a greedy completion"
post /v1/completions '{"prompt":"the king"}'
expect 200 '"completion_tokens": 16'
grep -q '^X-Request-Id: req-' head || fail "no id of a request"
post /v1/completions '{"prompt":"the king"}' 'X-Request-Id: mine-7'
grep -q '^X-Request-Id: mine-7$' head || fail "another id than the request's"
chat='"messages":[{"role":"user","content":"Hi"}],"max_tokens":6,"seed":3,"n":2,"temperature":1.2'
post /v1/chat/completions "{$chat}"
expect 200 '"object": "chat.completion".*"message": \{"role": "assistant", "content": ".*", "refusal": null\}'
value content >whole
post /v1/chat/completions "{$chat,\"stream\":true,\"stream_options\":{\"include_usage\":true}}"
expect 200 '^data: \{"id": "chatcmpl-[0-9]+", "object": "chat.completion.chunk"'
grep -q '^Content-Type: text/event-stream' head || fail "a stream of another type"
same "$(tail -2 body | head -1)" "data: [DONE]" "the end of a stream"
grep -qE '"choices": \[\], "usage": \{"prompt_tokens": [0-9]+, "completion_tokens": 12, ' body || fail "no usage"
for i in 0 1; do
    grep -F "\"index\": $i," body >chunks
    same "\"$(value content chunks | sed -E 's/^"(.*)"$/\1/' | tr -d '\n')\"" "$(sed -n $((i + 1))p whole)" \
        "the pieces of answer $i"
    same "$(grep -c '"role"' chunks)" 1 "roles of answer $i"
    same "$(value finish_reason chunks | grep -vc null)" 1 "ends of answer $i"
done
post /v1/completions '{"prompt":["the king","a"],"max_tokens":2,"temperature":0,"echo":true,"logprobs":2,"stream":true}'
same "$(grep -F '"index": 0,' body | value text /dev/stdin | head -1 | grep -c '^"the king')" 1 "echo of a stream"
parts='[{"type":"text","text":"a"},{"type":"text","text":"b"}]'
post /v1/chat/completions "{\"messages\":[{\"role\":\"developer\",\"content\":$parts}],\"max_tokens\":0}"
expect 200 '"content": ""'

# ---- forms, and tools ----
post /v1/completions '{"prompt":"a","max_tokens":20,"guided_choice":["the king","a queen"],"seed":1}'
expect 200 '"text": "(the king|a queen)".*"finish_reason": "stop"'
parameters='{"type":"object","properties":{"n":{"enum":[1]}},"required":["n"],"additionalProperties":false}'
tools="\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":$parameters}}]"
tools="$tools,\"messages\":[{\"role\":\"user\",\"content\":\"1\"}],\"model\":\"wide\""
for stream in false true; do
    post /v1/chat/completions "{$tools,\"tool_choice\":\"required\",\"max_tokens\":400,\"stream\":$stream}"
    expect 200 '"tool_calls": \[\{("index": 0, )?"id": "[a-z0-9]{9}", "type": "function", "function": \{"name": "add"'
    expect 200 '"arguments": "\{.*n.*1\}"\}'
    expect 200 '"finish_reason": "tool_calls"'
done
post /v1/chat/completions "{$tools,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"sub\"}}}"
expect 400 'tools has no such function.*"param": "tool_choice"'
post /v1/chat/completions "{$tools,\"tool_choice\":\"maybe\"}"
expect 400 'tool_choice must be'
post /v1/chat/completions "{$tools,\"tool_choice\":\"auto\",\"max_tokens\":3}"
expect 200 '"finish_reason": "(length|stop)"'

# ---- the same bytes among others ----
for i in $(seq 24); do
    case $((i % 4)) in
    0) text='"prompt":"the king","temperature":0,"max_tokens":11' ;;
    1) text='"prompt":"a queen sees","temperature":1.1,"top_k":9,"max_tokens":8,"n":2' ;;
    2) text='"messages":[{"role":"user","content":"the fool"}],"max_tokens":10,"temperature":0.9' ;;
    3) text='"prompt":["one","the ghost hears"],"max_tokens":5,"logprobs":1,"temperature":0.7,"presence_penalty":1' ;;
    esac
    printf '{%s,"seed":%s}\n' "$text" "$i"
done >requests.jsonl
try 0 "$QKV" batch run --input requests.jsonl --output answers.jsonl --quiet
asked=0
while read -r line; do
    asked=$((asked + 1))
    path=/v1/completions
    [[ $line != *messages* ]] || path=/v1/chat/completions
    (mkdir -p "at$asked" && cd "at$asked" && ask POST $path "$line") &
    asking[asked]=$!
done <requests.jsonl
wait "${asking[@]}"
for i in $(seq $asked); do
    grep -F "\"custom_id\": \"line-$i\"" answers.jsonl >one
    for key in text content finish_reason logprob; do
        same "$(value $key "at$i/body")" "$(value $key one)" "$key of request $i"
    done
done

# ---- texts ----
post /tokenize '{"content":"the king","with_pieces":true}'
expect 200 '"tokens": \[\{"id": [0-9]+, "piece": '
post /tokenize '{"prompt":"the king"}'
expect 200 '"count": [0-9]+, "max_model_len": 32, "tokens": \[[0-9, ]+\]'
ids=$(grep -oE '"tokens": \[[0-9, ]+\]' body | cut -d' ' -f2-)
post /detokenize "{\"tokens\":$ids}"
expect 200 '^\{"content": "the king", "prompt": "the king"\}$'
post /apply-template '{"messages":[{"role":"user","content":"Hi"}]}'
expect 200 '^\{"prompt": "User: Hi\\nAssistant:"\}$'
post /v1/embeddings '{"model":"encoder","input":["the queen","a king"]}'
expect 200 '"object": "embedding", "index": 1, "embedding": \[-?[0-9]'
try 0 "$QKV" embed encoder "the queen" "a king" --text
grep -oE '"embedding": \[[^]]*' body | sed 's/.*\[//' | tr ', ' '\n\n' | grep . >floats
same "$(awk '{printf "%.5f\n", $1}' floats)" \
    "$(tr ' \t' '\n\n' <out | grep -E '^-?[0-9.e-]+$' | awk '{printf "%.5f\n", $1}')" "vectors"
post /v1/embeddings '{"model":"encoder","input":["the queen","a king"],"encoding_format":"base64"}'
value embedding | tr -d '"' | while read -r line; do printf %s "$line" | base64 -d; done | od -An -v -w4 -tf4 |
    cat >decoded
paste floats decoded | awk '($1 - $2) ^ 2 > 1e-10 {bad = 1} END {exit bad || NR < 2}' || fail "base64 has other numbers"
post /classify '{"model":"classifier","input":"what is the name of the queen ?"}'
expect 200 '"label": "[^"]+", "probs": \[[0-9.e-]+, [0-9.e-]+, [0-9.e-]+\], "num_classes": 3'
try 0 "$QKV" classify classifier "what is the name of the queen ?" --top 1
same "$(value label | tr -d '"')" "$(cut -f1 out)" "the class"
post /translate '{"model":"pairs","q":["the queen","England"],"source":"auto","target":"auto","format":"text"}'
expect 200 '^\{"translatedText": \['
sed -n 1p body >unnamed
post /translate '{"model":"named","q":["the queen","England"],"source":"en","target":"de"}'
same "$(sed -n 1p body)" "$(cat unnamed)" "translations with languages"
translated() { try 0 "$QKV" translate pairs -q --json "$@"; sed 's/.*"translations"//' out >translations; }
translated "the queen" England
same "$(grep -oE '"([^"\\]|\\.)*"' body | sed 1d)" "$(value text translations)" "translations"
post /v1/chat/completions '{"model":"pairs","messages":[{"role":"user","content":"the queen"}],"temperature":0}'
expect 200 '"completion_tokens": [1-9]'
post /translate '{"model":"pairs","q":"the queen","alternatives":2}'
expect 200 '^\{"translatedText": ".*", "alternatives": \[".*", ".*"\]\}$'
translated "the queen" --beam 3 --n-best 3
same "$(grep -oE '"([^"\\]|\\.)*"' body | grep -vE '^"(translatedText|alternatives)"$')" "$(value text translations)" \
    "alternatives"

# ---- requests that make no sense ----
bad() { # bad PATH BODY STATUS PARAM PATTERN
    post "$1" "$2"
    expect "$3" "\"error\": \\{\"message\": \".*$5.*\", \"type\": \"[a-z_]+\", \"param\": $4"
}
c=/v1/completions
bad $c '' 400 null 'no body'
bad $c '{' 400 null 'no JSON, line 1'
bad $c '[1]' 400 null 'must be an object'
bad $c '{"prompt":"a","prompt":"b"}' 400 null 'duplicate'
bad $c "{\"prompt\":\"$(printf '\377')\"}" 400 null 'no JSON'
bad $c "{\"prompt\":$(printf '[%.0s' $(seq 3000))" 400 null 'no JSON'
bad $c '{"prompt":"a","max_tokens":99999999999999999999}' 400 null 'no JSON'
bad $c '{"prompt":"a","seed":1e999}' 400 null 'no JSON'
bad $c '{}' 400 '"prompt"' 'has no prompt'
bad $c '{"prompt":"a","max_tokenz":1}' 400 '"max_tokenz"' 'did you mean max_tokens'
bad $c '{"prompt":"a","temperature":"hot"}' 400 '"temperature"' 'must be a number'
bad $c '{"prompt":"a","n":129}' 400 '"n"' 'from 1 to 128'
bad $c '{"prompt":["a","b","c","d","e","f","g","h","i"],"n":128}' 400 '"n"' 'more than 1024'
bad $c '{"prompt":"a","best_of":3}' 400 '"best_of"' 'is of beams; add use_beam_search true'
bad $c '{"prompt":"a","use_beam_search":true,"guided_choice":["a"]}' 400 '"guided_choice"' 'has no guided_choice'
bad $c '{"prompt":"a","typical_p":0.5}' 400 '"typical_p"' 'can be 1 alone'
bad $c '{"prompt":"a","stream_options":{}}' 400 '"stream_options"' 'needs stream true'
bad $c '{"prompt":"a","stop_token_ids":["x"]}' 400 '"stop_token_ids"' 'no token id'
bad $c '{"prompt":[1,99999]}' 400 '"prompt"' '99999'
bad $c "{\"prompt\":\"$(printf 'the king sees %.0s' $(seq 40))\"}" 400 '"prompt"' 'context'
bad $c '{"prompt":"a","model":"no"}' 404 '"model"' 'no model'
bad $c '{"prompt":"a","model":"encoder"}' 400 '"prompt"' '.'
bad /v1/chat/completions '{"messages":[]}' 400 '"messages"' 'at least'
bad /v1/chat/completions '{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}' 400 '"messages"' 'image_url'
bad /v1/chat/completions '{"messages":[{"role":"user","content":"a"}],"tools":3}' 400 '"tools"' 'list'
bad /v1/embeddings '{"model":"encoder","input":"a","encoding_format":"x"}' 400 '"encoding_format"' 'base64'
bad /v1/embeddings '{"model":"encoder","input":"a","dimensions":3}' 400 '"dimensions"' 'dimensions'
bad /classify '{"input":"a"}' 400 '"model"' 'run has no classes'
bad /v1/embeddings '{"input":"a"}' 400 '"model"' 'run makes no vectors'
bad /translate '{"model":"pairs","q":"a","source":"en"}' 400 '"source"' 'does not say what language it translates from'
bad /translate '{"model":"pairs","q":"a","target":3}' 400 '"target"' 'code of a language'
bad /translate '{"model":"named","q":"a","source":"fr"}' 400 '"source"' 'the model has en'
bad /translate '{"model":"named","q":"a","source":"en","target":"en"}' 400 '"target"' 'the model has de'
bad /translate '{"model":"named","q":"a","format":"html"}' 400 '"format"' 'must be'
bad $c '{"prompt":"a","target":"de"}' 400 '"target"' 'does not translate'
bad /translate '{"q":"a"}' 400 '"model"' 'does not translate'
bad /tokenize '{"content":3}' 400 '"content"' 'text'
bad /detokenize '{"tokens":[99999]}' 400 '"tokens"' '99999'
bad /apply-template '{"messages":[{"content":"x"}]}' 400 '"messages"' 'role'

# ---- hostile HTTP ----
ask POST $c '' 'Host: example.org'
expect 400 ''
printf 'GET /health HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n' | raw
expect 403 'example.org is no name of this server'
printf 'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n' | raw
expect 400 ''
ask GET /health '' 'Origin: http://example.org'
expect 403 'may not ask this server'
ask GET /health '' "Origin: http://127.0.0.1:$port"
expect 200 ok
printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nx' $c | raw
expect 413 'at most 1 MiB'
{
    printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n' $c
    for i in $(seq 20); do
        printf '20000\r\n'
        head -c 131072 /dev/zero | tr '\0' ' '
        printf '\r\n'
    done
    printf '0\r\n\r\n'
} | raw
expect 413 'more than 1 MiB'
printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n' "$(head -c 40000 /dev/zero | tr '\0' x)" | raw
expect 431 ''
printf '\0\1\2 nonsense\r\n\r\n' | raw
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n' /health '' /v1/models/run $'Connection: close\r\n' | raw
same "$(grep -o 'HTTP/1.1 200' reply | wc -l)" 2 "answers to two requests at once"
printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"prompt' $c >half
exec 4<>"/dev/tcp/127.0.0.1/$port"
cat half >&4
exec 4>&-
ask GET /health
expect 200 ok
for i in 1 2 3 4 5 6 7 8; do
    head -c 3000 /dev/urandom | raw
done
ask GET /health
expect 200 ok

# ---- clients that go away, and the end ----
long='{"prompt":["a","e","i","o","u","the","one","that"],"max_tokens":30,"n":128,"ignore_eos":true}'
printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n%s' $c "${#long}" "$long" >request
made=$(metric 'qkv_generation_tokens_total{model="run"}')
exec 4<>"/dev/tcp/127.0.0.1/$port"
cat request >&4
nothing_open() { [ "$(metric qkv_requests_open)" = 0 ]; }
something_open() { [ "$(metric qkv_requests_open)" != 0 ]; }
eventually something_open || fail "a request never begins"
exec 4>&-
eventually nothing_open || fail "a request without a client goes on"
made=$(($(metric 'qkv_generation_tokens_total{model="run"}') - made))
[ $made -lt 30592 ] || fail "all $made tokens were made for a client that went away"
[ "$(metric qkv_requests_gone_total)" -ge 1 ] || fail "a client that went away is not counted"
same "$(metric 'qkv_answers_running{model="run"}')" 0 "answers without a client"
ticks() { cut -d' ' -f14,15 "/proc/$server/stat"; }
idle() {
    local before
    before=$(ticks)
    sleep 1
    [ "$(ticks)" = "$before" ]
}
eventually idle || fail "an idle server takes time of the processor"
# Each piece of a stream has an offset for each of its tokens.
post $c '{"model":"run","prompt":"the","max_tokens":6,"temperature":0,"logprobs":1,"echo":true,"stream":true}'
numbers() { grep -oE "\"$1\": ?\[[^]]*\]" body | tr -cd ',\n'; }
same "$(numbers text_offset)" "$(numbers token_logprobs)" "offsets of the tokens of a stream"
grep -q '"text_offset": \[0, 1, 2, 3' body || fail "an echo has other offsets: $(cat body)"
[ "$(grep -c text_offset body)" -gt 3 ] || fail "no stream of tokens with log-probabilities"
(raw <request && mv reply last) &
last=$!
eventually something_open || fail "the last request never begins"
stop all
wait $last
grep -q '^HTTP/1.1 200' last && same "$(grep -o '"index"' last | wc -l)" 1024 "answers of the last request"
start='\{"time": "[0-9T:-]+", "id": "mine-7", "address": "127.0.0.1", "method": "POST"'
start="$start, \"path\": \"/v1/completions\", \"status\": 200, \"model\": \"run\""
grep -qE "^$start, \"prompt_tokens\": [1-9]" all.err ||
    fail "no line of the log"

# ---- languages ----
serve languages named languages --log none
ask GET /languages
expect 200 '^\[\{"code": "en", "name": "en", "targets": \["de"\]\}\]$'
ask GET '/languages?model=languages'
expect 200 '^\[\{"code": "auto", "name": "auto", "targets": \["en", "de"\]\}\]$' # no language is put beside a source
ask GET '/languages?model=%ff'
expect 400 'model is not UTF-8'
ask GET '/languages?model=nothing'
expect 404 'there is no model'
string='"([^"\]|\\.)*"'
for language in en de; do
    post /translate '{"model":"languages","q":"the queen","target":"'$language'"}'
    expect 200 translatedText
    grep -oE "\"translatedText\": $string" body | sed 's/^[^:]*: //' >$language.served
    try 0 "$QKV" translate languages -q --json "the queen" --target $language
    grep -oE "\[\{\"text\": $string" out | sed 's/^[^:]*: //' >$language.translated
    same "$(cat $language.served)" "$(cat $language.translated)" "a translation to $language"
done
! cmp -s en.served de.served || fail "languages change nothing"
post $c '{"model":"languages","prompt":"the queen","max_tokens":4,"temperature":0,"logprobs":1,"target":"de"}'
expect 200 '"tokens": \["__de__", .*"text_offset": \[0, 0, '
stop languages
serve ignoring languages named --ignore-fields --log none
post /translate '{"model":"languages","q":"the queen","source":"en","target":"de"}'
expect 200 translatedText
grep -oE "\"translatedText\": $string" body | sed 's/^[^:]*: //' >ignored.served
same "$(cat ignored.served)" "$(cat de.served)" "a translation whose source is ignored"
post /translate '{"model":"languages","q":"the queen","target":"fr"}'
expect 400 'the model has en, de'
post /translate '{"model":"named","q":"the queen","source":"fr"}'
expect 400 'the model has en'
stop ignoring
try 0 "$QKV" translate named -q "the queen" --source en --target DE
same "$(cat out)" "$("$QKV" translate named -q "the queen")" "a translation with languages"
refuse 1 'the target language is "fr", but the model has de' "$QKV" translate named a --target fr
try 0 "$QKV" translate named a --target de --force-first 3
refuse 1 'both choose the first token' "$QKV" translate languages a --target de --force-first 3
german=$(sed -nE 's/.*"id": ([0-9]+), "content": "__de__".*/\1/p' languages/tokenizer.json)
refuse 1 'the rules suppress it' "$QKV" translate languages a --target de --suppress "$german"
try 0 "$QKV" translate languages a --target de --max-tokens 1 --beam 2 --scores
same "$(cat out)" "$(printf '0.0000\t')" "a result that is the language alone"

# ---- keys and limits ----
printf 'first-key\nsecond-key\n' >keys.txt
serve keys run --json --keys keys.txt --each 1 --queue 1 --rows 1 --memory 400M --log none \
    --allow-origin https://a.example --allow-host qkv.example --draft run
plan='"memory": 419430400, "models": \[\{"id": "run", "rows": 1, '
grep -qE "^\{\"address\": \"http://127.0.0.1:[0-9]+\", $plan" keys.out || fail "no plan as JSON"
post $c '{"prompt":"a"}'
expect 401 'wants a key'
post $c '{"prompt":"a"}' 'Authorization: Bearer first-kex'
expect 401 'not one of'
post $c '{"prompt":"a","temperature":0,"max_tokens":24}' 'Authorization: Bearer second-key'
expect 200 text_completion
ask GET /metrics '' 'Authorization: Bearer second-key'
expect 200 'qkv_accepted_tokens_total\{model="run"\} [1-9]'
ask GET /health
expect 200 ok
printf 'GET /health HTTP/1.1\r\nHost: qkv.example\r\nConnection: close\r\n\r\n' | raw
expect 200 ok
ask OPTIONS $c '' 'Origin: https://a.example'
grep -q '^Access-Control-Allow-Origin: https://a.example$' head && grep -q '^HTTP/1.. 204' head || fail "no CORS"
key='Authorization: Bearer first-key'
metric() { ask GET /metrics '' "$key"; grep -m1 "^$1" body | sed 's/.* //'; }
printf 'POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %s\r\n\r\n%s' $c "$key" "${#long}" "$long" >request
exec 4<>"/dev/tcp/127.0.0.1/$port"
cat request >&4
eventually something_open || fail "a request never begins"
post $c '{"prompt":"a"}' "$key"
expect 429 'this key has 1 requests already.*rate_limit_error'
sed "s/first-key/second-key/" request >other
exec 5<>"/dev/tcp/127.0.0.1/$port"
cat other >&5
two_open() { [ "$(metric qkv_requests_open)" = 2 ]; }
eventually two_open || fail "a second request never begins"
post $c '{"prompt":"a"}' 'Authorization: Bearer second-key'
expect 503 '2 requests wait already; try again in [0-9]+ s.*unavailable_error'
grep -qE '^Retry-After: [0-9]+$' head || fail "status 503 without Retry-After"
exec 4>&- 5>&-
eventually nothing_open || fail "requests without clients go on"
post $c '{"prompt":["a","e","i","o","u","the","one","that"],"max_tokens":31,"n":128,"logprobs":20,"echo":true}' "$key"
expect 400 'the answers may take [0-9.]+ MiB of memory, and there are [0-9.]+ MiB for requests.*"param": "n"'
if [ "${SANITIZE:-0}" = 0 ]; then
    peak=$(awk '/^VmHWM/ {print $2}' "/proc/$server/status")
    [ "$peak" -lt $((400 * 1024)) ] || fail "--memory 400M has a peak of $peak KiB"
fi
stop keys
same "$(grep -vc '^qkv: ' keys.err)" 0 "lines of a log that is not wanted"
finish
