#!/usr/bin/env bash
# Reads the sources: every function of the public headers and of the lab's headers that returns a status begins with
# QKV_CALL or QKV_CALL_OUT, which clear the message of the context, so qkv_message is empty after a success. Only
# qkv_context_create has no context before.
#     calls.sh SOURCE_FOLDER
set -u
cd "${1:?}" || exit 2
bad=0 seen=0
names=$(cat include/qkv.h include/qkv/*.h | grep -oE 'QKV_API enum qkv_status qkv_\w+\(' | grep -oE 'qkv_\w+\(' \
    | tr -d '(' | grep -v qkv_status)
names+=" $(cat lab/*.h | grep -oE '^enum qkv_status qkv_\w+\(' | grep -oE 'qkv_\w+\(' | tr -d '(')"
for name in $names; do
    [ "$name" != qkv_context_create ] || continue
    seen=$((seen + 1))
    # The first line after the one that ends the head of the definition.
    first=$(cat src/*/*.c lab/*/*.c | awk -v head="enum qkv_status $name(" '
        inside == 2 {print; exit}
        index($0, head) == 1 {inside = 1}
        inside && substr($0, length($0)) == "{" {inside = 2}')
    case $first in
    *QKV_CALL\(* | *QKV_CALL_OUT\(*) ;;
    *)
        echo "$name does not begin with QKV_CALL but with: $first"
        bad=1
        ;;
    esac
done
[ $seen -gt 70 ] || { echo "found only $seen functions: this check does not look where they are"; bad=1; }
exit $bad
