# browser.sh: opens pages in headless Chromium; tests source it after common.sh and call need_browser, which installs
# Chromium if possible; without it, the rest of the test is skipped.
: "${SOURCE:?}" "${folder:?}"
here=$SOURCE/tests/cli

find_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
find_or_install_browser() {
    if ! find_browser >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        echo "installing chromium, to open the pages"
        # Another process may be installing, too.
        (export DEBIAN_FRONTEND=noninteractive
         apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends chromium ||
             { apt-get update -qq && apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends \
                 chromium; }) >apt.log 2>&1
    fi
    browser=$(find_browser) || browser=
}
# need_browser: ends the test here if there is no browser.
need_browser() {
    # Other kernels and sanitizers change nothing in a page: the tests of make test open it.
    [ "${SANITIZE:-0}" = 0 ] && [ -z "${QKV_ISA:-}" ] || finish
    find_or_install_browser
    [ -z "$browser" ] || return 0
    echo "NOT TESTED: what the pages look like in a browser; there is no chromium, and it cannot be installed here"
    finish
}

# open PAGE WIDTH HEIGHT THEME [PICTURE]: prints the document as scripts have left it; messages of the console go to
# ./err.
open_page() {
    local page=$1 width=$2 height=$3 theme=$4 picture=${5:-} mode=--dump-dom
    [ -z "$picture" ] || mode=--screenshot=$picture
    rm -rf profile
    timeout 100 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --hide-scrollbars \
        --disable-background-networking --disable-component-update --user-data-dir="$folder/profile" \
        --window-size="$width,$height" --blink-settings=preferredColorScheme="$theme" --enable-logging=stderr \
        --log-level=0 \
        ${patience:-"--virtual-time-budget=20000"} "$mode" "file://$page" >dom 2>err </dev/null
}
# with_script PAGE EXPECTED SCRIPT: tested.html, a copy of the page with a script behind its own.
with_script() {
    local page=$1 expected=$2 script=$3 nonce
    nonce=$(grep -o -m 1 '<script nonce="[0-9a-f]*"' "$page" | head -n 1)
    {
        sed '/^<\/body>$/,$d' "$page"
        printf '%s>\nconst EXPECTED = %s;\n' "$nonce" "$expected"
        cat "$here/pages/check.js" "$here/pages/$script"
        printf '</script>\n</body>\n</html>\n'
    } >tested.html
}
# browse PAGE EXPECTED SCRIPT [WIDTH [THEME]]: no message of the console, and all checks pass; themes are 0 dark, 1
# light.
browse() {
    local page=$1 expected=$2 script=$3 width=${4:-1300} theme=${5:-1}
    checks=$((checks + 1))
    with_script "$page" "$expected" "$script"
    open_page "$folder/tested.html" "$width" 900 "$theme"
    if grep -q 'CONSOLE' err; then
        fail "$page: the console has messages"
        grep 'CONSOLE' err | head -5 | sed 's/^/    /'
    fi
    sed -n '/^@@begin$/,/^@@end$/p' dom >results
    if ! grep -q '^PASSED [1-9]' results; then
        fail "$page (width $width, theme $theme)"
        sed 's/^/    /' results | head -20
        [ -s results ] || grep -vE "dbus|WARNING" err | tail -5
    fi
}
