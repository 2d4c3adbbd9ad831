/* check_progress.h: a callback of progress that checks what it hears: in each part of the work, what is done never
 * falls and is at most the total, which stays; a part that another has followed does not come again. Header-only. */
#ifndef QKV_CHECK_PROGRESS_H
#define QKV_CHECK_PROGRESS_H

#include "test.h"

enum { PROGRESS_PARTS = 8 };
struct progress_check {
    struct progress_part {
        char what[64];
        double first, done, total;
    } parts[PROGRESS_PARTS];
    size_t count, calls;
};

static bool check_progress(void *user, const char *what, double done, double total) {
    struct progress_check *c = user;
    struct progress_part *p = c->count ? &c->parts[c->count - 1] : NULL;
    c->calls++;
    if (!p || strcmp(p->what, what) != 0) {
        for (size_t i = 0; i < c->count; i++)
            if (!strcmp(c->parts[i].what, what)) fail_msg("%s comes again after %s", what, p->what);
        assert_true(c->count < PROGRESS_PARTS);
        p = &c->parts[c->count++];
        *p = (struct progress_part){.first = done, .done = done, .total = total};
        snprintf(p->what, sizeof p->what, "%s", what);
    }
    if (done < p->done) fail_msg("%s: %g is done after %g", what, done, p->done);
    if (total != p->total) fail_msg("%s: the total is %g, and was %g", what, total, p->total);
    if (total > 0 && done > total) fail_msg("%s: %g of %g are done", what, done, total);
    p->done = done;
    return true;
}

/* The parts that were heard are those, and what is done grows in each. */
static inline void check_progress_of(const struct progress_check *c, const char *const *parts, size_t count) {
    assert_int_equal(c->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(c->parts[i].what, parts[i]);
        if (!(c->parts[i].done > c->parts[i].first)) fail_msg("%s: nothing is ever done", parts[i]);
    }
}

#endif
