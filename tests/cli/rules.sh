#!/usr/bin/env bash
# Rules for tokens and searches: those of generation_config.json, or of an older config.json, and those of the command
# line; the texts are those of transformers (tests/golden/beams). What the folder says stays in runs and exports.
# labels: numeric
. "$(dirname "$0")/common.sh"
golden=$SOURCE/tests/golden/beams

copy() { # copy NAME MODEL SETTINGS
    rm -rf "$1"
    cp -r "$golden/$2" "$1"
    rm "$1/cases.json"
    [ -z "$3" ] || printf '%s' "$3" >"$1/generation_config.json"
}
settings() { sed -n 's/^ {"settings": \(.*\), "lines": \[$/\1/p' "$golden/$1/cases.json" | sed -n "$2p"; }
case_of() { # case_of MODEL N: the lines of a case
    awk -v n="$2" '/^ {"settings"/ { i++; next } i == n && /^  {/' "$golden/$1/cases.json"
}
words() { sed 's/.*"'"$1"'": \[\([^]]*\)\].*/\1/; s/, / /g; s/\([0-9][0-9]*\)/t\1/g'; }
made() { try 0 "$QKV" translate "$@" --quiet --precision fp32; }

# ---- the folder ----
for model in t5 bart marian; do
    for n in $(seq "$(grep -c '^ {"settings"' "$golden/$model/cases.json")"); do
        copy folder $model "$(settings $model "$n")"
        case_of $model "$n" >lines
        words source <lines | sed 's/ [^ ]*$//' >sources.txt # without the end
        # lines in which rounding decides count apart
        sed 's/.*"gap": \([0-9.e-]*\).*/\1/' lines | awk '{ print ($1 < 1e-5) }' >near
        made folder --input sources.txt
        paste -d '|' near <(tr -d ' ' <out) | sed -n 's/^0|//p' >texts
        paste -d '|' near <(words ids <lines | tr -d ' ') | sed -n 's/^0|//p' >expected
        cmp -s texts expected || fail "$model, settings $n: other texts than those of transformers"
    done
done

# ---- the command line says the same ----
source="t30 t11 t8 t25"
starts='"decoder_start_token_id": 2, "eos_token_id": 2'
copy said bart "{$starts, \"num_beams\": 4, \"max_length\": 12, \"forced_bos_token_id\": 0, \"forced_eos_token_id\": 2}"
copy plain bart "{$starts}"
made said "$source"
cp out said.txt
made plain "$source" --beam 4 --max-tokens 11 --force-first 0 --force-last 2
cmp -s out said.txt || fail "the options give another text than the keys of beams and forced tokens"
made plain "$source" --beam 4
cmp -s out said.txt && fail "the keys change nothing"
copy said bart "{$starts, \"num_beams\": 5, \"early_stopping\": \"never\", \"length_penalty\": 0.3,
    \"max_new_tokens\": 9, \"min_new_tokens\": 4, \"no_repeat_ngram_size\": 2, \"encoder_no_repeat_ngram_size\": 1,
    \"encoder_repetition_penalty\": 1.5, \"repetition_penalty\": 1.2, \"suppress_tokens\": [7, 11],
    \"begin_suppress_tokens\": [4, 5], \"bad_words_ids\": [[6], [8, 9]]}"
made said "$source" --scores
cp out said.txt
made plain "$source" --scores --beam 5 --early-stopping never --length-penalty 0.3 --max-tokens 9 --min-tokens 4 \
    --no-repeat 2 --source-no-repeat 1 --source-penalty 1.5 --repeat-penalty 1.2 --suppress "7 11" \
    --suppress-first "4, 5" --bad-words "6, 8 9"
cmp -s out said.txt || fail "the options give another text than all keys"
made said "$source" --beam 1
made plain "$source" --max-tokens 9 --min-tokens 4 --no-repeat 2 --source-no-repeat 1 --source-penalty 1.5 \
    --repeat-penalty 1.2 --suppress "7 11" --suppress-first "4, 5" --bad-words "6, 8 9"
cp out greedy
made said "$source" --beam 1
cmp -s out greedy || fail "the keys give another greedy text than the options"

# ---- a pair of lines is searched for as in translate ----
made said "$source"
printf '%s\t%s\n' "$source" "$(cat out)" >pair.tsv
try 0 "$QKV" eval said --pairs pair.tsv --quiet --precision fp32
has out '^exact +100\.00 %'
try 0 "$QKV" eval plain --pairs pair.tsv --quiet --precision fp32 --beam 2 --min-tokens 12
hasnt out '^exact +100\.00 %'

# ---- an older folder has the keys in config.json; generation_config.json replaces them all ----
copy older bart ''
sed -i '1s/{/{ "num_beams": 4, "max_length": 12, "forced_bos_token_id": 0,/' older/config.json
sed -i 's/"forced_eos_token_id": [0-9a-z]*/"forced_eos_token_id": 2/' older/config.json
made older "$source"
cp out older.txt
copy said bart "{$starts, \"num_beams\": 4, \"max_length\": 12, \"forced_bos_token_id\": 0, \"forced_eos_token_id\": 2}"
made said "$source"
cmp -s out older.txt || fail "config.json gives another text than generation_config.json"

# ---- runs and exports keep them ----
printf 't5 t6\tt7 t8\nt9\tt10 t11\n' >pairs.tsv
try 0 "$QKV" train --from said --pairs pairs.tsv --valid pairs.tsv --out tuned --steps 1 --warmup 0 --rate 1e-9 \
    --batch 2 --threads 1 --precision fp32 --quiet
made tuned "$source"
cmp -s out older.txt || fail "a run does not keep the rules and the beams of its folder"
for to in qkv huggingface; do
    try 0 "$QKV" export said --to $to --dtype f32 -o exported.$to
    made exported.$to "$source"
    cmp -s out older.txt || fail "an export to $to does not keep the rules and the beams of its folder"
done
tr -d ' \n' <exported.huggingface/generation_config.json >written
has written '"num_beams":4,"max_length":12,"forced_eos_token_id":2'

# ---- texts that are continued ----
copy talk llama ''
continued() { try 0 "$QKV" generate "$@" --ids --quiet --precision fp32 --prompt "9 17 25"; }
greedy=0
for n in $(seq "$(grep -c '^ {"settings"' "$golden/llama/cases.json")"); do
    settings llama "$n" >talk/generation_config.json
    grep -q num_beams talk/generation_config.json && continue # engines search them: test_beam_golden.c, batch.sh
    greedy=$((greedy + 1))
    while read -r line; do
        prompt=$(words source <<<"$line" | tr -d t)
        try 0 "$QKV" generate talk --ids --quiet --precision fp32 --prompt "$prompt"
        same "$(cat out)" "$(words ids <<<"$line" | tr -d t)" "settings $n after $prompt"
    done < <(case_of llama "$n")
done
same $greedy 6 "settings of greedy texts"
echo '{"max_new_tokens": 7, "min_new_tokens": 7, "suppress_tokens": [4], "no_repeat_ngram_size": 1}' \
    >talk/generation_config.json
continued talk
same "$(wc -w <out)" 7 "max_new_tokens"
same "$(tr ' ' '\n' <out | sort | uniq -d)" "" "no_repeat_ngram_size"
cp out said.txt
continued talk -n 3
same "$(wc -w <out)" 3 "-n 3"
echo '{}' >talk/generation_config.json
continued talk -n 7 --min-tokens 7 --suppress 4 --no-repeat 1
cmp -s out said.txt || fail "the options give another text than the keys"
continued talk -n 7 --min-tokens 7 --suppress 4 --no-repeat 1 --samples 2 --temp 2 --seed 1
same "$(grep -cE '^([0-9]+ ){6}[0-9]+$' out)" 2 "rules hold for samples"
echo '{"max_length": 10}' >talk/generation_config.json
continued talk --min-tokens 20
same "$(wc -w <out)" 7 "max_length"
refuse 1 'the prompt has 10 tokens, but the maximum length of a text with its prompt is 10' \
    "$QKV" generate talk --ids --prompt "5 6 7 8 9 10 11 12 13 14"
try 0 "$QKV" generate talk --ids -q --prompt "5 6 7 8 9 10 11 12 13 14" -n 2
echo '{"num_beams": 3, "max_new_tokens": 2}' >talk/generation_config.json
continued talk
has err "^qkv: the model.s folder asks for 3 beams; texts are continued without beams$"
echo '[{"role": "user", "content": "t5 t6"}]' >talk.jsonl
try 0 "$QKV" chat talk --input talk.jsonl --precision fp32 --min-tokens 2
same "$(grep -oE 't[0-9]+' out | wc -l)" 2 "the tokens of an answer"

# ---- keys without effect are said once; bad ones are refused ----
copy other bart "{$starts, \"diversity_penalty\": 0.5, \"num_beam_groups\": 2, \"guidance_scale\": 1,
    \"typical_p\": 0.9}"
try 0 "$QKV" translate other "$source" "$source"
has err '^qkv: num_beam_groups, diversity_penalty: keys of generation_config.json that have no effect here$'
same "$(grep -c diversity_penalty err)" 1 "how often it is said"
copy other bart "{$starts, \"do_sample\": true, \"num_beams\": 4, \"typical_p\": 0.9, \"max_length\": 6}"
try 0 "$QKV" translate other "$source" --sample --seed 1
has err '^qkv: typical_p, num_beams: keys of generation_config.json that have no effect here$'
has err 'seed 1$'
bad() { # bad SETTING MESSAGE
    copy faulty bart "{$starts, $1}"
    refuse 1 "generation_config.json: $2" "$QKV" translate faulty "$source"
}
bad '"num_beams": 0' 'num_beams is not a whole number from 1 to 65536'
bad '"num_beams": "four"' 'num_beams is not a whole number'
bad '"max_length": -1' 'max_length is not a whole number from 1'
bad '"max_new_tokens": 1.5' 'max_new_tokens is not a whole number from 1'
bad '"min_length": -2' 'min_length is not a whole number from 0'
bad '"min_new_tokens": true' 'min_new_tokens is not a whole number'
bad '"no_repeat_ngram_size": "3"' 'no_repeat_ngram_size is not a whole number'
bad '"encoder_no_repeat_ngram_size": []' 'encoder_no_repeat_ngram_size is not a whole number'
bad '"length_penalty": "long"' 'length_penalty is not a number'
bad '"encoder_repetition_penalty": 0' 'encoder_repetition_penalty is not a number above 0'
bad '"repetition_penalty": -1' 'repetition_penalty is not a number above 0'
bad '"early_stopping": "soon"' 'early_stopping is neither true nor false nor "never"'
bad '"forced_bos_token_id": "<s>"' 'forced_bos_token_id is not a token id'
bad '"forced_eos_token_id": ["</s>"]' 'forced_eos_token_id is not a token id or a list of token ids'
bad '"suppress_tokens": [1, null]' 'suppress_tokens is not a token id or a list'
bad '"begin_suppress_tokens": {}' 'begin_suppress_tokens is not a token id or a list'
bad '"bad_words_ids": [5]' 'bad_words_ids is not a list of words'
bad '"bad_words_ids": 5' 'bad_words_ids is not a list of words'
bad "\"suppress_tokens\": [$(seq -s , 1 39 | sed 's/.*/&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&,&/')]" \
    'suppress_tokens has more than 1024 tokens'

# ---- options ----
refuse 1 '[-]-suppress: id 40 is none of the model.s 0 to 39' "$QKV" translate plain "$source" --suppress 40
refuse 1 '[-]-force-first: id 77 is none of the model.s 0 to 39' "$QKV" translate plain "$source" --force-first 77
refuse 2 'bad-words has an empty word' "$QKV" translate nowhere "$source" --bad-words "5,,6"
refuse 1 'bad-words' "$QKV" translate nowhere "$source" --bad-words "five"
refuse 2 'early-stopping' "$QKV" translate nowhere "$source" --beam 2 --early-stopping soon
refuse 2 'length-penalty has no effect: there is one result' "$QKV" translate plain "$source" --length-penalty 2
refuse 2 'n-best 3 needs --beam 3' "$QKV" translate plain "$source" --n-best 3
finish
