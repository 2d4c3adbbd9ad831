# common.sh: shared by the tests of the command; each is a bash program that sources this.
# From the environment: QKV (the command), SOURCE and BINARY (the folders), SANITIZE (1 under the sanitizers).
set -u
: "${QKV:?the command to test}" "${SOURCE:?}" "${BINARY:?}"
export LC_ALL=C.UTF-8
# Files of tests are in memory if there is room for 1 GiB, as in tests/test.h, and programs can be there.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts &&
    [ "$(df -Pk /dev/shm | awk 'NR == 2 {print $4}')" -ge 1048576 ]; then
    export TMPDIR=/dev/shm
fi
folder=$(mktemp -d)
# A child that is killed as it starts may still run its parent's trap.
trap '[ "$BASHPID" != "$$" ] || rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder" || exit 2
failures=0 checks=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
}

show() {
    sed 's/^/    out: /' out | head -20
    sed 's/^/    err: /' err | head -20
}

# try CODE COMMAND...: runs it, output in ./out, messages in ./err, and checks the exit code. A crash, a sanitizer's
# report or more than ten lines of complaint are failures whatever was expected.
try() {
    local expected=$1 code
    shift
    checks=$((checks + 1))
    last="$*"
    "$@" >out 2>err </dev/null
    code=$?
    if [ $code != "$expected" ]; then
        fail "$last: exit code $code, not $expected"
        show
    fi
    if grep -qE 'AddressSanitizer|LeakSanitizer|runtime error|Assertion' err; then
        fail "$last: the sanitizers or an assertion complain"
        show
    fi
}

# has FILE PATTERN: the latest output (out) or messages (err) have a line that matches.
has() {
    checks=$((checks + 1))
    grep -qE -- "$2" "$1" || {
        fail "$last: no \"$2\" in $1"
        show
    }
}
hasnt() {
    checks=$((checks + 1))
    ! grep -qE -- "$2" "$1" || {
        fail "$last: \"$2\" in $1"
        show
    }
}

# eventually COMMAND...: waits until the command succeeds, two minutes at most; fails if it never does.
eventually() {
    local end=$((SECONDS + 120))
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}
# lines_in FILE N: the file has at least so many lines. FILE is not there: no lines.
lines_in() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

# Takes the message that bf16 is emulated out of ./err, which some kernels of $QKV_ISA bring.
drop_emulation() { sed -i '/^qkv: .*bf16.* is emulated with the /d' err; }

# refuse CODE PATTERN COMMAND...: fails with one line on stderr that begins with "qkv: " and matches, and says nothing
# else, but that the kernels of $QKV_ISA emulate bf16.
refuse() {
    local code=$1 pattern=$2
    shift 2
    try "$code" "$@"
    has err "$pattern"
    drop_emulation
    if [ "$(wc -l <err)" != 1 ] || ! grep -q '^qkv: ' err; then
        fail "$last: not one line that begins with \"qkv: \""
        show
    fi
    [ ! -s out ] || fail "$last: output besides the message: $(head -c 200 out)"
}

same() { # same A B WHAT
    checks=$((checks + 1))
    [ "$1" = "$2" ] || fail "$3: \"$1\" is not \"$2\""
}

finish() {
    printf '%d checks, %d failures\n' "$checks" "$failures"
    [ "$failures" = 0 ] && [ "$checks" -gt 0 ]
    exit
}

# A text of N lines that a small model can learn; the same every time.
make_text() {
    awk -v n="$1" 'BEGIN {
        split("the a one that this", d); split("king queen fool ghost witch", s); split("sees loves fears hears", v)
        x = 1
        for (i = 0; i < n; i++) {
            for (j = 0; j < 5; j++) { x = (x * 1103515245 + 12345) % 2147483648; r[j] = int(x / 65536) }
            print d[r[0] % 5 + 1], s[r[1] % 5 + 1], v[r[2] % 4 + 1], d[r[3] % 5 + 1], s[r[4] % 5 + 1] "."
        }
    }'
}

# A model that trains in moments.
make_spec() {
    cat >spec.json <<'END'
{"format": "qkv", "version": 1, "d_model": 32, "context": 32, "dropout": 0.1,
 "decoder": {"layers": 2, "attention": {"heads": 4}, "ffn": {"d_ff": 64}}}
END
}

# usual "NAME VALUE..." OPTIONS: the names with their values, but for those that are among the options: an option comes
# once.
usual() {
    local -a pairs=($1)
    local i
    shift
    for ((i = 0; i < ${#pairs[@]}; i += 2)); do
        [[ " $* " == *" ${pairs[i]}"[\ =]* ]] || printf '%s %s ' "${pairs[i]}" "${pairs[i + 1]}"
    done
}

# train FOLDER STEPS [OPTIONS]: a short training on text.txt with spec.json. One thread: tests run side by side.
train() {
    local run=$1 steps=$2
    shift 2
    "$QKV" train --spec spec.json --out "$run" --steps "$steps" "$@" \
        $(usual '--data text.txt --batch 4 --warmup 2 --eval-every 5 --eval-batches 2 --save-every 5 --threads 1' "$@")
}
resume() { # resume FOLDER [OPTIONS]
    "$QKV" train --resume "$@" $(usual '--threads 1' "$@")
}

# losses FOLDER: step, loss and validation loss of each line of the log, without the times.
losses() {
    sed -E 's/"(tokens_per_second|flops_share|seconds)": *[^,}]*,? ?//g' "$1/log.jsonl"
}
