#!/usr/bin/env bash
# Rank 0 validates or writes a sample for longer than ranks wait for one another: it tells the others that it works, so
# they do not treat it as hung. A rank 0 that hangs in the same place is named.
# labels: slow
. "$(dirname "$0")/ranks_common.sh"
export QKV_RANK_SECONDS=3
make_spec
make_text 200 >text.txt
make_text 8000 >many.txt
# options_of KIND WORK: a run of two steps with something long behind the last one; of a sample also behind the first,
# where the others wait for the sums of the second step.
options_of() {
    case $1 in
    validation)
        for ((i = 0; i < $2; i++)); do cat many.txt; done >large.txt
        options="--spec spec.json --tokenizer bytes --data text.txt --valid large.txt --eval-batches 0 --eval-every 2"
        ;;
    sample) \
        options="--spec spec.json --tokenizer bytes --data text.txt --eval-batches 1 --eval-every 1 --set d_model=256 --set decoder.layers=4 --sample $((2500 * $2))" ;;
    esac
    options="$options --steps 2 --batch 6 --warmup 1 --threads 1 --quiet"
}
# long RUN: between the lines of its two steps lies more than twice what a rank waits for another.
long() {
    sed -n 's/.*"seconds": *\([0-9.]*\).*/\1/p' "$1/log.jsonl" \
        | awk 'NR == 1 { first = $1 } END { exit !(NR == 2 && $1 - first > 7) }'
}

for kind in validation sample; do
    ranks 3
    for ((work = 1; work < 1024; work *= 2)); do # until it is long on this machine
        rm -rf $kind
        options_of $kind $work
        try 0 "$QKV" train $options --out $kind
        [ "$failures" = 0 ] || break
        ! long $kind || break
    done
    long $kind || fail "$kind does not take long"
    hasnt err 'hangs'
    # With more of it, and rank 0 stops in the middle.
    [ "$failures" = 0 ] || finish
    options_of $kind $((work * 4))
    "$QKV" train $options --out $kind-stopped >out 2>err </dev/null &
    child=$!
    for ((i = 0; i < 3000; i++)); do
        [ "$(cat $kind-stopped/log.jsonl 2>/dev/null | wc -l)" = 0 ] || break
        sleep 0.02
    done
    sleep 0.5
    victim=$(for rank in $(pgrep -P $child); do tr '\0' '\n' <"/proc/$rank/environ" | grep -qx OMPI_COMM_WORLD_RANK=0 \
        && echo "$rank"; done)
    kill -STOP "$victim"
    same "$(wc -l <$kind-stopped/log.jsonl)" 1 "lines of the log when rank 0 stops in its $kind"
    wait $child && fail "rank 0 stops in its $kind, and all ends well"
    grep -qE '^qkv: rank [12] has waited 3 seconds for rank 0, which hangs' err \
        || fail "rank 0 stops in its $kind: $(ours)"
done

# ---- the last thing that rank 0 does: the others have nothing left but to end ----
ranks 2
options_of sample $((work * 4))
"$QKV" train ${options/--eval-every 1/--eval-every 0} --out last >out 2>err </dev/null &
child=$!
for ((i = 0; i < 3000; i++)); do
    [ "$(cat last/log.jsonl 2>/dev/null | wc -l)" -lt 2 ] || break
    sleep 0.02
done
sleep 0.5
victim=$(for rank in $(pgrep -P $child); do tr '\0' '\n' <"/proc/$rank/environ" | grep -qx OMPI_COMM_WORLD_RANK=0 \
    && echo "$rank"; done)
kill -STOP "$victim"
wait $child && fail "rank 0 stops in its last sample, and all ends well"
grep -qE '^qkv: rank 1 has waited 3 seconds for the others to end; one hangs' err \
    || fail "rank 0 stops in its last sample: $(ours)"
finish
