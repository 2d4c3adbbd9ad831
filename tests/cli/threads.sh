# Threads of the command: fewer if the system makes no more, with a message; and beside other programs no slower than
# one thread, within a factor.
. "$(dirname "$0")/common.sh"

printf 'the cat sat on the mat\nthe dog sat on the log\na bird sang in the tree\nthe fish swam in the sea\n' >toy.txt
learn() { "$QKV" train --preset tiny-encoder --lines toy.txt --quiet --out "$@"; }

if [ "$SANITIZE" != 1 ]; then # sanitizers need more addresses than that
    limited() { (
        ulimit -v 400000
        learn "$@"
    ); }
    try 0 limited few --threads 1000
    has err \
        '^qkv: the system makes only [0-9]+ of 1000 threads \(see ulimit -u, of processes, and ulimit -v, of memory\)'
    try 0 learn many --threads 8
    hasnt err 'threads'
    same "$(cut -d, -f1-3 few/log.jsonl)" "$(cut -d, -f1-3 many/log.jsonl)" "losses with fewer threads"
fi

microseconds_of() { # microseconds_of NAME OPTION...: of a run, in $took
    local begin=$EPOCHREALTIME
    try 0 learn "$@"
    took=$((${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}))
}
burners=
for ((i = 0; i < 2 * $(nproc); i++)); do
    bash -c 'while :; do :; done' &
    burners="$burners $!"
done
microseconds_of one --threads 1
one=$took
microseconds_of all --threads 2
all=$took
kill $burners
wait
checks=$((checks + 1))
echo "beside $((2 * $(nproc))) busy processes: $one us with one thread, $all us with two"
[ "$all" -lt $((4 * one + 2000000)) ] || fail "two threads took $all us beside other programs, one $one us"

finish
