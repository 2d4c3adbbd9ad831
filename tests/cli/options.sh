#!/usr/bin/env bash
# Combinations of options, before any file is read: one without effect or out of its range gives the exit code 2; all
# others reach the files, which do not exist here, and give 1.
. "$(dirname "$0")/common.sh"
touch there.txt
ls >before

# idle OPTION WHY COMMAND...: the command refuses the option, which has no effect beside the others.
idle() {
    local option=$1 why=$2
    shift 2
    refuse 2 "^qkv: $1: --$option has no effect: .*$why" "$QKV" "$@"
}
# useful COMMAND...: the command takes its options, and fails only where it reads a file or folder.
useful() {
    refuse 1 'nowhere' "$QKV" "$@"
    hasnt err 'no effect|needs'
}

# ---- options without effect ----
for option in "count 2" "samples 2" "top-k 3" "top-p 0.9" "min-p 0.1" "seed 7"; do
    idle "${option% *}" 'temp 0 always takes' generate nowhere --temp 0 --${option% *} ${option#* }
done
for option in "count 2" "samples 2" "temp 0.5" "top-p 0.9" "min-p 0.1" "seed 7"; do
    idle "${option% *}" 'top-k 1 always takes' generate nowhere --top-k 1 --${option% *} ${option#* }
done
for option in "count 2" "samples 2" "temp 1" "top-k 3" "top-p 0.9" "min-p 0.1" "repeat-penalty 2" "repeat-last 3" \
    "seed 7" "stop x" "end x"; do
    idle "${option% *}" '-n 0 makes no' generate nowhere -n 0 --${option% *} ${option#* }
done
idle repeat-last 'add --repeat-penalty' generate nowhere --repeat-last 8
idle repeat-last 'add --repeat-penalty' generate nowhere --repeat-penalty 1 --repeat-last 8
useful generate nowhere --temp 0 --repeat-penalty 1.2 --repeat-last 8
useful generate nowhere --top-k 1 -n 5 --stop x --end x -q
useful generate nowhere --temp 0.5 --top-k 5 --top-p 1 --min-p 0 --seed 0 -n 1 --prompt a

for option in "temp 1" "top-k 3" "top-p 0.9" "seed 7"; do
    idle "${option% *}" 'add --sample' translate nowhere --${option% *} ${option#* }
    [ "${option% *}" = temp ] || idle "${option% *}" 'temp 0 always' translate nowhere --sample --temp 0 \
        --${option% *} ${option#* }
    [ "${option% *}" = top-k ] || idle "${option% *}" 'top-k 1 always' translate nowhere --sample --top-k 1 \
        --${option% *} ${option#* }
done
idle beam 'sample draws' translate nowhere --sample --beam 3
idle length-penalty 'one result' translate nowhere --beam 1 --length-penalty 1 text
idle length-penalty 'one result' translate nowhere --length-penalty 1 --sample text
idle early-stopping 'sample draws' translate nowhere --sample --early-stopping true text
idle early-stopping 'greedy search ends' translate nowhere --beam 1 --early-stopping true text
idle scores 'n-best writes' translate nowhere --beam 2 --n-best 2 --scores
idle input 'command line' translate nowhere --input there.txt text
idle force 'no file is written' translate nowhere --force text
refuse 2 'n-best 3 needs --beam 3' "$QKV" translate nowhere --beam 2 --n-best 3 text
useful translate nowhere --length-penalty 1 --beam 2 --scores text
useful translate nowhere --length-penalty 1 --scores text
useful translate nowhere --length-penalty 1 --early-stopping never text
useful translate nowhere --n-best 3 text
useful translate nowhere --min-tokens 2 --suppress "5 6" --suppress-first 7 --bad-words "8 9, 10" --force-first 3 text
useful translate nowhere --force-last 2 --source-penalty 2 --source-no-repeat 3 --repeat-penalty 1.2 text
useful translate nowhere --source en --target de text
useful translate nowhere --length-penalty 1 --sample --n-best 2 text
useful translate nowhere --sample --temp 2 --top-k 3 --top-p 0.5 --seed 1 --scores text
useful translate nowhere --input there.txt -o new.txt --force --max-tokens 3 --no-repeat 2 --batch 1 -q

idle input 'command line' classify nowhere --input there.txt text
idle force 'no file is written' classify nowhere --force text
idle words 'command line' classify nowhere --words text
useful classify nowhere --force -o new.txt --top 2 text
useful classify nowhere --words --json --input there.txt

idle normalize 'cosine' embed nowhere --nearest a --among there.txt --normalize
idle text 'lines of --among' embed nowhere --nearest a --among there.txt --text
idle output 'lines of --among' embed nowhere --nearest a --among there.txt -o new.npy
idle input 'lines of --among' embed nowhere --nearest a --among there.txt --input there.txt
idle force 'lines of --among' embed nowhere --nearest a --among there.txt --force
idle top 'the lines of --nearest' embed nowhere --top 3 --text a
idle input 'command line' embed nowhere --text --input there.txt a
idle force 'no file is written' embed nowhere --text --force a
refuse 2 'not blank' "$QKV" embed nowhere --nearest " " --among there.txt
useful embed nowhere --nearest a --among there.txt --top 3 --pool first
useful embed nowhere --text -o new.txt --force --normalize a

for kind in data labeled; do
    for option in beam length-penalty max-tokens no-repeat source-penalty min-tokens suppress force-last; do
        idle $option 'targets of pairs' eval nowhere --$kind there.txt --$option 2
    done
done
for kind in pairs labeled; do idle context 'windows' eval nowhere --$kind there.txt --context 8; done
idle batch 'labelled lines' eval nowhere --labeled there.txt --batch 8
idle length-penalty 'greedy' eval nowhere --pairs there.txt --beam 1 --length-penalty 1
useful eval nowhere --pairs there.txt --length-penalty 1 --early-stopping true
idle min-tokens 'makes no tokens' generate nowhere -n 0 --min-tokens 3
useful eval nowhere --data there.txt --batch 2 --context 8 --json -q
useful eval nowhere --pairs there.txt --batch 2 --beam 2 --length-penalty 1 --max-tokens 4 --no-repeat 2
useful eval nowhere --labeled there.txt --json

idle kind 'terminal' attend nowhere --prompt a --kind cross -o new.html
idle kind 'terminal' attend nowhere --prompt a --kind cross --json new.json
idle force 'no file is written' attend nowhere --prompt a --force
useful attend nowhere --prompt a --kind cross --layer 1 --head 0 --target b
useful attend nowhere --prompt a --json new.json --force
idle force 'no file is written' inspect nowhere --prompt a --force
useful inspect nowhere --prompt a --target b -o new.html --force
idle every 'for --follow' report nowhere -o new.html --every 5
idle force 'no file is written' report nowhere --force
idle force 'no file is written' report nowhere --csv - --force
idle csv 'writes the page alone' report nowhere -o new.html --follow --csv new.csv
idle tensorboard 'writes the page alone' report nowhere -o new.html --follow --tensorboard new
useful report nowhere -o new.html --follow --every 5 --force
useful report nowhere --csv new.csv --tensorboard new --force
idle pieces 'ids into text' tokenize nowhere --ids --pieces
idle specials 'ids into text' tokenize nowhere --ids --specials
useful tokenize nowhere --pieces --specials a

for option in full "seconds 1" "rounds 3" "json new.json" "text there.txt" quiet "threads 1" \
    "isa scalar" ignore-memory; do
    idle "${option% *}" 'list measures nothing' bench --list --$option
done
idle force 'list measures nothing' bench --list --force
idle force 'file of --json' bench --force
idle full 'no big rows' bench --full --filter norm --json there.txt
idle full 'no big rows' bench --full --filter "nano-gpt recipe" --json there.txt
idle text 'not among the rows' bench --text there.txt --json there.txt
idle text 'not among the rows' bench --text there.txt --filter products --json there.txt
refuse 1 'there\.txt exists' "$QKV" bench --full --json there.txt
refuse 1 'nowhere' "$QKV" bench --filter recipe --text nowhere --json new.json
refuse 1 'nowhere' "$QKV" bench --full --text nowhere --json new.json
try 0 "$QKV" bench --list
cp out all
try 0 "$QKV" bench --list --filter products
grep '^products ' all | cmp -s - out || fail "--list --filter shows other rows than those with the text"
try 0 "$QKV" bench --list --filter PRODUCTS --filter recipe --precision fp32
grep -E '^(products .* fp32|.*recipe .* fp32)' all | cmp -s - out \
    || fail "--list shows other rows than those of two filters and a precision"
has out 'recipe .*\(big\)$'
refuse 2 'no row .*"xyzzy"' "$QKV" bench --list --filter xyzzy
refuse 2 '--precision is "fp99"' "$QKV" bench --list --precision fp99
rm all

start() { "$QKV" train --preset nano-gpt --data nowhere --out new "$@"; }
refuse 2 'train: --plain has no effect: --quiet' start --quiet --plain
refuse 2 'train: --ignore-digest has no effect: a new run' start --ignore-digest
refuse 2 'sample .*there is no validation data' start --sample 5 --valid-fraction 0
refuse 1 'nowhere' start --sample 5 --plain
refuse 1 'nowhere' start --sample 5 --valid-fraction 0 --valid nowhere
idle plain 'quiet shows' compare --data nowhere --axis kv=mha,mqa --out new --quiet --plain
useful train --resume nowhere --ignore-digest --plain
useful train --from nowhere --data there.txt --out new --ignore-digest --quiet

# ---- ranges, with the number as it was written ----
for number in -1 -1e-7 -0.12345678901; do
    refuse 2 "temp needs a number of at least 0, not \"$number\"$" "$QKV" generate nowhere --temp $number
    refuse 2 "temp needs a number of at least 0, not \"$number\"$" "$QKV" translate nowhere --sample --temp $number text
done
for number in 0 -1 1.00000001 2; do
    refuse 2 "top-p needs a number greater than 0 and at most 1, not \"$number\"$" "$QKV" generate nowhere \
        --top-p $number
    refuse 2 "top-p needs a number greater than 0 and at most 1, not \"$number\"$" "$QKV" translate nowhere --sample \
        --top-p $number
done
for number in -0.1 1.5; do refuse 2 "min-p needs a number from 0 to 1, not \"$number\"$" "$QKV" generate nowhere \
    --min-p $number; done
for number in 0 -2; do refuse 2 "repeat-penalty needs a number greater than 0, not \"$number\"$" \
    "$QKV" generate nowhere --repeat-penalty $number; done
for number in 0 -1 1000000.5; do refuse 2 \
    "seconds needs a number greater than 0 and at most 1000000, not \"$number\"$" "$QKV" bench --seconds $number; done
refuse 2 'length-penalty needs a number, not "x"' "$QKV" translate nowhere --beam 2 --length-penalty x
refuse 2 'top-k needs a whole number from 0 to 2147483647, not "-1"' "$QKV" generate nowhere --top-k -1
refuse 2 'layer needs a whole number from 0 to [0-9]+, not "-1"' "$QKV" attend nowhere --prompt a --layer -1
refuse 2 'head needs a whole number from 0 to [0-9]+, not "two"' "$QKV" attend nowhere --prompt a --head two
useful translate nowhere --beam 2 --length-penalty -1 text
useful generate nowhere --temp 1e-9 --top-p 1e-9 --min-p 1 --repeat-penalty 1e-9
adamw() { refuse "$1" "$2" "$QKV" forward nowhere --inputs there.txt -o new.safetensors --adamw "$3"; }
adamw 2 'STEPS is "0"; it must be a whole number from 1 to 1000000' 0,0.1,0.9,0.95,1e-8,0.1
adamw 2 'RATE is "-1e-3"; it must be a number, from 0' 3,-1e-3,0.9,0.95,1e-8,0.1
adamw 2 'BETA1 is "1.0"; it must be a number, at least 0 and less than 1' 3,0.1,1.0,0.95,1e-8,0.1
adamw 2 'BETA2 is "x"' 3,0.1,0.9,x,1e-8,0.1
adamw 2 'EPS is "0"; it must be a number, from 1.2e-38 to 3.4e38' 3,0.1,0.9,0.95,0,0.1
adamw 2 'DECAY is "-0.10"' 3,0.1,0.9,0.95,1e-8,-0.10
adamw 1 nowhere 3,0,0,0,1e-8,0
refuse 2 '--eval-every is -1' "$QKV" train --resume nowhere --eval-every -1
refuse 2 'rate cannot change' "$QKV" train --resume nowhere --rate x
refuse 2 'kv has no value "gga"' "$QKV" compare --data nowhere --out new --axis kv=gga,mha
refuse 2 'isa|mmx' "$QKV" generate nowhere --prompt-file nowhere --isa mmx

# ---- what the help, the README and the pages of docs/learn and docs/do show is refused by no rule ----
qkv() { "$QKV" "$@"; }
# example LINE: the calls of qkv in a line that a shell may run, each for itself.
example() {
    local call expected
    while read -r call; do
        expected=1
        call=$(sed -E 's/ +[<>] +[^ ]+//g; s/ +# .*//' <<<"$call")
        case $call in
        *"qkv help"* | *"qkv doctor"* | *"--list"* | *"info --preset"* | *"new --preset"* | *"inspect --preset"* \
            | *"attend --preset"*) expected=0 ;;
        *bench*--json*) call="${call/--json */--json there.txt}" ;;
        *bench*) call="$call --json there.txt" ;;
        esac
        last=$call
        checks=$((checks + 1))
        eval "$call" >out 2>err </dev/null
        [ $? = $expected ] || { fail "$call: not the exit code $expected"; show; }
        case $call in *"new --preset"*) rm -r "${call##*--out }" ;; esac
        examples=$((examples + 1))
    done < <(tr '|' '\n' <<<"$1" | sed -nE 's/^ *(build\/)?qkv /qkv /p')
}
examples=0
for command in $("$QKV" help | sed -nE 's/^  ([a-z]+)  .*/\1/p' | grep -v '^help$'); do
    while IFS= read -r line; do example "$line"; done < <("$QKV" help "$command" | sed '1,/^examples:/d')
done
[ $examples -ge 50 ] || fail "only $examples examples were found in the help"
examples=0
pages=("$SOURCE/README.md" "$SOURCE"/docs/learn/*.md "$SOURCE"/docs/do/*.md)
while IFS= read -r line; do example "$line"; done < <(cat "${pages[@]}" | sed -z 's/\\\n//g' | grep '^    build/qkv ')
[ $examples -ge 60 ] || fail "only $examples commands were found in the README and the pages"

rm -f out err
ls >after
grep -vxE 'out|err|after' before | sort >a
grep -vxE 'after|a' after | sort >b
cmp -s a b || fail "files were made: $(diff a b)"
finish
