/* peers.c: the libraries that "qkv bench" measures beside this one: none. "make bench" builds the program with
 * bench/peers.c instead. */
#include "cli.h"

const struct qkv_bench_peer *cli_bench_peers(size_t *count) {
    *count = 0;
    return NULL;
}
