#!/usr/bin/env bash
# Dangerous files: results written over existing files, pipes and devices instead of files, inputs without an end,
# edited logs, limits of file sizes, two commands in one folder.
. "$(dirname "$0")/common.sh"
make=$BINARY/tests/cli/make_model
for kind in pairs classifier encoder decoder; do "$make" $kind $kind || fail "no model to test with"; done
make_spec
make_text 200 >text.txt
printf 'the queen\nEngland\n' >lines.txt

# result NAME OUTPUT [OPTIONS]: the command NAME writes to OUTPUT.
result() {
    local name=$1 output=$2
    shift 2
    case $name in
    translate) "$QKV" translate pairs -q --input lines.txt --output "$output" "$@" ;;
    classify) "$QKV" classify classifier --input lines.txt --output "$output" "$@" ;;
    embed) "$QKV" embed encoder --input lines.txt -o "$output" "$@" ;;
    attend) "$QKV" attend decoder --file lines.txt -o "$output" "$@" ;;
    attend-json) "$QKV" attend decoder --file lines.txt --json "$output" "$@" ;;
    inspect) "$QKV" inspect decoder --file lines.txt -o "$output" "$@" ;;
    inspect-json) "$QKV" inspect decoder --file lines.txt --json "$output" "$@" ;;
    report) "$QKV" report run -o "$output" "$@" ;;
    forward) "$QKV" forward gpt2 --inputs gpt2/case.safetensors -o "$output" "$@" ;;
    esac
}
timeout_result() { # a pipe that nobody opens must not keep the test waiting
    result "$@" &
    local command=$!
    (sleep 120; kill -9 $command) 2>mknod.err >mknod.err &
    local watch=$!
    wait $command
    local code=$?
    kill $watch 2>mknod.err
    return $code
}
cp -r "$SOURCE/tests/golden/gpt2" gpt2
chmod -R u+w gpt2
try 0 train run 5 --quiet --sample 4
declare -A model=([translate]=pairs [classify]=classifier [embed]=encoder [attend]=decoder [attend-json]=decoder
    [inspect]=decoder [inspect-json]=decoder [report]=run [forward]=gpt2)
declare -A input=([translate]=lines.txt [classify]=lines.txt [embed]=lines.txt [attend]=lines.txt \
    [attend-json]=lines.txt
    [inspect]=lines.txt [inspect-json]=lines.txt [forward]=gpt2/case.safetensors)

# ---- what a result is written to ----
for name in "${!model[@]}"; do
    rm -f new old link hard fifo through
    try 0 result $name new
    [ -s new ] || fail "$name writes nothing"
    # an existing file
    echo mine >old
    refuse 1 'old exists; --force replaces it' result $name old
    same "$(head -c 4 old | tr -d '\0')" mine "$name without --force"
    try 0 result $name old --force
    [ -s old ] && [ "$(head -c 4 old | tr -d '\0')" != mine ] || fail "$name --force does not replace the file"
    # a link to a file, and one to nothing yet
    echo mine >old
    ln -s old link
    refuse 1 'link exists' result $name link
    try 0 result $name link --force
    [ -L link ] && [ "$(head -c 4 old | tr -d '\0')" != mine ] || fail "$name does not follow the link"
    rm old
    try 0 result $name link
    [ -L link ] && [ -s old ] || fail "$name does not follow a link to nothing"
    # a pipe is written through
    mkfifo fifo
    timeout 20 cat fifo >through &
    reader=$!
    try 0 timeout_result $name fifo
    wait $reader
    [ -p fifo ] || fail "$name replaces a pipe by a file"
    same "$(wc -c <through)" "$(wc -c <new)" "$name through a pipe"
    # a device stays one; a copy of it, in this folder
    if mknod null c 1 3 2>mknod.err && : 2>/dev/null >null; then
        try 0 result $name null
        [ -c null ] || fail "$name replaces a device by a file"
    fi
    rm -f null
    # files of the model, there already or not, also through links
    for file in config.json model.safetensors labels.txt samples.jsonl; do
        sum=$(cat ${model[$name]}/* 2>mknod.err | cksum)
        refuse 1 'a file of the model or run in' result $name ${model[$name]}/$file --force
        same "$(cat ${model[$name]}/* 2>mknod.err | cksum)" "$sum" "$name -o ${model[$name]}/$file"
    done
    ln ${model[$name]}/config.json hard
    refuse 1 'a file of the model or run in' result $name hard --force
    # what is read
    [ -n "${input[$name]:-}" ] || continue
    before=$(cksum <"${input[$name]}")
    refuse 1 'is also read' result $name "${input[$name]}" --force
    ln -sf "${input[$name]}" link
    refuse 1 'link is also read' result $name link --force
    same "$(cksum <"${input[$name]}")" "$before" "$name onto its own input"
done
"$QKV" translate pairs -q -o lines.txt --force <lines.txt >out 2>err
same $? 1 "translate onto standard input's file"
has err 'is also read'
same "$(ls -a | grep -c '\.tmp$')" 0 "temporaries that stayed"
"$QKV" bench --json run/config.json -q >out 2>err
same $? 1 "bench --json onto a file"
has err 'exists; --force replaces it'

# ---- inputs without an end ----
for name in attend inspect; do
    refuse 1 '/dev/zero has more than 64.0 MiB, the limit of one text; give a shorter one' timeout 100 \
        "$QKV" $name decoder --file /dev/zero
done
refuse 1 '/dev/zero has more than 64.0 MiB' timeout 100 "$QKV" generate decoder --prompt-file /dev/zero
truncate -s 65M long.txt
refuse 1 'long.txt has more than 64.0 MiB' "$QKV" attend decoder --file long.txt
truncate -s 1025M long.txt
refuse 1 'long.txt has more than 1.0 GiB' "$QKV" translate pairs --input long.txt
rm long.txt

# ---- pipes and devices in a run ----
for file in train.json config.json tokenizer.json checkpoint.safetensors model.safetensors log.jsonl state.json \
    machine.jsonl samples.jsonl \
    tokens.data.bin; do
    rm -rf piped
    cp -r run piped
    rm piped/$file
    mkfifo piped/$file
    refuse 1 "piped/$file is a pipe, a device or a folder" timeout 30 "$QKV" train --resume piped --steps 6 --quiet
    [ -p piped/$file ] || fail "the pipe piped/$file is gone"
done
mkfifo text.fifo
refuse 1 'text.fifo: it is a pipe or device' timeout 30 "$QKV" train --spec spec.json --data text.fifo --out piped2 \
    --quiet
refuse 1 'text.fifo: it is a pipe or device' timeout 30 "$QKV" eval run --data text.fifo

# ---- logs that somebody edited ----
rm -rf edited
cp -r run edited
{
    sed -n 1p run/log.jsonl
    echo 'a note of mine'
    sed -n 2p run/log.jsonl | sed 's/^{"step":2,/{ "step": 2, /'
    sed -n 3,5p run/log.jsonl
    echo '# another'
    echo '{"loss": 1, "step": 6}'
    printf '{"step":7,"lo'
} >edited/log.jsonl
try 0 resume edited --steps 7 --quiet
has err 'edited/log.jsonl: 2 lines cannot be read, the first of them line 2; they stay'
same "$(grep -c . edited/log.jsonl)" 9 "lines of the edited log"
same "$(sed -n '2p;7p' edited/log.jsonl | tr '\n' ' ')" 'a note of mine # another ' "the lines that cannot be read"
same "$(sed -n '8,9p' edited/log.jsonl | cut -d, -f1 | tr '\n' ' ')" '{"step":6 {"step":7 ' "the steps that came again"
try 0 "$QKV" report edited
printf 'torn' >>edited/samples.jsonl
lines=$(grep -c . edited/samples.jsonl)
try 0 resume edited --steps 10 --quiet --sample 4
same "$(grep -c '^{"step":' edited/samples.jsonl)" $lines "samples after a torn one"

# A log whose run is gone stays: a new run takes another folder.
mkdir alone
cp run/log.jsonl alone/
refuse 1 'alone already holds the log of a run' train alone 5 --quiet
cmp -s alone/log.jsonl run/log.jsonl || fail "a new run cuts the log of another"

# ---- limits of file sizes ----
limited() { (
    ulimit -f 8
    "$@"
); }
rm -rf full
cp -r run full
try 1 limited "$QKV" train --threads 1 --resume full --steps 10 --quiet
has err '^qkv: cannot write full/.*: File too large; raise the limit of the file size \(ulimit -f\)'
cmp -s full/checkpoint.safetensors run/checkpoint.safetensors || fail "a limit of file sizes harms the checkpoint"
try 0 resume full --steps 10 --quiet
same "$(grep -c . full/log.jsonl)" 10 "lines of the log after the limit"
refuse 1 'File too large; raise the limit' limited "$QKV" train --spec spec.json --data text.txt --out fresh --steps 3 \
    --quiet
[ ! -e fresh ] || fail "a run that could not be begun leaves its folder"

# ---- two comparisons in one folder ----
small=(--spec spec.json --data text.txt --batch 4 --warmup 2 --eval-every 500 --eval-batches 2 --threads 1 --cache 16 \
    --quiet)
small+=(--axis kv=mha,mqa --out both --steps 100000)
"$QKV" compare "${small[@]}" >first.out 2>first.err &
first=$!
eventually test -s both/mha/log.jsonl || fail "the first comparison has no steps"
refuse 1 '^qkv: both: another comparison is running in this folder; wait for it or choose another' "$QKV" compare "${small[@]}"
kill -TERM $first
wait $first
same $? 130 "the first comparison, interrupted"
grep -q 'failed' first.err first.out && fail "the first comparison has variants that failed: $(cat first.err)"
finish
