#!/usr/bin/env bash
# Several ranks under mpirun: losses and weights are those of one rank, another number of ranks can resume, and the end
# of one rank ends all.
. "$(dirname "$0")/ranks_common.sh"
make_spec
make_text 400 >text.txt
make_experts 32 4 >experts.json
make_pairs 120 >pairs.tsv

# ---- the same bits ----
for precision in $precisions; do
    for n in $counts; do
        ranks $n
        try 0 train text-$precision-$n 6 --quiet --precision $precision --accumulate $((n > 2 ? 2 : 1))
        [ ! -s out ] || fail "$n ranks write to standard output"
        [ $n = 1 ] || alike text-$precision-1 text-$precision-$n "$n ranks, $precision"
    done
done
for kind in experts pairs; do
    options="--spec experts.json --data text.txt"
    [ $kind = experts ] || options="--preset tiny-seq2seq --tokenizer chars --pairs pairs.tsv"
    for n in 1 3; do
        ranks $n
        try 0 "$QKV" train $options --batch 6 --steps 4 --warmup 2 --eval-every 2 --threads 1 --quiet --out $kind-$n
    done
    alike $kind-1 $kind-3 "three ranks, $kind"
done

# ---- a preset as it is, with a vocabulary whose rows several ranks own; and gradients that travel as bf16 ----
cp "$SOURCE/README.md" pages.txt
norms() { sed -nE 's/.*"loss": ?([^,]*),.*"norm": ?([^,]*),.*/\1 \2/p' "$1/log.jsonl"; } # a loss and a norm a step
for gradients in fp32 bf16; do
    for n in 1 2 4; do
        ranks $n
        options="--gradients bf16"
        [ $gradients = bf16 ] || options= # the default
        [ $gradients$n != bf161 ] || continue
        try 0 "$QKV" train --preset nano-gpt --tokenizer bpe:1000 --data pages.txt $options --steps 4 --warmup 2 \
            --batch 8 --eval-every 0 \
            --eval-batches 1 --threads 1 --quiet --out nano-$gradients-$n
        [ $gradients$n = fp321 ] && same "$(sed -nE 's/.*"vocab": *([0-9]+).*/\1/p' nano-fp32-1/train.json \
            | head -1)" 1000 "the vocabulary"
        [ $gradients = bf16 ] || [ $n = 1 ] || alike nano-fp32-1 nano-fp32-$n "$n ranks, nano-gpt with bpe:1000"
        # The second norm is of weights that were updated with gradients of all ranks.
        [ $gradients = fp32 ] || paste <(norms nano-fp32-1) <(norms nano-bf16-$n) | awk '
            {loss = $3 / $1 - 1; norm = $4 / $2 - 1; other = other || norm}
            NR == 1 && loss || loss ^ 2 > 1e-4 || norm ^ 2 > 1e-3 {bad = 1}
            END {exit bad || !other || NR != 4}' ||
            fail "$n ranks: gradients in bf16 give losses or norms far from those in fp32, or the same"
    done
done

# ---- one speaks for all, and another number goes on ----
ranks 3
try 0 train moved 4 --set dropout=0.1 --plain
same "$(grep -c 'steps done' err)" 1 "ranks that say that they are done"
ranks 2
try 0 resume moved --steps 8 --quiet
ranks 1
try 0 train stayed 4 --set dropout=0.1 --quiet
try 0 resume stayed --steps 8 --quiet
alike stayed moved "3 ranks and then 2"
ranks 1
try 0 "$QKV" info moved
cp out alone
ranks 2
try 0 "$QKV" info moved
# A process that has opened the module of ranks takes more memory by itself.
memory() { sed -E 's/ +[0-9.]+ [MG]iB/ N MiB/g' "$1"; }
cmp -s <(memory alone) <(memory out) || fail "two ranks answer info otherwise than one"
has err 'info does not divide its work among ranks'

# ---- as the page says, as root and with fewer cores than ranks, where nothing else tells mpirun so ----
ranks 1
words=$(sed -n 's/^    \(mpirun .*\) qkv train .*--data corpus.txt.*/\1/p' "$SOURCE/docs/scale.md")
has "$SOURCE/docs/do/ranks.md" '`--allow-run-as-root`.*`--oversubscribe`'
[ -n "$words" ] || fail "docs/scale.md has no line of mpirun"
try 0 env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM -u OMPI_MCA_rmaps_base_oversubscribe $words \
    "$single" train --spec spec.json --data text.txt --batch 4 --warmup 2 --eval-every 5 --eval-batches 2 \
    --save-every 5 --threads 1 \
    --quiet --precision fp32 --steps 6 --out page
alike text-fp32-1 page "the four ranks of docs/scale.md"

# ---- stopped, killed, and gone on with ----
ranks 1
long="1500 --quiet --save-every 50 --eval-every 50" # seconds, so that a signal comes in time
try 0 train whole $long
ranks 3
in_background stopped 6 $long
kill -INT "$launcher"
wait $child
has err 'interrupted and saved after step'
has stopped/state.json '"interrupted"'
ranks 3
in_background killed 6 $long
kill -KILL "$(pgrep -P "$launcher" | tail -1)"
wait $child && fail "a run one rank of which was killed ends as if nothing were wrong"
for name in stopped killed; do
    ranks 2
    try 0 resume $name --quiet
    alike whole $name "a run that was $name and went on with 2 ranks"
done

# ---- what cannot be ----
ranks 3
try 1 train few 4 --quiet --groups 2
has err '^qkv: there are 3 ranks and 2 groups of a batch'
[ ! -e few/train.json ] || fail "a run that was refused has left a folder"
ranks 2
export QKV_MPI=/nowhere.so
try 1 train none 4 --quiet
has err '^qkv: 2 ranks were started, but qkv-mpi.so'
finish
