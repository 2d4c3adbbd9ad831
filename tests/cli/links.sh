#!/usr/bin/env bash
# Links of the documents lead to files that exist, and a link whose text is a name in backquotes to a file that has the
# name.
#     links.sh SOURCE_FOLDER
set -u
cd "${1:?}" || exit 2
bad=0 seen=0 names=0
for document in *.md docs/*.md docs/*/*.md examples/*.md examples/*/*.md; do
    [ -f "$document" ] || continue
    folder=$(dirname "$document")
    while IFS=$'\t' read -r text target; do
        case $target in http*://* | mailto:* | \#*) continue ;; esac
        path=$folder/${target%%#*}
        seen=$((seen + 1))
        [ -e "$path" ] || { echo "$document: ($target) does not exist"; bad=1; continue; }
        [[ $text == \`*\` && -f $path ]] || continue
        name=${text//\`/}
        [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
        names=$((names + 1))
        grep -qE "(^|[^A-Za-z0-9_])$name([^A-Za-z0-9_]|\$)" "$path" || { echo "$document: $path has no $name"; bad=1; }
    done < <(grep -oE '\[[^]]*\]\([^) ]+\)' "$document" | sed -E 's/^\[([^]]*)\]\(([^)]*)\)$/\1\t\2/')
done
[ $seen -gt 40 ] && [ $names -gt 30 ] \
    || { echo "found only $seen links, $names of them names: this check does not look where they are"; bad=1; }
exit $bad
