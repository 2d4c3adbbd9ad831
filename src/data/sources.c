#include "data/sources.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "data/records.h"

/* The weight behind the last colon; 0: there is none, or a file has the whole name. *size: bytes of the path. */
static double source_weight(const char *name, size_t *size) {
    const char *colon = strrchr(name, ':');
    double weight;
    *size = strlen(name);
    if (!colon || colon == name || strchr(colon, '/') || !qkv_real_parse(colon + 1, &weight) || qkv_file_exists(name))
        return 0;
    *size = (size_t)(colon - name);
    return weight;
}

static bool source_is_pattern(const char *path) {
    return strpbrk(path, "*?[") && !qkv_file_exists(path);
}

static bool source_mixes(const char *name) {
    return source_is_pattern(name) || qkv_records_are_json(name) || qkv_unpack_name(name) < strlen(name);
}

const char *qkv_sources_weight(const char *const *names) {
    size_t size;
    for (size_t i = 0; i < QKV_FILES_MAX && names[i]; i++)
        if (source_weight(names[i], &size) != 0 || size < strlen(names[i])) return names[i];
    return NULL;
}

bool qkv_sources_mix(const char *const *names) {
    for (size_t i = 0; i < QKV_FILES_MAX && names[i]; i++)
        if (source_mixes(names[i])) return true;
    return qkv_sources_weight(names) != NULL;
}

enum qkv_status qkv_sources_check(struct qkv_context *ctx, const char *const *names) {
    const char *with = NULL, *without = NULL;
    size_t size;
    for (size_t i = 0; i < QKV_FILES_MAX && names[i]; i++) {
        const double weight = source_weight(names[i], &size);
        if (weight < 0 || (weight == 0 && size < strlen(names[i])))
            return qkv_fail(ctx, QKV_ARGUMENT, "data: the weight of %s is not more than 0; choose one, as in %.*s:0.5",
                            names[i], (int)size, names[i]);
        if (weight > 0)
            with = names[i];
        else
            without = names[i];
    }
    if (!with || !without) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "data: %s has a weight and %s has none; give each of them a weight, as in %s:0.5, or none", with,
                    without, without);
}

size_t qkv_sources_weights(const char *const *names, double weights[QKV_FILES_MAX]) {
    size_t count = 0, size;
    double sum = 0;
    while (count < QKV_FILES_MAX && names[count]) {
        weights[count] = source_weight(names[count], &size);
        sum += weights[count++];
    }
    if (sum == 0) count = 1;
    for (size_t i = 0; i < count; i++) weights[i] = sum > 0 ? weights[i] / sum : 1;
    return count;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int source_by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum qkv_status source_expand(struct qkv_context *ctx, const char *pattern, struct qkv_texts *paths,
                                     struct qkv_texts *notes) {
    glob_t found = {0};
    const int result = glob(pattern, GLOB_NOSORT, NULL, &found);
    enum qkv_status status = QKV_OK;
    if (result == GLOB_NOSPACE)
        status = qkv_fail_memory(ctx, 0, pattern);
    else if (result)
        status = qkv_fail(ctx, QKV_FILE, "no file has a name like %s; check the pattern", pattern);
    if (!status) qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, source_by_name);
    for (size_t i = 0; !status && i < found.gl_pathc; i++)
        status = qkv_list_files(ctx, (const char *const *)&found.gl_pathv[i], 1, paths, notes);
    globfree(&found);
    return status;
}

static enum qkv_status source_list(struct qkv_context *ctx, const char *path, struct qkv_texts *paths,
                                   struct qkv_texts *notes) {
    return source_is_pattern(path) ? source_expand(ctx, path, paths, notes)
                                   : qkv_list_files(ctx, &path, 1, paths, notes);
}

enum qkv_status qkv_sources_list(struct qkv_context *ctx, const char *const *names, struct qkv_text_files *files,
                                 struct qkv_texts *notes) {
    double weights[QKV_FILES_MAX];
    const bool apart = qkv_sources_weights(names, weights) > 1;
    enum qkv_status status = qkv_sources_check(ctx, names);
    for (size_t i = 0; i < QKV_FILES_MAX && names[i] && !status; i++) {
        struct qkv_texts paths = {0};
        size_t size;
        source_weight(names[i], &size);
        char *path = qkv_copy_bytes(ctx, names[i], size);
        status = path ? source_list(ctx, path, &paths, notes) : QKV_MEMORY;
        for (size_t k = 0; k < paths.count && !status; k++)
            status = qkv_text_files_add(
                ctx, files, &(struct qkv_text_file){.path = paths.items[k], .source = apart ? (uint32_t)i : 0});
        qkv_texts_free(&paths);
        free(path);
    }
    return status;
}

enum qkv_status qkv_sources_list_once(struct qkv_context *ctx, const char *name, struct qkv_text_files *files) {
    const char *const names[QKV_FILES_MAX] = {name};
    if (!qkv_sources_weight(names)) return qkv_sources_list(ctx, names, files, NULL);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s has a weight, but files that are read once have none: leave it out", name);
}

/* The folder of a pattern is the part before the last slash in front of its first special character. */
static size_t source_folder(const char *path) {
    size_t end = strcspn(path, "*?[");
    while (end > 0 && path[end - 1] != '/') end--;
    return end;
}

enum qkv_status qkv_source_absolute(struct qkv_context *ctx, const char **name) {
    size_t size, rest;
    source_weight(*name, &size);
    char *path = qkv_copy_bytes(ctx, *name, size), *absolute = NULL;
    struct qkv_buffer text = {0};
    if (!path) return QKV_MEMORY;
    rest = size;
    if (source_is_pattern(path)) rest = source_folder(path);
    path[rest] = 0;
    enum qkv_status status = qkv_absolute_path(ctx, rest ? path : ".", &absolute);
    if (!status)
        status = qkv_buffer_print(ctx, &text, "%s%s%s", absolute,
                                  rest < size && absolute[strlen(absolute) - 1] != '/' ? "/" : "", *name + rest);
    free(path);
    free(absolute);
    if (status) {
        qkv_buffer_free(&text);
        return status;
    }
    free((void *)(uintptr_t)*name);
    *name = text.data;
    return QKV_OK;
}
