#!/usr/bin/env bash
# Several ranks under mpirun tokenise files of lines together: token files, losses, checkpoints, counts and failures are
# those of one rank. That the others do encode is tested where what they send can be counted
# (tests/test_train_rank_lines.c).
. "$(dirname "$0")/ranks_common.sh"
# rows KIND COUNT SEED: random words of a few letters, in lines of that kind: pairs, labels, words (a sentence of a few
# lines), text. Now and then a blank line, a Windows line end, and a line that is too long for the context.
rows() {
    awk -v kind="$1" -v n="$2" -v seed="$3" 'function word(    w, k) {
        w = ""
        for (k = 2 + int(rand() * 6); k; k--) w = w substr("abcdefghi", 1 + int(rand() * 9), 1)
        return rand() < 0.05 ? w "\303\251" : w
    } BEGIN {
        srand(seed)
        for (i = 0; i < n; i++) {
            text = word()
            words = i % 997 == 5 ? 40 : 1 + int(rand() * 3)
            for (j = 1; j < words; j++) text = text " " word()
            label = length(text) % 2 ? "odd" : "even"
            if (kind == "words") {
                count = split(text, w, " ")
                for (j = 1; j <= count; j++) print w[j] "\t" (length(w[j]) % 2 ? "odd" : "even")
                print ""
            } else if (kind == "pairs")
                printf "%s\t%s%s", text, toupper(text), i % 50 ? "\n" : "\r\n"
            else
                printf "%s%s%s", kind == "labels" ? label "\t" : "", text, i % 50 ? "\n" : "\r\n"
            if (i % 301 == 0) print ""
        }
    }'
}
for kind in pairs labels words text; do
    rows $kind 90000 1 >$kind.1
    { printf '\357\273\277'; rows $kind 30000 2; } >$kind.2 # the second file begins with a byte order mark
    rows $kind 3000 3 >$kind.valid
    [ "$(wc -c <$kind.1)" -gt 900000 ] || fail "$kind.1 is too small for three ranks to take turns"
done
small="--set d_model=16 --threads 1 --batch 6 --steps 3 --warmup 1 --eval-every 2 --eval-batches 2 --long skip --quiet"
# of CASE: its options; $file: the lines that it learns from.
of() {
    case $1 in
    pairs) file=pairs \
        options="--preset tiny-seq2seq --pairs pairs.1 --pairs pairs.2 --context 48 --tokenizer chars --source-tokenizer bytes" ;;
    bpe) file=pairs \
        options="--preset tiny-seq2seq --pairs pairs.2 --context 48 --tokenizer bpe:300 --source-tokenizer shared" ;;
    labels) file=labels \
        options="--preset text-classifier --labeled labels.1 --labeled labels.2 --context 48 --tokenizer chars" ;;
    words) file=words \
        options="--preset text-classifier --set head={\"kind\":\"classify_tokens\"} --labeled words.1 --labeled words.2 --context 48 --tokenizer chars" ;;
    text) file=text options="--preset nano-gpt --lines text.1 --lines text.2 --context 48 --tokenizer chars" ;;
    each) file=text options="--preset bert-tiny --lines text.2 --task mlm --mask-each --context 48 --tokenizer chars" ;;
    esac
}
# What a checkpoint holds behind its header, which tells how long the run took.
numbers() { tail -c "+$((9 + $(od -An -tu8 -N8 "$1/checkpoint.safetensors")))" "$1/checkpoint.safetensors"; }
said() { grep -E '^qkv: .*(skipped|mark|<unk>)' err | sed "s/$1-[0-9]/RUN/g"; }
for case in pairs bpe labels words text each; do
    of $case
    for n in $counts; do
        ranks $n
        try 0 "$QKV" train $options --valid $file.valid $small --out $case-$n
        said $case >$case-$n.said
        [ $n != 1 ] || continue
        for name in $(cd $case-1 && ls tokens.*.bin); do
            cmp -s $case-1/$name $case-$n/$name || fail "$case, $n ranks: other ids in $name"
        done
        alike $case-1 $case-$n "$case, $n ranks"
        cmp -s <(numbers $case-1) <(numbers $case-$n) || fail "$case, $n ranks: other numbers in the checkpoint"
        same "$(cat $case-$n.said)" "$(cat $case-1.said)" "what is said of the lines, $case, $n ranks"
        same "$(grep -o '"\(hash\|tokens\|lines\|long\)": [^,]*' $case-$n/train.json)" \
            "$(grep -o '"\(hash\|tokens\|lines\|long\)": [^,]*' $case-1/train.json)" \
            "what train.json says of the lines, $case, $n ranks"
    done
    same "$(grep -c 'were skipped (long skip)' $case-1.said)" 2 \
        "notes about lines of $case that were skipped, of both files"
done
[ "$(stat -c %s each-1/tokens.data.bin)" -gt 4000000 ] || fail "lines have not been repeated for each of their tokens"

# Token files that are gone are made again by all ranks.
ranks 3
for case in pairs labels; do
    of $case
    cp $case-3/tokens.data.beside.bin before
    rm $case-3/tokens.data.beside.bin
    try 0 "$QKV" train --resume $case-3 --steps 4 --quiet
    cmp -s before $case-3/tokens.data.beside.bin || fail "$case: three ranks make another token file again"
done

# A bad line, wherever it is found, ends all ranks with the sentence of one, the first where there are several, and
# leaves nothing. bad PATTERN OPTIONS...
bad() {
    local pattern=$1
    shift
    for n in $counts; do
        ranks $n
        try 1 "$QKV" train "$@" ${small/--long skip/} --out refused
        ours >bad-$n
        same "$(wc -l <bad-$n)" 1 "sentences about a bad line, $n ranks"
        grep -qE "$pattern" bad-$n || fail "$n ranks: no \"$pattern\" in: $(cat bad-$n)"
        cmp -s bad-1 bad-$n || fail "$n ranks say $(cat bad-$n), one says $(cat bad-1)"
        [ ! -e refused/train.json ] || fail "a run that was refused has left a folder"
    done
}
for kind in pairs labels text; do LC_ALL=C awk 'NF && length < 60' $kind.1 >$kind.short; done
long=$(printf 'abc%.0s' {1..40})
# Rounds of three pieces of 256 KiB: the first bad line lies in that of rank 1, of rank 2, of rank 0, and in the last,
# shorter one.
for bytes in 100000 400000 700000 99999999; do
    at=$(head -c $bytes text.short | wc -l)
    sed "$at,\$s/.*/$long/" text.short >bad.txt
    bad "bad\.txt:$at: the line has 122 tokens with .*, more than the context of 64;" --preset nano-gpt \
        --lines bad.txt --context 64 --tokenizer bytes
done
sed '12000s/\t/ /; 26000s/\t/\t\t/' pairs.short >bad.txt
bad 'bad\.txt:12000: no tab in this line' --preset tiny-seq2seq --pairs bad.txt --context 64 --tokenizer bytes
sed '41000s/^[a-z]*/neither/; 41001s/^[a-z]*/strange/' labels.short >bad.txt
bad 'bad\.txt:41000: the label "neither" does not occur in training; the known ones are even, odd' \
    --preset text-classifier --labeled labels.short --valid bad.txt --context 100 --tokenizer bytes
finish
