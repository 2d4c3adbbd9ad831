#!/usr/bin/env bash
# Training on mixtures of texts: plain and packed files, JSON lines, folders and patterns by weight; shards that are
# used again; the same bits with any number of threads and ranks, and of runs that stop and go on; bad input.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_spec
mkdir corpus books
make_text 400 >text.txt
for i in 1 2 3; do
    awk -v i=$i 'NR % 3 == i - 1 { gsub(/["\\]/, ""); printf "{\"id\": %d, \"text\": \"%s\"}\n", NR, $0 }' text.txt \
        >corpus/$i.jsonl
    awk -v i=$i 'NR % 3 == i - 1' text.txt >books/$i.txt
done
gzip -k corpus/2.jsonl && mv corpus/2.jsonl plain.jsonl
command -v zstd >/dev/null && zstd -q --rm books/2.txt

# mix RUN OPTIONS...: three quarters of the rows are JSON lines.
mix() {
    local run=$1
    shift
    try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data 'corpus/*.jsonl*:3' --data books/:1 \
        --steps "${steps:-6}" --warmup 1 --batch 8 --eval-every 3 --save-every 3 --quiet --out "$run" "$@"
}
mix whole --threads 2
mix one --threads 1
same "$(losses one)" "$(losses whole)" "losses of one thread and of two"
cmp -s one/model.safetensors whole/model.safetensors || fail "one thread and two: other weights"
same "$(cd one/shards && cat ./*.bin | cksum)" "$(cd whole/shards && cat ./*.bin | cksum)" \
    "shards of one thread and of two"
same "$(ls whole/shards | wc -l)" 3 "two shards, one of each source, and their index"
has whole/train.json '"text_key": "text"'
has whole/train.json '"data": \[".*/corpus/\*[.]jsonl\*:3", ".*/books:1"\]'

# A run that stops goes on as if it had not, also without its shards.
steps=3 mix half
rm half/shards/*.bin
try 0 "$QKV" train --resume half --steps 6 --extend decay --quiet
steps=3 mix again
try 0 "$QKV" train --resume again --steps 6 --extend decay --quiet
same "$(losses half)" "$(losses again)" "losses of a run whose shards were made again"
cmp -s half/model.safetensors again/model.safetensors || fail "shards made again: other weights"

# Shards of a folder are made once.
mix first --shards shards
touch -r shards before
find shards -type f -exec touch -d 2001-01-01 {} +
mix second --shards shards --seed 5
same "$(find shards -newer before | wc -l)" 0 "files that were written into the folder of shards again"
mix third --shards shards
same "$(losses third)" "$(losses first)" "losses of runs that share shards"

# A link has the kind that its own name says, whatever the name of the file it leads to.
mkdir blobs links
for i in 1 3; do cp corpus/$i.jsonl blobs/$i && ln -s ../blobs/$i links/$i.jsonl; done
cp -r corpus copies
rm copies/2.*
for texts in links copies; do
    try 0 "$QKV" train --spec spec.json --tokenizer whole/tokenizer.json --data $texts/:1 --steps 2 --warmup 0 \
        --batch 2 --quiet --out $texts-run
done
same "$(losses links-run)" "$(losses copies-run)" "losses of links and of their files"

# Documents, masks of documents, another file to validate on, epochs.
mix apart --documents --valid plain.jsonl
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data text.txt:1 --epochs 0.5 --batch 8 --warmup 1 --quiet \
    --out half-epoch
try 2 "$QKV" train --spec spec.json --data text.txt --skip-bad --out none
has err 'skip-bad is given, but only mixtures of texts leave files and lines out'

# A document at the end of a shard is cut if its end is too far from the share that is held out.
mkdir equal uneven
for i in 1 2; do cp text.txt equal/$i.txt; done
head -5 text.txt >uneven/1.txt
cp text.txt uneven/2.txt
for texts in equal uneven; do
    try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data $texts/:1 --valid-fraction 0.1 --steps 1 --warmup 0 \
        --batch 2 --out $texts-run
    share=$(sed -nE 's/^data .*, ([0-9,]+) tokens to train on, ([0-9,]+) to validate on$/\1 \2/p' err | tr -d , |
        awk '{ print int(100 * $2 / ($1 + $2)) }')
    checks=$((checks + 1))
    { [ "${share:-0}" -ge 5 ] && [ "$share" -le 20 ]; } || fail "$texts: $share % of the tokens are held out"
done

# An empty file of a folder is no hindrance, also when the run is resumed.
: >equal/empty.txt
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data equal/:1 --steps 1 --warmup 0 --batch 2 --quiet \
    --out has-empty
try 0 "$QKV" train --resume has-empty --steps 2 --extend decay --quiet
has has-empty/train.json 'empty.txt", "bytes": 0,'

# A tokenizer that lacks a word says so; nothing of the texts is lost without a word.
printf 'a word that nobody knows\n' >new.txt
try 0 "$QKV" train --spec spec.json --tokenizer whitespace --data text.txt:1 --steps 1 --warmup 0 --batch 2 --quiet \
    --out known
refuse 1 'is no word of the vocabulary, .*, at lines 1 to 1 of .*new.txt' \
    "$QKV" train --spec spec.json --tokenizer whitespace --data text.txt:1 --valid new.txt --steps 1 --warmup 0 \
    --batch 2 --quiet --out unknown

# An empty key is none, also when the run is resumed; files to validate on say too that data is a mixture.
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data text.txt:1 --text-key '' --steps 1 --warmup 0 --batch 2 \
    --quiet --out no-key
has no-key/train.json '"text_key": "text"'
try 0 "$QKV" train --resume no-key --steps 2 --extend decay --quiet
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data text.txt --valid plain.jsonl --steps 1 --warmup 0 \
    --batch 2 --quiet --out valid-json
has valid-json/train.json '"text_key": "text"'
cp text.txt log:12
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data log:12 --steps 1 --warmup 0 --batch 2 --quiet --out colon
hasnt colon/train.json '"text_key": "text"'

# The same notes as on a plain text.
mkdir latin
LC_ALL=C awk '{ gsub(/e/, "\xe9"); print }' <text.txt >latin/1.txt
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data latin/:1 --data corpus:1 --steps 1 --warmup 0 --batch 2 \
    --out latin-run
has err 'latin/1.txt is not UTF-8: [0-9]+ bytes are part of no character, .* it reads as Latin-1'
try 0 "$QKV" train --spec spec.json --tokenizer whitespace:20 --data corpus:1 --steps 1 --warmup 0 --batch 2 --out few
has err '[0-9]+ tokens of .*/corpus/1.jsonl and 2 more files are not in the vocabulary: each is <unk>'

# ---- bad input ----
bad() { # bad PATTERN OPTIONS...
    local pattern=$1
    shift
    "$QKV" train --spec spec.json --tokenizer bpe:300 --steps 1 --warmup 0 --batch 2 --quiet --out bad "$@" \
        >out 2>err </dev/null
    code=$?
    last="train $*"
    [ $code != 0 ] || fail "$last: exit code 0"
    has err "$pattern"
    same "$(wc -l <err)" 1 "lines of the message"
    rm -rf bad
}
printf '{"text": "one"}\n{"body": "two"}\n' >lacks.jsonl
cat plain.jsonl >>lacks.jsonl
printf 'one\ntwo\0\n' >binary.txt
head -c -50 corpus/2.jsonl.gz >cut.jsonl.gz
: >empty.jsonl
bad 'lacks.jsonl:2: the object has no key text; it has body; name the key of the text with --text-key' \
    --data lacks.jsonl
bad 'binary.txt:2: there is a NUL byte' --data binary.txt:1
bad 'cut.jsonl.gz:[0-9]+: the file is cut' --data cut.jsonl.gz
bad 'there is no document in .*empty.jsonl' --data empty.jsonl
bad 'no file has a name like .*none\*[.]txt' --data 'none*.txt'
bad 'has a weight and .* has none' --data 'books/:2' --data corpus
bad 'the weight of .* is not more than 0' --data books/:0
bad 'valid: .*text.txt:3 has a weight; files to validate on' --data books/:1 --valid text.txt:3
printf 'short\n' >short.txt
bad 'the training part of .*/short.txt:1 has [0-9]+ tokens' --data books/:1 --data short.txt:1
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data text.txt:1 --data lacks.jsonl:1 --data cut.jsonl.gz:1 \
    --skip-bad --steps 1 --warmup 0 --batch 2 --valid-fraction 0 --context 4 --out skipped
has err 'skip-bad: 1 line is left out, the first one because .*lacks.jsonl:2: '
has err 'skip-bad: 1 file is left out, the first one because .*cut.jsonl.gz:[0-9]+: the file is cut'

# ---- evaluation: JSON lines, packed or not, are the text of their documents with an end token behind each ----
printf '{"text": "%s"}\n' "the cat sat on the mat" "a dog" "" "and so on, and on" "the end" >docs.jsonl
printf '{"id": 1, "body": "the cat sat on the mat"}\n{"body": "a dog"}\n' >bodies.jsonl
printf '%s<|endoftext|>' "the cat sat on the mat" "a dog" "and so on, and on" "the end" >joined.txt
gzip -kf docs.jsonl
measures() { # NAMES...: loss and tokens
    "$QKV" eval whole --json -q --threads 1 --context 7 "$@" | grep -oE '"(loss|tokens)": [^,]*'
}
measures --data joined.txt >wanted
[ "$(wc -l <wanted)" = 2 ] || fail "eval joined.txt: no loss"
for names in docs.jsonl docs.jsonl.gz 'd*.jsonl'; do
    checks=$((checks + 1))
    measures --data "$names" | cmp -s - wanted || fail "eval --data $names: not the loss of joined.txt"
    measures --data "$names" --documents >by-document
    measures --data joined.txt --documents | cmp -s - by-document || fail "eval --documents --data $names: another loss"
done
try 0 "$QKV" eval whole --data bodies.jsonl --text-key body -q
try 1 "$QKV" eval whole --data bodies.jsonl -q
has err '^qkv: .*bodies.jsonl:1: the object has no key text; it has id, body; name the key of the text with --text-key$'
try 1 "$QKV" eval whole --data docs.jsonl:0.5 -q
try 1 "$QKV" eval whole --data 'none*.jsonl' -q
has err '^qkv: no file has a name like none\*.jsonl; check the pattern$'
mkdir lines && cp docs.jsonl lines
try 1 "$QKV" eval whole --data lines -q
has err 'docs.jsonl is in a folder of plain texts, but its name says that it has JSON lines or is packed'
try 1 "$QKV" train --spec spec.json --data lines --steps 1 --out lined
has err 'docs.jsonl is in a folder of plain texts, but its name says'

# ---- tokenizers learn from documents, not from the lines that hold them ----
"$QKV" tokenize whole --pieces 'the cat' >/dev/null || fail "tokenize"
learn() { try 0 "$QKV" tokenize --train "$1" --tokenizer "$2" -q --force -o learnt.json "${@:3}"; }
printf 'the cat sat on the mat\na dog\nand so on, and on\nthe end\n' >all.txt
for names in docs.jsonl docs.jsonl.gz 'd*s.jsonl'; do
    learn "$names" chars
    try 0 "$QKV" tokenize learnt.json --pieces 'a{"'
    same "$(grep -c '<unk>' out)" 2 "characters of JSON that a tokenizer of $names has not learnt"
done
learn bodies.jsonl chars --text-key body
try 0 "$QKV" tokenize learnt.json --pieces 'oid{'
same "$(grep -c '<unk>' out)" 2 "characters outside of the key body"
learn corpus/1.jsonl bpe:300 --special '<|endoftext|>'
try 0 "$QKV" train --spec spec.json --tokenizer bpe:300 --data corpus/1.jsonl --steps 1 --warmup 0 --batch 2 --quiet \
    --out learns
cmp -s learns/tokenizer.json learnt.json || fail "the tokenizer of tokenize --train is not that of train"
refuse 1 'bodies.jsonl:1: the object has no key text' "$QKV" tokenize --train bodies.jsonl -q -o none.json
refuse 2 'docs.jsonl is in a folder of plain texts, but its name says' "$QKV" tokenize --train lines -q -o none.json
refuse 2 'text-key has no effect: no tokenizer is made' "$QKV" tokenize whole --text-key body text

# ---- a run that fails leaves no folder of shards behind ----
for where in '' '--shards failed-shards'; do
    # shellcheck disable=SC2086
    try 1 "$QKV" train --spec spec.json --tokenizer bpe:300 --data short.txt:1 --context 4096 --steps 1 --out failed \
        $where
    for left in failed failed-shards; do
        if [ -d $left ] && [ -z "$(find $left -type f)" ]; then fail "$left is left behind, and empty"; fi
    done
    rm -rf failed failed-shards
done

# ---- ranks ----
if [ -e "$BINARY/qkv-mpi.so" ] && command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none QKV_RANK_SECONDS=120
    export ASAN_OPTIONS=detect_leaks=0 # those of Open MPI, which the command does not own
    printf '#!/bin/sh\nexec mpirun -n 2 "%s" "$@"\n' "$QKV" >two && chmod +x two
    if mpirun -n 2 true >/dev/null 2>&1; then
        shards() { (cd "$1/shards" && cat ./*.bin | cksum); } # the index has times of change
        QKV=$PWD/two mix double --threads 1
        same "$(losses double)" "$(losses one)" "losses of two ranks and of one"
        cmp -s double/model.safetensors one/model.safetensors || fail "two ranks and one: other weights"
        same "$(shards double)" "$(shards one)" "shards of two ranks and of one"
        # Shards that are gone are made again by all ranks, and lines are left out as by one.
        rm double/shards/*.bin
        try 0 ./two train --resume double --steps 8 --extend decay --quiet
        same "$(shards double)" "$(shards one)" "shards that two ranks have made again"
        for n in 1 2; do
            [ $n = 1 ] && program=$QKV || program=./two
            try 0 "$program" train --spec spec.json --tokenizer bpe:300 --data text.txt:1 --data lacks.jsonl:1 \
                --data cut.jsonl.gz:1 --skip-bad --steps 1 --warmup 0 --batch 2 --valid-fraction 0 --context 4 \
                --out skipped-$n
            grep skip-bad err >skipped-$n.notes
            try 1 "$program" train --spec spec.json --tokenizer bpe:300 --data lacks.jsonl --steps 1 --warmup 0 \
                --batch 2 --quiet --out bad
            grep '^qkv: ' err | head -1 >bad-$n.message
        done
        grep -q 'lacks.jsonl:2: the object has no key text' bad-1.message || fail "one rank says $(cat bad-1.message)"
        same "$(wc -l <skipped-1.notes)" 2 "notes about what is left out"
        cmp -s skipped-1.notes skipped-2.notes || fail "two ranks say $(cat skipped-2.notes)"
        same "$(shards skipped-2)" "$(shards skipped-1)" "shards of two ranks and of one, lines left out"
        cmp -s bad-1.message bad-2.message || fail "two ranks say $(cat bad-2.message), one says $(cat bad-1.message)"

        # Ranks in two folders: a relative folder of shards is that of rank 0; files have the same names and sizes.
        mkdir elsewhere
        cp spec.json text.txt elsewhere
        apart() { # apart CODE: trains
            local line="train --spec spec.json --tokenizer bpe:300 --data text.txt:1 --steps 1 --warmup 0 --batch 2"
            line="$line --shards relative --threads 1 --quiet --out $folder/two-folders"
            try "$1" mpirun -n 1 "$QKV" $line : -n 1 -wdir "$folder/elsewhere" "$QKV" $line
        }
        echo more >>elsewhere/text.txt
        apart 1
        has err 'rank 1: the data differ: text.txt of [0-9]+ bytes here and text.txt of [0-9]+ bytes on rank 0'
        [ ! -e relative ] || fail "a run that is refused leaves a folder of shards"
        cp text.txt elsewhere
        apart 0
        [ -e relative ] || fail "rank 0 has not made the folder of shards"
        [ ! -e elsewhere/relative ] || fail "rank 1 has made a folder of shards of its own"
    fi
fi
finish
