#!/usr/bin/env bash
# Reads the kernels: they ask what an instruction set has (QKV_HAS_..., sizes), and never for its name. Only
# src/kernel/isa/simd_NAME.h, the files that these name, and src/kernel/cpu.c, which reads the processor, know names and
# use intrinsics. Each entry of QKV_ISA_LIST has its file, and each such file its entry.
#     isa.sh SOURCE_FOLDER
# labels: quick
set -u
cd "${1:?}" || exit 2
bad=0
complain() { echo "$1"; bad=1; }

names=$(sed -nE 's/^    X\(([a-z0-9_]+), (TABLE|COLUMNS)\).*/\1/p' include/qkv/context.h)
[ "$(wc -w <<<"$names")" -ge 6 ] || complain "QKV_ISA_LIST has only the names: $names"
cd src/kernel || exit 2
for name in $names; do [ -r "isa/simd_$name.h" ] || complain "src/kernel/isa/simd_$name.h is missing"; done
for file in isa/simd_*.h; do
    name=${file#isa/simd_} name=${name%.h}
    grep -qx "$name" <<<"$names" || complain "QKV_ISA_LIST does not have $name, but there is $file"
    for key in NEEDS OPTIONS; do
        grep -qE "^#define QKV_ISA_${key}_$name +\"" "$file" || complain "$file does not define QKV_ISA_${key}_$name"
    done
    grep -qE "^#define (QKV_ISA_PROCESSORS_$name|QKV_ISA_BASE) " "$file" ||
        complain "$file defines neither QKV_ISA_PROCESSORS_$name nor QKV_ISA_BASE"
done

# In a condition: an entry, an architecture, or the emulation of one.
entries="QKV_(ISA|TABLE|HAS|BUILT)_($(tr '\n' '|' <<<"$names")none)\\b"
processors='__(AVX|AMX|SSE|ARM|aarch64|x86_64)|_M_X64|QKV_EMULATE'

# Files that simd_NAME.h name: a vocabulary that several of them share, and products.
named=$(grep -ohE '"kernel/isa/[a-z0-9_]+\.h"' isa/simd_*.h | tr -d '"' | sed 's,kernel/,,' | sort -u)
read=0
for file in *.[ch] isa/*.[ch]; do
    [ "$file" = cpu.c ] && continue
    case $file in isa/simd_*.h) continue ;; esac
    read=$((read + 1))
    asked=$(grep -nE "^ *# *(if|ifdef|ifndef|elif)\\b.*($entries|$processors)" "$file")
    [ -z "$asked" ] || complain "$file asks for a name:
$asked"
    grep -qx "$file" <<<"$named" && continue
    used=$(grep -nE '\b(_mm[0-9]*|_tile)_[a-z]|\b__m[0-9]+|\bv[a-z0-9]+q?_[fsu](8|16|32|64)\b' "$file")
    [ -z "$used" ] || complain "$file uses intrinsics:
$used"
done
[ $read -ge 60 ] || complain "only $read files were read"
exit $bad
