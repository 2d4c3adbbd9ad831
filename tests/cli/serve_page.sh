#!/usr/bin/env bash
# The page of "qkv serve": a talk in headless Chromium: streaming, stop, edit, again, settings, models, themes, a phone.
# PICTURES=FOLDER keeps pictures of it.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/cli/serve_common.sh"
. "$SOURCE/tests/cli/browser.sh"
need_server "the page of qkv serve"
make_spec
make_text 80 >text.txt
try 0 train run 4 --quiet
serve plain run --log none
ask GET /
expect 200 '<title>qkv chat</title>'
grep -qi '^content-type: text/html' head || fail "the page is not HTML"
stop plain
need_browser
sed 's/"context": 32/"context": 2048/; s/"d_model": 32/"d_model": 256/; s/"layers": 2/"layers": 6/' spec.json >wide.json
try 0 "$QKV" new wide.json --tokenizer run/tokenizer.json --out wide
serve page wide run --log none

# ---- the browser, by its own protocol over a pipe (--remote-debugging-pipe: messages end in a zero byte) ----
mkfifo to from
"$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars \
    --disable-background-networking --user-data-dir="$folder/profile" --window-size=1200,900 --remote-debugging-pipe \
    about:blank 3<to 4>from >/dev/null 2>browser.err &
chromium=$!
exec 5>to 6<from
number=0
# say METHOD PARAMS [SESSION]: sets $answer to the result of a command.
say() {
    local session=${3:+,\"sessionId\":\"$3\"}
    number=$((number + 1))
    printf '{"id":%d,"method":"%s","params":%s%s}\0' $number "$1" "$2" "$session" >&5
    while IFS= read -r -d '' -t 60 answer <&6; do
        case $answer in "{\"id\":$number,"*) return 0 ;; esac
        [[ $answer != *Runtime.exceptionThrown* ]] || fail "the page throws: ${answer:0:400}"
    done
    fail "the browser does not answer $1"
    kill $chromium
    finish
}
say Target.createTarget '{"url":"about:blank"}'
target=$(sed -E 's/.*"targetId":"([^"]*)".*/\1/' <<<"$answer")
say Target.attachToTarget "{\"targetId\":\"$target\",\"flatten\":true}"
session=$(sed -E 's/.*"sessionId":"([^"]*)".*/\1/' <<<"$answer")
say Runtime.enable '{}' "$session"
# evaluate PROGRAM: sets $answer to the text that the JavaScript gives, which has no double quotes.
evaluate() {
    say Runtime.evaluate "{\"expression\":\"${1//$'\n'/ }\",\"awaitPromise\":true,\"returnByValue\":true}" "$session"
    [[ $answer != *exceptionDetails* ]] || fail "$1: ${answer:0:300}"
    answer=$(sed -E 's/.*"value":("([^"]*)"|([a-z0-9.-]+)).*/\2\3/' <<<"$answer")
}
# until_page PROGRAM WHAT: waits until the program gives true.
until_page() {
    local end=$((SECONDS + 60))
    checks=$((checks + 1))
    while evaluate "String($1)" && [ "$answer" != true ]; do
        [ $SECONDS -lt $end ] || { fail "never: $2"; return; }
        sleep 0.05
    done
}
is() { # is PROGRAM VALUE
    evaluate "String($1)"
    same "$answer" "$2" "$1"
}
# window WIDTH HEIGHT SCHEME; picture NAME
window() {
    say Emulation.setDeviceMetricsOverride \
        "{\"width\":$1,\"height\":$2,\"deviceScaleFactor\":1,\"mobile\":false}" "$session"
    say Emulation.setEmulatedMedia "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$3\"}]}" "$session"
}
picture() {
    [ -n "${PICTURES:-}" ] || return 0
    say Page.captureScreenshot '{"format":"png"}' "$session"
    sed -E 's/.*"data":"([^"]*)".*/\1/' <<<"$answer" | base64 -d >"$PICTURES/$1.png"
}
# Programs for the page: q finds an element, put sets a field, send says a text, press a button by its words.
helpers() {
    evaluate "window.q = (s) => document.querySelector(s); window.all = (s) => [...document.querySelectorAll(s)]; 1"
    evaluate "window.put = (id, value) => { q('#' + id).value = value; return 1; }"
    evaluate "window.send_text = (text) => { put('text', text); q('#form').requestSubmit(); return 1; }"
    evaluate "window.press = (at, text) => all(at + ' button').find((b) => b.textContent === text).click()"
    evaluate "window.idle = () => q('#send').textContent === 'Send'; 1"
    evaluate "window.key = (name) => document.activeElement.dispatchEvent(
        new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}))"
}

# ---- a talk ----
window 1200 900 light
say Page.navigate "{\"url\":\"http://127.0.0.1:$port/\"}" "$session"
until_page "document.querySelectorAll('#model option').length === 2" "the models"
helpers
is "document.activeElement.id" text
is "q('.empty').textContent" "What would you like to say?"
picture empty
evaluate "put('max_tokens', '12') && put('seed', '3') && put('text', 'the king sees')"
evaluate "key('Enter')"
until_page "all('.message.assistant').length === 1 && idle()" "an answer"
is "q('.message.user .body').textContent" "the king sees"
is "q('.message.assistant .body').textContent.length > 0" true
is "/^12 tokens(, [0-9.]+ tokens\\\\/s)?$/.test(q('.assistant .count').textContent)" true
is "q('.bad').textContent.includes('is cut')" true
evaluate "q('.assistant .body').textContent"
first=$answer
evaluate "press('.assistant', 'Again')"
until_page "all('.message.assistant').length === 1 && idle() && talk[1].content !== ''" "another answer"
is "q('.assistant .body').textContent" "$first"
picture talk
# Stop: a long answer, and the key Escape.
evaluate "put('max_tokens', '2000') && send_text('more')"
until_page "talk.length === 4 && talk[3].content.length > 2" "the beginning of a long answer"
is "q('#send').textContent" Stop
evaluate "key('Escape')"
until_page "idle()" "the end of a stopped answer"
is "talk[3].note.endsWith('stopped')" true
nothing_open() { [ "$(metric qkv_requests_open)" = 0 ]; }
eventually nothing_open || fail "a stopped answer goes on"
# Edit the first message: what follows it goes.
evaluate "put('max_tokens', '5') && press('.user', 'Edit')"
until_page "document.activeElement.tagName === 'TEXTAREA' && document.activeElement.id === ''" "an editor"
evaluate "document.activeElement.value = 'a queen'; press('.editor', 'Send again')"
until_page "talk.length === 2 && idle()" "the answer to the edited message"
is "talk[0].content" "a queen"
# Nothing of an answer becomes markup, and fences become code.
evaluate "talk.push({role: 'assistant', content: ['<b>x</b>', '\`\`\`c', 'int y;', '\`\`\`'].join('\\\\n')}); draw()"
is "all('.body b').length" 0
is "q('.body pre').textContent" "int y;"
evaluate "talk.pop(); draw()"
# Settings, a bad one of which the server names; the other model; a new talk.
evaluate "q('#gear').click(); put('temperature', '-3') && send_text('x')"
until_page "all('.bad').some((e) => e.textContent.includes('temperature must be a number'))" "the server's words"
picture settings
evaluate "put('temperature', '') && put('model', 'run') && q('#new').click()"
evaluate "send_text('the')"
until_page "talk.length === 2 && idle()" "an answer of the other model"
# The talk outlives the page; a phone, in the dark: nothing is wider than the window.
window 390 800 dark
evaluate "window.before = true"
say Page.reload '{}' "$session"
until_page "window.before === undefined && document.readyState === 'complete' &&
    document.querySelectorAll('.message').length === 2" "the old talk"
helpers
is "document.documentElement.scrollWidth <= 390" true
is "getComputedStyle(document.body).backgroundColor" "rgb(16, 20, 24)"
picture phone
evaluate "q('#gear').click()"
is "document.documentElement.scrollWidth <= 390" true
picture phone-settings
evaluate "q('#theme').click()"
is "getComputedStyle(document.body).backgroundColor" "rgb(255, 255, 255)"
# A server that has gone.
stop page
evaluate "send_text('x')"
until_page "all('.bad').length > 0 && idle()" "words about a server that has gone"
is "all('.bad').pop().textContent.startsWith('The server does not answer')" true
kill $chromium
wait $chromium 2>/dev/null
finish
