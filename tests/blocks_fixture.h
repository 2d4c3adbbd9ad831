/* blocks_fixture.h: stored numbers of any type, for tests that do not ask how well they were quantised. */
#ifndef QKV_BLOCKS_FIXTURE_H
#define QKV_BLOCKS_FIXTURE_H

#include "test.h"

#include "type/type.h"

/* n random numbers of a type, whole blocks: of types whose blocks have several numbers, which take time to quantise,
 * random ones of eight blocks. */
static inline void random_blocks(struct qkv_random *r, const struct qkv_type *type, unsigned char *out, size_t n) {
    const size_t pool = type->block > 1 ? qkv_min(n, 8 * type->block) : n, blocks = pool / type->block;
    float *floats = malloc((pool + 1) * sizeof *floats);
    unsigned char *bytes = malloc(blocks * type->bytes + 1);
    test_fill(r, floats, pool, 1);
    qkv_type_quantise(type, bytes, floats, pool, NULL);
    if (pool == n) memcpy(out, bytes, blocks * type->bytes);
    for (size_t i = 0; pool < n && i < n / type->block; i++)
        memcpy(out + i * type->bytes, bytes + qkv_random_below(r, blocks) * type->bytes, type->bytes);
    free(floats), free(bytes);
}

#endif
