#!/usr/bin/env bash
# The folder of a run for other commands: its state, its checkpoints, its options, and its log in other formats.
. "$(dirname "$0")/common.sh"
make_text 200 >text.txt
make_spec

# ---- state ----
try 0 train run 6 --quiet
try 0 "$QKV" info run
has out '^  state +done  6 steps$'
try 0 "$QKV" info run --json
has out '"run": \{"state": "done", "killed": false, "step": 6, "steps": 6, "saved": 6, "pid": [0-9]+, '
try 0 "$QKV" info --spec spec.json
hasnt out 'state'
rm run/state.json # a run of before
try 0 "$QKV" info run
hasnt out 'state'
try 0 resume run --steps 8 --quiet
try 0 "$QKV" info run
has out '^  state +done  8 steps$'

train long 1000000 --save-every 3 --eval-every 3 --quiet >train.out 2>&1 </dev/null &
shell=$!
eventually lines_in long/log.jsonl 5 || fail "long has no five steps"
try 0 "$QKV" info long
has out '^  state +running  step [0-9]+ of 1000000, by process [0-9]+ on .*; its latest sign was 0:[0-9]+ ago$'
process=$(sed -n 's/.*by process \([0-9]*\) on.*/\1/p' out)
refuse 1 \
    "^qkv: long: another process is training in this folder: process $process on .*; wait for it or choose another" \
    resume long
refuse 1 "^qkv: long: another process is training in this folder: process $process on " train long 5
kill -9 "$process"
wait $shell
try 0 "$QKV" info long
has out \
    '^  state +interrupted  its process was killed after step [0-9]+ of 1000000; go on from step [0-9]+: .*qkv train --resume long$'
try 0 "$QKV" info long --json
has out '"state": "interrupted", "killed": true, '
try 0 "$QKV" report long -o long.html
has long.html '"state":"interrupted","killed":true,'
printf '{"state":"failed","step":7,"saved":6,"steps":9,"message":"\\u001b[2Jboth </script>"}' >long/state.json
try 0 "$QKV" info long
has out '^  state +failed  after step [0-9]+ of 9; go on from step 6: '
has out '\?\[2Jboth </script>$'
try 0 "$QKV" report long -o long.html --force
grep -c '</script>' long.html >scripts
printf 'not JSON' >long/state.json
try 0 "$QKV" info long
hasnt out 'state'

# ---- checkpoints by name ----
try 0 train keeping 20 --save-every 5 --eval-every 5 --keep 3 --quiet
same "$(cd keeping && echo checkpoint*)" \
    "checkpoint-10.safetensors checkpoint-15.safetensors checkpoint-best.safetensors checkpoint.safetensors" \
    "checkpoints with --keep 3"
losses keeping >straight.txt
try 0 "$QKV" generate keeping/checkpoint-10.safetensors --prompt "the king" -n 8 --threads 1 --seed 1
mv out generated
try 0 "$QKV" info keeping/checkpoint-10.safetensors
has out '^keeping/checkpoint-10.safetensors '
hasnt out 'state'
(cd keeping && "$QKV" eval checkpoint-15.safetensors --data ../text.txt --threads 1 >/dev/null) \
    || fail "eval of a checkpoint in its folder"
try 0 "$QKV" export keeping/checkpoint-15.safetensors --dtype bf16 -o exported
refuse 1 'keeping/config.json is a file of the model or run' \
    "$QKV" attend keeping/checkpoint-10.safetensors --prompt "the king" -o keeping/config.json --force --threads 1
refuse 1 'there is no keeping/none.safetensors; name a model folder' "$QKV" generate keeping/none.safetensors --prompt a
refuse 1 'keeping/ has no checkpoint-7.safetensors; name one that is there' resume keeping/checkpoint-7.safetensors
refuse 1 'model.safetensors.*so it is no checkpoint' resume keeping/model.safetensors
try 0 resume keeping/checkpoint-10.safetensors --quiet
losses keeping >back.txt
same "$(cat back.txt)" "$(cat straight.txt)" "the log of a run that went back to step 10"
same "$(cd keeping && echo checkpoint*)" \
    "checkpoint-10.safetensors checkpoint-15.safetensors checkpoint-best.safetensors checkpoint.safetensors" \
    "checkpoints of a run that went back and came to its end again"
try 0 "$QKV" generate keeping/checkpoint-10.safetensors --prompt "the king" -n 8 --threads 1 --seed 1
same "$(cat out)" "$(cat generated)" "what the checkpoint of step 10 writes"

# ---- options from a file ----
cat >small.json <<'END'
{"data": "text.txt", "steps": 5, "batch": 4, "warmup": 2, "eval_every": 5, "eval_batches": 2}
END
try 0 "$QKV" train --spec spec.json --config small.json --out small --threads 1 --quiet
same "$(wc -l <small/log.jsonl)" 5 "steps of a file"
try 0 "$QKV" train --spec spec.json --config small.json --steps 3 --out shorter --threads 1 --quiet
same "$(wc -l <shorter/log.jsonl)" 3 "steps of the command line beside a file"
try 0 "$QKV" train --spec small/config.json --config small/train.json --out again --threads 1 --quiet
same "$(losses again)" "$(losses small)" "the losses of a run with the record of another one"
awk '{print NR % 2 "\t" $0}' text.txt >lines.tsv
try 0 "$QKV" train --preset text-classifier --set d_model=16 --set encoder.layers=1 --set encoder.attention.heads=2 \
    --config small.json \
    --labeled lines.tsv --out labels --threads 1 --quiet
has labels/train.json '"data": null'
try 0 "$QKV" train --spec spec.json --set dropout=0.25 --config small/train.json --steps 2 --out dropped --threads 1 \
    --quiet
has dropped/config.json '"dropout": 0.25'
try 0 "$QKV" train --from small --steps 2 --out from --threads 1 --quiet --data text.txt --warmup 0
try 0 "$QKV" train --config from/train.json --out from2 --threads 1 --quiet
same "$(losses from2)" "$(losses from)" "the losses of a run from the model that a file names"
try 0 "$QKV" train --spec spec.json --config from/train.json --out new --threads 1 --quiet
has new/train.json '"from": null'
config() { # config CODE PATTERN JSON [OPTIONS]
    local code=$1 pattern=$2
    printf '%s' "$3" >config.json
    shift 3
    refuse "$code" "$pattern" "$QKV" train --spec spec.json --config config.json --out refused --quiet "$@"
    [ ! -e refused ] || fail "$last: left a folder"
}
config 1 'config.json: there is no training option "stepz"; did you mean "steps"\?' '{"data": "text.txt", "stepz": 5}'
config 1 'config.json is not valid JSON: .* duplicate object key near .*"steps"' \
    '{"data": "text.txt", "steps": 5, "steps": 6}'
config 1 'config.json: steps must be a whole number' '{"data": "text.txt", "steps": "5"}'
config 1 'steps is 0; it must be from 1 to .*, at config.json' '{"data": "text.txt", "steps": 0}'
config 1 'config.json' '{"data": "text.txt"'
config 1 'momentum is given, but only the optimizers sgd and muon have one' '{"data": "text.txt", "momentum": 0.5}'
config 2 'name a file to train on' '{"steps": 5}'
refuse 1 'cannot read missing.json' "$QKV" train --spec spec.json --config missing.json --out refused
refuse 2 '--resume uses the options of the run; leave --config out' "$QKV" train --resume small --config small.json
refuse 2 'name a model' "$QKV" train --config small.json --out refused

# ---- the log elsewhere ----
try 0 "$QKV" report small shorter --csv -
same "$(wc -l <out)" 9 "lines of the table"
has out '^run,step,seconds,tokens,loss,norm,rate,tokens_per_second,valid_loss.$'
has out '^shorter,3,'
mv out table.csv
try 0 "$QKV" report small shorter --csv steps.csv
cmp -s steps.csv table.csv || fail "the table on standard output and the one in a file differ"
[ ! -s out ] || fail "report --csv FILE prints besides"
has err '^steps\.csv: [0-9]+ steps of 2 runs, [0-9.]+ (KiB|bytes)$'
refuse 1 'steps.csv exists; --force replaces it' "$QKV" report small --csv steps.csv
try 0 "$QKV" report small --csv steps.csv --force
same "$(wc -l <steps.csv)" 6 "lines of the table of one run"
refuse 1 'small/log.jsonl is a file of the model or run' "$QKV" report small --csv small/log.jsonl --force
refuse 2 'csv has no effect: --follow writes the page alone' "$QKV" report small -o r.html --follow --csv steps.csv
refuse 2 'force has no effect' "$QKV" report small --csv - --force
try 0 "$QKV" report small shorter --tensorboard events
for run in small shorter; do
    [ "$(head -c 8 events/$run/events.out.tfevents.0.qkv | od -An -tu8 | tr -d ' ')" = 24 ] \
        || fail "the first record of $run is not the version"
done
refuse 1 'events/small/events.out.tfevents.0.qkv exists; --force replaces it' "$QKV" report small --tensorboard events
try 0 "$QKV" report small --tensorboard events --force
refuse 2 'tensorboard needs the name of a folder' "$QKV" report small --tensorboard ''
refuse 1 'steps.csv' "$QKV" report small --tensorboard steps.csv

finish
