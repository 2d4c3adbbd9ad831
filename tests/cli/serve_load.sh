#!/usr/bin/env bash
# "qkv serve" under many clients at once, polite ones, broken ones and ones that go away: no request is lost, and memory
# stays where it was after some time. LOAD: seconds; FLOOD: requests at once.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/cli/serve_common.sh"
: "${LOAD:=4}" "${FLOOD:=1500}"
load=$BINARY/tests/cli/load
need_server "qkv serve under load"
make_spec
make_text 80 >text.txt
try 0 train run 4 --quiet
serve load run --rows 8 --queue 64 --memory 400M --log none
used() { awk '/^VmRSS/ {print $2}' "/proc/$server/status"; }
seed=${QKV_TEST_SEED:-1}
echo "seed $seed"
try 0 "$load" "$port" "$(((LOAD + 3) / 4))" 12 "$((seed % 1000000))"
before=$(used)
try 0 "$load" "$port" "$LOAD" 12 "$((seed % 1000000 + 1))"
has out '^answered [1-9][0-9]*, refused [0-9]+, told [1-9][0-9]*, left [1-9][0-9]*, lost 0, wrong 0$'
cat out
after=$(used)
echo "memory: $before KiB, then $after KiB"
if [ "${SANITIZE:-0}" = 0 ]; then
    [ "$after" -lt $((before + before / 20 + 2048)) ] || fail "memory grew from $before to $after KiB"
fi
nothing_open() { [ "$(metric qkv_requests_open)" = 0 ]; }
eventually nothing_open || fail "requests are left"
same "$(metric 'qkv_answers_running{model="run"}')" 0 "answers are left"
try 0 "$load" "$port" flood "$FLOOD"
has out 'lost 0, wrong 0$'
cat out
# Connections that die with half a request are gone at once.
sleep 2
files=$(find "/proc/$server/fd" -type l | wc -l)
[ "$files" -lt 20 ] || fail "$files files are open"
ask GET /health
expect 200 ok
if [ "${SANITIZE:-0}" = 0 ]; then
    peak=$(awk '/^VmHWM/ {print $2}' "/proc/$server/status")
    [ "$peak" -lt $((400 * 1024)) ] || fail "--memory 400M has a peak of $peak KiB"
fi
stop load
finish
