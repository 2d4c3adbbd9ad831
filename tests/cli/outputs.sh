#!/usr/bin/env bash
# No output of a command is one of its inputs or another of its outputs, under any name: every pair of options of every
# command in the help. Then files that a command finds in its folder, and folders that appear whole or not at all.
. "$(dirname "$0")/common.sh"
make=$BINARY/tests/cli/make_model
make_spec
make_text 200 >text.txt
try 0 train model 4 --quiet --keep 2 --save-every 2
try 0 train other 4 --quiet --tokenizer bytes
"$make" classifier classifier || fail "no model to test with"

model_files="config.json tokenizer.json source_tokenizer.json labels.txt model.safetensors generation_config.json tokenizer_config.json"
run_files="train.json checkpoint.safetensors log.jsonl state.json machine.jsonl samples.jsonl tokens.data.bin"
own='is also read|is a file of the model or run in|would be written twice|is also the folder of texts'

# What an option needs beside it, so that the command line makes sense; options of the pair are not among it.
line_of() { # line_of COMMAND INPUT
    local input=${2:-}
    case $1 in
    train) echo "--steps 1" ;;
    attend | inspect | forward) [ "$input" = --spec ] || [ "$input" = --tokenizer ] || echo "model" ;;
    tokenize) [ "$input" = --train ] || echo "--train text.txt" ;;
    bench) echo "--filter recipe" ;;
    export) echo "model --dtype bf16" ;;
    quantize) echo "model --to f16" ;;
    translate | classify | embed | report) echo "model" ;;
    esac
}

# What a command writes into its folder.
files_of() {
    case $1 in
    train) echo "$model_files $run_files" ;;
    new | export) echo "$model_files" ;;
    compare) echo "compare.json train.txt valid.txt results.json results.csv index.html" ;;
    esac
}

refused=0
# The files beside the model, with their inodes, sizes and times of change: whoever writes changes one of these.
files() { find . -path ./model -prune -o -type f ! -name out ! -name err -printf '%p %i %s %T@ %C@ '; }
meet() { # meet COMMAND...: is refused by the rule, and all files stay as they are
    local before
    before=$(files)
    refuse 1 "$own" "$QKV" "$@"
    same "$(files)" "$before" "$last: files"
    refused=$((refused + 1))
}

sum=$(cat model/* | cksum)
commands=$("$QKV" help | sed -n '/^train:/,/^first steps:/s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    inputs= outputs= folders= force=
    while read -r option argument; do
        case "$option $argument" in
        "--out FILE") outputs="$outputs $option" ;;
        "--out "* | "--tensorboard "*) folders="$folders $option" ;;
        "--output FOLDER") ;; # another name of --out
        "--adapter FOLDER") inputs="$inputs $option=MODEL" ;;
        "--output FILE" | "--json FILE" | "--csv FILE") outputs="$outputs $option" ;;
        *" FILE" | *" FILE..." | *" MODEL" | *" RUN" | "--tokenizer "* \
            | "--source-tokenizer "*) inputs="$inputs $option=$argument" ;;
        "--force "*) force=--force ;;
        *FOLDER*) fail "$command $option $argument: neither an input nor an output" ;;
        esac
    done < <("$QKV" help $command | sed -nE 's/^  (-([a-zA-Z]), |    )(--[a-z0-9-]+)( ([^ ]+))?( .*)?$/\3 \5/p')
    [ -n "$outputs$folders" ] || continue
    [ "$command" != tokenize ] || inputs=${inputs/--tokenizer=KIND/}
    for output in $outputs; do
        for input in $inputs; do
            option=${input%%=*} file=same
            [ "$command $option" != "embed --among" ] || continue # a rule excludes it beside --output
            line=$(line_of $command $option)
            case $input in *=MODEL | *=RUN) continue ;; esac
            cp text.txt same
            ln -sf same link
            ln -f same hard
            for name in same ./same link hard "$folder/same"; do meet $command $line $option same $output $name \
                $force; done
            mkdir -p texts
            cp text.txt texts/a
            case $option in --data | --train | --valid) meet $command $line $option texts $output texts/a $force ;; esac
        done
        rm -rf same link hard texts
        # the model that is read
        case $(line_of $command) in
        model*)
            for file in $model_files $run_files checkpoint-2.safetensors; do
                meet $command $(line_of $command) $output model/$file $force
            done
            ln -f model/config.json hard
            meet $command $(line_of $command) $output hard $force
            rm hard
            ;;
        esac
        # standard input, and standard output
        cp text.txt same
        "$QKV" $command $(line_of $command) $output same $force <same >out 2>err
        same "$? $(grep -cE "$own" err) $(cmp same text.txt)" "1 1 " "$command $output onto standard input"
        "$QKV" $command $(line_of $command) $output same $force >>same 2>err </dev/null
        same "$? $(grep -cE "$own" err) $(cmp same text.txt)" "1 1 " "$command $output onto standard output"
        rm same
        # another output
        for second in $outputs $folders; do
            [ "$second" != "$output" ] || continue
            meet $command $(line_of $command) $output twice $second twice $force
            [ ! -e twice ] || fail "$last: something was made"
        done
    done
    for output in $folders; do
        for input in $inputs; do
            option=${input%%=*}
            line=$(line_of $command $option)
            case $input in
            *=MODEL) meet $command $line $option model $output model ;;
            *=RUN) ;; # has no place beside --out
            *)
                cp text.txt same
                meet $command $line $option same $output same $force
                rm same
                mkdir -p place
                for file in $(files_of $command); do
                    cp text.txt place/$file
                    ln -s ../place/$file text.link 2>/dev/null
                    meet $command $line $option place/$file $output place $force
                    meet $command $line $option "$folder/place/$file" $output ./place/ $force
                    rm -f place/$file text.link
                done
                cp text.txt place/a
                meet $command $line $option place $output place $force
                rm -r place
                ;;
            esac
        done
    done
done
echo "$refused command lines with an output that is an input or another output were refused"
[ $refused -gt 300 ] || fail "only $refused pairs were tried"
mkdir words
cp spec.json words/config.json
meet new words/config.json --out words
cp spec.json words/train.txt
meet compare --axis kv=mha,mqa --specs words/train.txt words/train.txt --out words --force
meet export model --dtype bf16 --out model --force
meet inspect model other --prompt x -o other/tokenizer.json --force
meet report model other -o other/log.jsonl --force
rm -r words
same "$(cat model/* | cksum)" "$sum" "the model that was read"

# ---- what a run finds in its folder ----
for file in $model_files model.safetensors.index.json state.json train.json machine.jsonl samples.jsonl \
    tokens.data.bin checkpoint-best.safetensors; do
    rm -rf place
    mkdir place
    echo mine >place/$file
    refuse 1 'place already holds a' train place 4 --quiet
    refuse 1 'nowhere.txt' train place 4 --quiet --data nowhere.txt
    same "$(ls -A place) $(cat place/$file)" "$file mine" "train onto $file of somebody else"
done
rm -rf place
mkdir place
echo mine >place/notes.txt
try 0 train place 4 --quiet
same "$(cat place/notes.txt)" mine "a file beside a run"
# a start that was killed is begun anew
for file in train.json checkpoint.safetensors model.safetensors; do rm place/$file; done
: >place/log.jsonl
try 0 train place 4 --quiet
try 0 "$QKV" info place

# ---- what a comparison finds ----
compare() {
    "$QKV" compare --spec spec.json --data text.txt --batch 4 --warmup 1 --eval-batches 2 --threads 1 --cache 16 \
        --quiet --axis kv=mha,mqa $(usual "--steps 2" "$@") "$@"
}
for file in train.txt valid.txt results.json results.csv index.html; do
    rm -rf place
    mkdir place
    echo mine >place/$file
    refuse 1 "place already holds a $file that is not of a comparison" compare --out place
    printf x >short.txt
    refuse 1 '.' "$QKV" compare --spec spec.json --data short.txt --axis kv=mha,mqa --steps 2 --out place --force \
        --quiet
    same "$(ls -A place) $(cat place/$file)" "$file mine" "compare --force that fails"
done
try 0 compare --out place --force
hasnt place/index.html '^mine$'
rm -rf place
mkdir place
cp -r model place/mqa
refuse 1 'place already holds a mqa, which is not of a comparison' compare --out place
same "$(cat place/mqa/* | cksum) $(ls place)" "$sum mqa" "a run of somebody else in the folder of a comparison"
rm -rf place
try 0 compare --out place
cp place/results.json results.before
mv place/mqa away
cp -r model place/mqa
refuse 1 'place/mqa holds a run with other options: its ' compare --out place
cmp -s place/results.json results.before || fail "a comparison that is refused changes its results"
rm -r place/mqa
cp -r place/mha place/mqa
refuse 1 'place/mqa holds a run of another model' compare --out place
rm -r place/mqa
mv away place/mqa
try 0 compare --out place
try 0 compare --out place --steps 4
refuse 1 'was begun with other options' compare --out place

# ---- checkpoints behind a link ----
case $folder in /dev/shm/*) other=/tmp ;; *) other=/dev/shm ;; esac
store=$(mktemp -d $other/qkv.XXXXXX 2>/dev/null) || store=$folder/elsewhere # another file system, where there is one
for store in "$folder/store" "$store"; do
    rm -rf place
    mkdir -p "$store"
    try 0 train place 4 --quiet --keep 3 --save-every 4
    mv place/checkpoint.safetensors "$store/latest"
    ln -s "$store/latest" place/checkpoint.safetensors
    try 0 resume place --steps 12 --save-every 4 --keep 3 --quiet
    [ -L place/checkpoint.safetensors ] || fail "the link to the checkpoint is gone"
    same "$(ls place | grep -c '^checkpoint-[0-9]')" 2 "earlier checkpoints"
    for file in place/checkpoint-[0-9]*; do
        [ ! -L $file ] || fail "$file is a link to the latest"
        step=${file//[!0-9]/}
        grep -aqE "\"step\": ?\"$step\"" $file || fail "$file is of another step"
        try 0 "$QKV" generate $file --prompt the -n 2
    done
    rm -r "$store"
done

# ---- folders that are put in place whole ----
# Two models of one shape, whose tokenizers differ; each exported for itself is what a folder may hold.
cat >llama.json <<'END'
{"format": "qkv", "version": 1, "d_model": 32, "context": 32, "dropout": 0, "tie": "head", "position": {"kind": "rope"},
 "decoder": {"layers": 2, "attention": {"heads": 4, "bias": false}, "norm": {"kind": "rmsnorm"},
             "ffn": {"kind": "swiglu", "bias": false, "d_ff": 64}}}
END
make_text 200 | tr 'a-m' 'n-z' >turned.txt
for name in text turned; do
    try 0 "$QKV" train --spec llama.json --data $name.txt --tokenizer bpe:280 --out of.$name --steps 2 --batch 2 \
        --warmup 1 --threads 1 --quiet
done
whole() { (cd "$1" 2>/dev/null && cat config.json tokenizer.json model.safetensors | cksum); }
for kind in qkv huggingface; do
    rm -rf one two place
    export_to() { "$QKV" export $1 --to $kind --dtype bf16 --out "$2" ${3:-}; }
    try 0 export_to of.text one
    try 0 export_to of.turned two
    one=$(whole one) two=$(whole two)
    [ "$one" != "$two" ] || fail "the two models are one"
    # killed at any moment; what the user has there stays
    export_to of.text place || fail "export to a new folder"
    mkdir place/notes
    echo mine >place/notes/mine.txt
    chmod 640 place/config.json
    began=$(date +%s%N)
    try 0 export_to of.turned place --force
    took=$(($(date +%s%N) - began))
    for i in $(seq 30); do
        from=of.text
        [ $((i % 2)) = 0 ] || from=of.turned
        # no function: its shell would be killed
        "$QKV" export $from --to $kind --dtype bf16 --out place --force 2>/dev/null &
        child=$!
        sleep "$(awk -v t=$took -v r=$RANDOM 'BEGIN { printf "%.4f", t / 1e9 * r / 32768 }')"
        kill -9 $child 2>/dev/null
        wait $child 2>/dev/null
        now=$(whole place)
        checks=$((checks + 1))
        [ "$now" = "$one" ] || [ "$now" = "$two" ] \
            || fail "$kind, kill $i: $(ls place) is neither the old folder nor the new one"
        [ "$(cat place/notes/mine.txt)" = mine ] || fail "$kind, kill $i: a file of the user is gone"
    done
    try 0 export_to of.text place --force
    same "$(whole place)" "$one" "$kind after the kills"
    same "$(ls -A | grep -c '^\.place')" 0 "what killed exports have left"
    same "$(cat place/notes/mine.txt) $(stat -c %a place/config.json)" "mine 640" "what was in the folder"
    # twice at once
    for i in $(seq 5); do
        export_to of.text place --force 2>/dev/null &
        export_to of.turned place --force 2>/dev/null &
        wait
        now=$(whole place)
        checks=$((checks + 1))
        [ "$now" = "$one" ] || [ "$now" = "$two" ] || fail "$kind, two at once: neither of them"
    done
    same "$(ls -A | grep -c '^\.place') $(cat place/notes/mine.txt)" "0 mine" "what two exports at once have left"
    # no room
    try 0 export_to of.text place --force
    small() { (ulimit -f 16 && export_to of.turned "$1" --force); }
    refuse 1 'cannot write place/.*: File too large' small place
    same "$(whole place) $(ls -A | grep -c '^\.place')" "$one 0" "a folder without room for a new one"
    refuse 1 'cannot write fresh/.*: File too large' small fresh
    [ ! -e fresh ] || fail "an export that failed leaves a folder"
    try 0 "$QKV" generate place --prompt the -n 2
    # a mixture
    for file in tokenizer.json config.json; do
        rm -rf mixed
        cp -r one mixed
        cp two/$file mixed/
        [ $file != config.json ] \
            || sed -i 's/"rms_norm_eps": *[0-9.e-]*/"rms_norm_eps": 0.01/; s/"eps": *[0-9.e-]*/"eps": 0.01/' \
            mixed/config.json
        refuse 1 'mixed/model.safetensors.* (was saved with another|belong to another spec)' "$QKV" generate mixed \
            --prompt the -n 2
        try 0 "$QKV" generate mixed --prompt the -n 2 --ignore-digest
    done
    # the current folder, and one through a link
    mkdir empty
    (cd empty && "$QKV" export ../of.text --to $kind --dtype bf16 --out .) || fail "export into the current folder"
    same "$(whole empty)" "$one" "export into the current folder"
    (cd empty && "$QKV" export ../of.turned --to $kind --dtype bf16 --out . --force) 2>err
    same "$? $(grep -c 'cannot be replaced as a whole, as it is the current folder' err) $(whole empty)" "1 1 $one" \
        "the current folder, replaced"
    ln -s empty link
    try 0 export_to of.turned link/ --force
    [ -L link ] && same "$(whole empty)" "$two" "a folder behind a link"
    rm -rf empty link
done
# a run, and its checkpoints
cp -r of.text mixed.run
cp of.turned/tokenizer.json mixed.run/
refuse 1 'was saved with another tokenizer.json' "$QKV" generate mixed.run --prompt the -n 2
refuse 1 'was saved with another tokenizer.json' "$QKV" generate mixed.run/checkpoint.safetensors --prompt the -n 2
refuse 1 'tokenizer' "$QKV" train --resume mixed.run --steps 3 --quiet
cp -r classifier mixed.labels
sed -i '1s/.*/other/' mixed.labels/labels.txt
refuse 1 'was saved with another labels.txt' "$QKV" classify mixed.labels word
finish
