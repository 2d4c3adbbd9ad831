#!/usr/bin/env bash
# Run folders of version 0.1.0 (tests/runs): the command reads them, gives that version's results, and resumes them.
# labels: numeric quick
. "$(dirname "$0")/common.sh"
runs=$SOURCE/tests/runs
cp -r "$runs"/* . && chmod -R u+w .
# The same runs with one group of rows a batch, which is the order of sums before there were groups.
for run in text pairs labeled; do
    cp -r $run $run-1
    sed -i 's/"save_every": 250/"save_every": 250, "groups": 1/' $run-1/train.json
done

# near NAME VALUE TOLERANCE: of the line "NAME NUMBER …" of ./out.
near() {
    checks=$((checks + 1))
    awk -v name="$1" -v value="$2" -v tolerance="$3" '
        $1 == name {seen = 1; d = $2 - value; if (d < 0) d = -d; bad = d > tolerance}
        END {exit !(seen && !bad)}' out || { fail "$last: $1 is not $2"; show; }
}

# A digest or a record of precision is not there yet: such runs are fp32, whatever this machine multiplies.
try 0 "$QKV" info text
has out 'fp32'
try 0 "$QKV" eval text --data text.txt
near loss 1.8301 0.0002
try 0 "$QKV" eval pairs --pairs pairs.tsv
near loss 1.6283 0.0002
try 0 "$QKV" eval labeled --labeled labeled.tsv
near loss 0.2266 0.0002
has out 'accuracy +88\.33 %'

try 0 "$QKV" generate text --prompt "the " -n 60 --temp 0 -q
same "$(cat out)" "$(cat expected/text.generated)" "the continuation"
head -40 pairs.tsv | cut -f1 >sources
try 0 "$QKV" translate pairs --input sources -o targets
same "$(cat targets)" "$(cat expected/pairs.translated)" "the translations"
cut -f2 labeled.tsv >lines
try 0 "$QKV" classify labeled --input lines -o classes
same "$(cut -f1 classes)" "$(cat expected/labeled.classes)" "the classes"

# The data of the runs is elsewhere, but their tokens are there. 29 steps later rounding may have grown, not more.
for run in text pairs labeled text-1 pairs-1 labeled-1; do
    grep '"version": 1' $run/config.json >out
    has out version
    cp $run/config.json $run.before
    try 0 "$QKV" train --resume $run --quiet --threads 1
    # A spec that version 1 can express is written in version 1.
    same "$(cat $run/config.json)" "$(cat $run.before)" "the spec of $run"
    checks=$((checks + 1))
    sed -nE 's/^\{"step": ?([0-9]+), ?"loss": ?([^,]*),.*/\1 \2/p' $run/log.jsonl | awk '$1 > 251' >losses
    paste losses expected/${run%-1}.losses | awk '
        {d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-3 * $4) bad = 1}
        END {exit bad || NR != 29}' || fail "$run: losses after the resumption differ: $(paste losses \
            expected/${run%-1}.losses | head -40)"
    # What is saved now has the digests of today and loads as well.
    try 0 "$QKV" info $run
done
try 0 "$QKV" generate text-1 --prompt "the " -n 60 --temp 0 -q
try 0 "$QKV" translate pairs-1 --input sources --force -o targets
try 0 "$QKV" classify labeled-1 --input lines --force -o classes
finish
