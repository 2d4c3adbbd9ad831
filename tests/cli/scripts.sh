#!/usr/bin/env bash
# The scripts of the Makefile: their messages when something is missing. Nothing is installed or fetched here.
# labels: quick
. "$(dirname "$0")/common.sh"
cp -r "$SOURCE/scripts" scripts

# The demo goes on with a run that is there, and leaves what is in its folder.
make_text 300 >demo.txt
demo() { env QKV_DATA="$folder/demo.txt" "$@" scripts/demo; }
try 0 demo STEPS=3
has out '^Training a GPT on .*/demo\.txt for 3 steps'
has out 'Go on:  STEPS=6 make demo'
same "$(wc -l <demo/run/log.jsonl)" 3 "steps of the demo"
echo mine >demo/mine
try 0 demo STEPS=5
has out '^Going on with the run in demo/run from step 3 of 5\.$'
same "$(wc -l <demo/run/log.jsonl)" 5 "steps of the demo that went on"
for settings in QKV_NOTHING=1 STEPS=4; do
    try 0 demo $settings
    has out '^demo/run has done its 5 steps\. STEPS=10 make demo goes on; to begin anew, remove or rename demo/\.$'
    same "$(wc -l <demo/run/log.jsonl)" 5 "steps of the demo that has its steps"
done
rm demo/run/state.json # of a version that had none
try 0 demo
has err 'all 5 steps were done before'
rm demo/run/checkpoint.safetensors
try 1 demo
has err 'demo/run already holds a run'
same "$(cat demo/mine)" mine "what somebody put into demo/"

echo "a text" >mine.txt
try 0 env QKV_DATA="$folder/mine.txt" scripts/get-data
same "$(cat out)" "$folder/mine.txt" "the text that QKV_DATA names"
mkdir "$folder/texts"
cp "$folder/mine.txt" "$folder/texts/tinyshakespeare.txt"
try 0 env QKV_DATA="$folder/texts" scripts/get-data
same "$(cat out)" "$folder/texts/tinyshakespeare.txt" "the text in the folder that QKV_DATA names"
try 1 env QKV_DATA=missing.txt scripts/get-data
has err 'cannot read missing.txt'

# A machine without network, without apt-get, without anything but the usual small programs.
mkdir bin
for program in sh dirname cut cat mktemp rm mkdir mv sha256sum test env; do ln -s "$(command -v $program)" \
    bin/$program; done
for program in curl wget; do printf '#!/bin/sh\nexit 6\n' >bin/$program && chmod +x bin/$program; done
mkdir bare && cp -r scripts bare/
echo "# words to learn from" >bare/README.md
try 0 env PATH="$folder/bin" bare/scripts/get-data
same "$(cat out)" data/own-sources.txt "the text without a network"
has err "own sources"
has bare/data/own-sources.txt 'words to learn from'
printf '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho another text >"$2"\n' >bin/curl
try 0 env PATH="$folder/bin" bare/scripts/get-data
same "$(cat out)" data/own-sources.txt "the text where the network gives another one"
has err 'checksum differs'
mkdir bare/text && printf '' >bare/README.md && rm bare/data/own-sources.txt
try 1 env PATH="$folder/bin" bare/scripts/get-data
has err 'QKV_DATA=FILE names one'

try 1 env PATH="$folder/bin" CC=cc scripts/install-deps # what make demo needs
has err 'cmake pkg-config libjansson-dev libpcre2-dev libutf8proc-dev gcc'
has err 'no apt-get'
try 1 env PATH="$folder/bin" CC=clang scripts/install-deps --tests
has err 'libutf8proc-dev libcmocka-dev libmicrohttpd-dev zlib1g-dev libzstd-dev libopenmpi-dev openmpi-bin clang'
printf '#!/bin/sh\necho apt-get "$@"\n' >bin/apt-get && printf '#!/bin/sh\necho 1000\n' >bin/id \
    && chmod +x bin/apt-get bin/id
try 1 env PATH="$folder/bin" scripts/install-deps
has err 'install them as root: apt-get install cmake'
printf '#!/bin/sh\necho as root\nexec "$@"\n' >bin/sudo && chmod +x bin/sudo
try 0 env PATH="$folder/bin" scripts/install-deps --tests
has out 'Installing missing packages: cmake'
has out '^as root'
has out '^apt-get install -y .*libcmocka-dev'
# Here everything is there, or these tests would not run.
try 0 scripts/install-deps --tests
[ ! -s out ] || fail "install-deps wants to install something: $(cat out)"

# The comparison with other libraries: its rows and messages, and what it does without a network. A peer that is a
# program of the test answers as a worker does.
command -v python3 >/dev/null || finish
row="products 256x768x768 x.wT"
peers() {
    scripts/bench-peers "$QKV" --rows "$row" --seconds 0.001 --rounds 1 --threads 1 "$@"
}
fake_peer() { # fake_peer NAME: an installed peer whose python is the script on standard input
    mkdir -p "fake/$1/bin" && touch "fake/$1/installed"
    { echo '#!/bin/sh' && cat; } >"fake/$1/bin/python"
    chmod +x "fake/$1/bin/python"
}
try 0 scripts/bench-peers --list
has out "^$row +numpy, torch$"
has out '^generation .* llama\.cpp$'
sed -nE 's/^((products|attention|training) .*[^ ])  +.*/\1 fp32/p' out >labels
"$QKV" bench --list | sed 's/ (big)$//' | sort >bench_labels
same "$(sort labels | comm -23 - bench_labels)" "" "rows that qkv bench does not have"
[ "$(wc -l <labels)" -ge 30 ] || fail "bench-peers has only $(wc -l <labels) rows of qkv bench"
try 0 scripts/bench-peers --help
has out '^In a round the programs alternate'
try 2 peers --rows xyzzy
has err 'no row has "xyzzy" in it; .*--list'
try 2 peers --only scipy
has err 'no peer is named "scipy"; the peers are numpy, torch, llama$'
try 2 peers --only llama
has err 'none of these rows has llama; --list'
try 1 scripts/bench-peers ./missing --rows "$row"
has err '\./missing does not run: .*make'
mkdir blocked && touch blocked/numpy
try 0 peers --only numpy --folder blocked --json peers.json
has out "^row +qkv +floor +numpy$"
has out "^$row +[0-9.]+ [mu]?s +[0-9]+ % of peak +not installed$"
has out '^numpy: python3 makes no environment: .*remove .*/blocked/numpy and run this again\.$'
python3 -m json.tool peers.json >out || fail "bench-peers writes no JSON"
has out '"failure": "python3 makes no environment: '
has out '"complete": true'
try 2 peers --only numpy --folder blocked --json peers.json
has err 'peers\.json exists; remove it'
fake_peer numpy <<'END'
echo "ERROR: no network"
exit 1
END
rm fake/numpy/installed
try 0 peers --only numpy --folder fake
has out "^$row +[0-9.]+ [mu]?s .* not installed$"
has out '^numpy: pip failed: ERROR: no network; see .*/fake/numpy-install\.log, then run this again with a network'
fake_peer numpy <<'END'
echo '{"about": "a fake", "precisions": ["fp32"]}'
while read -r question; do echo '{"seconds": 1e6}'; done
END
fake_peer torch <<'END'
kill -ILL $$
END
try 0 peers --only numpy,torch --folder fake
has out "^$row +[0-9.]+ [mu]?s +[0-9]+ % of peak +[0-9]{4,}\.[0-9]{2} \[[0-9.]+, [0-9.]+\].* killed by SIGILL$"
has out '^numpy: a fake\.$'
has out '^torch: it does not start: it used an instruction that this CPU does not have .*remove .*/fake/torch and'
fake_peer torch <<'END'
echo '{"about": "a fake", "precisions": ["fp32"]}'
read -r question
echo '{"failure": "ValueError: no"}'
read -r question
echo "not enough" >&2
exit 3
END
try 0 peers --only numpy,torch --folder fake
has out "^$row .* [0-9.]+ \[.* failed$"
has out "^$row, torch: ValueError: no \\(.*/fake/torch\.log may have more\\)\\.$"
rm -f out err
(
    exec env --default-signal=INT scripts/bench-peers "$QKV" --rows "$row" --seconds 0.001 --rounds 1000 \
        --threads 1 --only numpy --folder fake >out 2>err
) &
child=$!
eventually grep -qs 'round 2 of 1000, numpy' err
kill -INT $child
wait $child
same $? 130 "the exit code of bench-peers after Ctrl-C"
last="bench-peers, interrupted"
has err 'interrupted'
has out "^$row +[0-9.]+ [mu]?s .* [0-9.]+ \["

# The comparison of servers, the other one being a second qkv here.
. "$SOURCE/tests/cli/serve_common.sh"
need_server "bench-serve"
make_spec
sed 's/"context": 32/"context": 512/' spec.json >long.json
try 0 "$QKV" new long.json --out long --quiet
try 1 scripts/bench-serve long ./missing
has err '\./missing does not run: build it'
try 1 scripts/bench-serve nowhere "$QKV"
has err 'cannot read nowhere'
try 1 scripts/bench-serve long "$QKV"
has err 'long has 512 positions, too few for prompts of 4096 tokens; see --long'
fake_peer xllamacpp <<END
shift 2 && exec "$QKV" serve "\$1" --port 0 --ignore-fields --log none
END
try 0 scripts/bench-serve long "$QKV" --folder fake --long 300 --rounds 1 --clients 2 --threads 1 --json serve.json
has out '^ +qkv +llama\.cpp +ratio$'
for row in alone prompt together gap short; do
    has out "^$row +(tokens/s|s) +[0-9.]+ \[.*\] +[0-9.]+ \[.*\] +[0-9.]+$"
done
has out '^together / prompt of qkv: [0-9.]+$'
python3 -m json.tool serve.json >out || fail "bench-serve writes no JSON"
try 0 scripts/bench-serve long "$QKV" --no-peer --long 0 --rounds 1 --clients 2 --threads 1
hasnt out 'llama'
hasnt out '^gap'

# The comparison of adapters, the other one always having a token a second.
make_text 400 >adapters.txt
try 0 "$QKV" train --spec spec.json --data adapters.txt --steps 1 --warmup 0 --batch 2 --quiet --out base
fake_peer peft <<'END'
while read -r go; do echo '[9, 1, 1]'; done
END
try 0 scripts/bench-adapters base "$QKV" --tokens 16 --rank 2 --steps 3 --rounds 2 --threads 1 --folder fake --base base
has out '^qkv +[0-9.]+ tokens/s \[[0-9.]+ to [0-9.]+\]$'
has out '^PEFT bf16 +1\.0 tokens/s \[1\.0 to 1\.0\]$'
has out '^qkv / the faster PEFT: [0-9]{2,}\.[0-9]+$'
has out '^qkv, --base / the faster PEFT: [0-9]{2,}\.[0-9]+$'
try 1 scripts/bench-adapters nowhere "$QKV" --tokens 16 --no-peer --folder fake
has err '^qkv: .*nowhere'
finish
