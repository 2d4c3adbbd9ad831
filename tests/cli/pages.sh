#!/usr/bin/env bash
# The pages of attend and report: sizes, messages, and their use in Chromium, with clicks and the keyboard, in light and
# dark, on a screen and on a phone. The test installs Chromium if possible; without it, that part is skipped with a
# message. QKV_SCREENSHOTS=FOLDER stores pictures of the pages.
. "$(dirname "$0")/common.sh"
here=$SOURCE/tests/cli
make=$BINARY/tests/cli/make_model
text='a</script><script>injected=1</script>&'

# ---- attend: the terminal, files, messages ----
for kind in decoder pairs classifier encoder; do try 0 "$make" $kind $kind; done
try 0 "$QKV" attend decoder --prompt "the king"
has out '^decoder, layer 0, mean of the heads'
has out '^ +t ██'
has out '^attention +layer +head +entropy +distance'
has out '^decoder +0 +1 +[0-9.]+ +[0-9.]+'
try 0 "$QKV" attend decoder --prompt "the king" --layer 0 --head 1
has out '^decoder, layer 0, head 1'
same "$(grep -c '^decoder  ' out)" 1 "heads in the list"
try 0 env NO_COLOR=1 "$QKV" attend decoder --prompt "the king"
has out '^ +t ##'
hasnt out '█'
try 0 env LC_ALL=C "$QKV" attend decoder --prompt "thé king"
LC_ALL=C grep -q '[^ -~]' out && fail "$last: more than ASCII where the locale has no more"
try 0 "$QKV" attend decoder --prompt $'a\e[31m\n'
hasnt out $'\e'
try 0 "$QKV" attend decoder --prompt "x"
has out 'one token: it can attend to itself only'
try 0 "$QKV" attend pairs --prompt "the queen" --threads 1
has out '^cross attention, layer 0'
try 0 "$QKV" attend pairs --prompt "the queen" --target "is" --kind encoder
has out '^encoder, layer 0'
try 0 "$QKV" attend classifier --prompt "the queen"
try 0 "$QKV" attend encoder --prompt "the <mask> of England"
has out '<mask>'
printf 'the king\n' >prompt.txt
try 0 "$QKV" attend decoder --file prompt.txt
cp out file.out
try 0 "$QKV" attend decoder --prompt "the king"
cmp -s out file.out || fail "a prompt from a file differs"

refuse 2 'name a model folder' "$QKV" attend
refuse 2 'there is nothing to read' "$QKV" attend decoder
refuse 2 'exclude each other' "$QKV" attend decoder --prompt a --file b
refuse 2 '--kind is "x"; it must be encoder, decoder or cross' "$QKV" attend decoder --prompt a --kind x
refuse 2 'kind has no effect: files hold all kinds' "$QKV" attend decoder --prompt a --kind decoder -o a.html
refuse 1 'a.html would be written twice' "$QKV" attend decoder --prompt a -o a.html --json a.html
refuse 1 'no cross attention' "$QKV" attend decoder --prompt a --kind cross
refuse 1 'the prompt is empty' "$QKV" attend decoder --prompt ""
refuse 1 'has only a decoder' "$QKV" attend decoder --prompt a --target b
refuse 1 'no layer 1: this model has layers 0 to 0' "$QKV" attend decoder --prompt ab --layer 1
refuse 1 'no head 2: this model has heads 0 to 1' "$QKV" attend decoder --prompt ab --head 2 -o a.html
refuse 1 'tokens, but the model.s context is 40; shorten it' "$QKV" attend decoder --prompt "$(printf '%060d' 0)"
refuse 1 'cannot read nowhere' "$QKV" attend decoder --file nowhere
refuse 1 'nowhere' "$QKV" attend nowhere --prompt a
refuse 1 'folder' "$QKV" attend decoder --prompt a -o .
cp -r decoder bare && rm bare/tokenizer.json
refuse 1 'has no tokenizer.*tokenizer.json' "$QKV" attend bare --prompt a
[ ! -e a.html ] || fail "a page was left by a command that failed"

try 0 "$QKV" attend decoder --prompt "$text" -o attend.html --json attend.json
has err '^attend.html: 1 attention on'
refuse 1 'attend.html exists; --force replaces it' "$QKV" attend decoder --prompt a -o attend.html
refuse 1 'attend.json exists; --force replaces it' "$QKV" attend decoder --prompt a --json attend.json
try 0 "$QKV" attend decoder --prompt "$text" -o attend.html --force
try 0 "$QKV" attend pairs --prompt "the queen" -o pairs.html
try 0 "$QKV" attend decoder --prompt "x" -o one.html
same "$(grep -c '<script' attend.html)" 5 "scripts of the page"

# ---- sizes: 200 tokens of six layers of six heads, 2,000 tokens, 500 tokens of 12 layers of 12 heads ----
make_spec
make_text 2500 >text.txt
for shape in six,200,6,24 long,2000,6,24 big,500,12,48; do
    IFS=, read -r model context heads width <<<"$shape"
    sed \
        "s/\"context\": 32/\"context\": $context, \"position\": {\"kind\": \"rope\"}/; s/\"layers\": 2/\"layers\": $heads/
         s/\"heads\": 4/\"heads\": $heads/; s/\"d_model\": 32/\"d_model\": $width/" spec.json >$model.json
    try 0 "$QKV" train --spec $model.json --data text.txt --out $model --steps 1 --batch 1 --warmup 0 --eval-batches 1 \
        --threads 1 -q
done
head -c 200 text.txt >200.txt
head -c 500 text.txt >500.txt
head -c 2000 text.txt >2000.txt
try 0 "$QKV" attend six --file 200.txt -o six.html --threads 1
size=$(stat -c %s six.html)
[ "$size" -le 2000000 ] || fail "200 tokens of 6 x 6 heads make a page of $size bytes"
try 0 "$QKV" attend long --file 2000.txt -o long.html --threads 1
size=$(stat -c %s long.html)
[ "$size" -le 20000000 ] || fail "2,000 tokens make a page of $size bytes"

try 0 "$QKV" attend big --file 500.txt -o big.html --threads 1
size=$(stat -c %s big.html)
[ "$size" -le 6000000 ] || fail "500 tokens of 12 x 12 heads make a page of $size bytes"
grep -q '"kept":24' big.html || fail "500 tokens keep another number of weights than 24"

# ---- report ----
try 0 train run 20 -q --sample 12
try 0 train other 10 -q --rate 3e-3
same "$(wc -l <run/samples.jsonl)" 4 "samples of a run"
same "$(wc -l <run/machine.jsonl)" 1 "lines about the machine"
try 0 resume run --steps 25 -q
same "$(wc -l <run/machine.jsonl)" 2 "lines about the machine after going on"
try 0 "$QKV" report run other
has out '^run$'
has out '^  steps +25 of 25 in '
has out '^  loss +[0-9.]+ +[▁▂▃▄▅▆▇█]+'
has out '^  best +[0-9.]+ +at step'
has out '^  machine +.* 1 thread, '
try 0 env LC_ALL=C "$QKV" report run
LC_ALL=C grep -q '[^ -~]' out && fail "$last: more than ASCII where the locale has no more"
refuse 2 'name one or more runs' "$QKV" report
refuse 2 '--follow writes a page again' "$QKV" report run --follow
refuse 2 'every has no effect: it is for --follow' "$QKV" report run -o r.html --every 3
refuse 1 'nowhere holds no training run' "$QKV" report nowhere
refuse 1 'decoder holds no training run' "$QKV" report decoder -o r.html
[ ! -e r.html ] || fail "a page was left by a command that failed"
try 0 "$QKV" report run
shown=$(sed -nE 's/^  (loss|valid|best) +([0-9.]+).*/"\2"/p; s/.*, ([0-9.]+[kMG]?) tokens\/s$/"\1"/p' out | head -n 4 \
    | paste -sd,)
# A classifier: its unit, and a best that follows the metric.
mkdir judged
printf \
    '{"step":1,"loss":0.9,"tokens":9,"seconds":1,"tokens_per_second":9}\n{"step":2,"loss":0.8,"valid_loss":0.5,"accuracy":0.7,"tokens":18,"seconds":2}
{"step":3,"loss":0.7,"valid_loss":0.6,"accuracy":0.9,"tokens":27,"seconds":3}\n{"step":4,"loss":0.6,"valid_loss":0.7,"accuracy":0.8,"tokens":36,"seconds":4}\n' >judged/log.jsonl
printf '{"options":{"steps":4,"metric":"accuracy","labeled":"a.tsv"}}' >judged/train.json
try 0 "$QKV" report judged
has out '^  metric +0.8000  accuracy'
has out '^  best +0.9000  at step 3'
try 0 "$QKV" report judged -o judged.html
printf '{"step":26,"loss":"</script>"}\nnot json\n{"step":27,"lo' >>other/log.jsonl
printf '{"step":5,"text":"</script><script>injected=1</script>"}\n' >other/samples.jsonl
try 0 "$QKV" report run -o report.html
has err '^report\.html: 25 steps of 1 run, [0-9.]+ KiB$'
refuse 1 'report.html exists; --force replaces it' "$QKV" report run -o report.html
try 0 "$QKV" report other run -o both.html
mkdir empty
: >empty/log.jsonl
try 0 "$QKV" report empty
has out 'no step is logged yet'
try 0 "$QKV" report empty -o empty.html

# Following: the page reloads itself until the run has ended in any way, and stays when the command is interrupted.
try 0 "$QKV" report run -o follow.html --follow --every 1
grep -q 'http-equiv="refresh"' follow.html && fail "the page of a run that has ended loads itself again"
"$QKV" train --spec spec.json --data text.txt --out going --steps 1000000 --batch 4 --warmup 2 --eval-every 50 \
    --eval-batches 2 --save-every 50 \
    --threads 1 -q >train.out 2>&1 </dev/null &
trained=$!
eventually lines_in going/log.jsonl 61 || fail "going has no 61 steps"
for what in interrupt kill; do
    "$QKV" report going -o going.html --follow --every 1 --force >out 2>err </dev/null &
    pid=$!
    eventually grep -qs 'http-equiv="refresh" content="1"' going.html || fail "the page of a run that goes on does not load itself again"
    grep -q '"state":"running"' going.html || fail "a run that goes on is not running"
    if [ $what = kill ]; then kill -9 $trained; else kill -TERM $pid; fi
    wait $pid
    code=$?
    last="following, $what"
    if [ $what = kill ]; then
        same $code 0 "the exit code of following a run to its end"
        has err '^qkv: going: interrupted: its process was killed, after step [0-9,]+$'
        grep -q '"state":"interrupted","killed":true' going.html || fail "a run that was killed is not interrupted"
    else
        same $code 130 "the exit code of following that was interrupted"
    fi
    grep -q 'http-equiv="refresh"' going.html && fail "the last page loads itself again"
done
{ wait $trained; } 2>/dev/null # without the word of bash that it was killed
try 0 "$QKV" report going
has out '^  state +interrupted: its process was killed$'
try 0 "$QKV" report run
has out '^  state +done$'

# ---- in the browser ----
. "$here/browser.sh"
need_browser
# The checks can fail: a page that throws, and a page that uses the network, are found.
printf '<!DOCTYPE html><body><script>nothing.at.all()</script></body>\n' >broken.html
open_page "$folder/broken.html" 800 600 1
grep -q 'CONSOLE.*Uncaught' err || fail "an error of a page is not noticed: $(tail -3 err)"
sed 's|^<main |<img src="http://127.0.0.1:9/x.png" alt="">&|' one.html >network.html
open_page "$folder/network.html" 800 600 1
grep -q 'CONSOLE.*Content Security Policy' err || fail "the policy lets a page load things: $(tail -3 err)"
before=$failures
browse one.html '{"heads":99}' attend.js >/dev/null 2>&1
[ $failures -gt $before ] || before=$((failures + 1))
failures=$before
grep -q '^FAILED small pictures' results || fail "a wrong page passes"

n=${#text}
for theme in 0 1; do
    browse attend.html '{"heads":2,"queries":'$n',"keys":'$n',"kinds":1,"colours":2,"text":'"$(printf '%s' "$text" \
        | sed 's/</\\u003c/g; s/^/"/; s/$/"/')"'}' attend.js 1300 $theme
    browse both.html '{"runs":2,"steps":26,"samples":1,"damaged":1}' report.js 1300 $theme
done
browse attend.html '{"heads":2,"queries":'$n',"keys":'$n',"kinds":1,"colours":2,"text":"injected"}' attend.js 500
source=$(grep -o '"encoder":{"ids":\[[0-9,]*' pairs.html | head -1 | tr -cd , | wc -c)
target=$(grep -o '"decoder":{"ids":\[[0-9,]*' pairs.html | head -1 | tr -cd , | wc -c)
browse pairs.html \
    '{"heads":6,"queries":'$((target + 1))',"keys":'$((source + 1))',"kinds":3,"colours":2,"text":"<s>"}' attend.js
browse one.html '{"heads":2,"queries":1,"keys":1,"kinds":1,"colours":1,"text":"x"}' attend.js
browse six.html '{"heads":36,"queries":200,"keys":200,"kinds":1,"colours":20,"text":"that"}' attend.js
browse long.html '{"heads":36,"queries":2000,"keys":2000,"kinds":1,"colours":10,"text":"that"}' attend.js
browse report.html '{"runs":1,"steps":25,"samples":4,"damaged":0,"shown":['"$shown"']}' report.js
browse going.html '{"runs":1,"samples":0,"damaged":0,"state":"killed"}' report.js
browse judged.html \
    '{"runs":1,"steps":4,"samples":0,"damaged":0,"unit":"Loss, nats a line over","best":"accuracy 0.9000 at 3"}' \
    report.js
browse report.html '{"runs":1,"steps":25,"samples":4,"damaged":0}' report.js 500 0
sed 's|</style>|body { width: 390px }</style>|' both.html >narrow.html
browse narrow.html '{"runs":2,"steps":26,"samples":1,"damaged":1}' report.js 500
browse big.html '{"heads":144,"queries":500,"keys":500,"kinds":1,"colours":10,"text":"that"}' attend.js 390 0
# 500 tokens of 12 x 12 heads are there in two seconds, and every view in 100 ms; the best of five, as others use the
# machine, too.
for i in 1 2 3 4 5; do
    with_script big.html '{"opened":2000,"view":100}' speed.js
    patience=--disable-gpu open_page "$folder/tested.html" 1300 900 1
    sed -n '/^@@begin$/,/^@@end$/p' dom >results
    grep -q '^PASSED' results && break
done
checks=$((checks + 1))
grep -q '^PASSED' results || fail "big.html is slow: $(cat results)"
grep -o 'opened in [0-9]* ms, slowest view [0-9]* ms' err | head -1

open_page "$folder/empty.html" 800 600 1
grep -q CONSOLE err && fail "a report of nothing: $(grep CONSOLE err | head -3)"
grep -q 'nothing is logged yet' dom || grep -q '<figure' dom || fail "a report of nothing shows nothing"

# Pictures: they are made, and not all of one colour. One of each page; all where they are stored.
for page in six,1300,1000,1 big,1300,1000,0 both,390,900,1; do
    shapes=${page#*,}
    page=${page%%,*}
    [ -z "${QKV_SCREENSHOTS:-}" ] || shapes="1300,1000,1 1300,1000,0 390,900,1"
    for shape in $shapes; do
        IFS=, read -r width height theme <<<"$shape"
        open_page "$folder/$page.html" "$width" "$height" "$theme" "$folder/$page-$width-$theme.png"
        checks=$((checks + 1))
        size=$(stat -c %s "$page-$width-$theme.png" 2>/dev/null || echo 0)
        [ "$size" -gt 20000 ] || fail "the picture of $page.html at width $width has $size bytes"
    done
done
[ -z "${QKV_SCREENSHOTS:-}" ] || { mkdir -p "$QKV_SCREENSHOTS" && cp ./*.png "$QKV_SCREENSHOTS"; }
finish
