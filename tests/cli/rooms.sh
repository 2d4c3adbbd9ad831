#!/usr/bin/env bash
# Reads the symbols of the built objects: what an object of a room needs is defined in its own room or in one on its
# left,
#     base <- type <- kernel <- op <- attention <- sequence <- backend,   base <- text <- metric,
#     {backend, text} <- model <- family <- io,   base <- chat <- {io, data},   {io, generate} <- rank <- data <- train;
# the lab needs public functions, base and the little that the table below allows it; the command needs public functions
# and the lab; and no object files need each other in a circle. docs/design.md says the same in words.
#     rooms.sh SOURCE_FOLDER BINARY_FOLDER
set -u
source=${1:?} binary=${2:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2

# Objects of sources that are there: "OBJECT ROOM". One source gives several where it is compiled for several kernel
# tables; of other targets the newest object counts, as a folder may have one of an older build.
declare -A seen
find "$binary/CMakeFiles" -name '*.c.o' -printf '%T@ %p\n' | sort -rn | cut -d' ' -f2- |
    grep -E '\.dir/(src|lab|cli)/|\.dir/assets\.c\.o' | while read -r object; do
    file=${object#*.dir/}
    file=${file%.o}
    case $object in
    */kernel_*.dir/*) ;;
    *) [ -z "${seen[$file]:-}" ] || continue && seen[$file]=1 ;;
    esac
    case $file in
    assets.c) echo "$object lab/report" ;;
    lab/* | src/*) [ -f "$source/$file" ] && room=${file%/*} && room=${room#src/} && room=${room%/isa} \
        && echo "$object $room" ;;
    cli/*) [ -f "$source/$file" ] && echo "$object cli" ;;
    esac
done >objects
cut -d' ' -f1 objects | xargs nm -A >symbols || exit 2

# Every room, and the rooms that it may need beside itself.
cat >order <<'END'
base
type base
kernel base type
op base type kernel
attention base type kernel op
sequence base type kernel op attention
backend base type kernel op attention sequence
text base
chat base
metric base text
constrain base text
model base type kernel op attention sequence backend text
family base type kernel op attention sequence backend text model
io base type kernel op attention sequence backend text chat model family
generate base type kernel op attention sequence backend text constrain model
rank base type kernel op attention sequence backend model io
data base type kernel op attention sequence backend text chat model io generate rank
train base type kernel op attention sequence backend text metric model io generate rank data
lab/report base
lab/compare base lab/report
lab/bench base type kernel model rank
cli lab/report lab/compare lab/bench
END
# Lab and command may need every public function as well.
cat "$source"/include/qkv/*.h | tr '\n' ' ' | grep -oE 'QKV_API [^;{}]*;' | sed -E 's/\(.*//; s/.*[ *]//' >public
# So may what base/support.h declares for them.
grep -oE '^[a-z].* \*?qkv_[a-z0-9_]+\(' "$source/src/base/support.h" | sed -E 's/\($//; s/.*[ *]//' >>public
[ "$(wc -l <public)" -gt 150 ] || { echo "found only $(wc -l <public) public functions"; exit 1; }

awk '
    FILENAME == "order" {placed[$1] = 1; may[$1 " " $1] = 1; for (i = 2; i <= NF; i++) may[$1 " " $i] = 1; next}
    FILENAME == "public" {public[$1] = 1; next}
    FILENAME == "objects" {
        room[$1] = $2
        if (!($2 in placed)) {print "the room " $2 " has no place in the order"; bad = 1}
        next
    }
    {
        name = $NF; kind = $(NF - 1); object = $1
        sub(/:[0-9a-f]*$/, "", object)
        if (kind == "U") needs[++count] = object " " name
        else if (kind ~ /[ABCDGRSTVW]/) defined[name] = object
    }
    END {
        for (i = 1; i <= count; i++) {
            split(needs[i], need, " ")
            there = defined[need[2]]
            if (there == "" || there == need[1]) continue
            edges++
            if (room[need[1]] ~ /^(lab|cli)/ && need[2] in public) continue
            if (!((room[need[1]] " " room[there]) in may)) {
                print room[need[1]] " must not need " room[there] ": " need[1] " calls " need[2]
                bad = 1
            }
            print need[1], there >"edges"
        }
        if (edges < 1000) {print "found only " edges + 0 " needs between objects: this check does not look where they are"; bad = 1}
        exit bad
    }' order public objects symbols
bad=$?

# tsort tells circles, a line for each object in it.
sed "s#[^ ]*CMakeFiles/##g" edges | sort -u | tsort 2>circles >/dev/null
if [ -s circles ]; then
    echo "object files need each other in a circle:"
    cat circles
    bad=1
fi
exit $bad
