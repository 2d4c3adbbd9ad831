#!/usr/bin/env bash
# The commands of the pages that measure (docs/flavours.md, norms.md, positions.md) run as they stand, on a small text
# and with few steps, and the numbers that depend on shapes alone are those that the pages show.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/cli/page_commands.sh"
if [ "${SANITIZE:-0}" = 1 ]; then # compare.sh trains variants of these axes under the sanitizers, tests in C the others
    echo "NOT TESTED: the pages that measure, under the sanitizers; make test runs them"
    exit 0
fi
make_text 400 >small.txt
export QKV_THREADS=1

# page_program FILE: the commands of a page, which one after the other are a program for bash; its examples
# are programs of examples/ (install.sh runs them). What is a matter of time becomes small: steps, seeds, rows, caches,
# prompts; a warm-up that the steps have room for; the text.
page_program() {
    page_commands "$1" |
        sed -E \
            's|build/qkv|"$QKV"|g; s|--steps [0-9]+|--steps 2|; s|--seeds [0-9]+|--seeds 2|; s|--batch [0-9]+|--batch 2|
            / compare /{/--cache|[$]small|[$]deep/!s/$/ --cache 8/}; /^[a-z]+="--data/{/--cache/!s/"$/ --cache 8"/}; s|--cache [0-9,]+|--cache 8,16|; s|warmup=0,100|warmup=0,1|; s|^head -c [0-9]+|head -c 300|
            s|"\$\(scripts/get-data\)"|../small.txt|
            s!^examples/([a-z0-9]+).*!grep -qE "^PROGRAMS.* \1( |$)" "$SOURCE/examples/Makefile" || exit 3!'
}

# page NAME CALLS: runs those of a page in a folder of its own; there are at least so many calls of qkv.
page() {
    local calls
    mkdir "$1" && cd "$1" || exit 2
    page_program "$SOURCE/docs/$1.md" >commands
    calls=$(grep -c '^ *"\$QKV"' commands)
    [ "$calls" -ge "$2" ] || fail "found only $calls calls of qkv in docs/$1.md"
    try 0 bash -eu commands
    hasnt err 'variants failed'
    cd ..
}

# shown PAGE RESULTS VARIANT: a line of the page begins with the variant and has its parameters, and its bytes in the
# cache a token.
shown() {
    local page=$1 name=$3 line parameters bytes
    line=$(sed 's/{"name":/\n&/g' "$2" | grep -F "{\"name\":\"$name\",")
    parameters=$(grep -o '"parameters":[0-9]*' <<<"$line" | cut -d: -f2)
    bytes=$(grep -o '"cache_bytes_per_token":[0-9]*' <<<"$line" | cut -d: -f2)
    checks=$((checks + 1))
    grep -F "| \`$name\` |" "$SOURCE/docs/$page.md" | grep -F "| $(commas "$parameters") |" \
        | grep -qF "| $(commas "$bytes") B |" ||
        fail "docs/$page.md: no line of $name with $(commas "$parameters") parameters and $(commas "$bytes") B a token"
}
commas() { sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta' <<<"$1"; }

page positions 6
page norms 7
page flavours 6
for axis in kv position ffn gates norm experts; do
    variants=$(grep -o '{"name":"[^"]*"' "flavours/flavours/$axis/results.json" | cut -d'"' -f4)
    [ "$(wc -w <<<"$variants")" -ge 3 ] || fail "found only the variants $variants of $axis"
    for name in $variants; do shown flavours "flavours/flavours/$axis/results.json" "$name"; done
done

# from-pytorch.md: a row with a model, its parameters and the call that counts them. (pages_run.sh runs the last call,
# which is below the table.)
counted=0
qkv() { "$QKV" "$@"; }
while IFS='|' read -r _ _ parameters call _; do
    try 0 eval "$(tr -d '`' <<<"$call")"
    has out "^  parameters +$(tr -d ' ' <<<"$parameters") "
    counted=$((counted + 1))
done < <(grep -E '^\|.*\| `qkv info [^|]*` \|$' "$SOURCE/docs/from-pytorch.md")
[ $counted -ge 3 ] || fail "found only $counted counts in docs/from-pytorch.md"

# The page of commands is what the help says.
try 0 bash "$SOURCE/scripts/make-docs" --check "$QKV"
finish
