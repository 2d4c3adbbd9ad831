#!/usr/bin/env bash
# The test of learning rates (train --find-rate): a table, a suggestion, a picture, and no run that stays.
# labels: numeric
. "$(dirname "$0")/common.sh"
make_text 300 >text.txt
make_spec
mkdir temporary
export TMPDIR=$PWD/temporary
find_rate() { # find_rate OPTIONS...
    "$QKV" train --spec spec.json --data text.txt "$@"
}
nothing_stays() {
    checks=$((checks + 1))
    [ -z "$(ls temporary)" ] || fail "$last has left $(ls temporary)"
}
try 0 find_rate --find-rate rates.svg --steps 60
nothing_stays
has out '^ +rate +loss +smoothed$'
has out '^train with --rate [0-9.]+e-0[1-5]: there the loss falls fastest'
checks=$((checks + 1))
awk 'NR > 1 && $1 + 0 > 0 { if ($1 + 0 <= before) wrong = 1; before = $1 + 0; n++ } END { exit wrong || n < 8 }' out ||
    fail "the rates of the table do not grow"
has rates.svg '^<svg xmlns'
has rates.svg '^</svg>$'
has rates.svg '<polyline'
cp out first
refuse 1 'rates.svg exists; name another' find_rate --find-rate rates.svg --steps 60
nothing_stays
# the suggestion is one that training learns with
rate=$(sed -n 's/^train with --rate \([^:]*\):.*/\1/p' first)
rm rates.svg
try 0 find_rate --find-rate rates.svg --steps 60
same "$(cat out)" "$(cat first)" "a second test"
try 0 "$QKV" train --spec spec.json --data text.txt --rate "$rate" --warmup 0 --steps 30 --out run --quiet
losses=$(sed -n 's/.*"loss": *\([0-9.]*\),.*/\1/p' run/log.jsonl)
awk -v first="$(head -1 <<<"$losses")" -v last="$(tail -1 <<<"$losses")" 'BEGIN { exit !(last < 0.8 * first) }' ||
    fail "with $rate the loss goes from $(head -1 <<<"$losses") to $(tail -1 <<<"$losses")"
# options that the test has itself, and those of a run
refuse 2 '--out has no effect: --find-rate makes no run' find_rate --find-rate other.svg --out run2
refuse 2 '--rate has no effect: the test of --find-rate' find_rate --find-rate other.svg --rate 1e-3
refuse 2 'at least two steps' find_rate --find-rate other.svg --steps 1
refuse 1 'missing.txt' "$QKV" train --spec spec.json --data missing.txt --find-rate other.svg
nothing_stays
checks=$((checks + 1))
[ ! -e other.svg ] && [ ! -e run2 ] || fail "what was refused has left files"
finish
