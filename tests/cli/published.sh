#!/usr/bin/env bash
# Uses of published folders: the folder determines the end of a text and the choice of tokens, also after training from
# it and after export.
. "$(dirname "$0")/common.sh"
golden=$SOURCE/tests/golden/hf

# ---- greedy, and end tokens ----
made() { try 0 "$QKV" generate "$1" --ids -q --prompt "5 6 7" -n 12 --precision fp32 "${@:2}"; }
made "$golden/gpt2" --temp 0
cp out greedy
made "$golden/gpt2"
cmp -s out greedy || fail "without a generation_config.json it is not greedy"
read -ra ids <greedy
[ ${#ids[@]} -ge 6 ] || fail "only ${#ids[@]} ids to end at"
copy() { # copy NAME GENERATION_CONFIG: the folder with another generation_config.json
    rm -rf "$1"
    cp -r "$golden/gpt2" "$1"
    [ -z "$2" ] || printf '%s' "$2" >"$1/generation_config.json"
}
first() { # the ids before the first of any of these
    local id end
    for id in "${ids[@]}"; do
        for end in "$@"; do [ "$id" != "$end" ] || return; done
        printf '%s\n' "$id"
    done
}
copy ended "{\"eos_token_id\": ${ids[4]}}"
made ended
same "$(tr ' ' '\n' <out)" "$(first "${ids[4]}")" "it ends at the id of generation_config.json"
copy several "{\"eos_token_id\": [99999, ${ids[4]}, ${ids[3]}, -1]}"
made several
same "$(tr ' ' '\n' <out)" "$(first "${ids[3]}" "${ids[4]}")" "it ends at any of several ids"
copy config ''
sed -i "s/\"eos_token_id\": 0/\"eos_token_id\": [50256, ${ids[2]}]/" config/config.json
made config
same "$(tr ' ' '\n' <out)" "$(first "${ids[2]}")" "it ends at the id of config.json"

# ---- without a tokenizer: one message, which says why; none where there is no text ----
refuse 1 'the model has no tokenizer, so it reads no text: .*gpt2 has no tokenizer: no tokenizer.json, no vocab.json' \
    "$QKV" generate "$golden/gpt2" --prompt "the king" --precision fp32 -q
refuse 1 'the model has no tokenizer, so it reads no text: .*, or give token ids$' \
    "$QKV" attend "$golden/gpt2" --prompt "the king" --precision fp32
made "$golden/gpt2"
[ ! -s err ] || fail "ids of a model without a tokenizer: $(cat err)"

# ---- choosing ----
copy chosen '{"do_sample": true, "temperature": 3.0, "top_k": 40, "top_p": 0.9, "eos_token_id": null}'
made chosen --seed 3
cp out said
made "$golden/gpt2" --seed 3 --temp 3 --top-k 40 --top-p 0.9
cmp -s out said || fail "the settings of generation_config.json give another text than the options that say the same"
cmp -s out greedy && fail "do_sample chooses the likeliest"
made chosen --temp 0
cmp -s out greedy || fail "--temp 0 does not make it greedy"
copy penal '{"repetition_penalty": 1.7}'
made penal
cp out said
made "$golden/gpt2" --temp 0 --repeat-penalty 1.7 --repeat-last 0
cmp -s out said || fail "repetition_penalty is not that of --repeat-penalty over all tokens"
for fault in '"top_p": 2' '"temperature": "hot"' '"do_sample": 1' '"eos_token_id": "</s>"' '"top_k": -3'; do
    copy faulty "{$fault}"
    key=${fault%%:*}
    refuse 1 "generation_config.json: ${key//\"/}" "$QKV" generate faulty --ids --prompt 5
done
copy faulty '{'
refuse 1 'generation_config.json' "$QKV" generate faulty --ids --prompt 5

# ---- training from one, in shards, and export ----
make_text 200 >text.txt
cp -r "$golden/llama_sharded" from
{
    printf '{"version": "1.0", "added_tokens": [{"id": 0, "content": "<stop>", "single_word": false, "lstrip": false, '
    printf '"rstrip": false, "normalized": false, "special": true}], "normalizer": null, "pre_tokenizer": {"type": '
    printf '"WhitespaceSplit"}, "post_processor": null, "decoder": null, "model": {"type": "WordLevel", "vocab": {'
    printf '"<stop>": 0, "<unk>": 1'
    tr ' ' '\n' <text.txt | sort -u | awk 'NF {printf ", \"%s\": %d", $1, ++n + 1}'
    printf '}, "unk_token": "<unk>"}}\n'
} >from/tokenizer.json
echo '{"eos_token": {"content": "<stop>"}}' >from/tokenizer_config.json
echo '{"eos_token_id": [7, 3], "do_sample": false}' >from/generation_config.json
try 0 "$QKV" train --from from --data text.txt --out run --steps 4 --batch 2 --threads 1 --eval-every 2 \
    --eval-batches 1 \
    --save-every 2 --quiet
try 0 "$QKV" train --from from --set decoder.residual_dropout=0.2 --data text.txt --out dropped --steps 1 --batch 2 \
    --threads 1 --warmup 0 \
    --eval-batches 1 --quiet
has dropped/config.json '"residual_dropout": 0.2'
kept() {
    has "$1/tokenizer_config.json" '"eos_token": "<stop>"'
    tr -d ' \n' <"$1/generation_config.json" >"$1.said"
    has "$1.said" '"eos_token_id":\[7,3\],"do_sample":false'
}
kept run
try 0 resume run --steps 6 --quiet
kept run
made run
cp out greedy
made run --temp 0
cmp -s out greedy || fail "what was trained from a published model is not greedy"
try 0 "$QKV" export run --dtype f32 -o small
kept small
made small
cmp -s out greedy || fail "another text after export"
try 0 "$QKV" export run --to huggingface --dtype f32 -o back
kept back
made back
cmp -s out greedy || fail "another text after export to a published folder"
sed -i 's/00002-of-00003/00009-of-00003/' from/model.safetensors.index.json
refuse 1 'model-00009-of-00003.safetensors is missing' "$QKV" train --from from --data text.txt --out other --steps 1
[ ! -e other ] || fail "a failed start leaves a folder"

# ---- targets begin as the folder says, and examples need no tokenizer ----
cp -r "$golden/t5_v1_1" seq
rm -f seq/case.safetensors
{
    printf \
        '{"version": "1.0", "added_tokens": [{"id": 1, "content": "t1", "single_word": false, "lstrip": false, "rstrip": '
    printf \
        'false, "normalized": false, "special": true}], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, '
    printf '"post_processor": null, "decoder": null, "model": {"type": "WordLevel", "unk_token": "t3", "vocab": {'
    for id in $(seq 0 127); do printf '%s"t%d": %d' "$([ "$id" = 0 ] || echo ', ')" "$id" "$id"; done
    printf '}}}\n'
} >seq/tokenizer.json
echo '{"eos_token": "t1"}' >seq/tokenizer_config.json
begun() { # begun START [MORE]: what comes when targets begin with START
    echo "{\"decoder_start_token_id\": $1, \"eos_token_id\": 1${2:-}}" >seq/generation_config.json
    try 0 "$QKV" translate seq 't5 t6 t7' --max-tokens 9 --quiet --precision fp32
    tr ' ' '\n' <out >"begun.$1"
}
begun 0
begun 9 && cmp -s begun.0 begun.9 && fail "decoder_start_token_id changes nothing"
read -r likeliest <begun.0
begun 0 ", \"bad_words_ids\": [[${likeliest#t}]]"
grep -qx "$likeliest" begun.0 && fail "a token of bad_words_ids is chosen"
begun 0 ', "forced_bos_token_id": 77'
same "$(head -1 begun.0)" t77 "forced_bos_token_id comes first"
printf 't5 t6\tt7 t8\nt9\tt10 t11\n' >pairs.tsv
try 0 "$QKV" train --from seq --pairs pairs.tsv --valid pairs.tsv --out tuned --steps 4 --save-every 2 --batch 2 \
    --threads 1 \
    --eval-every 2 --quiet
has tuned/config.json '"vocab": 128'
has tuned/generation_config.json '"decoder_start_token_id": 0'
try 0 "$QKV" train --resume tuned --steps 6 --quiet
try 0 "$QKV" eval tuned --pairs pairs.tsv
echo '{"bad_words_ids": [5, 6]}' >seq/generation_config.json
refuse 1 'bad_words_ids is not a list of words' "$QKV" info seq
try 0 "$QKV" train --from "$golden/gpt2" --examples "$golden/gpt2/case.safetensors" --in-order --batch 2 \
    --valid-fraction 0 \
    --steps 2 --threads 1 --rates '*embed*=0.5' --out ids --quiet
has ids/train.json '"in_order": true'
has ids/train.json '"rates": "\*embed\*=0.5"'

# ---- an encoder of frames with fewer positions than its decoder ----
whisper=$SOURCE/tests/golden/hf_random/whisper_11_000
try 0 "$QKV" info "$whisper"
try 0 "$QKV" info "$whisper" --ranks 2
try 0 "$QKV" info "$whisper" --context 3

# ---- vectors of texts, as modules.json makes them ----
sentences=$SOURCE/tests/golden/hf/sentences
try 0 "$QKV" embed "$sentences" --input "$sentences/lines.txt" --text
has err '1 of 6 lines has more tokens than the model.s maximum of 8 and was cut.*keep-start'
head -3 out >said
head -3 "$sentences/lines.txt" >short.txt
cp -r "$sentences" plain
rm plain/modules.json
try 0 "$QKV" embed plain --input short.txt --text --pool mean --normalize
cmp -s out said || fail "modules.json makes other vectors than the options that say the same"
try 0 "$QKV" embed "$sentences" --input short.txt --text --pool max
cp out said
try 0 "$QKV" embed plain --input short.txt --text --pool max --normalize
cmp -s out said || fail "--pool does not win over modules.json"
try 0 "$QKV" embed "$sentences" --input short.txt --text --precision fp32
cp out said
paste <(printf 'x\ny\nx\n') short.txt >labeled.tsv
try 0 "$QKV" train --from "$sentences" --labeled labeled.tsv --valid labeled.tsv --new-head --freeze 'encoder.*' \
    --out vectors --steps 4 \
    --batch 2 --threads 1 --eval-every 2 --save-every 2 --quiet
try 0 "$QKV" train --resume vectors --steps 6 --quiet
try 0 "$QKV" embed vectors --input short.txt --text --precision fp32
cmp -s out said || fail "a run does not keep what modules.json says"
mkdir other && echo '[]' >other/modules.json
refuse 1 'other/modules.json' "$QKV" export plain --dtype f32 -o other
refuse 1 'other/modules.json' "$QKV" export "$sentences" --dtype f32 -o other
[ ! -e other/config.json ] || fail "a refused export writes files"
refuse 1 'line 6 has [0-9]+ tokens' "$QKV" embed "$sentences" --input "$sentences/lines.txt" --text --long error

# ---- answers to questions ----
squad=$SOURCE/tests/golden/hf/questions
try 0 "$QKV" classify "$squad" --pairs --input "$squad/pairs.tsv" --precision fp32
has out '^text of three kings.0\.2985$'
printf 'where is the ship\ta ship at sea reads a line of text of three kings\n\n' >pairs.tsv
try 0 "$QKV" classify "$squad" --pairs --input pairs.tsv --json --precision fp32
has out '"answer": "text of three kings", "begin": 30, "end": 49, "score": 0.2984'
has out '"answer": null'
try 0 "$QKV" export "$squad" --dtype f32 -o answers
try 0 "$QKV" classify answers --pairs --input pairs.tsv --precision fp32
has out '^text of three kings.0\.2985$'
long="the king $(seq -s ' ' 60)" # nothing is cut without a word
refuse 1 '^qkv: pair 1 has [0-9]+ tokens, but the model.s context is 48;' \
    "$QKV" classify "$squad" --pairs "who reads" "$long"
try 0 "$QKV" classify "$squad" --pairs "who reads" "$long" --long keep-start
has err '^qkv: 1 of 1 pairs has more tokens than the model.s context of 48 and was cut to the first tokens'
refuse 1 'only the best answer is printed' "$QKV" classify "$squad" --pairs --input pairs.tsv --top 2

# ---- dense layers and prompts, as EmbeddingGemma's folder has them ----
embeddings=$SOURCE/tests/golden/hf/embeddings
try 0 "$QKV" embed "$embeddings" "the king" --text --precision fp32
cp out plain.txt
try 0 "$QKV" embed "$embeddings" "title: none | text: the king" --text --precision fp32
cp out document.txt
! cmp -s plain.txt document.txt || fail "a prompt changes nothing"
try 0 "$QKV" embed "$embeddings" "the king" --text --prompt-name document --precision fp32
cmp -s out document.txt || fail "--prompt-name is not the text before a line"
printf 'two\nthe king\n' >among.txt
try 0 "$QKV" embed "$embeddings" --nearest "the king" --among among.txt --query-prompt-name document --precision fp32
has out '^1\.0000.2.the king$'
try 0 "$QKV" embed "$embeddings" --nearest "the king" --among among.txt --precision fp32
hasnt out '^1\.0000'
try 0 "$QKV" embed "$embeddings" --nearest "the king" --among among.txt --query-prompt-name '' --prompt-name '' \
    --precision fp32
has out '^1\.0000.2.the king$'
refuse 1 'has no prompt "nobody"; it has query, document, empty' "$QKV" embed "$embeddings" two --text \
    --prompt-name nobody
refuse 2 'a prompt for the text of --nearest' "$QKV" embed "$embeddings" two --text --query-prompt-name query
try 0 "$QKV" train --from "$embeddings" --labeled labeled.tsv --valid labeled.tsv --new-head --freeze 'decoder.*' \
    --out dense --steps 2 \
    --batch 2 --threads 1 --quiet
try 0 "$QKV" embed dense "the king" --text --prompt-name document --precision fp32
cmp -s out document.txt || fail "a run does not keep dense layers or prompts"
finish
