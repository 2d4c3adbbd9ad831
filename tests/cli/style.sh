#!/usr/bin/env bash
# scripts/check-style finds each kind of fault that is planted in a repository of its own, names its line, and passes a
# clean change.
#     style.sh SOURCE_FOLDER
# labels: quick
set -u
script=$(cd "${1:?}" && pwd)/scripts/check-style || exit 2
command -v git >/dev/null || { echo "skipped: there is no git"; exit 0; }
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/house" && cd "$folder/house" || exit 2
export HOME=$folder GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=$folder
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
bad=0

# expect STATUS WORDS...: the script, called with the words, ends with the status; its output is in $folder/out.
expect() {
    local status=$1 got
    shift
    scripts/check-style "$@" >"$folder/out" 2>&1
    got=$?
    [ $got = "$status" ] || { echo "check-style $*: exit status $got, not $status:"; cat "$folder/out"; bad=1; }
}
# says PATTERN: a line of the output matches it.
says() { grep -qE -- "$1" "$folder/out" || { echo "no line matches '$1' in:"; cat "$folder/out"; bad=1; }; }
# lines COUNT: the output has so many lines.
lines() {
    [ "$(wc -l <"$folder/out")" = "$1" ] || { echo "these are not $1 lines:"; cat "$folder/out"; bad=1; }
}
# fault FILE LINE PATTERN: standard input as FILE has one fault, which is found by the line; then the file is removed.
fault() {
    mkdir -p "$(dirname "$1")" && cat >"$1"
    expect 1
    says "^$1:$2: .*$3.*; write "
    lines 1
    rm "$1"
}
long=$(printf 'x%.0s' {1..119})

mkdir scripts && cp "$script" scripts/
printf '/* A %s */\nint old;\n' "$long" >old.c
git init -q . && git add -A && git commit -qm "one long line" || exit 2
expect 0
says 'no parent in this repository'
printf 'int next;\n' >next.c
git add -A && git commit -qm "a clean line"
expect 0
lines 0

# Each kind of fault, in each kind of file.
printf 'int a;\n// %s\n' "$long" | fault a.c 2 '122 columns'
printf '# A\n\n%sé é\n' "$long" | fault docs/a.md 3 '122 columns'
printf '#!/bin/sh\n: %s\n' "$long" | fault tool 2 '121 columns'
printf ': %s\n' "$long" | fault tests/a.sh 1 '121 columns'
printf '# %s\n' "$long" | fault CMakeLists.txt 1 '121 columns'
printf 'a:\n\t@echo %s\n' "${long:0:110}" | fault Makefile 2 '124 columns'
printf '/* one line\n * a lone stack */\n' | fault a.h 2 'word "lone"'
printf 'int a; // rows, turned\n' | fault a.c 1 'word "turned"'
printf 'The rows are turned, and\nthe sign is turned off.\n' | fault a.md 1 '"turned"'
printf 'int f(void) {\n    int status = g();\n    if (status != QKV_OK) return 1;\n}\n' | fault a.c 3 'QKV_OK'
printf 'int f(int a) {\n    if (a) {\n        return g(a);\n    }\n}\n' | fault a.c 2 'braces'
printf 'struct s {\n    const void\n        *a; /* why */\n};\n' | fault a.h 2 'cut in two'
printf 'struct s {\n    size_t a,\n        b; // why\n};\n' | fault a.h 2 'cut in two'

# What is no fault: code, strings, quoted words, code blocks, other braces, generated files, data, other kinds of files.
{
    printf 'int lone, turned; // the flag `lone`, and "turned"\n'
    printf 'struct s {\n    size_t a, b,\n        c;\n    int d; // one\n};\n'
    printf 'const char *text = "// lone";\nchar c = \047"\047; int hollow;\n'
    printf 'int f(int a) {\n    if (a) {\n        return g(a);\n    } else {\n        return 0;\n    }\n'
    printf '    if (a) {\n        h();\n        return 1;\n    }\n'
    printf '    if (%s) {\n        return 1;\n    }\n' "${long:0:105}"
    printf '    if (a) {\n        return g("%s");\n    }\n}\n' "${long:0:98}"
} >a.c
printf '/* Made by scripts/maker */\nint a; // lone %s\n' "$long" >made.c
printf 'Run:\n\n    hollow\n\n```\nlone %s\n```\n' "${long:0:100}" >a.md
printf '%s%s\n' "$long" "$long" | tee notes.txt >a.js
mkdir -p tests/golden && printf 'lone %s\n' "$long" >tests/golden/a.md
printf '%s\n' "${long:0:118}é" >é.md
expect 0
lines 0

# Lines that did not change may have faults; --all finds them, and the lines before them are counted.
printf 'int first;\n' | cat - old.c >new && mv new old.c
expect 0
expect 1 --all
says '^old\.c:2: '
lines 1
expect 1 --all old.c
lines 1
expect 0 --all a.c next.c
rm -r a.c made.c a.md notes.txt a.js é.md tests
git checkout -q old.c

# A fault in the last commit, before the last one, in what a merge brings, and since the branch left its upstream.
printf '/* lone */\n' >one.h && git add -A && git commit -qm "a fault"
expect 1
says '^one\.h:1: '
printf 'int b;\n' >two.h && git add -A && git commit -qm "none"
expect 0
expect 1 HEAD~2
says '^one\.h:1: '
expect 0 HEAD~1
git checkout -qb side HEAD~1 && printf '/* hollow */\n' >three.h && git add -A && git commit -qm "a fault of a branch"
printf 'int c;\n' >four.h && git add -A && git commit -qm "none"
git checkout -q - && git merge -q --no-edit side
expect 1
says '^three\.h:1: '
lines 1
git clone -q "file://$folder/house" "$folder/clone" && cd "$folder/clone" || exit 2
expect 1 # the merge, which is upstream
printf 'int d;\n' >five.h && git add -A && git commit -qm "none"
expect 0
printf '/* anew */\n' >five.h && git commit -qam "a fault"
printf 'int e;\n' >six.h && git add -A && git commit -qm "none"
expect 1
says '^five\.h:1: '
lines 1

# A shallow clone has no parent of its last commit; sources without git have no commits.
git clone -q --depth 1 "file://$folder/house" "$folder/shallow" && cd "$folder/shallow" || exit 2
expect 0
says 'no parent in this repository'
printf '/* lone */\n' >more.h
expect 1
says '^more\.h:1: '
rm -rf .git
expect 0
says 'nothing is checked: without a git repository'
expect 1 --all one.h
says '^one\.h:1: '

# Wrong use.
cd "$folder/clone" || exit 2
for words in --none "one two" none; do expect 2 $words; done
says 'no commit is named none'
expect 2 --all none.c
says 'cannot read none\.c'
exit $bad
