/* Which family can express a model: the config.json that each family writes is read again, and must give the same
 * spec. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"
#include "model/spec.h"

void qkv_family_strip(struct qkv_spec *spec) {
    struct qkv_stack_spec *stacks[] = {&spec->encoder, &spec->decoder};
    spec->dropout = 0;
    spec->init = (struct qkv_init_spec){0};
    for (size_t i = 0; i < 2; i++) {
        stacks[i]->embed.dropout = 0;
        for (int k = 0; k < stacks[i]->kind_count; k++) {
            struct qkv_layer_spec *kind = &stacks[i]->kinds[k];
            struct qkv_experts_spec *experts = &kind->ffn.experts;
            kind->attention.dropout = kind->cross.dropout = kind->residual_dropout = kind->ffn.dropout = 0;
            experts->balance_loss = experts->z_loss = 0;
            if (experts->given) experts->correction_rate = 0.001;
        }
    }
}

/* ---- one family -------------------------------------------------------------------------------------------------- */

/* A family, and the settings that turn a spec into one that it can express. */
struct nearest {
    const struct qkv_family *family; /* NULL: none */
    const char *class;               /* to try it as; NULL: any */
    struct qkv_family_settings settings;
    size_t obstacles;              /* settings that make a different model */
    size_t distance;               /* how much those change */
    struct qkv_spec whole, again;  /* whole: with the settings; again: as its config.json is read back */
    struct qkv_layer_spec room[2]; /* for kinds of layers while the two are compared */
    json_t *config;
    char why[400]; /* why settings cannot do it */
};

static void nearest_free(struct nearest *n) {
    qkv_spec_free(&n->whole);
    qkv_spec_free(&n->again);
    json_decref(n->config);
    *n = (struct nearest){0};
}

/* Counts the differences between n->whole and what its config.json reads back as. Returns false if it cannot be read,
 * or settings cannot remove the differences. */
static bool config_differs(struct qkv_context *ctx, struct nearest *n, struct qkv_family_settings *settings,
                           size_t *count) {
    struct qkv_family_config config;
    json_decref(n->config);
    n->config = qkv_family_keys(ctx, n->family, n->class, &n->whole);
    qkv_spec_free(&n->again);
    if (qkv_family_read(ctx, "config.json", n->config, NULL, NULL, &config, &n->again)) {
        snprintf(n->why, sizeof n->why, "%s", qkv_message(ctx));
        qkv_forgive(ctx);
        return false;
    }
    qkv_family_config_free(&config);
    qkv_family_strip(&n->again);
    snprintf(n->why, sizeof n->why, "its layers differ in another way");
    return qkv_family_differences(&n->whole, &n->again, n->room, settings, count);
}

static bool apply_settings(struct qkv_context *ctx, const struct qkv_spec *spec, struct nearest *n) {
    qkv_spec_free(&n->whole);
    const bool good = !qkv_family_apply(ctx, spec, &n->settings, &n->whole);
    if (!good) snprintf(n->why, sizeof n->why, "%s", qkv_message(ctx));
    qkv_forgive(ctx);
    if (good) qkv_family_strip(&n->whole);
    return good;
}

static size_t count_obstacles(const struct qkv_family_settings *settings) {
    size_t count = 0;
    for (size_t i = 0; i < settings->count; i++) count += settings->list[i].exact ? 0 : 1;
    return count;
}

/* The weighted number of settings: removing experts or a latent, or another kind of position, counts more than a
 * number. */
static size_t settings_distance(const struct qkv_family_settings *settings) {
    size_t distance = 0;
    for (size_t i = 0; i < settings->count; i++) {
        const struct qkv_family_setting *one = &settings->list[i];
        if (one->exact) continue;
        distance += !strcmp(one->value, "null") ? 8 : strstr(one->path, "position.kind") ? 3 : 1;
    }
    return distance;
}

static bool gives_spec(struct qkv_context *ctx, const struct qkv_spec *spec, struct nearest *n) {
    struct qkv_family_settings more = {0};
    size_t others = 0;
    return apply_settings(ctx, spec, n) && config_differs(ctx, n, &more, &others) && !others;
}

/* Drops settings that follow from the others. */
static void drop_settings(struct qkv_context *ctx, const struct qkv_spec *spec, struct nearest *n) {
    for (size_t i = n->settings.count; i-- > 0;) {
        const struct qkv_family_settings all = n->settings;
        n->settings.count--;
        memmove(&n->settings.list[i], &n->settings.list[i + 1], (n->settings.count - i) * sizeof *n->settings.list);
        if (!gives_spec(ctx, spec, n)) n->settings = all;
    }
    gives_spec(ctx, spec, n);
}

/* Looks for settings in rounds: with the settings of one round, config.json may express more, and further differences
 * show. */
static bool approach(struct qkv_context *ctx, const struct qkv_spec *spec, struct nearest *n) {
    enum { ROUNDS = 8 };
    size_t others = 0;
    if (qkv_spec_copy(ctx, spec, &n->whole)) return false;
    for (int round = 0; round < ROUNDS; round++) {
        if (n->settings.count && !apply_settings(ctx, spec, n)) return false;
        if (!config_differs(ctx, n, &n->settings, &others)) return false;
        if (others) continue;
        if (count_obstacles(&n->settings)) drop_settings(ctx, spec, n);
        n->obstacles = count_obstacles(&n->settings);
        n->distance = settings_distance(&n->settings);
        return true;
    }
    snprintf(n->why, sizeof n->why, "its settings exclude one another");
    return false;
}

/* ---- all families ------------------------------------------------------------------------------------------------ */

static bool has_stack(const struct qkv_family *family, const char *stack) {
    return strstr(family->stacks, stack) != NULL;
}

static bool has_type(const struct qkv_family *family, const char *type) {
    const size_t n = strcspn(family->type, ",");
    return !type || (!strncmp(type, family->type, n) && !type[n]);
}

static bool has_stacks(const struct qkv_family *family, const struct qkv_spec *spec) {
    return has_stack(family, "encoder") == (spec->encoder.layers > 0) &&
           has_stack(family, "decoder") == (spec->decoder.layers > 0);
}

static bool is_nearer(const struct nearest *a, const struct nearest *b) {
    if (!b->family || a->distance != b->distance) return !b->family || a->distance < b->distance;
    return a->settings.count < b->settings.count;
}

static bool may_be(const struct qkv_family *family, const char *type, const char *class, const struct qkv_spec *spec) {
    return has_type(family, type) && has_stacks(family, spec) && (!class || strstr(family->architectures, class));
}

/* Finds the first family that has all of a spec without settings; no other family is nearer. */
static bool choose_same(struct qkv_context *ctx, const char *type, const char *class, const struct qkv_spec *spec,
                        struct nearest *work, struct nearest *best) {
    for (size_t i = 0; qkv_families[i]; i++) {
        struct qkv_family_settings settings = {0};
        size_t others = 1;
        if (!may_be(qkv_families[i], type, class, spec)) continue;
        *work = (struct nearest){.family = qkv_families[i], .class = class};
        if (qkv_spec_copy(ctx, spec, &work->whole)) return false;
        if (config_differs(ctx, work, &settings, &others) && !others) {
            *best = *work;
            *work = (struct nearest){0};
            return true;
        }
        nearest_free(work);
    }
    return false;
}

/* Finds the nearest of the families that settings lead to. `failed`: the first of the other families. */
static void choose(struct qkv_context *ctx, const char *type, const char *class, const struct qkv_spec *spec,
                   struct nearest *work, struct nearest *best, struct nearest *failed) {
    if (choose_same(ctx, type, class, spec, work, best)) return;
    for (size_t i = 0; qkv_families[i]; i++) {
        const bool untied = spec->tie == QKV_TIE_ALL;
        for (int tied = 1; tied >= (untied ? 0 : 1); tied--) { /* a tied head may be written as a copy of its table */
            *work = (struct nearest){.family = qkv_families[i], .class = class};
            if (!may_be(work->family, type, class, spec)) continue;
            if (!tied) work->settings = (struct qkv_family_settings){1, {{"tie", "stacks", "all", true}}};
            const bool there = approach(ctx, spec, work);
            struct nearest *to = there ? best : failed;
            if (!there && failed->family) to = NULL;
            if (to && (!there || is_nearer(work, best))) {
                nearest_free(to);
                *to = *work;
                *work = (struct nearest){0};
            } else {
                nearest_free(work);
            }
        }
    }
}

static enum qkv_status unknown_type(struct qkv_context *ctx, const char *type) {
    const struct qkv_family *nearest = qkv_families[0];
    for (size_t i = 0; qkv_families[i]; i++) {
        if (has_type(qkv_families[i], type))
            return qkv_fail(ctx, QKV_SPEC, "models of type %s do not have all of this model: they have other stacks",
                            type);
        if (qkv_name_distance(type, qkv_families[i]->type) < qkv_name_distance(type, nearest->type))
            nearest = qkv_families[i];
    }
    return qkv_fail(ctx, QKV_ARGUMENT, "\"%.40s\" is not a known family of models; the nearest is %s", type,
                    nearest->type);
}

/* Fails with all obstacles, each with the setting that avoids it. */
static enum qkv_status fail_obstacles(struct qkv_context *ctx, const char *type, const struct nearest *n) {
    struct qkv_buffer text = {0};
    const int name = (int)strcspn(n->family->type, ",");
    for (size_t i = 0; i < n->settings.count; i++) {
        const struct qkv_family_setting *one = &n->settings.list[i];
        if (one->exact) continue;
        if (qkv_buffer_print(ctx, &text, "%s%s is %s (setting %s=%s)", text.size ? ", " : "", one->path,
                             *one->was ? one->was : "given", one->path, one->value))
            return QKV_MEMORY;
    }
    if (type)
        qkv_fail(ctx, QKV_SPEC, "models of type %s do not have all of this model; a new model can avoid that: %s", type,
                 text.data);
    else
        qkv_fail(ctx, QKV_SPEC,
                 "no published family has all of this model; the nearest is %.*s, which does not have these settings; "
                 "a new model can avoid them: %s",
                 name, n->family->type, text.data);
    qkv_buffer_free(&text);
    return QKV_SPEC;
}

static enum qkv_status fail_nearest(struct qkv_context *ctx, const char *type, const struct nearest *best,
                                    const struct nearest *failed) {
    if (best->family) return fail_obstacles(ctx, type, best);
    if (!failed->family && type) return unknown_type(ctx, type);
    if (!failed->family) return qkv_fail(ctx, QKV_SPEC, "no published family has these stacks");
    if (type) return qkv_fail(ctx, QKV_SPEC, "models of type %s do not have all of this model: %s", type, failed->why);
    return qkv_fail(ctx, QKV_SPEC, "no published family has all of this model, and no settings lead to one; %.*s: %s",
                    (int)strcspn(failed->family->type, ","), failed->family->type, failed->why);
}

/* Sets config->whole where settings that weights of zeros or copies express lead to the family. */
static enum qkv_status take_nearest(struct qkv_context *ctx, const struct nearest *n,
                                    struct qkv_family_config *config) {
    struct qkv_spec *whole = NULL;
    if (n->settings.count && !(whole = qkv_allocate(ctx, 1, sizeof *whole))) return QKV_MEMORY;
    if (whole && qkv_spec_copy(ctx, &n->whole, whole)) {
        free(whole);
        return QKV_MEMORY;
    }
    *config = (struct qkv_family_config){.family = n->family, .keys = json_incref(n->config), .whole = whole};
    return QKV_OK;
}

enum qkv_status qkv_family_write(struct qkv_context *ctx, const char *type, const char *class,
                                 const struct qkv_spec *spec, struct qkv_family_config *config) {
    enum { WORK, BEST, FAILED, COUNT };
    struct nearest *n = qkv_allocate(ctx, COUNT, sizeof *n);
    struct qkv_spec stripped = {0};
    enum qkv_status status = n ? qkv_spec_copy(ctx, spec, &stripped) : QKV_MEMORY;
    if (!status) {
        qkv_family_strip(&stripped);
        if (class) choose(ctx, type, class, &stripped, &n[WORK], &n[BEST], &n[FAILED]);
        bool found = n[BEST].family && !n[BEST].obstacles;
        if (!found) {
            nearest_free(&n[BEST]);
            nearest_free(&n[FAILED]);
            choose(ctx, type, NULL, &stripped, &n[WORK], &n[BEST], &n[FAILED]);
            found = n[BEST].family && !n[BEST].obstacles;
        }
        status = found ? take_nearest(ctx, &n[BEST], config) : fail_nearest(ctx, type, &n[BEST], &n[FAILED]);
        nearest_free(&n[BEST]);
        nearest_free(&n[FAILED]);
    }
    free(n);
    qkv_spec_free(&stripped);
    return status;
}
