/* context_fixture.h: one context for all tests of a program, with setup and teardown of the group. FIXTURE_CONTEXT,
 * if defined before, creates it; FIXTURE_OPTIONS are fields of its options; else the context has the defaults. */
#ifndef QKV_CONTEXT_FIXTURE_H
#define QKV_CONTEXT_FIXTURE_H

#include "test.h"

static struct qkv_context *ctx;

static int setup(void **state) {
    (void)state;
#ifdef FIXTURE_CONTEXT
    ctx = FIXTURE_CONTEXT;
    return 0;
#elif defined(FIXTURE_OPTIONS)
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, FIXTURE_OPTIONS));
#else
    return (int)qkv_context_create(&ctx, NULL);
#endif
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

#endif
