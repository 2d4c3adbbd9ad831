#!/usr/bin/env bash
# The files of "make install": the headers, both libraries, qkv.pc, the command. The libraries have only the public
# symbols and are small; the examples build and run with these files alone.
. "$(dirname "$0")/common.sh"
root=$folder/usr
try 0 cmake --install "$BINARY" --prefix "$root"
libraries=$(dirname "$(find "$root" -name libqkv.a)")
for file in include/qkv.h include/qkv/attention.h bin/qkv; do [ -f "$root/$file" ] || fail "install: no $file"; done
for file in libqkv.so libqkv.so.0 libqkv.a pkgconfig/qkv.pc; do [ -e "$libraries/$file" ] \
    || fail "install: no $file"; done
# The manual pages and the completions of shells.
for page in qkv $("$root/bin/qkv" help --format list | sed 's/^/qkv-/'); do
    [ -s "$root/share/man/man1/$page.1" ] || fail "install: no page $page.1"
done
for file in bash-completion/completions/qkv zsh/site-functions/_qkv fish/vendor_completions.d/qkv.fish; do
    [ -s "$root/share/$file" ] || fail "install: no share/$file"
done
grep -q '/share/man/man1/qkv-train\.1$' "$BINARY/install_manifest.txt" \
    || fail 'make uninstall would leave the manual pages'
export PKG_CONFIG_PATH=$libraries/pkgconfig LD_LIBRARY_PATH=$libraries
version=$("$root/bin/qkv" --version | cut -d' ' -f2)
same "$(pkg-config --modversion qkv)" "$version" "the version that pkg-config gives"
same "$(pkg-config --variable=includedir qkv | xargs realpath)" "$(realpath "$root/include")" "the folder of the header"
[ -f "$libraries/libqkv.so.$version" ] || fail "no libqkv.so.$version"
readelf -d "$libraries/libqkv.so" >out
last="the dynamic section of libqkv.so"
has out 'SONAME.*libqkv\.so\.0'

# ---- symbols: what the headers declare, and nothing else ----
# The name before the first parenthesis of a declaration is the function.
cat "$SOURCE/include/qkv.h" "$SOURCE"/include/qkv/*.h | tr '\n' ' ' | grep -oE 'QKV_API [^;{}]*;' \
    | sed -E 's/\(.*//; s/.*[ *]//' | sort -u >declared
nm -D --defined-only "$libraries/libqkv.so" | awk '$2 != "A" {print $3}' | sed 's/@.*//' \
    | grep -vE '^(__asan|__ubsan|__odr_asan)' | sort -u >exported
same "$(comm -13 declared exported | tr '\n' ' ')" "" "symbols that are exported but not in the header"
same "$(comm -23 declared exported | tr '\n' ' ')" "" "functions of the header that the library does not have"
[ "$(wc -l <declared)" -gt 50 ] || fail "found only $(wc -l <declared) functions in the header"
nm -g --defined-only "$libraries/libqkv.a" 2>/dev/null | awk 'NF == 3 {print $3}' \
    | grep -vE '^(qkv_|__odr_asan|__asan|DW\.ref)' | sort -u >foreign
same "$(tr '\n' ' ' <foreign)" "" "symbols of the static library that do not begin with qkv_"

# The functions of the interface. One that the file lacks is new: add it. One that the library lacks was removed or
# renamed: CHANGELOG.md says what a program has to change, and the version of the interface rises.
same "$(diff "$SOURCE/tests/symbols.txt" exported)" "" "the functions of tests/symbols.txt and of the library"
# Functions of real numbers are the library's own: results of libm differ by machine.
nm -D --undefined-only "$libraries/libqkv.so" | awk '{print $NF}' | sed 's/@.*//' \
    | grep -xE '(exp2?|expm1|log(2|10|1p)?|pow|a?(sin|cos|tan)h?|atan2|sincos|erfc?|cbrt|hypot|sqrt|fma)[fl]?' >out
same "$(tr '\n' ' ' <out)" "" "functions of libm that the library calls"
# Programs get these functions with the version of the interface, and not another one.
nm -D --defined-only "$libraries/libqkv.so" >out
checks=$((checks + 1))
[ "$(grep -c ' T qkv_' out)" = "$(grep -c " T qkv_[a-z0-9_]*@@QKV_${version%.*}$" out)" ] \
    || fail "functions of libqkv.so without the version QKV_${version%.*}"

# ---- constants: lists grow at their ends, so what a program was built with keeps its number ----
"${COMPILER:-cc}" -E -P -x c -DQKV_EXPERIMENTAL -I "$root/include" "$root/include/qkv.h" | tr '\n' ' ' \
    | grep -oE 'enum( [a-z_]+)? \{[^}]*\}' | awk '
    {
        gsub(/enum|[{}]/, " ")
        n = split($0, item, ",")
        value = 0
        sub(/^ *qkv_[a-z_]+ /, "", item[1])
        for (i = 1; i <= n; i++) {
            if (split(item[i], part, "=") == 2) value = part[2] + 0
            gsub(/ /, "", part[1])
            if (part[1] ~ /^QKV_/ && part[1] !~ /_COUNT$/) print part[1], value
            value++
        }
    }' >constants
same "$(diff "$SOURCE/tests/enums.txt" constants)" "" \
    "the constants of tests/enums.txt, to which new ones are added, and of the headers"

# ---- headers: each alone, as C11 and as C++17 ----
for header in qkv.h $(cd "$root/include" && echo qkv/*.h); do
    printf '#include "%s"\nint main(void) { return 0; }\n' "$header" >header.c
    for language in 'c -std=c11 -Wshadow' 'c -std=c11 -DQKV_EXPERIMENTAL' 'c++ -std=c++17 -DQKV_EXPERIMENTAL'; do
        try 0 "${COMPILER:-cc}" -x $language -pedantic -Wall -Wextra -Wconversion -Werror -fsyntax-only \
            -I "$root/include" header.c
    done
done

if [ "${SANITIZE:-0}" = 0 ]; then
    strip -o stripped "$libraries/libqkv.so"
    checks=$((checks + 1))
    [ "$(stat -c %s stripped)" -lt 5000000 ] || fail "the stripped library has $(stat -c %s stripped) bytes"
fi

# ---- examples ----
cp -r "$SOURCE/examples" programs
flags="-O1 -Wall -Wextra -Werror"
[ "${SANITIZE:-0}" = 0 ] || flags="$flags -fsanitize=$SANITIZERS"
compiler=${COMPILER:-cc}
# The C++ compiler that belongs to the C compiler: g++ to gcc and cc, clang++ to clang.
case $(basename "$compiler") in
clang*) cxx=${compiler/clang/clang++} ;;
*) cxx=g++ ;;
esac
try 0 make -C programs CC="$compiler" CXX="$cxx" CFLAGS="$flags" LDFLAGS=
# One line for a program, as the page says, links each of them.
line=$(grep -m1 '^    cc -std=c11 -O2 -o train train\.c ' programs/README.md)
[ -n "$line" ] || fail "examples/README.md has no line for one program"
for program in programs/*.c; do
    name=$(basename "$program" .c)
    by_hand=${line//train/$name}
    by_hand=${by_hand/cc -std=c11 -O2/$compiler -std=c11 $flags}
    (cd programs && eval "$by_hand") >out 2>err || fail "by hand: $by_hand: $(head -3 err)"
done
try 0 programs/forward
has out 'position 5: the highest score is token'
has out '^decoder\.layers\.0\.attn: keys across'
# A window of four keys: the first row sees one, the last one four.
has out '^ 1\.000 0\.000 0\.000 0\.000 0\.000 0\.000$'
has out '^ 0\.000 0\.000 [01]\.[0-9]{3} [01]\.[0-9]{3} [01]\.[0-9]{3} [01]\.[0-9]{3}$'
try 0 programs/attention
has out '^ 1\.000 0\.000 0\.000 0\.000 0\.000 0\.000 0\.000 0\.000$'
has out '^ 0\.000 0\.000 0\.000 0\.000 0\.000 1\.000 0\.000 0\.000$' # the second document begins
try 0 programs/block
has out '^sequence 1, position 2: \|y\| = [0-9]'
same "$(wc -l <out)" 8 'a line for each position that is not padding'
cp out block.out
try 0 programs/encoder
cmp out block.out || fail "the encoder block in C and the one in C++ print other numbers"
try 0 programs/attend
has out '^sequence 1, position 3: \|y\| = [0-9]'
same "$(wc -l <out)" 10 'a line for each position that is not padding'
# A project of CMake finds both libraries.
mkdir project
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(program C)
find_package(qkv 0.1 REQUIRED COMPONENTS static)
foreach(kind shared static)
    add_executable(forward-${kind} ../programs/forward.c)
    target_link_libraries(forward-${kind} PRIVATE qkv::${kind} m)
endforeach()
END
if [ "${SANITIZE:-0}" = 0 ]; then
    try 0 cmake -S project -B project/build -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$root"
    try 0 cmake --build project/build
    for kind in shared static; do
        try 0 project/build/forward-$kind
        has out 'position 5: the highest score is token'
    done
    sed -i 's/qkv 0\.1 REQUIRED/qkv 9.9 REQUIRED/' project/CMakeLists.txt
    try 1 cmake -S project -B project/other -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$root"
    has err "version: $version|$version, version"
fi
try 0 programs/modules
has out '^attn\.q\.weight +\(16,16\)$'
has out '^step 1000: loss 0\.0[01]'
# Ranks that are threads: the weights of one, on a fast network and on a slow one.
for i in $(seq 300); do echo "a line $i of a text that is long enough to be learnt from"; done >text.txt
try 0 programs/threads text.txt one 1 4
try 0 programs/threads text.txt three 3 4 1 10
has out '^with 1 ms a message and 10 Gbit/s: [0-9.]+ ms a step, foreseen [0-9.]+ ms'
cmp one/model.safetensors three/model.safetensors || fail "three ranks on a slow network make other weights"
# One model in several threads: a text does not depend on the others.
try 0 programs/shared one 'a line' 1 30
cp out alone
try 0 programs/shared one 'a line' 5 30 2
same "$(grep '^0: ' out)" "$(grep '^0: ' alone)" 'the text of the first thread'
same "$(grep -c '^[0-4]: ' out)" 5 'texts of five threads'
has out '^[0-9]+ tokens/s$'
try 2 programs/shared one 'a line' 0
try 1 programs/shared none 'a line'
has err 'none'
try 0 programs/scale nano-gpt 6 64 10
has out '^  1024 '
try 2 programs/scale nano-gpt 6 64
# What tutorials show; each program checks its own numbers.
try 0 programs/multihead
has out '3,780,472 parameters +yes$'
hasnt out ' NO$'
try 0 programs/prepost
has out '^pre   3152384 parameters'
try 1 programs/prepost 1
has err 'stacks have 2 to 1000 layers'
try 0 programs/prepost 2
has out '^2 blocks: deviation of the output: pre 1\.0'
try 0 programs/positions
has out '^before: the dog chased'
has out '^none +[0-9.]+e[-+]0[0678] +[0-9.]+e[-+]0[0678] +[0-9.]+e-0[12]$'
has out '^ +999 '
try 0 programs/flavours 300
has out '^MQA +1 +2228224 '
try 0 programs/digits drawn.safetensors 400
has out '^400 digits in drawn.safetensors$'
try 0 "$root/bin/qkv" train --preset vit-tiny --examples drawn.safetensors --out vit --steps 4 --batch 20 --threads 1
has err 'drawn.safetensors, 360 examples of 10 classes \(6,120 tokens\) to train on, 40 to validate on'
try 0 "$root/bin/qkv" eval vit --examples drawn.safetensors
has out '^loss +[0-9.]+ nats an example'
has out '^over +400 examples of 10 classes'
try 0 "$root/bin/qkv" classify vit --examples drawn.safetensors --top 1
same "$(wc -l <out)" 400 'a line for each example'
try 2 "$root/bin/qkv" classify vit --examples drawn.safetensors text
has err 'reads a file in place of texts'
try 1 "$root/bin/qkv" classify vit text
try 0 programs/tinylm
has out '12, 3 sentences, 17932 parameters'
has out '^<bos> the dog sat on the rug <eos>$'
try 0 programs/tinyencoder
has out '^the <mask> sat on the rug +dog'
try 0 programs/tinyseq2seq
has out '2 pairs, 44044 parameters'
has out "^i like dogs -> j' aime les chiens$"
try 2 programs/sorting none
has err 'usage: sorting'
try 0 programs/sorting 3
has out '^step    1  loss [34]\.'
has out 'of 1000 unseen lists'
# On one CPU, so that tests side by side do not wait for each other's threads.
cpu=$(taskset -cp $$ 2>/dev/null | sed 's/.*: *//; s/[-,].*//')
if [ "${SANITIZE:-0}" = 0 ]; then
    try 0 ${cpu:+taskset -c $cpu} programs/train 600
    has out 'step  600 .*right +(9[0-9]|100)'
else
    try 0 ${cpu:+taskset -c $cpu} programs/train 60
fi
make_spec
make_text 100 >text.txt
try 0 train run 5 --quiet
try 0 programs/generate run "the king" 20
has out '\(20 tokens'
try 1 programs/generate nowhere
has err 'nowhere'
try 0 programs/stream run "the king" 20
[ "$(wc -c <out)" -gt 20 ] || fail "the C++ program wrote $(wc -c <out) bytes"
try 1 programs/stream nowhere
has err 'nowhere'
# A static program, and a C++ one.
try 0 $compiler $flags -std=c11 -o static programs/forward.c $(pkg-config --cflags qkv) "$libraries/libqkv.a" \
    $(pkg-config --static --libs-only-l qkv | sed 's/-lqkv//') -pthread -lm
try 0 ./static
if command -v g++ >/dev/null; then
    printf '#include <qkv.h>\nint main() { return qkv_version()[0] == 0; }\n' >version.cc
    try 0 g++ -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags qkv) version.cc
fi
printf '#include <qkv.h>\nint main(void) { return qkv_version()[0] == 0; }\n' >version.c
try 0 $compiler -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only $(pkg-config --cflags qkv) version.c
# Each part of the interface can be included alone.
for part in "$root"/include/qkv/*.h; do
    printf '#include <qkv/%s>\nint main(void) { return 0; }\n' "$(basename "$part")" >part.c
    try 0 $compiler -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only $(pkg-config --cflags qkv) part.c
done
# make uninstall removes every file, and the folders that are qkv's own; with DESTDIR too. (The list of files is made
# here, as other tests install from the same build.)
mkdir build
for destination in "" "$folder/stage"; do
    [ -z "$destination" ] || { mkdir -p "$destination$folder" && cp -a usr "$destination$folder/"; }
    find "$root" ! -type d >build/install_manifest.txt
    [ "$(wc -l <build/install_manifest.txt)" -gt 40 ] || fail "found only $(wc -l <build/install_manifest.txt) files"
    [ -n "$destination" ] || cp -a usr usr.before
    try 0 make -C "$SOURCE" uninstall BUILD="$folder/build" DESTDIR="$destination"
    same "$(find "$destination$root" ! -type d)" "" "files that make uninstall leaves"
    same "$(find "$destination$root" -name qkv)" "" "folders of qkv that make uninstall leaves"
    [ -n "$destination" ] || { rm -r usr && mv usr.before usr; }
done
finish
