#!/usr/bin/env bash
# An option that takes one value comes once: in every command, for every option that its help does not call repeatable.
. "$(dirname "$0")/common.sh"

# One line an option: "--name ARG text of the help", of those with a value.
options() { # options COMMAND
    "$QKV" help "$1" | awk '
        function flush() { if (line != "") print line; line = "" }
        /^examples:/ { exit }
        /^ +(-., )?--[a-z]/ { flush(); sub(/^ +(-., )?/, ""); line = $0; next }
        /^$|^  -h|^[a-z]/ { flush(); next }
        line != "" { sub(/^ +/, " "); line = line $0 }
        END { flush() }' | grep -E '^--[a-z0-9-]+ [A-Z0-9]'
}

# A value that the option takes: 1, or the first of its choices.
value_of() { # value_of COMMAND OPTION
    local said
    said=$("$QKV" "$1" "$2=1" "$2=1" 2>&1)
    case $said in
    *'no such preset'*) echo nano-gpt ;;
    *"$2 is \"1\"; it must be "*) sed -E 's/.*; it must be ([^ ,]+).*/\1/' <<<"$said" ;;
    *) echo 1 ;;
    esac
}

commands=$("$QKV" help | sed -n '/^train:/,/^first steps:/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 10 ] || fail "only $(wc -w <<<"$commands") commands were found in the help"
for command in $commands; do
    count=0
    while read -r name argument help; do
        count=$((count + 1))
        case $help in *"(may be repeated)"*) continue ;; esac
        value=$(value_of $command $name)
        refuse 2 "^qkv: $name takes one value, but it is given more than once" "$QKV" $command $name $value $name=$value
    done < <(options $command)
    [ $count -gt 0 ] || [ $command = tokenize ] || fail "no option of $command was found in its help"
done

# The same by its letter, and in any mixture; a flag says nothing new the second time.
refuse 2 '^qkv: -n takes one value' "$QKV" generate run -n 5 -n5
refuse 2 '^qkv: -n takes one value' "$QKV" generate run --tokens 5 -n5
refuse 2 '^qkv: --tokens takes one value' "$QKV" generate run -n5 --tokens=5
refuse 2 '^qkv: --min-rate takes one value' "$QKV" train --min_rate 0.1 --min-rate 0.1
refuse 2 'name a model' "$QKV" train --quiet -q --quiet
refuse 2 '^qkv: --preset takes one value' "$QKV" train --preset nano-gpt --preset baby-gpt --data text.txt --out run
[ ! -e run ] || fail "$last: made a folder"
finish
