#!/usr/bin/env bash
# Talks: "qkv chat" from a pipe and over files of talks, and "qkv generate --chat", with a model that has learnt one
# talk.
. "$(dirname "$0")/common.sh"
cat >spec.json <<'END'
{"format": "qkv", "version": 1, "d_model": 32, "context": 96,
 "decoder": {"layers": 2, "attention": {"heads": 4}, "ffn": {"d_ff": 64}}}
END
for _ in $(seq 200); do
    printf 'User: hi\nAssistant: <think>so so</think> hello you\nUser: bye\nAssistant: see you\n'
done >text.txt
try 0 "$QKV" train --spec spec.json --data text.txt --tokenizer bytes --steps 300 --batch 8 --rate 1e-2 --warmup 20 \
    --precision fp32 --threads 1 --out run --quiet

# say LINES OPTIONS...: a talk of these lines
say() {
    local lines=$1
    shift
    printf "$lines" | "$QKV" chat run --temp 0 --threads 1 "$@" >out 2>err
    code=$?
    checks=$((checks + 1))
}

# ---- lines ----
say 'hi\nbye\n'
same $code 0 "the exit code of a talk"
same "$(cat out)" $'hello you\nsee you' "the answers of a talk, whose thoughts are hidden"
has err '^qkv: run has no chat template: '
has err '^qkv: the talk is plain text: "User: \.\.\." and "Assistant: \.\.\."$'
say 'hi\n\n/stats\nbye\n/stats\n'
same "$(grep -c '^made ' out)" 2 "the statistics of two answers"
# The first answer reads everything. Its thoughts are no part of the talk afterwards, so the second one keeps what
# stands before them: "User: hi\nAssistant: ", and what it reads is the rest.
has out '^read +19 tokens in .*; 0 were in the cache$'
has out '^read +30 tokens in .*; 20 were in the cache$'
has out '^ended by +stop$'
say 'hi\n' --thinking show
same "$(cat out)" $'<think>so so</think>\n\nhello you' "an answer with its thoughts"
say 'hi\n' --thinking dim
same "$(head -1 out)" '<think>so so</think>' "dim thoughts where there are no colours"
say '"""\nhi\n"""\n/again\n'
same "$(cat out)" $'hello you\nhello you' "a text in fences, and its answer again"
say '//hi\n'
same $code 0 "the exit code of a text that begins with a slash"
[ -s out ] || fail "a text that begins with a slash has no answer"
say 'hi\n' -n 3 --thinking show
has err '^qkv: the answer was cut after 3 tokens '
same "$(cat out)" '<t' "three tokens of an answer"

# ---- commands ----
say '/again\n/stats\n/new\n/system\n/foo\n/sav x\n/save\n/load\n/load nowhere\n/set temprature=1\n/set
/set top-p=2
/set thinking=loud\n/set when-full=never\n/set tokens=0\n/help\n/exit\nhi\n'
same $code 0 "the exit code of commands that cannot be done"
for line in 'there is no answer yet' 'no text of the system' 'no command /foo' 'did you mean /save' \
    'name a file: /save' 'name a file: /load' 'nowhere' 'did you mean temperature' \
    'write /set NAME=VALUE' 'top-p cannot be "2"' \
    'thinking cannot be "loud"' 'when-full cannot be "never"' 'tokens cannot be "0"'; do
    has err "$line"
done
has out '^  /stats +prints'
hasnt out 'hello'
say '/set tokens=2\n/set thinking=show\n/set seed=3\n/set temperature=0.5\n/set top-k=1\n/set template.x=1\nhi\n'
has err 'cut after 2 tokens'
say '/system Be brief.\n/system\nhi\n/save talk.json\n/save talk.json\n/save text.txt\n/new\n/system
/load talk.json\n/again\n'
has out '^Be brief\.$'
same "$(grep -c '^qkv: saved 3 messages in talk.json$' err)" 2 "a talk that is saved twice"
has err 'text\.txt exists'
has err '^qkv: the talk has 3 messages now$'
has talk.json '"content": "hi"'
has text.txt '^User: hi$'

# ---- a context that is full ----
say 'hi\nbye\nhi\nbye\nhi\nbye\n'
same $code 1 "the exit code of a talk that is longer than the context"
has err '^qkv: the talk has [0-9]+ tokens, and the context holds 96: '
say 'hi\nbye\nhi\nbye\nhi\nbye\n' --when-full forget-oldest
same $code 0 "the exit code of a talk that forgets"
same "$(cat out)" $'hello you\nsee you\nhello you\nsee you\nhello you\nsee you' "the answers of a talk that forgets"
has err '^qkv: the context is full: the 2 oldest messages are forgotten$'
say 'hi\n' --context 30
has err '^qkv: the context of 30 tokens is full$'

# ---- talks in JSON ----
cat >talks.jsonl <<'END'
[{"role": "user", "content": "hi"}]

{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello you"},
END
try 1 "$QKV" chat run --input talks.jsonl --threads 1
has err '^qkv: line 3: no JSON, at line 1, column [0-9]+'
has err '^qkv: line 3 of talks\.jsonl was not answered$'
cat >talks.jsonl <<'END'
[{"role": "user", "content": "hi"}]
END
hi='{"role": "user", "content": "hi"}' bye='{"role": "user", "content": "bye"}'
echo "{\"messages\": [$hi, {\"role\": \"assistant\", \"content\": \"hello you\"}, $bye]}" >>talks.jsonl
try 0 "$QKV" chat run --input talks.jsonl --json --temp 0 --threads 1
same "$(sed -n 's/, "ended_by.*//p' out | sed 's/"role":"assistant",//')" \
    '{"message": {"content":"hello you","reasoning_content":"so so"}
{"message": {"content":"see you"}' "answers as JSON"
has out '"ended_by": "stop", "prompt_tokens": 19, "cached_tokens": 0, "tokens": [0-9]+, "seed": [0-9]+\}$'
has out '"prompt_tokens": 50, "cached_tokens": 20, '
for bad in '{}' '[]' '[{"content": "hi"}]' '[{"role": "user"}]' '"hi"'; do
    echo "$bad" >bad.jsonl
    try 1 "$QKV" chat run --input bad.jsonl --threads 1
    has err '^qkv: line 1 of bad.jsonl was not answered$'
done

# ---- templates ----
cat >chat.jinja <<'END'
{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}
{{ m.role | capitalize }}: {{ m.content }}
{% endfor %}
{% if add_generation_prompt %}Assistant:{{ ' <think>' if thinking else '' }}{% endif %}
END
say 'hi\n' --template chat.jinja --stop $'\nUser'
same "$(cat out)" 'hello you' "an answer to a rendered talk"
hasnt err 'plain text'
say 'hi\n' --template chat.jinja --stop $'\nUser' --set thinking=true --json
has out '"content":"hello you","reasoning_content":"so so"'
say 'hi\n' --template chat.jinja --system brief
same $code 1 "the exit code of a talk that the template refuses"
has err '^qkv: chat.jinja, line [0-9]+: no system here$'
try 2 "$QKV" chat run --set thinking </dev/null
has err 'write KEY=VALUE'
refuse 1 'nowhere' "$QKV" chat run --template nowhere

# ---- generate ----
try 0 "$QKV" generate run --chat hi --temp 0 --threads 1 -q
same "$(cat out)" ' <think>so so</think> hello you' "generate --chat"
try 0 "$QKV" generate run --chat hi --temp 0 --threads 1 --json -q
has out '"prompt": "User: hi\\nAssistant:", "prompt_tokens": 19,$'
has out '"ended_by": "stop"'
try 0 "$QKV" generate run --chat hi --system brief --temp 0 --threads 1 -n 1 --json -q
has out '"prompt": "brief\\n\\nUser: hi\\nAssistant:"'
refuse 2 'prompt has no effect' "$QKV" generate run --chat hi --prompt a
refuse 2 'system has no effect' "$QKV" generate run --system a

# ---- the command line ----
refuse 2 'name a model' "$QKV" chat
refuse 2 'thinking is "loud"; it must be show, dim or hide' "$QKV" chat run --thinking loud
refuse 2 'when-full is "x"; it must be stop or forget-oldest' "$QKV" chat run --when-full x
refuse 2 'thinking has no effect' "$QKV" chat run --json --thinking show
refuse 1 'nowhere' "$QKV" chat nowhere
rm -f out err
(
    exec env --default-signal=INT "$QKV" chat run --temp 5 --seed 1 --threads 1 --context 96 -n 1000000 \
        < <(while :; do echo hi; echo /new; done) >out 2>err
) &
child=$!
eventually test -s out
kill -INT $child
wait $child
same $? 130 "the exit code of a talk after Ctrl-C"
finish
