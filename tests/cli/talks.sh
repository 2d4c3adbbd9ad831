#!/usr/bin/env bash
# Talks, preferences and teachers on the command line: trained, resumed, evaluated, talked with, and refused.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_text 200 >text.txt
make_spec
try 0 train base 5 --quiet --tokenizer bytes --set context=96
cat >chat.jinja <<'END'
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
END
for i in $(seq 24); do
    echo '{"messages": [{"role": "user", "content": "'"$i"'"}, {"role": "assistant", "content": "'"$((i + 1))"'"}]}'
    echo '{"conversations": [{"from": "human", "value": "'"$i"'"}, {"from": "gpt", "value": "'"$((i + 1))"'"}]}'
    echo '{"prompt": "the king sees '"$i"'", "completion": " fools."}'
done >talks.jsonl
head -n 12 talks.jsonl >held-out.jsonl

# ---- talks: trained, kept template, resumed, evaluated ----
learn() { # learn OUT STEPS [OPTIONS]
    local out=$1 steps=$2
    shift 2
    try 0 "$QKV" train --from base --template chat.jinja --rate 1e-2 --warmup 0 --steps "$steps" --batch 8 \
        --eval-every 4 --out "$out" "$@"
}
learn whole 12 --chat talks.jsonl
has err '^data .*talks.jsonl, 65 talks \(.* tokens\) to train on, 7 to validate on$'
has err '^try: .*qkv chat whole$'
learn cut 12 --chat talks.jsonl --save-every 4 --keep 3
try 0 "$QKV" train --resume cut/checkpoint-8.safetensors --quiet
try 0 cmp whole/model.safetensors cut/model.safetensors
try 0 "$QKV" template whole --messages <(echo '[{"role": "user", "content": "hi"}]') --add-generation-prompt
has out '^user: hi$'
try 0 "$QKV" eval whole --chat held-out.jsonl --against base --json
has out '"loss": [0-9.]+, .*"other_loss": [0-9.]+, .*"lines": 12, "long_lines": 0'
less=$(sed -E 's/.*"loss": ([0-9.]+),.*"other_loss": ([0-9.]+),.*/\1 < \2/' out)
[ "$(awk "BEGIN {print ($less)}")" = 1 ] || fail "training on talks has not lowered their loss: $less"
try 0 "$QKV" eval base --chat held-out.jsonl --template chat.jinja
has out '^over +[0-9,]+ tokens of answers in 12 lines'
learn adapter 4 --chat talks.jsonl --lora rank=2,targets=q,v
has err '^try: .*qkv chat [^ ]*base --adapter adapter --template chat.jinja$'
try 0 "$QKV" eval base --adapter adapter --template chat.jinja --chat held-out.jsonl
# ---- packed files, several files, folders and patterns: the run of the plain file ----
mkdir parts
head -n 20 talks.jsonl >parts/1.jsonl
sed -n 21,45p talks.jsonl | gzip >parts/2.jsonl.gz
sed -n '46,$p' talks.jsonl >parts/3.jsonl
command -v zstd >/dev/null && zstd -q --rm parts/3.jsonl
third=$(ls parts/3.*)
learn folder 12 --chat parts/
learn pattern 12 --chat 'parts/*.jsonl*'
learn several 12 --chat parts/1.jsonl --chat parts/2.jsonl.gz --chat "$third"
for run in folder pattern several; do
    cmp -s whole/model.safetensors $run/model.safetensors || fail "$run: other weights than those of one plain file"
    same "$(losses $run)" "$(losses whole)" "losses of $run and of one plain file"
done
has folder/train.json '"chat": ".*/parts",'
has pattern/train.json '"chat": ".*/parts/\*[.]jsonl\*",'
head -n 6 held-out.jsonl | gzip >half.jsonl.gz
tail -n 6 held-out.jsonl >half.jsonl
try 0 "$QKV" eval whole --chat held-out.jsonl --json
grep -oE '"(loss|tokens|lines)": [^,]*' out >wanted
try 0 "$QKV" eval whole --chat half.jsonl.gz --chat half.jsonl --json
grep -oE '"(tokens|lines)": [^,]*' out | cmp -s - <(tail -n 2 wanted) || fail "eval of two files: $(cat out)"
# The batches are others than those of one file, so in bf16 the sums differ in the third digit.
checks=$((checks + 1))
grep -oE '"loss": [^,]*' out | cut -d' ' -f2 | paste - <(head -n 1 wanted | cut -d' ' -f2) |
    awk '{ exit !($1 > 0.998 * $2 && $1 < 1.002 * $2) }' || fail "eval of two files: loss $(cat out), not $(cat wanted)"
gzip -kf held-out.jsonl
for names in held-out.jsonl.gz 'held-out.jsonl.g*'; do
    try 0 "$QKV" eval whole --chat "$names" --json
    grep -oE '"(loss|tokens|lines)": [^,]*' out | cmp -s - wanted ||
        fail "eval --chat $names: $(cat out), not $(cat wanted)"
done
refuse 1 'held-out.jsonl:0.5 has a weight, but files that are read once have none' \
    "$QKV" eval whole --chat held-out.jsonl:0.5
refuse 1 'no file has a name like none\*.jsonl' "$QKV" eval whole --chat 'none*.jsonl'
# Tokens that are gone are made again of the same files, or it is said which one has changed or is cut.
try 0 "$QKV" train --resume several --steps 14 --extend decay --quiet
cp -r folder gone && cp -r folder cut-file && cp -r folder longer
rm gone/tokens.data.bin cut-file/tokens.data.bin
try 0 "$QKV" train --resume gone --steps 14 --extend decay --quiet
cmp -s several/model.safetensors gone/model.safetensors || fail "tokens of packed files made again: other weights"
cp parts/2.jsonl.gz before.gz
head -c -9 before.gz >parts/2.jsonl.gz
refuse 1 'parts/2.jsonl.gz:[0-9]+: the file is cut: .*cut-file/tokens.data.bin' \
    "$QKV" train --resume cut-file --steps 14 --extend decay --quiet
gzip -dc before.gz | sed '4s/fools/kings/' | gzip >parts/2.jsonl.gz
refuse 1 'cut-file/tokens.data.bin is missing and .*parts/2.jsonl.gz has changed since the run began' \
    "$QKV" train --resume cut-file --steps 14 --extend decay --quiet
try 0 "$QKV" train --resume longer --steps 14 --extend decay --quiet # which has its tokens
cmp -s several/model.safetensors longer/model.safetensors || fail "a file that has changed has changed the run"
cp before.gz parts/2.jsonl.gz

# ---- preferences and a teacher ----
for i in $(seq 20); do echo '{"prompt": "'"$i"':", "chosen": " king", "rejected": " fool"}'; done >pairs.jsonl
try 0 "$QKV" train --from base --preferences pairs.jsonl --preference-loss ipo --metric accuracy --steps 6 \
    --warmup 0 --batch 6 --eval-every 3 --out better
has err 'validation loss [0-9.]+, accuracy [0-9.]+'
[ -s better/reference.safetensors ] || fail "the run has not kept the reference"
head -n 7 pairs.jsonl | gzip >some.jsonl.gz
tail -n +8 pairs.jsonl | gzip >someothers.jsonl.gz
try 0 "$QKV" train --from base --preferences 'some*.jsonl.gz' --preference-loss ipo --metric accuracy --steps 6 \
    --warmup 0 --batch 6 --eval-every 3 --out packed
cmp -s better/model.safetensors packed/model.safetensors || fail "preferences of packed files: other weights"
try 0 "$QKV" train --from base --data text.txt --teacher whole --steps 3 --warmup 0 --batch 2 --quiet --out pupil
has pupil/train.json '"teacher": \{"bytes": [0-9]+, "hash": "[0-9a-f]{16}"\}'
cp base/model.safetensors whole/model.safetensors
refuse 1 'the weights of the teacher .*whole are not those that the run began with' \
    "$QKV" train --resume pupil --steps 5 --quiet

# ---- what is refused ----
bad() { # bad CODE PATTERN [OPTIONS]
    local code=$1 pattern=$2
    shift 2
    refuse "$code" "$pattern" "$QKV" train --from base --warmup 0 --steps 2 --batch 2 --quiet --out refused "$@"
    [ ! -e refused ] || fail "a run that was refused has left its folder"
}
bad 1 'talks.jsonl:1: a talk needs a chat template, and the model has none; give a file of one' --chat talks.jsonl
echo '{"messages": [{"role": "user", "content": "a"}]}' >silent.jsonl
bad 1 'silent.jsonl:1: no turn of the assistant counts' --chat silent.jsonl --template chat.jinja
echo '{"text": "a"}' >keyless.jsonl
bad 1 'keyless.jsonl:1: there is no key "messages" or "conversations"' --chat keyless.jsonl --template chat.jinja
echo '{"prompt": "a", "chosen": "b", "rejected": "b"}' >equal.jsonl
bad 1 'equal.jsonl:1: "chosen" and "rejected" are the same' --preferences equal.jsonl
gzip -c keyless.jsonl >keyless.jsonl.gz
bad 1 'keyless.jsonl.gz:1: there is no key "messages" or "conversations"' --chat keyless.jsonl.gz --template chat.jinja
head -c 30 keyless.jsonl.gz >half-keyless.jsonl.gz
bad 1 'half-keyless.jsonl.gz:1: the file is cut' --chat half-keyless.jsonl.gz --template chat.jinja
bad 1 'talks.jsonl:2 has a weight; only texts \(data\) are mixed by weights: leave it out' --chat talks.jsonl:2
bad 1 'no file has a name like none\*.jsonl' --chat 'none*.jsonl'
bad 1 'none.jsonl.gz: No such file' --chat none.jsonl.gz
bad 2 'preference-beta is given, but only preferences' --chat talks.jsonl --template chat.jinja --preference-beta 1
try 0 train other 3 --quiet --tokenizer chars
bad 1 'the teacher .*other has another vocabulary' --data text.txt --teacher other
refuse 1 'other has another tokenizer, so its loss a token is about other tokens' \
    "$QKV" eval whole --chat held-out.jsonl --against other
try 0 train short 3 --quiet --tokenizer bytes --set context=32
printf '{"prompt": "%050d", "completion": " fools."}\n' 7 | cat - held-out.jsonl >mixed.jsonl
refuse 1 '0 of the lines are longer than the context of the first model, 1 than that of short' \
    "$QKV" eval whole --chat mixed.jsonl --against short --long skip
finish
