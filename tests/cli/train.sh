#!/usr/bin/env bash
# qkv train: the run folder, resuming, interruption and kills, the progress on a terminal.
. "$(dirname "$0")/common.sh"
make_spec
make_text 400 >text.txt

# ---- a whole run ----
try 0 train whole 20
for file in config.json model.safetensors tokenizer.json train.json log.jsonl checkpoint.safetensors; do
    [ -s whole/$file ] || fail "the run has no $file"
done
[ ! -s out ] || fail "train wrote to standard output"
has err '^model .*parameters, vocabulary'
has err '^data .*tokens to train on'
has err '^machine .*thread.*MiB|^machine .*thread.*KiB'
has err 'step 20: loss [0-9.]+, validation loss [0-9.]+'
has err '20 steps done'
has err 'whole/model.safetensors'
has err 'whole/log.jsonl'
has err 'whole/checkpoint.safetensors'
has err 'generate whole -n'
hasnt err $'\r|\e'
same "$(wc -l <whole/log.jsonl)" 20 "lines of the log"
has whole/log.jsonl '"valid_loss"'
first=$(sed -nE '1s/.*"loss": *([0-9.]+).*/\1/p' whole/log.jsonl)
final=$(sed -nE '$s/.*"loss": *([0-9.]+).*/\1/p' whole/log.jsonl)
awk -v a="$first" -v b="$final" 'BEGIN {exit !(b > 0 && b < a)}' || fail "the loss does not fall: $first, then $final"

# ---- the same again, in other numbers of threads ----
try 0 train again 20 --quiet --threads 2
[ ! -s err ] || fail "--quiet says something: $(head -3 err)"
same "$(losses again)" "$(losses whole)" "losses of the same training with two threads"
cmp -s again/checkpoint.safetensors whole/checkpoint.safetensors ||
    cmp -s again/model.safetensors whole/model.safetensors || fail "the same training gives other weights"

# ---- where the time goes ----
try 0 train profiled 6 --quiet --profile --checkpoint-activations
has out '^profile of 6 steps; peak .*FLOP/s'
has out '^  linear forward .*%.*%'
has out '^  attend backward .*%.*%'
has out '^  optimizer +1 .*%'
has out '^  a step +1 .*100.0%'
has profiled/train.json '"checkpoint_activations": true'

# ---- resume: as if it had never stopped ----
try 0 train halved 20 --plain
try 0 train stopped 7 --set dropout=0.1
refuse 1 'resume' train stopped 20
try 0 resume stopped
has err 'all 7 steps were done before; --steps N'

# in_background FOLDER LINES EVERY: trains for 400 steps as $child, saving as often; returns when the log has so many
# lines.
in_background() {
    (
        # What a shell without job control, or nohup, lets its children ignore.
        exec env --default-signal=INT,TERM,HUP "$QKV" train --spec spec.json --data text.txt --out "$1" --steps 400 \
            --batch 4 --warmup 2 --eval-every 5 \
            --eval-batches 2 --save-every "$3" --threads 1 >out 2>err </dev/null
    ) &
    child=$!
    eventually lines_in "$1/log.jsonl" "$2" || fail "$1 has no $2 steps"
}

# ---- Ctrl-C: the step is finished and saved, and resuming gives the losses of the whole run ----
try 0 train steady 400 --quiet
for signal in INT TERM HUP; do
    rm -rf cut
    in_background cut 12 1000
    kill -$signal $child
    wait $child
    same $? 130 "the exit code after SIG$signal"
    last="train and SIG$signal"
    has err 'interrupted and saved after step [0-9]+ of 400; go on with: .* train --resume cut'
    same "$(grep -oE 'after step [0-9]+' err | grep -oE '[0-9]+')" "$(wc -l <cut/log.jsonl)" \
        "steps in the log after SIG$signal"
    grep -aqE "\"step\": *\"$(wc -l <cut/log.jsonl)\"" cut/checkpoint.safetensors \
        || fail "SIG$signal: the latest step is not saved"
    same "$(losses cut)" "$(losses steady | head -n "$(wc -l <cut/log.jsonl)")" "losses up to SIG$signal"
done
try 0 resume cut --quiet
same "$(losses cut)" "$(losses steady)" "losses after Ctrl-C and resume"
cmp -s cut/model.safetensors steady/model.safetensors || fail "Ctrl-C and resume give other weights"

# ---- kill -9 at any moment: resume goes on from a checkpoint that is whole ----
for after in 3 17 31; do
    rm -rf killed
    in_background killed $after 5
    kill -9 $child
    wait $child 2>/dev/null
    if [ -f killed/checkpoint.safetensors ]; then
        try 0 resume killed --quiet
        same "$(losses killed)" "$(losses steady)" "losses after kill -9 at step $after and resume"
    else
        refuse 1 'checkpoint' resume killed
    fi
done

# ---- a longer end ----
try 0 resume stopped --steps 12
same "$(wc -l <stopped/log.jsonl)" 12 "lines of the log after --resume --steps 12"
has err 'ends at step 12 now, no longer at 7: the rate was 0.0001 at step 7, is 0.0001 .*extend decay'
try 0 resume stopped --steps 14 --extend rewarm --quiet
has err 'is 0.0004 at the next and 0.0007 at the last one \(extend rewarm\)'
try 0 resume stopped --steps 16 --extend flat --eval-every 1 --save-every 1 --plain
has err 'evaluations come every 1 steps now'
same "$(tail -n 2 stopped/log.jsonl | grep -c valid_loss)" 2 "evaluations of the last two steps with --eval-every 1"
refuse 2 '--extend .*--steps' resume stopped --extend flat
refuse 2 'extend is "up"' resume stopped --steps 18 --extend up
refuse 2 'it needs --resume, and --steps or --epochs' train fresh 5 --extend flat
refuse 2 'eval-batches cannot change.*best one so far' resume stopped --eval-batches 3

# ---- a terminal ----
if ! script -qec true typescript >/dev/null 2>&1; then
    echo "(no pseudo-terminals here: progress on a terminal not tested)"
else
    cat >on_terminal <<END
stty cols \${COLUMNS:-80}
exec "$QKV" train --spec spec.json --data text.txt --out \$1 --steps 60 --batch 4 --warmup 2 --eval-every 30 --eval-batches 2 --threads 1
END
    terminal() { # terminal COLUMNS LOCALE FOLDER
        COLUMNS=$1 LC_ALL=$2 TERM=xterm script -qec "bash on_terminal $3" typescript </dev/null >out 2>err
        same $? 0 "the exit code on a terminal of $1 columns"
        last="training on a terminal of $1 columns, $2"
    }
    terminal 100 C.UTF-8 term-a
    has out $'\r'
    has out '█|░'
    has out '% +step [0-9]+/60  loss [0-9.]+'
    has out 'tokens/s'
    has out '60 steps done'
    terminal 100 C term-b
    has out '#|\.\.\.\.'
    LC_ALL=C grep -qP '[\x80-\xff]' out && fail "blocks on a terminal that is not UTF-8"
    # What is drawn in place never fills the line, so that it does not scroll.
    for columns in 30 50 79; do
        terminal $columns C term-$columns
        tr '\r' '\n' <out | sed 's/\x1b\[K//g' | grep -E '^[#.]* +[0-9]+%' \
            | awk -v most=$columns 'length >= most {bad = 1}
            {n++} END {exit bad || n == 0}' || fail "a progress line does not fit $columns columns"
    done
    TERM=dumb script -qec "bash on_terminal term-dumb" typescript </dev/null >out 2>err
    last="training on a dumb terminal"
    hasnt out $'\e'
fi

# ---- samples, accumulation, tokenizers ----
try 0 train sampled 5 --sample 20
[ "$(grep -c '^    ' err)" -ge 1 ] || fail "--sample shows nothing"
for tokenizer in bytes words bpe bpe:300; do
    try 0 train "with-$tokenizer" 3 --tokenizer $tokenizer --quiet
done
try 0 train tokenized 3 --tokenizer with-bpe/tokenizer.json --accumulate 2 --optimizer sgd --schedule linear --quiet
# ---- beginning with a model ----
tune() { # tune FOLDER OPTIONS: a short training that begins with the model of the run whole
    local run=$1
    shift
    "$QKV" train --from whole --data text.txt --out "$run" --steps 3 --batch 4 --warmup 2 --eval-every 0 --threads 1 \
        "$@"
}
try 0 tune tuned --set dropout=0.2
has err '^model .*whole, '
has tuned/config.json '"dropout": 0.2'
has tuned/train.json '"from": ".*/whole"'
cmp -s tuned/tokenizer.json whole/tokenizer.json || fail "a run that begins with a model has another tokenizer"
awk -v a="$first" -v b="$(sed -nE '1s/.*"loss": *([0-9.]+).*/\1/p' tuned/log.jsonl)" 'BEGIN {exit !(b < 0.96 * a)}' ||
    fail "the first loss of a run that begins with a model is that of a new one"
awk '{print (NR % 2 ? "odd" : "even") "\t" $1 " " $2}' text.txt >labels.tsv
try 0 "$QKV" train --from whole --new-head --labeled labels.tsv --out classes --steps 3 --batch 4 --threads 1 --quiet
has err 'head.weight is new \(--new-head\)'
has err 'tokenizer.json has no special token <s>, which this task needs: it was added'
refuse 1 'need a head of kind classify' "$QKV" train --from whole --labeled labels.tsv --out refused --quiet
refuse 2 '--preset and --from exclude each other: the model is that of' tune refused --preset nano-gpt
refuse 2 '--set d_model=8 cannot change the model of --from' tune refused --set d_model=8
refuse 2 '--set embed.dropouts=0.1 cannot change the model of --from' tune refused --set embed.dropouts=0.1
refuse 2 'embed.dropout is 2; it must be' tune refused --set embed.dropout=2
refuse 1 'encoder\.' tune refused --set encoder.attention.dropout=0.1
try 0 tune drops --set embed.dropout=0.3 --set decoder.attention.dropout=0.4 --set decoder.residual_dropout=0.15 \
    --dropout 0.05 --quiet
for value in '"dropout": 0.3' '"dropout": 0.4' '"residual_dropout": 0.15' '"dropout": 0.05'; do has drops/config.json \
    "$value"; done
refuse 2 'tokenizer has no place beside from' tune refused --tokenizer bytes
refuse 2 '[-]-new-head is set without' train refused 3 --new-head
refuse 1 'whole/config\.json is a file of the model' tune whole
refuse 2 'from cannot change with --resume' resume tuned --from whole

# ---- epochs in place of steps ----
lasting() { # lasting OPTIONS: a training of text.txt whose length they say
    "$QKV" train --spec spec.json --data text.txt --batch 4 --warmup 2 --eval-every 0 --threads 1 "$@"
}
try 0 lasting --epochs 0.5 --out epochs
tokens=$(sed -nE 's/^data .*text\.txt, ([0-9,]+) tokens to train on.*/\1/p' err | tr -d ,)
expected=$(awk -v t="$tokens" \
    'BEGIN {e = t / (4 * 32); s = 0.5 * e; n = int(s) + (s > int(s)); printf "0.5 epochs are %d steps, with %.6g an epoch", n, e}')
has err "^epochs  $expected\$"
steps=$(sed -E 's/.* are ([0-9]+) steps.*/\1/' <<<"$expected")
same "$(wc -l <epochs/log.jsonl)" "$steps" "steps of half an epoch"
has epochs/train.json '"epochs": 0.5,'
has epochs/train.json "\"steps\": $steps,"
has epochs/state.json "\"steps\": ?$steps"
try 0 lasting --steps "$steps" --out by-steps --quiet
cmp -s epochs/model.safetensors by-steps/model.safetensors || fail "epochs give other weights than as many steps"
try 0 "$QKV" train --resume epochs --epochs 0.6 --extend flat --threads 1
has err '^epochs  0.6 epochs are '
has epochs/train.json '"epochs": 0.6,'
[ "$(wc -l <epochs/log.jsonl)" -gt "$steps" ] || fail "more epochs are no more steps"
refuse 1 'epochs is 0\.1, which are [0-9]+ steps, but the run has done' "$QKV" train --resume epochs --epochs 0.1 \
    --quiet
refuse 2 'steps and epochs exclude each other' lasting --steps 5 --epochs 1 --out refused
refuse 2 '--steps and --epochs exclude each other' "$QKV" train --resume epochs --epochs 1 --steps 9000
refuse 2 'epochs is 0; it must be greater than 0' lasting --epochs 0 --out refused
try 0 lasting --config epochs/train.json --steps 3 --out config --quiet
has config/train.json '"epochs": -1,'
printf '{"steps": 3, "eval_every": 0}' >three.json
try 0 lasting --config three.json --epochs 0.1 --out config2 --quiet
has config2/train.json '"epochs": 0.1,'
refuse 2 'no option --n-epochs.*epochs' lasting --n-epochs 3 --out refused

# ---- frozen weights ----
try 0 tune frozen --freeze '*embed*' --freeze 'decoder.layers.?.attn.*'
has err '[0-9]+ of [0-9]+ weights are frozen: [0-9]+ of [0-9]+ numbers do not learn'
has frozen/train.json '"freeze": \["\*embed\*", "decoder.layers.\?.attn.\*"\]'
try 0 resume frozen --steps 5
refuse 2 'freeze cannot change with --resume' resume frozen --freeze '*embed*'
refuse 1 'no weight has a name like "embed"; the model has [0-9]+, such as decoder.embed.token.weight' tune refused \
    --freeze embed
refuse 1 'freeze leaves none of the [0-9]+ weights to learn' tune refused --freeze '*'

# ---- documents in rows, prefixes ----
for i in $(seq 60); do printf 'a text of %d words, and its end<|endoftext|>' $((i * i)); done >parts.txt
rows() { train "$1" 6 --data parts.txt --tokenizer bpe:300 --quiet "${@:2}"; }
try 0 rows apart --documents
has apart/train.json '"documents": true'
try 0 rows together
[ "$(losses apart)" != "$(losses together)" ] || fail "documents change nothing"
try 0 rows apart2 --documents --accumulate 4 --threads 2
same "$(losses apart2)" "$(losses apart)" "losses of documents in parts"
try 0 resume apart --steps 8 --quiet
same "$(wc -l <apart/log.jsonl)" 8 "lines of the log of a run on documents"
try 0 "$QKV" eval apart --data parts.txt --threads 1
has out '^documents +apart'
cp out apart.out
try 0 "$QKV" eval apart --data parts.txt --threads 1 --no-documents
hasnt out '^documents'
[ "$(head -1 out)" != "$(head -1 apart.out)" ] || fail "eval --no-documents changes nothing"
try 0 "$QKV" eval apart --data parts.txt --threads 1 --json
has out '"documents": true'
try 0 "$QKV" eval together --data parts.txt --threads 1
hasnt out '^documents'
try 0 "$QKV" eval together --data parts.txt --threads 1 --documents
has out '^documents +apart'
try 0 rows prompted --prefix 5
try 0 "$QKV" inspect prompted --prompt "a text of 4 words" --threads 1
has err 'prompted was trained with prefixes, .* here there is no prefix'
has out 'of the next of [0-9]+ tokens without a prefix'
try 0 "$QKV" inspect prompted --prompt "a text of 4 words" --threads 1 --prefix 2
hasnt err 'trained with prefixes'
has out 'of the next of [0-9]+ tokens behind a prefix of 2'
refuse 1 'the prefix of batch row 0 is 900, but the row has 0 to' "$QKV" inspect prompted --prompt "a text" --prefix 900
attends() { "$QKV" attend prompted --prompt "a text of 4 words" --threads 1 --json weights.json --force "$@" 2>err \
    && cat weights.json; }
[ "$(attends)" = "$(attends --prefix 0)" ] && fail "attend reads a prompt of a model with a prefix as any other"
refuse 1 '--no-documents has no effect: together was not trained' "$QKV" eval together --data parts.txt --no-documents
refuse 2 '--documents and --no-documents exclude' "$QKV" eval apart --data parts.txt --documents --no-documents
refuse 2 '--documents has no effect: only a text' "$QKV" eval apart --pairs text.txt --documents
refuse 2 'documents cannot change with --resume' resume apart --documents
refuse 1 'the tokenizer has no end token, <\|endoftext\|> or </s>, that says where a document ends' train refused 3 \
    --documents --quiet
refuse 2 'documents is given, but only rows of a text' train refused 3 --documents --task mlm
refuse 2 'documents and prefix exclude each other' train refused 3 --documents --prefix 3
refuse 2 'needs a source for every text' "$QKV" train --preset tiny-seq2seq --data text.txt --out refused --documents
try 0 rows before --prefix random
has before/config.json '"prefix": true'
has before/train.json '"prefix": "random"'
try 0 rows before2 --prefix random --accumulate 2
same "$(losses before2)" "$(losses before)" "losses of prefixes in parts"
try 0 resume before --steps 8 --quiet
try 0 "$QKV" generate before --prompt "a text of" -n 5 --threads 1
try 0 "$QKV" eval before --data parts.txt --threads 1
try 0 rows five --prefix 5
refuse 2 'prefix is "0"; it must be random or a number of tokens' train refused 3 --prefix 0
refuse 2 '--set prefix=false and --prefix random set the same number' train refused 3 --prefix random --set prefix=false
refuse 1 "the spec's prefix is true: the model sees a prompt in both directions" train refused 3 --set prefix=true

# ---- earlier checkpoints ----
kept() { (cd "$1" && ls | grep '^checkpoint' | tr '\n' ' '); }
try 0 train keeping 25 --save-every 5 --keep 3 --quiet
same "$(kept keeping)" \
    "checkpoint-15.safetensors checkpoint-20.safetensors checkpoint-best.safetensors checkpoint.safetensors " \
    "checkpoints with --keep 3"
losses keeping >straight.txt
cp keeping/checkpoint-15.safetensors keeping/checkpoint.safetensors
echo mine >keeping/checkpoint-x.safetensors
try 0 resume keeping --keep 2 --quiet
losses keeping >back.txt
same "$(cat back.txt)" "$(cat straight.txt)" "the log of a run that went back to step 15"
same "$(kept keeping)" \
    "checkpoint-20.safetensors checkpoint-best.safetensors checkpoint-x.safetensors checkpoint.safetensors " \
    "checkpoints after --keep 2"
refuse 2 'keep is 0' train refused 3 --keep 0

# ---- lines every N steps, and when a long run ends ----
try 0 train logged 20 --log-every 4
same "$(grep -oE '^step [0-9]+/20, loss' err | grep -oE '[0-9]+/' | tr -d '/\n')" 481216 \
    "the steps of --log-every 4 but the last"
hasnt err 'ends    in about'
refuse 2 '--log-every has no effect' "$QKV" train --preset nano-gpt --data text.txt --out x --quiet --log-every 4
refuse 2 '--log-every needs a whole number from 1' "$QKV" train --preset nano-gpt --data text.txt --out x --log-every 0
timeout -s INT 8 "$QKV" train --spec spec.json --data text.txt --out long --steps 2000000000 --batch 8 --threads 1 \
    --eval-every 0 --plain 2>err
same "$(grep -cE '^ends    in about [0-9.e+]+ (hours|days), at [0-9.]+ m?s a step; fewer --steps' err)" 1 \
    "lines that say when a long run ends"
# Two runs of one name in the terminal are called by their paths.
mkdir one two
cp -r logged one/run
cp -r logged two/run
try 0 "$QKV" report one/run two/run
same "$(grep -E '^[a-z]' out | tr '\n' ' ')" "one two " "the names of two runs"
try 0 "$QKV" report one/run
has out '^run$'

# Messages of a program whose stderr is closed do not end up in its files.
"$QKV" train --spec spec.json --data text.txt --out closed --steps 4 --plain --threads 1 2>&-
same "$(wc -l <closed/log.jsonl) $(grep -c '^{"step"' closed/log.jsonl)" "4 4" "lines of the log with stderr closed"
# Reading progress through a pipe that closes does not end the training.
train piped 20 2>&1 >/dev/null | head -n 1 >/dev/null
same "$(wc -l <piped/log.jsonl)" 20 "steps of a run whose reader left"
finish
