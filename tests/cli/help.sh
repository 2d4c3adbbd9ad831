#!/usr/bin/env bash
# The command line: help, version, wrong words, closed pipes, full disks.
. "$(dirname "$0")/common.sh"
commands="train new generate translate classify fill embed eval info attend report inspect compare forward tokenize export quantize bench doctor"

try 0 "$QKV" help
cp out overview
for command in $commands; do has out "^  $command +[a-z]"; done
for group in train use look compare files; do has out "^$group:$"; done
[ "$(wc -l <out)" -le 45 ] && [ "$(awk 'length > 80' out | wc -l)" = 0 ] \
    || fail "the overview is more than a terminal shows"
has out 'qkv train --preset nano-gpt'
has out 'exit codes'
for spelling in --help -h; do
    try 0 "$QKV" $spelling
    cmp -s out overview || fail "$last differs from qkv help"
done
try 2 "$QKV"
cmp -s out overview || fail "qkv alone does not show the help"
has err '^qkv: no command is given'

for command in $commands; do
    try 0 "$QKV" help $command
    cp out described
    has out "^qkv $command: "
    has out '^usage:'
    has out '^(options|machine):$'
    has out '^examples:'
    has out "^  qkv $command "
    has out '--help'
    [ "$(awk 'length > 200' out | wc -l)" = 0 ] || fail "$last: a line longer than 200 columns"
    for spelling in --help -h; do
        try 0 "$QKV" $command $spelling
        cmp -s out described || fail "$last differs from qkv help $command"
    done
done
# The help of train opens with the options that most people need, each with an example; no option comes twice, and no
# subject is a list too long to read.
try 0 "$QKV" help train
awk '/^most used:$/ {on = 1; next} on && /^$/ {exit} on' out >opening
same "$(grep -cE '^ {6}--' opening) $(grep -c '^ *qkv train ' opening)" '5 5' 'options that open the help of train, and examples'
for option in preset data out steps resume; do grep -q "^ *--$option " opening || fail "--$option does not open the help of train"; done
for subject in model data task tokenizer length batches optimizer evaluation saving output precision machine; do has out "^$subject:$"; done
for command in train generate translate eval attend inspect compare; do
    try 0 "$QKV" help $command
    sed -nE 's/^ {2,6}(-., )?--([a-z0-9-]+).*/\2/p' out | sort | uniq -d >twice
    same "$(tr '\n' ' ' <twice)" '' "options that the help of $command lists twice"
    hasnt out '^options:$'
    awk '/^[a-z].*:$/ {subject = $0; n = 0} /^ {2,6}(-., )?--/ && ++n > 14 {print subject}' out >long
    [ ! -s long ] || fail "$last: more than 14 options under $(sort -u long)"
done
# Every option has a subject that the help prints.
for command in $("$QKV" help --format list); do
    "$QKV" help --format bash | awk -v c="$command" '$1 == c ")" {on = 1} on && /options=/ {gsub(/.*options=.|.$/, ""); print; exit}' | tr ' ' '\n' | sort >known
    "$QKV" help $command | sed -nE 's/^ {2,6}(-., )?(--[a-z0-9-]+).*/\2/p' | sort >printed
    same "$(comm -23 known printed | tr '\n' ' ')" '' "options of $command that its help does not print"
done
try 0 "$QKV" help train
has out '^ +--weight-decay X .*\(default: 0\.1\)'
has out '^ +--steps N .*\(default: 2000\)'
has out '^ +--data FILE'
has out '^  nano-gpt '
try 0 "$QKV" help generate
has out '-n, --tokens N .*\(default: 200\)'
has out '--top-p X'

try 0 "$QKV" --version
has out '^qkv [0-9]+\.[0-9]+\.[0-9]+$'

refuse 2 'no command "trian"; did you mean train\?' "$QKV" trian
refuse 2 'no command "generat"; did you mean generate' "$QKV" help generat
refuse 2 'no command "xyzzy" \(' "$QKV" xyzzy
refuse 2 'the command comes first' "$QKV" --steps 3 train
refuse 2 'train has no option --stepz; did you mean --steps\?' "$QKV" train --stepz 3
refuse 2 'did you mean --weight-decay\?' "$QKV" train --wieght-decay 3
# What a preset trains with, and what it is made of.
try 0 "$QKV" help train
tr -s ' \n' ' ' <out >flat
has flat 'nano-gpt a GPT .* --tokenizer chars --batch 12 --steps 2000 --rate 1e-3 --min-rate 1e-4 --warmup 100'
try 0 "$QKV" info --preset nano-gpt
has out '^  trains with +--tokenizer chars --batch 12 --steps 2000'
has out '^  decoder +4 layers, width 128, position of the embedding learned$'
has out '^  decoder attention +4 heads of 32, mask causal$'
has out '^  decoder norms +layernorm, placement pre, eps 1e-05$'
has out '^  decoder feed-forward +activation gelu, 512 wide$'
has out '^  head +lm, tie head$'
try 0 "$QKV" info --preset gemma-style
has out \
    '^  decoder.local attention +8 heads of 64, 2 of keys and values, mask causal, a window of 128, position rope \(theta 10000\), capped scores$'
has out '^  decoder.global +layers 5, 11$'
has out '^  decoder.local norms +rmsnorm_plus_one, placement sandwich'
try 0 "$QKV" info --preset transformer-base --set vocab=300
has out '^  encoder attention .*mask all positions'
has out '^  decoder cross attention +to all positions of the encoder'
has out '^  encoder norms +layernorm, placement post'
try 0 "$QKV" info --preset text-classifier
has out '^  head +classify, [0-9]+ classes'
# What other programs call our options.
refuse 2 'train has no option --lr; did you mean --rate\?' "$QKV" train --lr 3
refuse 2 'did you mean --batch\?' "$QKV" train --batch-size 3
refuse 2 'did you mean --context\?' "$QKV" train --block_size=3
refuse 2 'did you mean --clip\?' "$QKV" train --max_grad_norm 1
for command in generate translate; do
    refuse 2 "$command has no option --temperature; did you mean --temp\?" "$QKV" $command --temperature 1
done
refuse 2 'did you mean --tokens\?' "$QKV" generate --max_new_tokens 3
refuse 2 'did you mean --max-tokens\?' "$QKV" translate --max-new-tokens 3
refuse 2 'did you mean --beam\?' "$QKV" translate --num-beams 3
refuse 2 'generate has no option --colour \(' "$QKV" generate run --colour
refuse 2 'generate has no option -z' "$QKV" generate run -z
refuse 2 '--steps needs a value' "$QKV" train --steps
refuse 2 '-n needs a value' "$QKV" generate run -n
refuse 2 '--quiet takes no value' "$QKV" train --quiet=yes
for number in x '' 1.5 1e3 0x10 ' 5' '5 ' 99999999999999999999 -1; do
    refuse 2 '--tokens needs a whole number from 0 to [0-9]+, not' "$QKV" generate run --tokens "$number"
done
for number in x '' nan inf 1e999 0.5x ' 1'; do
    refuse 2 '--temp needs a number of at least 0, not' "$QKV" generate run --temp "$number"
done
refuse 2 'one argument too many: "two"' "$QKV" generate one two
refuse 2 'one argument too many: "-n"' "$QKV" generate one -- -n
refuse 2 'name a model folder' "$QKV" generate
refuse 2 'name a model folder' "$QKV" eval
refuse 2 'name a text' "$QKV" eval run
refuse 2 'name a tokenizer' "$QKV" tokenize
refuse 2 'name a file of arrays to read' "$QKV" forward run
refuse 2 'name a file to write' "$QKV" forward run --inputs x
refuse 2 'name a model' "$QKV" train --data x --out run
refuse 2 'exclude each other' "$QKV" train --preset nano-gpt --spec x --data x --out run
refuse 2 'name a file to train on' "$QKV" train --preset nano-gpt --out run
refuse 2 'name a folder' "$QKV" train --preset nano-gpt --data x
refuse 2 'nano-gpt' "$QKV" train --preset nano-gtp --data x --out run
refuse 2 '--resume uses the model and the folder' "$QKV" train --resume run --preset nano-gpt
refuse 2 'batch cannot change with --resume.*these may change: .*--eval-every' "$QKV" train --resume run --batch 3
refuse 2 'exclude each other' "$QKV" generate run --prompt a --prompt-file b
refuse 2 'name one model' "$QKV" info
refuse 2 'name one model' "$QKV" info run --preset gpt2-small
refuse 2 'pieces has no effect: --ids turns ids into text' "$QKV" tokenize run --ids --pieces
refuse 2 'isa|kernel|neither|avx2' "$QKV" generate run --isa mmx
refuse 2 '--adamw needs STEPS' "$QKV" forward run --inputs x -o y --adamw 3,0.1
refuse 2 '--adamw needs STEPS' "$QKV" forward run --inputs x -o y --adamw 3,0.1,0.9,0.9,1e-8,0.1,7
# A name with an escape sequence in it does not reach the terminal.
try 2 "$QKV" train $'--ste\e[31mps' 3
hasnt err $'\e'

# Colours: on a terminal that has them, unless NO_COLOR is set to something; never in a pipe or a file.
escape=$(printf '\033')
if command -v script >/dev/null; then
    seen() { # seen VARIABLES COMMAND: its output on a terminal
        env $1 timeout 20 script -qec "$2" /dev/null </dev/null >shown 2>&1
    }
    colored() { checks=$((checks + 1)); grep -q "$escape\[" shown || fail "no colours: $*"; }
    plain() { checks=$((checks + 1)); ! grep -q "$escape\[" shown || fail "colours: $*"; }
    for words in "help" "help train" "generate"; do
        seen "-u NO_COLOR TERM=xterm" "$QKV $words"
        colored "qkv $words on a terminal"
        seen "TERM=xterm NO_COLOR=" "$QKV $words"
        colored "qkv $words with an empty NO_COLOR"
        seen "TERM=xterm NO_COLOR=1" "$QKV $words"
        plain "qkv $words with NO_COLOR"
        seen "-u NO_COLOR TERM=dumb" "$QKV $words"
        plain "qkv $words on a dumb terminal"
        seen "-u TERM -u NO_COLOR" "$QKV $words | cat; $QKV $words 2>&1 >/dev/null | cat"
        plain "qkv $words in a pipe"
        seen "-u NO_COLOR TERM=xterm" "$QKV $words 2>/dev/null | cat; ($QKV $words >/dev/null) 2>&1 | cat"
        plain "qkv $words in a pipe of a terminal"
    done
else
    echo 'left out: there is no script'
fi

# A value that is none of an option's: the nearest one, all of them if they are few, and what explains it.
refuse 2 '--precision is "bf61"; it must be fp32, bf16 or auto; did you mean bf16\? \(".*qkv help generate" explains it\)' "$QKV" generate run --precision bf61
refuse 2 '--preset is "nano-gtp", and there is no such preset; did you mean nano-gpt\? \(".*qkv help train" lists them\)' "$QKV" train --preset nano-gtp
refuse 2 '--preset is "nano-gtp".*nano-gpt.*"[^"]*qkv help info" lists them' "$QKV" info --preset nano-gtp
refuse 2 '--optimizer is "adamv"; it must be adamw, adam, sgd, lion, muon or adafactor; did you mean adam' \
    "$QKV" train --optimizer adamv
refuse 2 '--schedule is "cosin"; .*did you mean cosine' "$QKV" train --schedule cosin
refuse 2 '--extend is "flatt"; .*did you mean flat\?' "$QKV" train --extend flatt
refuse 2 '--metric is "acuracy"; .*did you mean accuracy' "$QKV" train --metric acuracy
refuse 2 '--long is "keep_stat"; .*did you mean keep-start' "$QKV" translate run a --long keep_stat
refuse 2 '--kind is "crosss"; .*did you mean cross' "$QKV" attend run --prompt a --kind crosss
refuse 2 '--dtype is "bf61"; .*did you mean bf16' "$QKV" export run --dtype bf61
refuse 2 '--isa is "avx3"; it must be scalar, .*did you mean avx2' "$QKV" info run --isa avx3
refuse 2 '--to is "hugginface"; .*did you mean huggingface' "$QKV" export run --to hugginface
refuse 2 '--task is "mml"; it must be text, mlm' "$QKV" train --task mml

# A reader that leaves early hears nothing about it; a full disk is noticed.
"$QKV" help 2>err | head -n 1 >out
[ ! -s err ] || fail "qkv help | head complains: $(cat err)"
for command in $commands; do
    "$QKV" help $command 2>err | true
    [ ! -s err ] || fail "qkv help $command | true complains: $(cat err)"
done
if [ -w /dev/full ]; then
    for words in help "help train" --version "info --preset nano-gpt" "info --preset gpt2-small --json"; do
        "$QKV" $words >/dev/full 2>err
        same $? 1 "the exit code of qkv $words with a full disk"
        last="qkv $words >/dev/full"
        : >out
        has err '^qkv: cannot write the output: No space left'
    done
fi
"$QKV" help >&- 2>err
same $? 1 "the exit code of qkv help with standard output closed"

# Help makes no context, so it starts no thread and measures nothing: it comes where no context can be made.
refuse 2 '^qkv: QKV_ISA is "none"' env QKV_ISA=none "$QKV" info --preset nano-gpt
try 0 env QKV_ISA=none "$QKV" --version
try 0 env QKV_ISA=none "$QKV" help
for command in $commands; do try 0 env QKV_ISA=none "$QKV" help $command; done
finish
