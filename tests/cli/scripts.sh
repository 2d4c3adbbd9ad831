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
has err 'libutf8proc-dev libcmocka-dev libopenmpi-dev openmpi-bin clang'
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
finish
