#!/usr/bin/env bash
# Ranks that differ, or of which one ends: the message names the rank and the difference, all ranks end, and nothing is
# written.
. "$(dirname "$0")/ranks_common.sh"
make_spec
make_text 400 >text.txt
run="train --spec spec.json --data $folder/text.txt --batch 6 --warmup 1 --threads 1 --quiet"

# unlike PATTERN FOLDER COMMAND...: fails, says one line of ours that matches, and makes no folder.
unlike() {
    local pattern=$1 made=$2
    shift 2
    checks=$((checks + 1))
    last="$*"
    timeout 100 "$@" >out 2>err </dev/null && fail "$last: ends as if nothing were wrong"
    has err "^qkv: $pattern"
    same "$(ours | wc -l)" 1 "lines of ours of: $last"
    [ ! -e "$made" ] || fail "$last: $made was made"
}

# ---- started with other words, builds, places ----
unlike 'rank 1 was started with --steps 5, rank 0 with --steps 4; start all ranks' other \
    mpirun -n 1 "$QKV" $run --steps 4 --out other : -n 1 "$QKV" $run --steps 5 --out other
unlike 'rank 2 was started with --accumulate, rank 0 with nothing more; ' other \
    mpirun -n 2 "$QKV" $run --out other : -n 1 "$QKV" $run --out other --accumulate 2
unlike 'rank 1 was started with --bogus, rank 0 with nothing more; ' other \
    mpirun -n 1 "$QKV" $run --out other : -n 1 "$QKV" $run --out other --bogus
unlike 'rank 1 was started with eval, rank 0 with train; ' other \
    mpirun -n 1 "$QKV" $run --out other : -n 1 "$QKV" eval other --data text.txt
unlike 'train has no option --bogus' other mpirun -n 3 "$QKV" $run --out other --bogus
ranks 1
try 0 mpirun -n 1 "$QKV" $run --steps 2 --out threads : -n 1 "$QKV" ${run/--threads 1/--threads=2} --steps 2 \
    --out threads
version=$("$QKV" --version | cut -d' ' -f2)
sed "s/${version//./\\.}/${version%?}~/g" "$QKV" >other-build # the same length, so the file is sound
chmod +x other-build
ln -s "$BINARY/qkv-mpi.so" qkv-mpi.so
unlike "rank 1 runs qkv ${version%?}~, rank 0 qkv $version; all ranks must run the same build" other \
    mpirun -n 1 "$QKV" $run --out other : -n 1 "$folder/other-build" $run --out other
mkdir elsewhere
unlike "rank 1: .*spec.json" other mpirun -n 1 "$QKV" $run --out other : -n 1 -wdir "$folder/elsewhere" "$QKV" $run \
    --out other
cp spec.json elsewhere
sed -i 's/"d_ff": 64/"d_ff": 96/' elsewhere/spec.json
unlike "rank 1: the specs differ: .*, on rank 0; give all ranks the same" other mpirun -n 1 "$QKV" $run --out other : \
    -n 1 -wdir "$folder/elsewhere" "$QKV" $run --out other
# Of commands that rank 0 does alone too; of other programs, and ranks that cannot or do not begin.
unlike 'rank 1 was started with info, rank 0 with train; start all ranks with the same words' other \
    mpirun -n 1 "$QKV" $run --out other : -n 1 "$QKV" info --preset nano-gpt
unlike 'rank 1 was started with --preset nano-gpt, rank 0 with --preset bert-tiny; ' other \
    mpirun -n 1 "$QKV" info --preset bert-tiny : -n 1 "$QKV" info --preset nano-gpt
unlike \
    "rank 1 on [^ ]* differs from rank 0: qkv-mpi.so, by which ranks reach each other, cannot be opened: /nowhere.so: " other \
    mpirun -n 1 "$QKV" $run --out other : -n 1 env QKV_MPI=/nowhere.so "$QKV" $run --out other
begun='has waited 2 seconds for the others to begin; one of them is another program or command, '
export QKV_RANK_SECONDS=2
# Open MPI itself ends all when one ends that has not begun and another has: the others begin a second later.
later="until [ -e ended ]; do sleep 0.1; done; sleep 1; exec '$QKV' $run --out other"
unlike "rank 0 of 2 $begun" other mpirun -n 1 sh -c "$later" : -n 1 touch ended
rm ended
unlike "rank 0 of 2 $begun" other mpirun -n 1 "$QKV" $run --out other : -n 1 sh -c 'kill -STOP $$'
unlike "rank 1 of 2 $begun" other mpirun -n 1 sh -c "'$QKV' --version; exec touch ended" : -n 1 sh -c "$later"
export QKV_RANK_SECONDS=120
ranks 3
unlike 'there are 3 ranks and 2 groups of a batch' other "$QKV" $run --out other --groups 2
try 0 "$single" $run --steps 2 --out here
# Models to begin with: other weights, another tokenizer, none.
from="${run/--spec spec.json/--from begun} --steps 2"
try 0 "$single" $run --steps 2 --out begun
try 0 "$single" $run --steps 2 --seed 5 --out elsewhere/begun
unlike \
    'rank 1: the models to begin with differ: weights of [0-9]+ bytes .* here and weights of [0-9]+ bytes .* on rank 0; give all ranks the same' other \
    mpirun -n 1 "$single" $from --out other : -n 1 -wdir "$folder/elsewhere" "$single" $from --out other
cp begun/model.safetensors elsewhere/begun
sed -i 's/"k"/"?"/' elsewhere/begun/tokenizer.json
cmp -s begun/tokenizer.json elsewhere/begun/tokenizer.json && fail "the tokenizer is the same"
unlike 'rank 1: begun/model.safetensors was saved with another tokenizer.json' other \
    mpirun -n 1 "$single" $from --out other : -n 1 -wdir "$folder/elsewhere" "$single" $from --out other
from="$from --ignore-digest"
unlike \
    'rank 1: the models to begin with differ: tokenizer .* here and tokenizer .* on rank 0; give all ranks the same' \
    other \
    mpirun -n 1 "$single" $from --out other : -n 1 -wdir "$folder/elsewhere" "$single" $from --out other
unlike "rank 1: here is not a model folder" none \
    mpirun -n 1 "$single" eval here --data "$folder/text.txt" : -n 1 -wdir "$folder/elsewhere" "$single" eval here \
    --data "$folder/text.txt"

# ---- ended from without ----
long="1500 --quiet --save-every 5 --eval-every 1000"
for signal in USR1 USR2 XCPU; do
    in_background warned-$signal 8 $long
    if [ $signal = XCPU ]; then
        kill -XCPU "$(pgrep -P "$launcher" | tail -1)" # mpirun does not pass it on; one rank has it
    else
        kill -$signal "$launcher"
    fi
    wait $child
    same "$(ours | grep -c 'interrupted and saved after step')" 1 "lines that say that SIG$signal has ended a run"
    has "warned-$signal/state.json" '"interrupted"'
done
for rank in 0 2; do
    in_background killed-$rank 8 $long
    victim=$(pgrep -P "$launcher" | sed -n $((rank + 1))p)
    kill -KILL "$victim"
    wait $child && fail "a run one rank of which was killed ends as if nothing were wrong"
    same "$(ours | grep -v '<unk>' | wc -l)" 1 "lines of ours when a rank has died"
    has err \
        "^qkv: rank $rank of 3 \(process $victim on [^ ]*\) has died, which ends all ranks; the checkpoint of step [0-9]*[05] is whole; go on with: .* train --resume killed-$rank\$"
done
finish
