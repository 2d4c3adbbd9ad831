/* paths: checks all inputs and outputs of a program before it writes anything: no output is an input or another output,
 * under any name, and only force replaces an existing file. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/json_load.h"
#include "io/io.h"
#include "io/published_files.h"

enum paths_role {
    PATHS_TEXT,        /* a file that is read */
    PATHS_TEXT_FOLDER, /* a folder whose files are all read */
    PATHS_MODEL_FILE,  /* a file of a model or run that is read, whether it exists yet or not */
    PATHS_FILE,        /* a file that is written */
    PATHS_FOLDER,      /* a folder that is written into */
    PATHS_FOLDER_FILE  /* a file in such a folder */
};

struct paths_place { /* the target of a path, links followed */
    enum paths_role role;
    const struct qkv_path *of; /* the input or output that it belongs to */
    char *shown, *text;        /* the path as given, and as an absolute path */
    const char *name;          /* the last part of text */
    bool exists, has_folder;
    struct stat file, folder;
};

struct paths {
    struct qkv_context *ctx;
    struct paths_place *places;
    size_t count, capacity;
};

/* ---- the target of a path ---------------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The absolute path. Its last parts need not exist. */
static enum qkv_status paths_resolve(struct qkv_context *ctx, const char *path, char **out) {
    char *cut, *folder, *whole = realpath(path, NULL);
    *out = whole ? whole : strcmp(path, ".") && strcmp(path, "/") ? NULL : qkv_copy_string(ctx, path);
    if (*out || !strcmp(path, ".") || !strcmp(path, "/")) return *out ? QKV_OK : QKV_MEMORY;
    enum qkv_status status = qkv_follow_links(ctx, path, &cut);
    if (status) return status;
    for (size_t n = strlen(cut); n > 1 && cut[n - 1] == '/'; n--) cut[n - 1] = 0;
    char *slash = strrchr(cut, '/'), *name = qkv_copy_string(ctx, slash ? slash + 1 : cut);
    if (slash) slash[slash == cut] = 0;
    status = name ? paths_resolve(ctx, slash ? cut : ".", &folder) : QKV_MEMORY;
    if (!status) {
        *out = qkv_join_path(ctx, folder, name);
        free(folder);
    }
    free(name);
    free(cut);
    return status ? status : *out ? QKV_OK : QKV_MEMORY;
}

static void paths_look(struct paths_place *place) {
    char *slash = strrchr(place->text, '/');
    place->exists = stat(place->shown, &place->file) == 0;
    place->name = slash ? slash + 1 : place->text;
    if (slash) *slash = 0;
    place->has_folder = stat(!slash ? "." : *place->text ? place->text : "/", &place->folder) == 0;
    if (slash) *slash = '/';
}

/* Adds a path (folder NULL), or the file `name` in `folder`. */
static enum qkv_status paths_add(struct paths *p, const struct qkv_path *of, enum paths_role role, const char *folder,
                                 const char *name) {
    struct paths_place *grown = qkv_list_room(p->ctx, p->places, &p->capacity, p->count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    p->places = grown;
    struct paths_place *place = &grown[p->count];
    *place = (struct paths_place){.role = role, .of = of};
    place->shown = folder ? qkv_join_path(p->ctx, folder, name) : qkv_copy_string(p->ctx, of->path);
    if (!place->shown) return QKV_MEMORY;
    p->count++;
    enum qkv_status status = paths_resolve(p->ctx, place->shown, &place->text);
    if (!status) paths_look(place);
    return status;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static enum qkv_status paths_add_texts(struct paths *p, const struct qkv_path *of) {
    struct dirent *entry;
    enum qkv_status status = paths_add(p, of, PATHS_TEXT_FOLDER, NULL, NULL);
    DIR *folder = opendir(of->path);
    while (folder && !status && (entry = readdir(folder))) /* an unreadable folder fails later, where it is read */
        if (entry->d_name[0] != '.') status = paths_add(p, of, PATHS_TEXT, of->path, entry->d_name);
    if (folder) closedir(folder);
    return status;
}

/* The names of files of models and runs. */
static const char *const own_files[] = {QKV_MODEL_FILES, QKV_RUN_FILES, QKV_INDEX_FILE};

/* Adds the files that an index of weights names. */
static enum qkv_status paths_add_shards(struct paths *p, const struct qkv_path *of, const char *folder) {
    json_t *root = NULL, *value;
    const char *tensor;
    char *path = qkv_join_path(p->ctx, folder, QKV_INDEX_FILE);
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    if (path && qkv_file_exists(path) && qkv_published_json(p->ctx, path, &root)) qkv_forgive(p->ctx);
    free(path);
    json_object_foreach(json_object_get(root, "weight_map"), tensor, value) {
        const char *file = json_string_value(value);
        bool known = status || !file || !*file || strchr(file, '/');
        for (size_t i = 0; i < p->count && !known; i++)
            known = p->places[i].of == of && !strcmp(p->places[i].name, file);
        if (!known) status = paths_add(p, of, PATHS_MODEL_FILE, folder, file);
    }
    json_decref(root);
    return status;
}

/* Whether this is the name of an earlier checkpoint. */
static bool is_checkpoint(const char *name) {
    const size_t n = strlen(name), end = strlen(QKV_CHECKPOINT_END);
    return !strncmp(name, QKV_CHECKPOINT_BEGIN, strlen(QKV_CHECKPOINT_BEGIN)) && n > end &&
           !strcmp(name + n - end, QKV_CHECKPOINT_END);
}

static enum qkv_status paths_add_model(struct paths *p, const struct qkv_path *of, const char *folder) {
    struct dirent *entry;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof own_files / sizeof *own_files && !status; i++)
        status = paths_add(p, of, PATHS_MODEL_FILE, folder, own_files[i]);
    DIR *open = status ? NULL : opendir(folder);
    while (open && !status && (entry = readdir(open)))
        if (is_checkpoint(entry->d_name)) status = paths_add(p, of, PATHS_MODEL_FILE, folder, entry->d_name);
    if (open) closedir(open);
    return status ? status : paths_add_shards(p, of, folder);
}

static enum qkv_status paths_add_models(struct paths *p, const struct qkv_path *of) {
    struct qkv_model_place place;
    struct stat info;
    if (stat(of->path, &info) != 0) return QKV_OK;
    enum qkv_status status = QKV_OK;
    if (!S_ISDIR(info.st_mode)) status = paths_add(p, of, PATHS_TEXT, NULL, NULL);
    if (!status && qkv_model_place(p->ctx, of->path, &place)) { /* opening it later says what is wrong */
        qkv_forgive(p->ctx);
        return QKV_OK;
    }
    if (status) return status;
    if (stat(place.folder, &info) == 0 && S_ISDIR(info.st_mode)) status = paths_add_model(p, of, place.folder);
    if (!status && place.modules) status = paths_add_model(p, of, place.modules);
    qkv_model_place_free(&place);
    return status;
}

/* ---- all paths --------------------------------------------------------------------------------------------------- */

static enum qkv_status paths_add_path(struct paths *p, const struct qkv_path *path) {
    struct stat info;
    enum qkv_status status = QKV_OK;
    switch (path->use) {
    case QKV_PATH_READ:
        if (stat(path->path, &info) != 0) return QKV_OK;
        return S_ISDIR(info.st_mode) ? paths_add_texts(p, path) : paths_add(p, path, PATHS_TEXT, NULL, NULL);
    case QKV_PATH_MODEL:
        return paths_add_models(p, path);
    case QKV_PATH_WRITE:
        return paths_add(p, path, PATHS_FILE, NULL, NULL);
    case QKV_PATH_FOLDER:
        status = paths_add(p, path, PATHS_FOLDER, NULL, NULL);
        for (size_t i = 0; i < path->file_count && !status; i++)
            status = paths_add(p, path, PATHS_FOLDER_FILE, path->path, path->files[i]);
        return status;
    }
    return status;
}

static bool is_device(const struct paths_place *place) {
    return place->exists && (S_ISCHR(place->file.st_mode) || S_ISBLK(place->file.st_mode));
}

static bool paths_meet(const struct paths_place *a, const struct paths_place *b) {
    if (is_device(a) || is_device(b)) return false;
    if (a->exists && b->exists) return is_same(&a->file, &b->file);
    if (strcmp(a->text, b->text) == 0) return true;
    return a->has_folder && b->has_folder && is_same(&a->folder, &b->folder) && strcmp(a->name, b->name) == 0;
}

static enum qkv_status paths_refuse(struct qkv_context *ctx, const struct paths_place *out,
                                    const struct paths_place *other) {
    const char *shown = strcmp(out->shown, "/dev/stdout") ? out->shown : "standard output";
    const char *way = out->role == PATHS_FILE ? "write to another file" : "choose another folder";
    switch (other->role) {
    case PATHS_TEXT:
        return qkv_fail(ctx, QKV_FILE, "%s is also read; %s", shown, way);
    case PATHS_TEXT_FOLDER:
        return out->role == PATHS_FILE
                   ? qkv_fail(ctx, QKV_FILE, "cannot write %s: it is a folder; name a file", out->shown)
                   : qkv_fail(ctx, QKV_FILE, "%s is also the folder of texts that is read; choose another folder",
                              out->shown);
    case PATHS_MODEL_FILE:
        return qkv_fail(ctx, QKV_FILE, "%s is a file of the model or run in %s; %s", shown, other->of->path, way);
    case PATHS_FILE:
    case PATHS_FOLDER:
    case PATHS_FOLDER_FILE:
        break;
    }
    return qkv_fail(ctx, QKV_FILE, "%s would be written twice, as %s too; give each output a name of its own", shown,
                    other->shown);
}

/* Fails if output i is also an input or another output. */
static enum qkv_status paths_check_others(const struct paths *p, size_t i) {
    const struct paths_place *out = &p->places[i];
    for (size_t k = 0; k < p->count; k++) {
        const struct paths_place *other = &p->places[k];
        if (other->role >= PATHS_FILE && (k >= i || other->of == out->of)) continue;
        if (paths_meet(out, other)) return paths_refuse(p->ctx, out, other);
    }
    return QKV_OK;
}

static enum qkv_status paths_check_place(struct qkv_context *ctx, const struct paths_place *out) {
    if (out->role == PATHS_FOLDER) return QKV_OK;
    if (out->role == PATHS_FILE && (!out->has_folder || !S_ISDIR(out->folder.st_mode)))
        return qkv_fail_file(ctx, "write", out->shown, out->has_folder ? ENOTDIR : ENOENT);
    if (out->exists && S_ISDIR(out->file.st_mode))
        return qkv_fail(ctx, QKV_FILE, "cannot write %s: it is a folder; name a file", out->shown);
    if (!out->of->force && out->exists && S_ISREG(out->file.st_mode))
        return qkv_fail(ctx, QKV_FILE, "%s exists; option force replaces it", out->shown);
    return QKV_OK;
}

struct qkv_path qkv_path_defaults(void) {
    return (struct qkv_path){.use = QKV_PATH_READ};
}

enum qkv_status qkv_paths_check(struct qkv_context *ctx, const struct qkv_path *paths, size_t count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED_ALL(ctx, count, paths);
    struct paths p = {.ctx = ctx};
    enum qkv_status status = QKV_OK;
    bool writes = false;
    for (size_t i = 0; i < count; i++) writes = writes || paths[i].use >= QKV_PATH_WRITE;
    for (size_t i = 0; writes && i < count && !status; i++)
        if (paths[i].path && *paths[i].path) status = paths_add_path(&p, &paths[i]);
    for (size_t i = 0; i < p.count && !status; i++)
        if (p.places[i].role >= PATHS_FILE) status = paths_check_others(&p, i);
    for (size_t i = 0; i < p.count && !status; i++)
        if (p.places[i].role >= PATHS_FILE) status = paths_check_place(ctx, &p.places[i]);
    for (size_t i = 0; i < p.count; i++) {
        free(p.places[i].shown);
        free(p.places[i].text);
    }
    free(p.places);
    return status;
}
