/* family_fixture.h: published model folders for tests that read them. */
#ifndef FAMILY_FIXTURE_H
#define FAMILY_FIXTURE_H

#include "test.h"

#include <dirent.h>

#include "qkv.h"

/* Links a folder's files into another one, whose config.json may be another file of it. */
static inline void link_folder(const char *from, const char *to, const char *config) {
    DIR *folder = opendir(from);
    assert_non_null(folder);
    mkdir(to, 0700);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char source[4096], target[4096];
        const char *name = entry->d_name;
        if (name[0] == '.' || (config && !strcmp(name, "config.json"))) continue;
        snprintf(source, sizeof source, "%s/%s", from, name);
        snprintf(target, sizeof target, "%s/%s", to, config && !strcmp(name, config) ? "config.json" : name);
        assert_int_equal(symlink(source, target), 0);
    }
    closedir(folder);
}

static inline void load_or_fail(struct qkv_context *ctx, const char *folder, struct qkv_model **model) {
    if (qkv_model_load(ctx, folder, model)) fail_msg("%s: %s", folder, qkv_message(ctx));
}

/* A model in fp32, in a context of its own. */
struct opened {
    struct qkv_context *ctx;
    struct qkv_model *model;
};

static inline struct opened open_path(const char *path) {
    struct opened o;
    assert_int_equal(qkv_context_create(&o.ctx, NULL), QKV_OK);
    qkv_context_set_precision(o.ctx, QKV_FP32);
    load_or_fail(o.ctx, path, &o.model);
    return o;
}

static inline void close_opened(struct opened *o) {
    qkv_model_free(o->model);
    qkv_context_free(o->ctx);
}

#endif
