#!/usr/bin/env bash
# Bad values for every option of every command, and bad names for every argument: each is refused quickly with one
# message. Commands and options come from the help, so new ones are tested, too.
#     sweep.sh [COMMAND...]: only these commands
. "$(dirname "$0")/common.sh"
limit=20 # seconds, after which a command hangs
make_text 60 >text.txt
awk 'BEGIN { for (i = 0; i < 8; i++) print "a" i "\tb" i }' >rows.tsv
make_spec
try 0 train model 1 --quiet --warmup 0
mkdir empty-folder
mkfifo pipe
: >empty.txt

# The command line that an option is put behind: all that is asked for, so that the option alone is wrong. A command
# that is not listed here gets the model.
line_of() {
    case $1 in
    train) echo "--spec spec.json --data text.txt --out new --steps 1 --warmup 0" ;;
    compare) echo "--preset nano-gpt --data text.txt --out new --axis kv=mha,mqa --steps 1 --warmup 0" ;;
    new) echo "--preset nano-gpt --out new" ;;
    translate | classify | tokenize) echo "model word" ;;
    fill) echo "model <mask>" ;;
    embed) echo "model word --text" ;;
    eval) echo "model --data text.txt" ;;
    attend | inspect) echo "model --prompt word -o page.html" ;;
    report) echo "model -o page.html" ;;
    forward) echo "model --inputs case.safetensors -o out.safetensors" ;;
    bench) echo "--filter no-row-of-this-name" ;;
    *) echo "model" ;;
    esac
}

# Whether values of an option are numbers, names of files that are read, or something else: by the word behind it in the
# help.
kind_of() { # kind_of OPTION ARGUMENT
    case $2 in
    N | X | A | SECONDS) kind=number ;;
    FILE | FILE... | MODEL | RUN | FOLDER) kind=file ;;
    *) kind=name ;;
    esac
}

# What the command said is not one good sentence, or it ended otherwise than by refusing. Without other programs: there
# are many.
judge() { # judge CODE COMMAND...
    local code=$1 file rest said
    shift
    checks=$((checks + 1))
    last="$*"
    case $code in
    1 | 2) ;;
    124 | 137) fail "$last: still runs after $limit seconds" ;;
    *) fail "$last: exit code $code" && show ;;
    esac
    IFS= read -r -d '' said <err
    if [[ $said == *" is emulated with the "* ]]; then
        drop_emulation
        IFS= read -r -d '' said <err
    fi
    if [[ $said != "qkv: "*$'\n' || ${said%$'\n'} == *$'\n'* ]]; then
        fail "$last: not one line that begins with \"qkv: \""
        show
    fi
    if [[ $said =~ JSON_|\(null\)|[Ee]rrno|[Ee]rror\ [0-9]|Sanitizer|runtime\ error|Assertion|-nan ]]; then
        fail "$last: words of the library or the system"
        show
    fi
    [ "${#said}" -lt 400 ] || fail "$last: more than 400 characters: $said"
    for file in model/config.json empty-folder nowhere/at/all /dev/zero "$folder/pipe" "$folder/empty.txt"; do
        rest=${said#*"$file"}
        [[ $rest == "$said" || $rest != *"$file"* ]] || fail "$last: $file comes twice: $said"
    done
}

# bad COMMAND...: runs it and judges.
bad() {
    [ ! -e new ] || rm -rf new
    timeout -k 5 $limit "$@" >out 2>err </dev/null
    judge $? "$@"
}

# An option that the command line has already is taken out of it, with its value.
without() { # without OPTION LETTER WORDS...
    local option=$1 letter=$2
    shift 2
    while [ $# -gt 0 ]; do
        if [ "$1" = "$option" ] || { [ -n "$letter" ] && [ "$1" = "$letter" ]; }; then
            shift 2
            continue
        fi
        printf '%s\n' "$1"
        shift
    done
}

commands=$("$QKV" help | sed -n '/^train:/,/^first steps:/s/^  \([a-z]*\) .*/\1/p')
all=$#
[ $all = 0 ] || commands="$*"
swept=0
for command in $commands; do
    "$QKV" help "$command" >described
    bad "$QKV" "$command" --no-such-option
    for name in nowhere/at/all empty-folder text.txt pipe /dev/zero ''; do
        case $command in
        train | compare | bench) bad "$QKV" "$command" "$name" ;;
        attend | inspect) bad "$QKV" "$command" "$name" --prompt word -o page.html ;;
        forward) bad "$QKV" forward "$name" --inputs case.safetensors -o out.safetensors ;;
        embed) bad "$QKV" embed "$name" word --text ;;
        eval) bad "$QKV" eval "$name" --data text.txt ;;
        fill) bad "$QKV" fill "$name" '<mask>' ;;
        *) bad "$QKV" "$command" "$name" ;;
        esac
    done
    while read -r letter option argument; do
        [ "$letter" = . ] && letter=
        swept=$((swept + 1))
        if [ -z "$argument" ]; then
            bad "$QKV" "$command" $(line_of "$command") "$option=yes"
            continue
        fi
        mapfile -t words < <(without "$option" "$letter" $(line_of "$command"))
        # [FILE]: the value may be left out
        [[ $argument == \[* ]] || bad "$QKV" "$command" "${words[@]}" "$option"
        argument=${argument//[][]/}
        kind_of "$option" "$argument"
        case $kind in
        number)
            values="word -7 1e999 nan inf"
            [ "$argument" != N ] || values="$values 5x 99999999999999999999999" # what is huge but finite, a real may be
            for value in '' $values; do
                [ "$option$value" != --length-penalty-7 ] || continue # any finite number will do
                bad "$QKV" "$command" "${words[@]}" "$option=$value"
            done
            ;;
        file)
            case $option in
            # pipes may be read
            --input | --prompt-file | --file | --among) values="empty-folder nowhere/at/all /dev/zero" ;;
            --out | --output | --json | --csv) values="empty-folder nowhere/at/all/file text.txt/file" ;;
            *) values="empty-folder nowhere/at/all $folder/pipe /dev/zero $folder/empty.txt" ;;
            esac
            case "$command $option" in
            # folders are made
            "train --out" | "compare --out" | "new --out" \
                | "report --tensorboard") values="text.txt text.txt/file /dev/zero" ;;
            esac
            [ "$command $option" != "compare --valid" ] || continue # variants fail one by one, in the table of results
            for value in "" $values; do bad "$QKV" "$command" "${words[@]}" "$option=$value"; done
            ;;
        *)
            case $option in
            --prompt | --stop | --nearest | --filter | --target | --text-key) continue ;; # any text
            --chat | --system | --bos | --eos | --name | --allow-host) continue ;;
            --suppress | --suppress-first | --bad-words) [ "$value" != "$(printf '%0100d' 0)" ] || continue ;; # an id
            esac
            for value in no-such-name $'\e[31m' "$(printf '%0100d' 0)"; do
                bad "$QKV" "$command" "${words[@]}" "$option=$value"
            done
            ;;
        esac
    done < <(sed -nE 's/^  (-([a-zA-Z]), |    )(--[a-z0-9-]+)( ([^ ]+))?( .*)?$/-\2 \3 \5/p' described \
        | sed 's/^- /. /' | grep -v -- '--help')
done
[ $all != 0 ] || [ $swept -gt 100 ] || fail "only $swept options were found in the help"
finish
