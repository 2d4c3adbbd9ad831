# serve_common.sh: starts "qkv serve" and asks it, for tests that source it after common.sh.

# need_server WHAT: ends the test of WHAT here if this qkv has no server, which it must say.
need_server() {
    try 1 "$QKV" serve nowhere
    grep -q 'built without libmicrohttpd' err || return 0
    echo "NOT TESTED: $1; this qkv was built without libmicrohttpd"
    finish
}

# serve NAME OPTIONS...: starts a server at a free port; its messages go to NAME.err. Sets $port and $server.
serve() {
    local name=$1
    shift
    "$QKV" serve "$@" --port 0 >"$name.out" 2>"$name.err" </dev/null &
    server=$!
    eventually serving "$name" || { fail "the server $name does not begin"; sed 's/^/    /' "$name.err"; finish; }
    port=$(sed -E 's|.*http://127.0.0.1:([0-9]+).*|\1|' "$name.out")
}
serving() { [ -s "$1.out" ] || ! kill -0 "$server" 2>/dev/null; }

# stop NAME: the server ends by itself after a signal, with exit code 0.
stop() {
    kill -TERM "$server"
    wait "$server"
    same $? 0 "exit code of the server $1"
    checks=$((checks + 1))
    ! grep -qE 'Sanitizer|runtime error' "$1.err" || { fail "the sanitizers complain"; tail -20 "$1.err"; }
}

# ask METHOD PATH [BODY [HEADER...]]: sets $status; headers in ./head, the body of the answer in ./body. HTTP/1.0: the
# answer ends with the connection.
ask() {
    local method=$1 path=$2 text=${3:-} header
    shift $(($# > 3 ? 3 : $#))
    checks=$((checks + 1))
    {
        printf '%s %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\nContent-Length: %s\r\n' "$method" "$path" "$port" \
            "$(printf %s "$text" | wc -c)"
        for header; do printf '%s\r\n' "$header"; done
        printf '\r\n%s' "$text"
    } | raw
}
# raw: sends standard input as it is, and reads until the server closes the connection.
raw() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" || { fail "no connection"; return; }
    cat >&3 2>/dev/null
    timeout 60 cat <&3 >reply 2>/dev/null
    exec 3>&-
    sed '/^\r$/q' reply | tr -d '\r' >head
    sed '1,/^\r$/d' reply >body
}
post() { ask POST "$@"; }
# expect STATUS PATTERN: of the latest answer.
expect() {
    local status
    checks=$((checks + 1))
    status=$(sed -nE '1s/^HTTP[^ ]* ([0-9]+).*/\1/p' head)
    [ "$status" = "$1" ] && grep -qE -- "$2" body || {
        fail "line ${BASH_LINENO[0]}: status $status, not $1, or no \"$2\""
        head -c 400 body | sed 's/^/    /'
        echo
    }
}
# value KEY [FILE]: values of a key, as they stand in JSON.
value() { grep -oE "\"$1\": (\"([^\"\\\\]|\\\\.)*\"|[0-9.e-]+|null|true|false)" "${2:-body}" | sed -E "s/^\"$1\": //"; }
# metric NAME: the value of the first line of /metrics that begins so.
metric() {
    ask GET /metrics
    grep -m1 "^$1" body | sed 's/.* //'
}
