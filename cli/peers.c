/* peers.c: the libraries that "qkv bench" measures beside this one: none. The program that "make bench" builds has a file of
 * its own in the place of this one (bench/peers.c). */
#include "cli.h"

const struct qkv_bench_peer *cli_bench_peers(size_t *count) {
    *count = 0;
    return NULL;
}
