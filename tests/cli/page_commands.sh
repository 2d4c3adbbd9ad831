# page_commands.sh: the commands that the pages show; sourced by the tests that run them.

# page_commands FILE: the indented blocks of a page whose first line begins as a command does, and the examples of the
# help texts in docs/commands.md, which are at their end or below an option, as lines for a shell.
page_commands() {
    local words='build/qkv|qkv|make|mpirun|cc|cd|cp|for|head|tail|echo|sort|printf|digits'
    words="^($words|QKV_[A-Z]+=.*|(examples|scripts)/.*)$"
    awk -v words="$words" '/^```/ { shown = 0; fence = !fence }
         fence && /^        qkv / { print substr($0, 9); next }
         /^examples:$/ { shown = 1; next }
         shown && /^  / { print substr($0, 3); next }
         /^    qkv (spec|train) [12]$/ { inside = 1; command = 0 } # a head of the lines of a digest
         /^    / && !inside { inside = 1; command = $1 ~ words || /^    [a-z]+="/ }
         /^$|^[^ ]/ { inside = 0 }
         inside && command { print substr($0, 5) }' "$1"
}

# page_calls FILE: one command a line: continued lines are joined, comments are cut off.
page_calls() { page_commands "$1" | sed -z 's/\\\n *//g' | sed -E 's/ +# .*//; s/ +$//; /^ |^$/d'; }

# page_strays FILE: lines of a page that begin as a command does, in blocks that page_commands leaves out, but for
# heads of digests.
page_strays() {
    local words='build/qkv|qkv|make|mpirun|cc|sudo|apt|apt-get|git|cmake|ctest|perf|python3?|tensorboard'
    grep -E "^ {4,}($words|scripts/[a-z-]+) " "$1" | sed -E 's/^ +//' |
        grep -vxFf <(page_commands "$1" | sed 's/^ *//'; printf "qkv %s\n" "spec 1" "train 1")
}

# page_text FILE: what the page says in one line, without its blocks. page_spans FILE: its texts in backquotes, one a
# line.
page_text() { sed '/^```/,/^```/d; /^    /d' "$1" | tr '\n' ' ' | tr -s ' '; }
page_spans() { page_text "$1" | grep -oE '`[^`]+`' | tr -d '`' | grep -vE '^qkv (spec|train) [12]$'; }
