#!/usr/bin/env bash
# Every command that README and the documents show is run as it stands, on small models and texts, or is in the list of
# those that no test can run. What a page says about the output is compared with it. SHOW=1 prints the commands,
# PAGES="README.md docs/tour.md" chooses pages.
# The programs of docs/flavours.md, norms.md and positions.md are run by documents.sh.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/cli/page_commands.sh"
if [ "$SANITIZE" = 1 ]; then
    echo "NOT TESTED: the commands of the pages, under the sanitizers; make test runs them"
    exit 0
fi
export QKV_THREADS=1
apart="flavours norms positions"
# In these pages each command stands for itself; in the others it may need what the commands before it have made.
alone="docs/commands.md docs/do/resume.md"

# ---- what is not run: how often the pages show it, the command, the reason ----
cat >not_run <<'END'
2|make|it builds what is tested here
1|make demo|it may fetch a text; scripts.sh runs the script behind it
3|make test|it runs this test
2|make test-quick|it runs other tests
1|make test-random|it runs this test
2|make test-slow|it runs this test
1|make sanitize|it builds everything again
1|make fuzz SECONDS=600|ten minutes for each reader of files
2|scripts/bench-peers|it installs other libraries; scripts.sh runs it with peers that are not real
1|scripts/bench-peers --only numpy,torch --rows attention|it installs other libraries
1|scripts/bench-peers build/qkv --rounds 9 --json all.json|it installs other libraries
1|scripts/bench-serve MODEL|it installs another server; scripts.sh runs it with one that is not real
1|scripts/bench-adapters MODEL|it installs another library; scripts.sh runs it with one that is not real
2|make bench|minutes; bench.sh runs the benchmark
1|make bench BENCH_FLAGS="--full --json all.json"|hours; bench.sh runs the benchmark
1|make style|it looks at what has changed since the last commit; make test runs it
1|make help|it builds nothing; the targets of all pages are looked up below
1|make install|it writes to /usr/local; install.sh installs to a folder of its own
1|cd build && ctest -R test_spec --output-on-failure|it runs other tests
1|QKV_ISA=avx2 QKV_PRECISION=fp32 make test|it runs this test
1|build/qkv serve instruct.gguf --port 8080 --memory 2G|it ends when it is stopped; serve.sh runs it
1|qkv serve instruct.gguf --port 8080 --memory 2G|the same
1|build/qkv serve run/ --adapter math=adapter/ --adapter notes=other-adapter/|the same; adapters.sh runs it
1|examples/classify/run TREC.train.all TREC.test.all out/|its data are not in the sources
1|examples/g2p/run cmudict.dict out/|its data are not in the sources
1|examples/preferences/run out/|examples.sh runs it with fewer steps
1|examples/teacher/run out/|the same
1|examples/finetune/run out/|it needs Python with torch and transformers
1|examples/finetune/run out/ llama bart|it needs Python with torch and transformers
END
cut -d'|' -f2 not_run >not_run_commands

# ---- what the pages say that a command prints ----
# Two lines for each: the page, a pattern of the command, words of the page; a pattern of a line of the output.
cat >claims <<'END'
README.md|train --resume run/|step 828/1500, loss 2.0689, valid 2.1159, 0:22 left, 40.6k tokens/s
^step [0-9]+/[0-9]+, loss [0-9.]+, valid [0-9.]+, [0-9]+:[0-9]{2} left, [0-9.]+k? tokens/s(,|$)
README.md|--sample 80|a sample of N tokens after each validation
^    [^ ]
README.md|info --preset|the tree of parameters
^└─ decoder
README.md|info --preset|the memory to train and to run
^  memory to run +[0-9.]+ [KMG]iB
README.md|info --preset|FLOPs
^  FLOPs a token
docs/learn/first-model.md|--sample 80|The last tenth of the text is the validation part
[0-9,]+ tokens to train on, [0-9,]+ to validate on$
docs/learn/first-model.md|--samples 3|writes three continuations
^--- 3 of 3, seed
docs/learn/first-model.md|-n 300 --temp 0.8|chooses one and prints it at the end
; seed [0-9]+$
docs/learn/first-model.md|eval run/|the loss over a text
^loss +[0-9.]+ nats a token$
docs/learn/first-model.md|eval run/|bits per byte
^bits per byte +[0-9.]+$
docs/learn/classify-and-translate.md|--n-best 3|the number of the line, the rank, the score and the target
^1	3	-?[0-9.]+	
docs/learn/classify-and-translate.md|eval pairs/|exact match, token error
^token error +[0-9.]+ %$
docs/learn/classify-and-translate.md|eval pairs/|BLEU and chrF2
^chrF2 +[0-9.]+$
docs/learn/classify-and-translate.md|classify topics/ "What|the three likeliest labels
^[a-z]+	[01]\.[0-9]{4}	[a-z]+	[01]\.[0-9]{4}	[a-z]+	[01]\.[0-9]{4}$
docs/learn/classify-and-translate.md|eval topics/|the loss, accuracy, F1
^macro F1 +[0-9.]+ %$
docs/learn/classify-and-translate.md|eval topics/|a confusion matrix
^labels down, predictions across$
docs/learn/classify-and-translate.md|classify tagger/|a line for each word
^England	[a-z]+
docs/learn/classify-and-translate.md|fill enc/|the likeliest tokens for the mask
^1	[01]\.[0-9]+	".*"	the .* of England$
docs/learn/classify-and-translate.md|--nearest|the lines of `lines.txt` that are nearest
^-?[01]\.[0-9]+	[1-3]	(a ship at sea|the king of England|the capital of Peru)$
docs/learn/classify-and-translate.md|classify vit/|--top 1
^[0-9]	[01]\.[0-9]+$
docs/learn/compare-and-look-inside.md|--axis kv|the bytes of cache per token
^mla .* bytes
docs/learn/compare-and-look-inside.md|--axis norm|`index.html`, `results.json` and `results.csv`
norms/index.html shows .*results.json and results.csv
docs/learn/compare-and-look-inside.md|attend .* be"$|the mean of the heads of the last layer
^decoder, layer 3, mean of the heads
docs/learn/compare-and-look-inside.md|inspect run/|the norm of the gradients of the weights
^ +mean +deviation +min +max .*gradient$
docs/do/memory.md|info run/|with and without `--checkpoint-activations`
with --checkpoint-activations: [0-9]+% more FLOPs
docs/do/ranks.md|--ranks 4|memory and traffic of each rank
^  .*rank
docs/do/resume.md|--steps 10000|prints the learning rate before and after
the rate was [0-9.e-]+ at step 4, is [0-9.e-]+ at the next
docs/do/resume.md|info run/|whether a run is running, done, failed or interrupted
^  state +done
docs/do/train.md|help train|all options with their defaults
^      --steps N .*default
docs/from-pytorch.md|info --preset llama-style --set vocab=32000 --set tie|217,393,152
^  parameters +217,393,152 
examples/README.md|generate lm/|# the dog sat on the rug
^the dog sat on the rug$
examples/README.md|fill enc/|it fills masks
^1	[01]\.[0-9]+	" dog"	the dog sat on the rug$
examples/README.md|translate pairs/|# j' aime les chats
^j' aime les chats$
END
claimed=0
claim() {
    local page command words pattern
    while IFS='|' read -r page command words && IFS= read -r pattern; do
        [ "$page" = "$1" ] && [[ $2 =~ $command ]] || continue
        grep -qF -- "$words" said || fail "$1 no longer says: $words"
        has printed "$pattern"
        claimed=$((claimed + 1))
    done <claims
}

# ---- small models and texts with the names that the pages use ----
mkdir base bin home && cd base || exit 2
make_text 300 >book.txt
for name in corpus other shakespeare text tinyshakespeare; do cp book.txt $name.txt; done
printf 'To be, or not to be\n' >letter.txt
printf 'a ship at sea\nthe king of England\nthe capital of Peru\n' >lines.txt
cp lines.txt questions.txt
printf 'hello\nking\n' >words.txt
for i in $(seq 20); do
    printf 'place\tthe capital of land %d ?\nperson\tthe king of sea %d ?\nnumber\thow many are %d ?\n' "$i" "$i" "$i"
done >train.tsv
tee valid.tsv <train.tsv >test.tsv
for i in $(seq 12); do printf 'London\tplace\nis\tother\nin\tother\nEngland\tplace\n\n'; done >train.conll
printf 'London\nis\n\n' >test.conll
# The texts of examples/README.md.
printf 'the cat sat on the mat\nthe dog sat on the rug\n\nthe bird sat on the tree\n' >toy.txt
printf 'i like cats\tj'\'' aime les chats\ni like dogs\tj'\'' aime les chiens\n' >pairs.tsv
ln -s "$SOURCE/README.md" README.md
mkdir books && cp book.txt books/
echo '[{"role": "user", "content": "hi"}]' >talks.jsonl
sed 's/.*/{"text": "&"}/' book.txt >texts.jsonl
echo '{"prompt": "the", "max_tokens": 2}' >requests.jsonl
echo '{"properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]}' >person.json
for name in my a b; do (make_spec && mv spec.json $name.json); done
mkdir build && ln -s "$QKV" build/qkv && ln -s "$QKV" ../bin/qkv && ln -s "$(command -v cat)" ../bin/less
fixture() {
    try 0 "$QKV" train --set d_model=48 --steps 4 --warmup 1 --eval-every 2 --save-every 2 --keep 3 --quiet "$@"
}
fixture --preset nano-gpt --tokenizer bytes --data book.txt --out run
fixture --preset nano-gpt --tokenizer bytes --data book.txt --set decoder.norm.placement=post --out other
fixture --preset bert-tiny --data book.txt --out enc
fixture --preset g2p --pairs train.tsv --out g2p
fixture --preset text-classifier --labeled train.tsv --out topic
fixture --preset bert-tiny --set head.kind=classify_tokens --labeled train.conll --out tagger
try 0 "$QKV" train --from run --lora rank=2,targets=q,v --data book.txt --steps 2 --batch 2 --quiet --out adapter
printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}' >chat.jinja
cp chat.jinja run/chat_template.jinja
for i in $(seq 12); do echo '{"prompt": "the king", "completion": " sees '"$i"'."}'; done >answers.jsonl
for i in $(seq 12); do echo '{"prompt": "the", "chosen": " king '"$i"'", "rejected": " fool"}'; done >pairs.jsonl
cp answers.jsonl held-out.jsonl
try 0 "$QKV" train --from run --chat answers.jsonl --steps 2 --batch 2 --quiet --out talker
printf '[{"role": "user", "content": "Hello"}]\n' >talk.json
cp -r run pre && cp -r other post && cp -r topic reranker && cp -r run small
mkdir demo compare && cp -r run demo/run && cp -r run compare/mha && cp -r other compare/mqa
try 0 "$QKV" new --preset nano-gpt --set d_model=48 --tokenizer run/tokenizer.json --out fresh
cp run/tokenizer.json .
published=$SOURCE/tests/golden/hf
cp -r "$published/embeddings" embeddinggemma
cp -r "$published/questions" squad
mkdir ../home/models && cp -r "$published/sentences" ../home/models/all-MiniLM-L6-v2
# The folder of a GPT-2, with a tokenizer of fewer than its 128 ids.
cp -r "$published/gpt2" gpt2
cp "$SOURCE/tests/golden/gguf/gpt2_11_005_usual.gguf" model.gguf
try 0 "$QKV" quantize run --to q8_0 --out small.gguf
cp small.gguf instruct.gguf
cp gpt2/case.safetensors case.safetensors
cp gpt2/case.safetensors llama.safetensors
printf '%s' {a..z} {A..Z} {0..9} ' ,.?!' >letters.txt
try 0 "$QKV" tokenize --train letters.txt --tokenizer chars -o gpt2/tokenizer.json
cp -r gpt2 llama && cp -r gpt2 ../home/models/gpt2
rm -f out err && mkdir out && cp -r topic out/seed1 # the messages of the next commands go to the folder above
cd "$folder" || exit 2

# ---- the installed library and the programs of examples/, for the pages that compile ----
try 0 cmake --install "$BINARY" --prefix "$folder/usr"
libraries=$(dirname "$(find "$folder/usr" -name libqkv.a)")
export PKG_CONFIG_PATH=$libraries/pkgconfig LD_LIBRARY_PATH=$libraries HOME=$folder/home
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "${COMPILER:-cc}")" >bin/cc && chmod +x bin/cc
cp -r "$SOURCE/examples" base/examples
cp base/examples/train.c base/
export PATH=$folder/bin:$PATH:$folder/base/examples
try 0 make -C base/examples CFLAGS=-O1 CC=cc

# ---- ranks, where Open MPI starts them ----
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none QKV_RANK_SECONDS=120
ranks=1
[ -e "$BINARY/qkv-mpi.so" ] && command -v mpirun >/dev/null && mpirun -n 2 true >/dev/null 2>&1 || ranks=0

# shortened COMMAND: what is a matter of time or of sizes becomes small, and text.txt is short where it is a prompt; the
# other words stay.
shortened() {
    sed -E '
        / bench( |$)/{s/ --(json|seconds|rounds) [^ ]+//g; s/ --list//; s/$/ --list/}
        / compare .*--data/{s/ --steps [0-9]+//; s/--seeds [0-9]+/--seeds 2/; s/warmup=0,100/warmup=0,1/
            s/$/ --steps 2 --batch 2 --cache 8 --set d_model=32/}
        /qkv train .*--resume/{s/--steps [0-9]+/--steps 6/; s/checkpoint-500/checkpoint-2/}
        /qkv train /{/--resume/!{
            s/--preset gpt2-small/--preset nano-gpt/; s/--in-order --batch 4/--in-order --batch 2/
            s/--seed S( |$)/--seed 1\1/
            /--epochs|--preset tiny-(lm|encoder|translator)/!{s/ --steps [0-9]+//; s/qkv train /&--steps 3 /}
            /--preset (nano-gpt|baby-gpt|bert-tiny)/s/qkv train /&--set d_model=48 /
            s/--preset baby-gpt/& --batch 2/}}
        s/--file text.txt/--file letter.txt/
        s/^(examples\/)?(digits [^ ]+) [0-9]+/\1\2 100/
        s/^examples\/train$/& 5/' <<<"$1"
}

# written FILE: the files and folders that the commands in it make.
written() {
    grep -oE ' (--out|--output|-o|--json|--csv|--tensorboard|--find-rate|>) +[^ ]+' "$1" |
        sed -E 's/^ [^ ]+ +//; s/\/$//' |
        grep -vx -- - | sort -u
}

# enter NAME FILE: a folder with what the commands in the file name, but for what they make.
enter() {
    local file named=() words
    words=$(cat "$2")
    for file in base/*; do [[ $words != *"${file#base/}"* ]] || named+=("$file"); done # a process each would take long
    rm -rf "$1" && mkdir "$1"
    [ ${#named[@]} = 0 ] || cp -a "${named[@]}" "$1/"
    while read -r file; do rm -rf "${1:?}/$file"; done < <(written "$2")
}
run_in() (
    cd "$1" || exit
    exec bash -euo pipefail -c "$2" </dev/null
)

ran=0
declare -A places=()
page() {
    local document=$1 name=${1//\//_} call begun
    page_calls "$SOURCE/$document" >calls
    [ -s calls ] || return 0
    page_text "$SOURCE/$document" >said
    page_commands "$SOURCE/$document" >>said
    grep -vxFf not_run_commands calls | while IFS= read -r call; do shortened "$call"; done >to_run
    enter "$name" to_run
    while IFS= read -r call <&3; do
        if grep -qxF -- "$call" not_run_commands; then
            places[$call]=$((${places[$call]:-0} + 1))
            continue
        elif [[ $call == mpirun* && $ranks = 0 ]]; then
            echo "not run, as there is no Open MPI here: $call"
            continue
        elif [[ " $alone " == *" $document "* ]]; then
            shortened "$call" >to_run
            enter "$name" to_run
        fi
        begun=$SECONDS
        try 0 run_in "$name" "$(shortened "$call")"
        cat out err >printed
        [ -z "${SHOW:-}" ] || echo "$document: $(shortened "$call") ($((SECONDS - begun)) s)"
        claim "$document" "$call"
        ran=$((ran + 1))
    done 3<calls
    rm -rf "$name"
}

# ---- what stands in the text: `qkv COMMAND --option`, `--option`, `make target` ----
# Options of other programs that the pages name.
others="--allow-run-as-root --oversubscribe --host --map-by --bind-to --mca --full --folder"
for command in $("$QKV" help | sed -nE 's/^  ([a-z]+)  .*/\1/p'); do
    "$QKV" help "$command" >"help_$command" 2>/dev/null
done
spans=0
spans_of() {
    local span command option
    while IFS= read -r span; do
        command=
        if [[ $span =~ ^(build/)?qkv\ ([a-z]+) ]]; then
            command=${BASH_REMATCH[2]}
            [ -e "help_$command" ] || [ "$command" = help ] || fail "$1: no command in \`$span\`"
        elif [[ $span =~ ^make\ ([a-z-]+) ]]; then
            grep -qE "^${BASH_REMATCH[1]}:" "$SOURCE/Makefile" || fail "$1: no target in \`$span\`"
        elif [[ $span != --* ]]; then
            continue
        fi
        spans=$((spans + 1))
        for option in $(grep -oE '(^| )--[a-z][a-z-]+' <<<"$span"); do
            [[ " $others " != *" $option "* ]] || continue
            cat "help_${command:-train}" $([ -n "$command" ] || echo help_*) |
                grep -qE -- "(^|[ ,(])$option([^a-z-]|$)" || fail "$1: no option $option in \`$span\`"
        done
    done < <(page_spans "$SOURCE/$1" | grep -v '^mpirun')
}

# ---- C in the pages compiles; the program of README writes a text ----
# fragment PAGE PATTERN DECLARATIONS: the block of C in the page that has the pattern becomes the body of main.
fragment() {
    awk -v has="$2" '/^```c$/ { block = ""; inside = 1; next }
        /^```$/ { if (inside && block ~ has) printf "%s", block; inside = 0 }
        inside { block = block $0 "\n" }' "$SOURCE/$1" >body
    [ -s body ] || fail "$1: no C that has $2"
    {
        printf '#include <qkv.h>\n#include <stdio.h>\n'
        printf 'static bool write_text(void *to, const char *text, size_t bytes) { (void)to; '
        printf 'return fwrite(text, 1, bytes, stdout) == bytes; }\nint main(void) { (void)write_text; %s\n' "$3"
        grep -v '^#include' body
        echo 'return 0; }'
    } >fragment.c
    try 0 cc -std=c11 -Wall -Wextra -Werror -o fragment fragment.c $(pkg-config --cflags --libs qkv)
}

documents=$(cd "$SOURCE" && ls {,examples/,examples/*/,tests/}README.md CONTRIBUTING.md docs/*.md docs/*/*.md)
for document in ${PAGES:-$documents}; do
    last=$document
    page_strays "$SOURCE/$document" >strays
    same "$(cat strays)" "" "commands of $document in blocks that no test looks at"
    spans_of "$document"
    [[ " $apart " == *" $(basename "$document" .md) "* ]] || page "$document"
done
if [ -z "${PAGES:-}" ]; then
    [ $ran -ge 190 ] || fail "found only $ran commands to run"
    [ $spans -ge 150 ] || fail "found only $spans options in the texts"
    while IFS='|' read -r count call reason; do
        same "${places[$call]:-0} $call" "$count $call" "places of a command that is not run ($reason)"
    done <not_run
    same "$((2 * claimed))" "$(wc -l <claims)" "lines of what pages say of the output"
    for name in $apart; do
        grep -q "^page $name " "$SOURCE/tests/cli/documents.sh" || fail "documents.sh does not run docs/$name.md"
    done
    for name in README.md docs/learn/from-c.md; do
        fragment $name 'struct qkv_context' ''
        try 0 env -C base ../fragment
        [ "$(wc -c <out)" -gt 20 ] || fail "the program of $name writes no text"
    done
    fragment docs/learn/from-c.md 'cu_rows' 'struct qkv_pass *pass = NULL;'
fi
echo "$ran commands run, $(wc -l <not_run) in the list of those that are not; $spans options found in the texts"
finish
