#!/usr/bin/env bash
# Reads the #includes of the sources: a room includes only rooms on its left,
#     base <- kernel <- op <- attention <- sequence <- backend <- model <- family <- {io, generate} <- rank <- data <-
# train <- lab <- cli,   text and chat beside them see base only, constrain base and text,
#     metric base and text; io, generate, data and train see text, io and data chat, and train metric,
# the lab sees qkv.h, base, and in its benchmark what that measures (examples/ranks.h too); the command sees qkv.h,
# base/support.h, lab/lab.h and its own headers, and what its module for ranks offers, only; nothing in src/ includes anything of the
# lab or of the command. A name of a file occurs once under src/.
#     check_includes.sh SOURCE_FOLDER
set -u
cd "${1:?}" || exit 2
bad=0 seen=0

allowed() { # allowed ROOM: the rooms that it may include
    case $1 in
    base) echo base ;;
    type) echo base type ;;
    kernel) echo base type kernel ;;
    op) echo base type kernel op ;;
    text) echo base text ;;
    chat) echo base chat ;;
    constrain) echo base text constrain ;;
    metric) echo base text metric ;;
    attention) echo base type kernel op attention ;;
    sequence) echo base type kernel op attention sequence ;;
    backend) echo base type kernel op attention sequence backend ;;
    model) echo base type kernel op attention sequence backend model ;;
    family) echo base type kernel op attention sequence backend model family ;;
    io) echo base type kernel op attention sequence backend model family io text chat ;;
    generate) echo base type kernel op attention sequence backend model io text constrain generate ;;
    rank) echo base type kernel op attention sequence backend model io rank ;;
    data) echo base type kernel op attention sequence backend model io text chat rank data ;;
    train) echo base type kernel op attention sequence backend model io text metric rank data train ;;
    lab/report) echo base lab/report ;;
    lab/compare) echo base lab/report lab/compare ;;
    lab/bench) echo base type kernel model rank lab/bench examples ;;
    *) echo ;;
    esac
}

complain() {
    echo "$1"
    bad=1
}

for folder in src/*/ lab/*/; do
    room=${folder#src/}
    room=${room%/}
    rooms=$(allowed "$room")
    [ -n "$rooms" ] || complain "$folder: this room has no place in the order"
    while IFS=: read -r file line include; do
        name=$(sed 's/.*"\(.*\)".*/\1/' <<<"$include")
        seen=$((seen + 1))
        case $name in
        qkv.h | qkv/*) continue ;;
        "$room.h") continue ;; # what a room of the lab offers
        lab/*/*) other=${name%/*} ;;
        */*) other=${name%%/*} ;;
        *) other=$room ;; # beside it
        esac
        [[ " $rooms " == *" $other "* ]] || complain "$file:$line: $room must not include $name"
    done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$folder" --include='*.[ch]')
done
while IFS=: read -r file line include; do
    seen=$((seen + 1))
    name=$(sed 's/.*"\(.*\)".*/\1/' <<<"$include")
    case $name in
    qkv.h | base/support.h | lab/lab.h | cli.h | cli_*.h | mpi/join.h) ;;
    *) complain "$file:$line: the command must not include $name" ;;
    esac
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' cli/*.[ch] /dev/null)

while read -r name; do
    complain "$(find src -name "$name" | sort | tr '\n' ' ')have the same name"
done < <(find src -name '*.[ch]' -printf '%f\n' | sort | uniq -d)

[ $seen -gt 50 ] || complain "found only $seen includes: this check does not look where the sources are"
exit $bad
