#!/usr/bin/env bash
# Several ranks under mpirun tokenise a text together: the token files are those of one rank, byte for byte, wherever a
# text can be cut.
. "$(dirname "$0")/ranks_common.sh"
make_spec
# Words, accents made of two characters, other scripts, runs of blanks and empty lines; now and then a long run without
# a blank.
awk 'BEGIN {
    srand(7)
    split("the and of cafe\314\201 na\303\257ve Stra\303\237e \346\261\211\345\255\227 \320\277\321\200\320\270\320\262\320\265\321\202 " \
          "\360\237\247\252\360\237\247\252 low lower lowest ing ring king 12345 a\t\tb \342\200\224 don'"'"'t", words, " ")
    for (i = 0; i < 60000; i++) {
        line = words[1 + int(rand() * 17)]
        for (j = 0; j < 6; j++) line = line (rand() < 0.1 ? "   " : rand() < 0.2 ? "" : " ") words[1 + int(rand() * 17)]
        print line
        if (i % 97 == 0) print "\n\n  "
        if (i == 30000) {
            for (j = 0; j < 60000; j++) printf "%s", words[1 + int(rand() * 8)]
            print ""
        }
    }
}' >large.txt
head -c 700000 large.txt | iconv -c -f utf-8 -t utf-8 >small.txt
[ "$(wc -c <large.txt)" -gt 2200000 ] || fail "the text is too small for four ranks to take turns"

# Two files, one after the other, and a text to validate on.
for tokenizer in bpe chars; do
    for n in 1 2 3 4; do
        ranks $n
        try 0 "$QKV" train --spec spec.json --tokenizer $tokenizer --data small.txt --data large.txt --valid small.txt \
            --steps 2 --warmup 1 \
            --batch 4 --threads 1 --quiet --out $tokenizer-$n
        for file in tokens.data.bin tokens.valid.bin; do
            [ -s "$tokenizer-$n/$file" ] || fail "$tokenizer, $n ranks: no $file"
            cmp -s "$tokenizer-1/$file" "$tokenizer-$n/$file" || fail "$tokenizer, $n ranks: other ids in $file"
        done
        same "$(grep -o '"\(hash\|tokens\)": [^,]*' $tokenizer-$n/train.json)" \
            "$(grep -o '"\(hash\|tokens\)": [^,]*' $tokenizer-1/train.json)" \
            "what train.json says of the text, $tokenizer, $n ranks"
    done
done

# A token file that is gone is made again by all ranks.
ranks 3
cp bpe-3/tokens.data.bin before
rm bpe-3/tokens.data.bin
try 0 "$QKV" train --resume bpe-3 --steps 3 --quiet
cmp -s before bpe-3/tokens.data.bin || fail "three ranks make another token file again"

# What is no text is refused with one sentence, wherever it is found, and leaves nothing.
{ head -c 1500000 large.txt; printf '\0'; tail -c 500000 large.txt; } >binary.txt
ranks 3
try 1 "$QKV" train --spec spec.json --tokenizer chars --data binary.txt --steps 2 --quiet --out refused
same "$(ours | wc -l)" 1 "sentences about a text that is none"
has err '^qkv: .*binary.txt.*NUL'
[ ! -e refused/train.json ] || fail "a run that was refused has left a folder"
finish
