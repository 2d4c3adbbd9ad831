#!/usr/bin/env bash
# qkv compare and qkv inspect: the numbers against those of eval and info, interrupted and resumed comparisons, variants
# that fail, refused folders, and the pages in Chromium.
# labels: numeric
. "$(dirname "$0")/common.sh"
make=$BINARY/tests/cli/make_model
make_spec
make_text 400 >text.txt
sed 's/"decoder"/"head": {"kind": "none"}, "decoder"/' spec.json >hidden.json

# compare OUT [OPTIONS]: small variants, one thread.
small='--spec spec.json --data text.txt --steps 20 --batch 4 --eval-every 5 --eval-batches 2 --save-every 5 --threads 1
    --cache 16,48'
compare() {
    local out=$1
    shift
    "$QKV" compare --plain --out "$out" "$@" $(usual "$small" "$@")
}
# field FILE VARIANT KEY: a number of a variant, from results.json.
field() { # every variant is one object without inner objects
    sed 's/{"name":/\n&/g' "$1" | grep -F "{\"name\":\"$2\"," | grep -o "\"$3\":[^,}]*" | head -1 | cut -d: -f2
}

# ---- refusals ----
refuse 2 'nothing varies' "$QKV" compare --data text.txt --out x
refuse 2 'name a folder for the runs' "$QKV" compare --data text.txt --axis kv=mha,mqa
refuse 2 'only --specs takes several files' "$QKV" compare a.json --axis kv=mha,mqa --out x
refuse 2 'exclude each other' compare x --preset nano-gpt --axis kv=mha,mqa
refuse 2 '--cache needs' "$QKV" compare --data text.txt --axis kv=mha,mqa --out x --cache 64,y
refuse 2 'no axis "colour"; there are kv, share, position, norm, ffn' compare x --axis colour=red
refuse 2 'axis kv has no value "gqb"; it has mha, gqa:N' compare x --axis kv=mha,gqb
refuse 2 'axis ffn has no value "sine"; it has relu' compare x --axis ffn=relu,sine
refuse 2 'name a text to train on' "$QKV" compare --axis kv=mha,mqa --out x
refuse 1 'nowhere.txt' "$QKV" compare --data nowhere.txt --axis kv=mha,mqa --out x
refuse 1 'no variant can be built: gqa:3: .*kv_heads' compare x --axis kv=gqa:3
refuse 2 'has no option --pairs' "$QKV" compare --pairs text.txt --axis kv=mha,mqa --out x
refuse 2 'decoder.layer; did you mean layers' compare x --axis decoder.layer=1,2
refuse 1 'warmup has no effect: the axis warmup gives it other values' compare x --axis warmup=0,5 --warmup 2
refuse 1 'momentum has no effect in any variant: only the optimizers sgd and muon have one' compare x \
    --axis kv=mha,mqa --momentum 0.5
refuse 2 'momentum has no effect in any variant' "$QKV" compare --data text.txt --axis momentum=0,0.5 --out x
refuse 2 'setting "position.theta=500" has no effect in any variant' \
    "$QKV" compare --data text.txt --out x --axis position=learned,alibi --set position.theta=500
refuse 1 'axis position.theta has no effect in any variant' compare x --axis position.theta=500,1000
refuse 2 '--valid-fraction has no place beside a file' "$QKV" compare --data text.txt --axis kv=mha,mqa --out x \
    --valid text.txt --valid-fraction 0.2
[ ! -e x ] || fail "a folder was left by a command that made no sense"

# ---- a comparison, one variant of which is impossible ----
try 0 compare kv --axis kv=mha,gqa:2,gqa:3,mqa
has out '^variant +parameters +loss'
has out '^mha +[0-9.]+k +[0-9.]+'
has out '^gqa:3 +failed: .*kv_heads'
has err '1 of 4 variants failed'
for column in 'validation' 'training' 'prompt 512' 'at 16' 'at 48' 'cache' 'memory'; do has out "$column"; done
grep -q '\*' out || fail "no best is marked"
for file in results.json results.csv index.html compare.json train.txt valid.txt; do [ -s kv/$file ] \
    || fail "there is no kv/$file"; done
for variant in mha gqa-2 mqa; do
    name=${variant/gqa-/gqa:}
    try 0 "$QKV" eval kv/$variant --data kv/valid.txt --json --threads 1
    same "$(field kv/results.json $name valid_loss)" \
        "$(grep -o '"loss": [^,]*' out | cut -d' ' -f2)" "the loss of $variant and that of eval"
    try 0 "$QKV" info kv/$variant --batch 4 --json --threads 1
    for pair in parameters:parameters cache_bytes_per_token:cache_bytes_per_token train_bytes:train_bytes \
        run_bytes:run_bytes; do
        same "$(field kv/results.json $name "${pair%:*}")" \
            "$(grep -o "\"${pair#*:}\": [0-9]*" out | head -1 | cut -d' ' -f2)" "${pair%:*} of $variant and of info"
    done
    same "$(wc -l <kv/$variant/log.jsonl)" 20 "steps of $variant"
done
mha=$(field kv/results.json mha cache_bytes_per_token)
same "$mha" $((4 * $(field kv/results.json mqa cache_bytes_per_token))) "cache of mha, in those of mqa"
same "$mha" $((2 * $(field kv/results.json gqa:2 cache_bytes_per_token))) "cache of mha, in those of gqa:2"
cat kv/train.txt kv/valid.txt | cmp -s - text.txt || fail "the two parts are not the text"
same "$(grep -c . kv/results.csv)" 5 "lines of results.csv"
same "$(awk -F, 'NR == 1 {print NF}' kv/results.csv)" 12 "fields of results.csv"
grep -q '^mha,[0-9]*,[0-9.]*,,[0-9.e+]*,' kv/results.csv || fail "results.csv: $(head -2 kv/results.csv)"
# The same batches: a variant is the run that train makes of the two files.
try 0 "$QKV" train --spec spec.json --data kv/train.txt --valid kv/valid.txt --out alone --steps 20 --batch 4 \
    --warmup 2 --eval-every 5 \
    --eval-batches 2 --save-every 5 --threads 1 -q --set decoder.attention.kv_heads=1
cmp -s alone/model.safetensors kv/mqa/model.safetensors || fail "a variant is not what train makes"

# Again: nothing is trained; other options are refused.
cp kv/mha/log.jsonl before
try 0 compare kv --axis kv=mha,gqa:2,gqa:3,mqa
cmp -s kv/mha/log.jsonl before || fail "a finished variant was trained again"
refuse 1 'begun with other options: training was .*steps=20.* is now .*steps=19' compare kv \
    --axis kv=mha,gqa:2,gqa:3,mqa --steps 19
# More steps go on with the runs, also once more.
cp -r kv longer
for i in 1 2; do
    try 0 compare longer --axis kv=mha,gqa:2,gqa:3,mqa --steps 23
    for run in mha mqa; do
        same "$(tail -n 1 longer/$run/log.jsonl | grep -oE '"step": ?[0-9]+' | grep -oE '[0-9]+$')" 23 \
            "the last step of $run"
        same "$(losses longer/$run | grep -oE '"step": ?1[0-8],"loss": ?[^,]*')" \
            "$(losses kv/$run | grep -oE '"step": ?1[0-8],"loss": ?[^,]*')" "the steps of $run before"
    done
done
refuse 1 'training was .*steps=23.* is now .*steps=20' compare longer --axis kv=mha,gqa:2,gqa:3,mqa
# Epochs in place of steps: the same number in each variant; the same again trains nothing, and more of them go on.
lasting() { "$QKV" compare --plain --out epochs --axis kv=mha,mqa ${small/--steps 20/} "$@"; }
try 0 lasting --epochs 0.1
for run in mha mqa; do
    has epochs/$run/train.json '"epochs": 0.1,'
    has epochs/$run/train.json "\"steps\": $(wc -l <epochs/$run/log.jsonl),"
done
same "$(wc -l <epochs/mha/log.jsonl)" "$(wc -l <epochs/mqa/log.jsonl)" \
    "steps of the variants of a comparison with epochs"
cp epochs/mha/log.jsonl before
cp epochs/mha/machine.jsonl machine
try 0 lasting --epochs 0.1
cmp -s epochs/mha/log.jsonl before && cmp -s epochs/mha/machine.jsonl machine \
    || fail "a finished variant with epochs was trained again"
try 0 lasting --epochs 0.2
[ "$(wc -l <epochs/mqa/log.jsonl)" -gt "$(wc -l <before)" ] || fail "more epochs of a comparison are no more steps"
refuse 1 'begun with other options: training was .*epochs=0.2.* is now .*epochs=0.1' lasting --epochs 0.1
refuse 1 'begun with other options: training was .*epochs=0.2.* is now .*steps=900' lasting --steps 900
refuse 1 'steps and epochs exclude each other' lasting --steps 900 --epochs 2
refuse 1 'axis was kv=mha,gqa:2,gqa:3,mqa and is now kv=mha,mqa' compare kv --axis kv=mha,mqa
refuse 1 'alone already holds a run' compare alone --axis kv=mha,mqa
mkdir foreign && echo mine >foreign/index.html && echo mine >foreign/train.txt
refuse 1 'foreign already holds a train.txt that is not of a comparison; .*--force' compare foreign --axis kv=mha,mqa
same "$(cat foreign/index.html foreign/train.txt | tr '\n' ' ')" "mine mine " "files of somebody else"
try 0 compare foreign --axis kv=mha,mqa --steps 2 --force
cmp -s foreign/train.txt kv/train.txt || fail "--force trained on somebody else's text"
grep -q '<html' foreign/index.html || fail "--force wrote no page"
mkdir strange && echo '{}' >strange/compare.json
refuse 1 'no record of a comparison' compare strange --axis kv=mha,mqa

# ---- interrupted and resumed: the losses are those without interruption ----
try 0 compare whole --axis norm=pre,post --axis warmup=0,5 --seeds 2 --steps 60
has out '^pre warmup=0 '
has out '± '
has err '^pre warmup=0, seed 1337: 60 steps, loss '
has err '^post warmup=5, seed 1338: 60 steps, loss '
for run in pre-warmup=0-seed1337 post-warmup=5-seed1338; do [ -d whole/$run ] \
    || fail "there is no run whole/$run: $(ls whole)"; done
"$QKV" compare --out parts --plain --axis norm=pre,post --axis warmup=0,5 --seeds 2 --steps 60 ${small/--steps 20/} \
    >out 2>err </dev/null &
pid=$!
eventually test -s parts/post-warmup=0-seed1337/log.jsonl || fail "the comparison has no steps of its third run"
kill -TERM $pid # what a shell starts in the background ignores SIGINT
wait $pid
same $? 130 "the exit code of a comparison that was interrupted"
grep -q 'interrupted; the same command goes on with parts' err || fail "no word about going on: $(cat err)"
[ ! -e parts/results.json ] || fail "results of a comparison that was interrupted"
try 0 compare parts --axis norm=pre,post --axis warmup=0,5 --seeds 2 --steps 60
for run in whole/*-seed*; do
    cmp -s "$run/model.safetensors" "parts/${run#*/}/model.safetensors" \
        || fail "${run#*/} differs after an interruption"
    [ "$(losses "$run")" = "$(losses "parts/${run#*/}")" ] || fail "the log of ${run#*/} differs after an interruption"
done
same "$(field whole/results.json "post warmup=5" valid_loss)" "$(field parts/results.json "post warmup=5" valid_loss)" \
    "the loss after an interruption"
try 0 "$QKV" report whole/pre-warmup=0-seed1337 whole/post-warmup=0-seed1337 -o runs.html

# ---- 18 variants with one evaluation each ----
try 0 compare eighteen --axis kv=mha,gqa:2,mqa --axis norm=pre,post --axis warmup=0,1,2 --steps 3
same "$(grep -cE '^(mha|gqa:2|mqa) (pre|post) warmup=[012] ' out)" 18 "variants"
grep -q '"best":null' eighteen/results.json || fail "one seed has a best loss"

# ---- specs, other axes, a run that fails ----
sed 's/"d_ff": 64/"d_ff": 32/' spec.json >narrow.json
try 0 "$QKV" compare --specs spec.json narrow.json hidden.json --data text.txt --out specs --steps 4 --batch 2 \
    --warmup 1 --threads 1 --cache 8 -q
has out '^narrow +'
has out '^hidden +failed: .*another head than lm'
try 0 compare axes --axis position=none,sinusoidal,learned,rope,rope:interleaved,rope:0.5,alibi --steps 2
same "$(grep -c '^rope' out)" 3 "kinds of rope"
try 0 compare ffn --axis ffn=relu,swiglu --axis precision=fp32,bf16 --steps 2
has out '^swiglu bf16 '
try 0 "$QKV" eval ffn/relu-bf16 --data ffn/valid.txt --json --threads 1 --precision bf16
same "$(field ffn/results.json "relu bf16" valid_loss)" \
    "$(grep -o '"loss": [^,]*' out | cut -d' ' -f2)" "the loss in bf16 and that of eval"
try 0 compare rates --axis rate=1e-3,1e30 --clip 0 --steps 6
has out '^rate=1e30 +failed: .*finite'
has out '^rate=1e-3 '
try 1 compare allrates --axis rate=1e29,1e30 --clip 0 --steps 6
has err 'no variant could be trained'

# ---- mixtures: what train --data reads, with weights, is read once for all variants ----
mkdir corpus books
for i in 1 2; do
    awk -v i=$i 'NR % 3 == i { gsub(/["\\]/, ""); printf "{\"body\": \"%s\"}\n", $0 }' text.txt >corpus/$i.jsonl
    awk -v i=$i 'NR % 6 == 3 * (i - 1)' text.txt >books/$i.txt
done
gzip corpus/2.jsonl
head -20 corpus/1.jsonl >held-out.jsonl
mixture="--tokenizer bpe:300 --text-key body --data corpus/*.jsonl*:3 --data books/:1"
# mixes OUT OPTIONS...
set -f # patterns are the command's
mixes() {
    local out=$1
    shift
    "$QKV" compare --plain --out "$out" --axis kv=mha,mqa "$@" $(usual "--spec spec.json $mixture --steps 6 --batch 4
        --warmup 1 --eval-every 6 --eval-batches 0 --save-every 3 --threads 1 --cache 16" "$@")
}
try 0 mixes mixed
for file in results.json compare.json shards; do [ -s mixed/$file ] || fail "there is no mixed/$file"; done
[ ! -e mixed/train.txt ] && [ ! -e mixed/mha/shards ] || fail "a mixture was copied, or made tokens for each variant"
same "$(ls mixed/shards | wc -l)" 3 "two shards of a comparison, one of each source, and their index"
has mixed/results.json '"valid":null'
try 0 "$QKV" train --spec spec.json $mixture --steps 6 --batch 4 --warmup 1 --eval-every 6 --eval-batches 0 \
    --save-every 3 --threads 1 -q --set decoder.attention.kv_heads=1 --out alone-mixed
cmp -s alone-mixed/model.safetensors mixed/mqa/model.safetensors ||
    fail "a variant of a mixture is not what train makes"
for variant in mha mqa; do # the loss is that of the whole part that is held out, which training measured last
    logged=$(grep -o '"valid_loss": *[0-9.]*' mixed/$variant/log.jsonl | tail -1 | grep -o '[0-9.]*$')
    measured=$(field mixed/results.json $variant valid_loss)
    [ "$(awk "BEGIN { d = $logged - $measured; print (d < 2e-5 && d > -2e-5) }")" = 1 ] ||
        fail "the loss of $variant is $measured, and was $logged at its last step"
done
cp mixed/mha/log.jsonl before
try 0 mixes mixed
cmp -s mixed/mha/log.jsonl before || fail "a finished variant of a mixture was trained again"
try 0 mixes longer-mixed --steps 3
try 0 mixes longer-mixed
same "$(tail -n 1 longer-mixed/mqa/log.jsonl | grep -oE '"step": ?[0-9]+' | grep -oE '[0-9]+$')" 6 \
    "the last step of a variant of a mixture that goes on"
try 0 mixes valid-mixed --valid held-out.jsonl --seeds 2 --shards mixed/shards
[ ! -e valid-mixed/shards ] || fail "shards of --shards were made twice"
for seed in 1337 1338; do
    try 0 "$QKV" eval valid-mixed/mha-seed$seed --data held-out.jsonl --text-key body --json --threads 1
    grep -o '"loss": [^,]*' out | cut -d' ' -f2
done >losses
same "$(field valid-mixed/results.json mha valid_loss | cut -c 1-8)" \
    "$(awk '{ sum += $1 } END { printf "%.9f", sum / NR }' losses | cut -c 1-8)" "the mean loss and those of eval"
refuse 1 'no file has a name like none\*.jsonl' "$QKV" compare --data 'none*.jsonl' --axis kv=mha,mqa --out x
refuse 1 'held-out.jsonl:2 has a weight' "$QKV" compare $mixture --valid held-out.jsonl:2 --axis kv=mha,mqa --out x
refuse 2 'skip.bad has no effect in any variant: only mixtures of texts leave files and lines out' \
    "$QKV" compare --data text.txt --skip-bad --axis kv=mha,mqa --out x
[ ! -e x ] || fail "a folder was left by a comparison without texts"
set +f

# ---- inspect ----
for kind in decoder pairs classifier encoder; do try 0 "$make" $kind $kind; done
odd='a<!--<script>&' # a model of this name
cp -r pairs "$odd"
try 0 "$QKV" inspect decoder --prompt "the king"
has out '^decoder: loss [0-9.]+ nats, of the next of 8 tokens; norm of all gradients [0-9.]+'
has out '^  embedding +-?[0-9.e-]+ +[0-9.]+ +-[0-9.]+ +[0-9.]+ +none +[0-9.e-]+'
has out '^  block 0 attention '
has out '^  block 0 ffn '
has out '^  block 0 stream '
has out '^  final norm '
try 0 "$QKV" inspect decoder --prompt "x"
has out 'nothing to predict'
try 0 "$QKV" inspect pairs --prompt "the queen" --target "is"
has out '^  encoder block 0 attention '
has out '^  decoder block 0 cross '
try 0 "$QKV" inspect classifier --prompt "the queen" --target person
has out 'of the class person;'
try 0 "$QKV" inspect encoder --prompt "the <mask> of England" --target "the capital of England"
has out 'those under the masks of 4 tokens'
# What means something in one variant may be given to all.
try 0 compare bases --axis position=learned,rope --set position.theta=500 --steps 2 --axis optimizer=adamw,sgd \
    --momentum 0.5
hasnt out 'theta|momentum'
grep -q '"theta": 500' bases/rope-sgd/config.json || fail "the variant with rope has another theta"
grep -q '"momentum": 0.5' bases/rope-sgd/train.json || fail "the variant with sgd has another momentum"
grep -q '"momentum": 0.9' bases/rope-adamw/train.json || fail "the variant without sgd was given its momentum"
try 0 "$QKV" inspect whole/pre-warmup=0-seed1337 whole/post-warmup=0-seed1337 --prompt "the king"
has out '^side by side +deviation of the stream +gradient of the block'
has out '^ +pre +post +pre +post *$'
has out '^block 1 '
try 0 "$QKV" inspect whole/pre-warmup=0-seed1337/ whole/post-warmup=0-seed1337 "$odd" --prompt "the king" \
    -o inside.html --json inside.json
has err '^inside\.html: 3 models, [0-9.]+ KiB$'
refuse 1 'inside.html exists; --force replaces it' "$QKV" inspect decoder --prompt a -o inside.html
refuse 2 'name a model folder' "$QKV" inspect
refuse 2 'there is nothing to read' "$QKV" inspect decoder
refuse 2 'exclude each other' "$QKV" inspect decoder --prompt a --file b
refuse 1 'no class of this model' "$QKV" inspect classifier --prompt a --target nobody
refuse 1 'leave it out' "$QKV" inspect decoder --prompt a --target b
refuse 1 'context is 40; shorten it' "$QKV" inspect decoder --prompt "$(printf '%060d' 0)"
cp -r decoder bare && rm bare/tokenizer.json
refuse 1 'has no tokenizer' "$QKV" inspect bare --prompt a
try 0 "$QKV" inspect decoder --prompt "the king" --json one.json
grep -q '"stack":"decoder","layer":0,"what":"stream"' one.json || fail "one.json: $(head -c 300 one.json)"

# ---- experts: their rows in a text, and their loads in a run ----
try 0 train experts 12 -q --set 'decoder.ffn.experts={"count": 6, "top_k": 2}'
try 0 "$QKV" inspect experts --prompt "the king"
has out '^  rows of experts +load +unused  rows of each$'
has out '^  block 1 +[0-9.]+ +[0-9]+  ([0-9]+ ){5}[0-9]+$'
same "$(sed -nE 's/^  block [01] +[0-9.]+ +[0-9]+  ([0-9 ]+)$/\1/p' out \
    | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { print sum }')" $((2 * 2 * 8)) "rows of two layers"
try 0 "$QKV" inspect experts "$odd" --prompt "the king" -o experts.html
try 0 "$QKV" report experts -o loads.html
try 0 "$QKV" report experts
has out '^  experts  the busiest has [0-9.]+ times the mean of its layer, [0-9]+ have no row$'

# ---- in the browser ----
. "$SOURCE/tests/cli/browser.sh"
need_browser
cp kv/index.html kv.html
cp whole/index.html whole.html
for theme in 1 0; do browse kv.html '{"variants":4,"failed":1,"curves":3,"best":"mqa"}' compare.js 1300 $theme; done
browse kv.html '{"variants":4,"failed":1,"curves":3,"best":"mqa"}' compare.js 500
cp eighteen/index.html eighteen.html
browse eighteen.html '{"variants":18,"failed":0,"curves":18}' compare.js
# A phone: windows of the browser are wider.
sed 's|</style>|body { width: 390px }</style>|' eighteen.html >narrow.html
browse narrow.html '{"variants":18,"failed":0,"curves":18,"wide":390}' compare.js 500
browse whole.html '{"variants":4,"failed":0,"curves":8}' compare.js
for theme in 1 0; do browse inside.html '{"models":3,"charts":6}' inspect.js 1300 $theme; done
browse inside.html '{"models":3,"charts":6}' inspect.js 500
for theme in 1 0; do browse experts.html '{"models":2,"charts":7}' inspect.js 1300 $theme; done
browse experts.html '{"models":2,"charts":7}' inspect.js 500
for theme in 1 0; do browse loads.html '{"runs":1,"steps":12,"samples":0,"damaged":0,"loads":2}' report.js 1300 \
    $theme; done
# Pictures: one of each page; all where they are stored.
shapes="kv,1300,1000,0 eighteen,500,3000,1 whole,390,900,1 inside,1300,1000,1 experts,1300,2600,0 loads,500,3000,1"
[ -z "${QKV_SCREENSHOTS:-}" ] || shapes+=" kv,1300,1000,1 eighteen,1300,2300,0 experts,1300,2600,1 experts,500,4200,1
    loads,1300,2000,1 loads,1300,2000,0"
for shape in $shapes; do
    IFS=, read -r page width height theme <<<"$shape"
    open_page "$folder/$page.html" "$width" "$height" "$theme" "$folder/$page-$width-$theme.png"
    checks=$((checks + 1))
    size=$(stat -c %s "$page-$width-$theme.png" 2>/dev/null || echo 0)
    [ "$size" -gt 20000 ] || fail "the picture of $page.html at width $width has $size bytes"
done
[ -z "${QKV_SCREENSHOTS:-}" ] || { mkdir -p "$QKV_SCREENSHOTS" && cp ./*.png "$QKV_SCREENSHOTS"; }
finish
