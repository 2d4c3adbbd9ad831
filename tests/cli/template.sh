#!/usr/bin/env bash
# qkv template: the text of a talk by the template of a folder, a GGUF file or a file; and templates that come along
# with runs and exports.
# labels: quick
. "$(dirname "$0")/common.sh"

cat >chat.jinja <<'END'
{{ bos_token }}{% for m in messages %}
[{{ m.role }}] {% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}
{%- else %}{{ m.content }}{% endif +%}
{% endfor %}
{%- if tools %}tools {{ tools | tojson }}{% endif %}
{%- if thinking is defined %}thinking {{ thinking }}{% endif %}
{%- if add_generation_prompt %}[assistant] {% endif %}
END
echo '[{"role": "user", "content": "Grüße"}, {"role": "assistant", "content": "ja"}]' >talk.json
echo '{"messages": [{"role": "user", "content": "a"}], "tools": [{"b": 1}], "thinking": 5}' >more.json

# ---- a file ----
template() { try 0 "$QKV" template --template chat.jinja "$@"; }
template --messages talk.json --bos '<s>'
same "$(cat out; echo .)" "$(printf '<s>[user] Grüße\n[assistant] ja\n.')" "the text of a talk"
template --messages talk.json --add-generation-prompt
same "$(tail -1 out)" '[assistant] ' "the beginning of an answer"
template --messages more.json
same "$(cat out)" "$(printf '[user] a\ntools [{"b": 1}]thinking 5')" "an object with tools and variables"
for pair in false=False null=None 7=7 '[1]=[1]' '"7"=7' word=word; do
    template --messages more.json --set "thinking=${pair%=*}"
    same "$(tail -1 out)" "tools [{\"b\": 1}]thinking ${pair#*=}" "a variable of the command line"
done
template --messages talk.json --json
has out '"text": ?"\[user\] Grüße\\n\[assistant\] ja\\n"'
has out '"generation": ?\[\[27, ?29\]\]'
"$QKV" template --template chat.jinja <talk.json >out 2>err || fail "a talk from standard input"
has out '^\[user\] Grüße$'
"$QKV" template --template chat.jinja --messages - <talk.json >out 2>err || fail "a talk from standard input, named"
has out '^\[assistant\] ja$'

# ---- what is wrong ----
refuse 2 'name a model' "$QKV" template --messages talk.json
refuse 2 '--ids .*tokenizer of a model' "$QKV" template --template chat.jinja --messages talk.json --ids
refuse 2 '--name .*one template' "$QKV" template --template chat.jinja --name rag --messages talk.json
refuse 2 'write KEY=VALUE' "$QKV" template --template chat.jinja --set thinking --messages talk.json
refuse 2 'begins as JSON does, but it is no JSON' "$QKV" template --template chat.jinja --set 'thinking=[1' \
    --messages talk.json
refuse 1 'missing\.json' "$QKV" template --template chat.jinja --messages missing.json
refuse 1 'missing\.jinja' "$QKV" template --template missing.jinja --messages talk.json
echo '[{"content": "a"}]' >bad.json
refuse 1 'message 1 has no "role"' "$QKV" template --template chat.jinja --messages bad.json
echo '[{"role": "user", "content": [{"type": "image"}]}]' >bad.json
refuse 1 'message 1 has a part of type image' "$QKV" template --template chat.jinja --messages bad.json
echo '[{"role"' >bad.json
refuse 1 'the talk is not valid JSON: line 2' "$QKV" template --template chat.jinja --messages bad.json
echo '{% if x %}' >bad.jinja
refuse 1 'bad.jinja, line 1: Unexpected end of template' "$QKV" template --template bad.jinja --messages talk.json
echo "{{ raise_exception('no way') }}" >bad.jinja
refuse 1 'bad.jinja, line 1: no way' "$QKV" template --template bad.jinja --messages talk.json

# ---- a run, and what comes along ----
make_spec
make_text 60 >text.txt
try 0 train run 3 --quiet --tokenizer bytes
refuse 1 'run has no chat template: .*name the file of one' "$QKV" template run --messages talk.json
try 0 "$QKV" template run --template chat.jinja --messages talk.json --ids
cp out ids
try 0 "$QKV" tokenize run --ids "$(cat ids)"
same "$(cat out)" "$(printf '[user] Grüße\n[assistant] ja')" "the text of the ids"
cp chat.jinja run/chat_template.jinja
mkdir run/additional_chat_templates
echo 'rag {{ eos_token }}' >run/additional_chat_templates/rag.jinja
echo '{"eos_token": "</s>"}' >run/tokenizer_config.json
try 0 "$QKV" template run --messages talk.json
cp out text
try 0 "$QKV" template run --name rag --messages talk.json
same "$(cat out)" 'rag </s>' "a template by its name"
refuse 1 'run has no chat template none; it has default, rag' "$QKV" template run --name none --messages talk.json
try 0 "$QKV" export run --to gguf -o run.gguf
try 0 "$QKV" export run.gguf --to huggingface --dtype f32 -o published
try 0 "$QKV" train --from published --data text.txt --steps 1 --batch 1 --out tuned --quiet
for model in run.gguf published tuned; do
    try 0 "$QKV" template $model --messages talk.json
    cmp -s out text || fail "$model has another template"
    try 0 "$QKV" template $model --name rag --messages talk.json
    has out '^rag '
done
finish
