#!/usr/bin/env bash
# Manual pages and completions, which the command makes of its tables: what troff and the shells say of them, and what a
# shell completes. A program that is missing is named, and its checks are left out.
. "$(dirname "$0")/common.sh"
missing() { printf 'left out: there is no %s\n' "$*"; }
# A terminal of 80 columns that types the words and shows what becomes of them: terminal PROGRAM... <WORDS
terminal() { COLUMNS=80 TERM=xterm timeout 60 script -qec "stty cols 80; $*" /dev/null 2>/dev/null; }

try 0 "$QKV" help --format list
commands=$(cat out)
"$QKV" help >overview
for command in $commands; do grep -q "^  $command " overview || fail "the list has $command, qkv help has not"; done
[ "$(wc -w <<<"$commands")" -ge 18 ] || fail "the list has $(wc -w <<<"$commands") commands"
touch a.json b.txt
mkdir folder

# ---- manual pages ----
page() { # page FILE: what the checkers of pages say of it
    checks=$((checks + 1))
    if command -v man >/dev/null && [ -x "$(command -v groff)" ]; then
        MANWIDTH=80 man -l --warnings "$1" >"$1.txt" 2>"$1.err" </dev/null
        [ ! -s "$1.err" ] || fail "man --warnings $1: $(head -3 "$1.err")"
    fi
    if command -v mandoc >/dev/null; then
        # The version is unreleased and has no date.
        mandoc -T lint -W warning "$1" 2>&1 | grep -v 'missing date' >"$1.err"
        [ ! -s "$1.err" ] || fail "mandoc -T lint $1: $(head -3 "$1.err")"
    fi
}
command -v man >/dev/null || missing man
command -v mandoc >/dev/null || missing mandoc
"$QKV" help --format man >qkv.1 || fail 'no page of qkv'
page qkv.1
for command in $commands; do
    "$QKV" help --format man $command >qkv-$command.1 || fail "no page of qkv $command"
    page qkv-$command.1
    last="the page of $command"
    has qkv-$command.1 "^\.TH QKV-${command^^} 1 "
    has qkv-$command.1 "^qkv.-$command .- "
    # Each option of the help is in the page, once.
    "$QKV" help $command | sed -nE 's/^ {2,6}(-., )?--([a-z0-9-]+).*/\2/p' | sort >in-help
    sed -nE 's/^(.fB.-..fR, )?.fB.-.-([a-z0-9\-]+).fR.*/\2/p' qkv-$command.1 | sed 's/\\//g' | sort >in-page
    same "$(tr '\n' ' ' <in-page)" "$(tr '\n' ' ' <in-help)" "the options of the page of $command"
    same "$(uniq -d in-help)" '' "options that the help of $command lists twice"
    last="the page of qkv"
    has qkv.1 "^.fB$command.fR$"
    has qkv.1 "qkv.-$command \(1\)"
done
for variable in QKV_ISA QKV_THREADS QKV_PRECISION QKV_RANK_SECONDS NO_COLOR; do has qkv.1 "^.fB$variable.fR$"; done
refuse 2 'no command "trian"; did you mean train' "$QKV" help --format man trian
refuse 2 '--format is "csh"; it must be man, bash, zsh, fish or list' "$QKV" help --format csh
refuse 2 '--format needs a value' "$QKV" help --format
refuse 2 'leave out "train"' "$QKV" help --format bash train

# ---- bash ----
"$QKV" help --format bash >qkv.bash
bash -n qkv.bash || fail 'bash -n: the completion of bash'
# complete WORDS...: what bash makes of the last word, a line each.
complete_bash() {
    bash --norc -c 'source ./qkv.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _qkv; printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}
same "$(complete_bash qkv train --preset nano)" nano-gpt 'bash: qkv train --preset nano'
same "$(complete_bash qkv train --preset = nano)" nano-gpt 'bash: qkv train --preset=nano'
same "$(complete_bash qkv tr | sort | tr '\n' ' ')" 'train translate ' 'bash: qkv tr'
same "$(complete_bash qkv generate run --top- | tr '\n' ' ')" '--top-k --top-p ' 'bash: qkv generate run --top-'
same "$(complete_bash qkv train --optimizer '' | tr '\n' ' ')" \
    'adamw adam sgd lion muon adafactor ' 'bash: qkv train --optimizer'
same "$(complete_bash qkv train --data a.)" a.json 'bash: qkv train --data a.'
same "$(complete_bash qkv train --out '')" folder 'bash: qkv train --out'
same "$(complete_bash qkv info fol)" folder 'bash: qkv info fol'
same "$(complete_bash qkv help tok)" tokenize 'bash: qkv help tok'
same "$(complete_bash qkv generate run --isa am)" amx 'bash: qkv generate run --isa am'
same "$(complete_bash qkv train --tokenizer b | sort | tr '\n' ' ')" 'b.txt bpe bytes ' 'bash: qkv train --tokenizer b'
# At a terminal, with the key.
if command -v script >/dev/null; then
    checks=$((checks + 1))
    { printf 'source ./qkv.bash; echo "ready"\n'; sleep 1; printf 'qkv train --preset nano\t\n'; sleep 1; printf 'exit\n'; } |
        terminal bash --norc -i >typed
    grep -q 'qkv train --preset nano-gpt' typed || fail "bash at a terminal: $(tail -5 typed | cat -v)"
else
    missing script
fi

# ---- zsh, fish ----
"$QKV" help --format zsh >_qkv
if command -v zsh >/dev/null; then
    checks=$((checks + 1))
    zsh -n _qkv || fail 'zsh -n: the completion of zsh'
    cat >type.zsh <<'END'
zmodload zsh/zpty
zpty -b shell 'TERM=dumb zsh -f -i'
say() { zpty -w shell "$1"; sleep 0.5; }
say 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=1000'
say 'bindkey "^I" complete-word; zstyle ":completion:*" list-colors ""'
zpty -w -n shell $'qkv train --preset nano\t'
sleep 2
zpty -w -n shell $' --optimizer adamw --sched\t'
sleep 2
zpty -r -t shell all
print -r -- "$all"
while zpty -r -t shell more; do print -r -- "$more"; done
zpty -d shell
END
    timeout 60 zsh -f type.zsh >typed 2>&1
    tr -d '\b\r' <typed >flat
    last='zsh: qkv train --preset nano<TAB> --sched<TAB>'
    has flat 'qkv train --preset nano-gpt'
    has flat '--schedule'
else
    missing zsh
fi
"$QKV" help --format fish >qkv.fish
if command -v fish >/dev/null; then
    checks=$((checks + 1))
    fish -n qkv.fish || fail 'fish -n: the completion of fish'
    complete_fish() { fish -N -c "source qkv.fish; complete -C '$1'" | cut -f1 | tr '\n' ' '; }
    same "$(complete_fish 'qkv train --preset nano')" 'nano-gpt ' 'fish: qkv train --preset nano'
    same "$(complete_fish 'qkv train --preset=nano')" '--preset=nano-gpt ' 'fish: qkv train --preset=nano'
    same "$(complete_fish 'qkv tr')" 'train translate ' 'fish: qkv tr'
    same "$(complete_fish 'qkv train --optimizer ')" 'adafactor adam adamw lion muon sgd ' 'fish: qkv train --optimizer'
    same "$(complete_fish 'qkv train --out ')" 'folder/ ' 'fish: qkv train --out'
else
    missing fish
fi
finish
