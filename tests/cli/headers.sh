#!/usr/bin/env bash
# Reads the public headers. Every function has a comment, its own or one above it and its neighbours. The comment of a
# function that returns a status names the failures: "Fails with QKV_FILE, QKV_MEMORY." Every header says at its top
# which parts are stable and which are experimental. Every struct that callers fill has a call that returns its
# defaults; callers fill structs that calls read and no call fills: options, and structs passed by value or as const,
# with their members. Every struct of options begins with its size, and tests/test_sized_options.c has a row for every
# call that takes one and returns a status.
#     headers.sh SOURCE_FOLDER
# An example, a test, the command or the lab uses every function, which shows why it exists.
set -u
cd "${1:?}" || exit 2
statuses=$(sed -n '/define QKV_STATUS_LIST/,/^enum/p' include/qkv/context.h | grep -oE 'X\([A-Z]+' | cut -c3- \
    | tr '\n' ' ')
[ "$(wc -w <<<"$statuses")" -ge 9 ] || { echo "found only the statuses $statuses"; exit 1; }
sized=$(mktemp)
trap 'rm -f "$sized"' EXIT
awk -v statuses="$statuses" -v sized="$sized" '
    function complain(text) {print FILENAME ": " text; bad = 1}
    function pass(text,    list, i, n, name) { # the structs that a declaration reads, and those that it fills
        sub(/^[^(]*\(/, "", text)
        n = split(text, list, /[,()]/)
        for (i = 1; i <= n; i++) {
            if (!match(list[i], /struct qkv_[a-z_]+ /)) continue
            name = substr(list[i], RSTART + 11, RLENGTH - 12)
            if (list[i] ~ /^ *const struct qkv_[a-z_]+ \*[a-z]/ || list[i] ~ /^ *struct qkv_[a-z_]+ [a-z]/) wanted[name] = 1
            else if (list[i] ~ /^ *struct qkv_[a-z_]+ \*[a-z]/) made[name] = 1
        }
    }
    function spread(set,    pair, part, more) { # to the structs inside
        for (more = 1; more;) {
            more = 0
            for (pair in member) {
                split(pair, part, SUBSEP)
                if ((part[1] in set) && !(part[2] in set)) {set[part[2]] = 1; more = 1}
            }
        }
    }
    function judge(    name, text, list, i, n, word) { # a whole declaration
        seen++
        name = declaration
        sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
        functions[name] = 1
        pass(declaration)
        if (declaration ~ /^QKV_API enum qkv_status .*struct qkv_[a-z_]*_options \*options/ && name !~ /_init$/) {
            match(declaration, /struct qkv_[a-z_]*_options \*options/)
            print "X(" name ", " substr(declaration, RSTART + 7, RLENGTH - 16) ")" > sized
            sized_calls++
        }
        text = comment " " trailing
        if (text ~ /^ *$/) complain(name " has no comment")
        if (declaration !~ /^QKV_API enum qkv_status /) return
        if (!match(text, /Fails with QKV_[A-Z]+[^.;]*/)) {complain(name " does not say which statuses it fails with"); return}
        returning++
        n = split(substr(text, RSTART, RLENGTH), list, /[^A-Z_]+/)
        for (i = 1; i <= n; i++)
            if (list[i] ~ /^QKV_/ && !((word = substr(list[i], 5)) in known)) complain(name " fails with " list[i] ", which is no status")
    }
    BEGIN {split(statuses, names, " "); for (i in names) known[names[i]] = 1}
    FNR == 1 {comment = ""; top = ""; in_comment = 0; open = 0; headers++; first = 1}
    open { # a declaration that goes on
        declaration = declaration " " $0
        if ($0 ~ /;/) {trailing = $0 ~ /\/\*/ ? $0 : ""; open = 0; judge()}
        next
    }
    in_comment || /^[ \t]*\/\*/ {
        if (!in_comment) {comment = ""; said = 0}
        line = $0
        sub(/^[ \t]*\* ?/, "", line)
        comment = comment " " line
        in_comment = $0 !~ /\*\//
        if (first) {top = comment; if (!in_comment) {first = 0; if (FILENAME != "include/qkv.h" && top !~ /(Stable|Experimental)[.:]/) complain("does not say whether it is stable")}}
        next
    }
    begins { # the line after the first one of a struct of options
        if ($0 !~ /^    size_t size; /) complain("struct qkv_" inside " does not begin with size_t size")
        begins = 0
    }
    /^struct qkv_[a-z_]+ \{/ {
        inside = substr($2, 5)
        defined[inside] = 1
        begins = inside ~ /_options$/
        sized_structs += begins
    }
    inside ~ /_options$/ && /^ +struct qkv_[a-z_]*_options [a-z]/ {
        complain("struct qkv_" inside " has options inside, which move what follows when they grow")
    }
    inside && /^ +(const )?struct qkv_/ {match($0, /qkv_[a-z_]+/); member[inside, substr($0, RSTART + 4, RLENGTH - 4)] = 1}
    /^}/ {inside = ""}
    /^(QKV_API|static inline) / {
        declaration = $0
        sub(/ \{$/, ";", declaration) # a function with its body
        $0 = declaration
        if ($0 ~ /;/) {trailing = $0 ~ /;.*\/\*/ ? $0 : ""; judge()}
        else open = 1
        next
    }
    /^$/ || /\{/ || /^#/ || /^}/ {comment = ""}
    END {
        spread(wanted); spread(made)
        for (struct in defined) {
            if (struct !~ /_options$/ && (!(struct in wanted) || struct in made)) continue
            filled++
            name = "qkv_" struct
            if (!sub(/_options$/, "_defaults", name)) name = name "_defaults"
            if (!(name in functions)) {print "struct qkv_" struct ", which callers fill, has no " name; bad = 1}
        }
        if (sized_calls < 30 || sized_structs < 18) {
            print "found only " sized_calls + 0 " calls with options and " sized_structs + 0 " structs of them"
            bad = 1
        }
        if (headers < 10 || seen < 150 || returning < 60 || filled < 25) {print "found only " seen " functions in " headers " headers: this check does not look where they are"; bad = 1}
        exit bad
    }' include/qkv/*.h || exit 1
while read -r row; do
    grep -qF "$row" tests/test_sized_options.c || { echo "tests/test_sized_options.c has no row $row"; exit 1; }
done <"$sized"
export LC_ALL=C
find tests examples cli lab mpi \( -name '*.[ch]' -o -name '*.cpp' \) -exec cat {} + | grep -oE '\<qkv_[a-z0-9_]+' \
    | sort -u | comm -13 - tests/symbols.txt | sed 's/$/ is used by no example, test or command/' | grep . && exit 1
exit 0
