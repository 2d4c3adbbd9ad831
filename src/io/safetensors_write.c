/* safetensors_write: writes the file that safetensors.c describes, straight from the arrays into the file.
 *
 * The header is padded so that the data starts at a multiple of 64, and larger elements come first (arrays with
 * elements of one size keep their order). The format allows no gaps; this order aligns every array to its element size
 * in a mapping, as all arrays before it have multiples of that size. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "io/io.h"
#include "io/safetensors.h"

#define DATA_ALIGNMENT 64

struct entry {
    const struct qkv_array *array; /* as it is written */
    const struct qkv_array *from;  /* as it is given */
    const struct qkv_type *format; /* to convert to; NULL: not converted */
    size_t position;               /* among the arrays given */
};

static int compare_order(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    size_t p = qkv_type_size(x->array->dtype), q = qkv_type_size(y->array->dtype);
    if (p != q) return p > q ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A key or value of the header; it must be valid UTF-8. */
static const char *header_text(struct qkv_json *header, const char *path, const char *s) {
    if (!header->status && qkv_utf8_valid(s, strlen(s)) < strlen(s))
        header->status = qkv_fail(header->ctx, QKV_ARGUMENT, "%s: \"%.*s\" cannot be written: it is not valid UTF-8",
                                  path, qkv_shown_length(s), s);
    return s;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static enum qkv_status check_array(struct qkv_context *ctx, const char *path, const struct qkv_array *array,
                                   size_t position, bool there) {
    if (!array->name) return qkv_fail(ctx, QKV_ARGUMENT, "%s: tensor %zu has no name", path, position);
    const char *problem = NULL;
    size_t bytes = 0;
    if (strcmp(array->name, QKV_TENSORS_METADATA) == 0) {
        problem = "that name is reserved by the format";
    } else if ((size_t)array->dtype >= QKV_DTYPE_COUNT || !qkv_types[array->dtype]->safetensors) {
        problem = "its dtype is invalid";
    } else if (array->rank < 0 || array->rank > QKV_RANK_MAX) {
        problem = "its rank is invalid";
    } else if (!qkv_array_bytes(array, &bytes)) {
        problem = "its shape is larger than any memory";
    } else if (bytes != array->bytes) {
        problem = "its bytes do not agree with its dtype and shape";
    } else if (there && bytes && !array->data) {
        problem = "it has no data";
    }
    if (!problem) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "%s: tensor \"%.*s\" cannot be written: %s", path, qkv_shown_length(array->name),
                    array->name, problem);
}

/* Sorts texts, and fails if one occurs twice. */
static enum qkv_status check_unique(struct qkv_context *ctx, const char *path, const char **texts, size_t count) {
    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(texts[i - 1], texts[i]) != 0) continue;
        return qkv_fail(ctx, QKV_ARGUMENT, "%s: the name \"%.*s\" is given twice", path, qkv_shown_length(texts[i]),
                        texts[i]);
    }
    return QKV_OK;
}

/* there: the arrays have their numbers. */
static enum qkv_status check_names(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                   size_t count, const char *const *metadata, size_t metadata_count, bool there) {
    const char **texts = qkv_allocate(ctx, count > metadata_count ? count : metadata_count, sizeof *texts);
    if (!texts) return QKV_MEMORY;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = check_array(ctx, path, &arrays[i], i, there);
        texts[i] = arrays[i].name;
    }
    if (!status) status = check_unique(ctx, path, texts, count);
    for (size_t i = 0; i < metadata_count && !status; i++) {
        texts[i] = metadata[2 * i];
        if (!metadata[2 * i] || !metadata[2 * i + 1]) {
            status = qkv_fail(ctx, QKV_ARGUMENT, "%s: metadata pair %zu lacks its key or value", path, i);
        }
    }
    if (!status) status = check_unique(ctx, path, texts, metadata_count);
    free(texts);
    return status;
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

static void append_metadata(struct qkv_json *header, const char *path, const char *const *metadata,
                            size_t metadata_count) {
    qkv_json_key(header, QKV_TENSORS_METADATA);
    qkv_json_begin(header, '{');
    for (size_t i = 0; i < metadata_count; i++)
        qkv_json_put_text(header, header_text(header, path, metadata[2 * i]),
                          header_text(header, path, metadata[2 * i + 1]));
    qkv_json_end(header, '}');
}

static void append_tensor(struct qkv_json *header, const char *path, const struct qkv_array *array, size_t begin,
                          size_t end) {
    qkv_json_key(header, header_text(header, path, array->name));
    qkv_json_begin(header, '{');
    qkv_json_put_text(header, "dtype", qkv_types[array->dtype]->safetensors);
    qkv_json_key(header, "shape");
    qkv_json_begin(header, '[');
    for (int i = 0; i < array->rank; i++) qkv_json_count(header, array->shape[i]);
    qkv_json_end(header, ']');
    qkv_json_key(header, "data_offsets");
    qkv_json_begin(header, '[');
    qkv_json_count(header, begin);
    qkv_json_count(header, end);
    qkv_json_end(header, ']');
    qkv_json_end(header, '}');
}

/* The first 8 bytes and the padded JSON. */
static enum qkv_status build_header(struct qkv_context *ctx, struct qkv_json *json, const char *path,
                                    const struct entry *entries, size_t count, const char *const *metadata,
                                    size_t metadata_count) {
    uint64_t size = 0;
    size_t begin = 0, end;
    struct qkv_buffer *header = &json->text;
    json->status = qkv_buffer_append(ctx, header, &size, sizeof size);
    qkv_json_begin(json, '{');
    if (metadata_count) append_metadata(json, path, metadata, metadata_count);
    for (size_t i = 0; i < count; i++, begin = end) {
        if (!qkv_add_size(begin, entries[i].array->bytes, &end))
            return qkv_fail(ctx, QKV_ARGUMENT, "%s: the tensors together are larger than any file", path);
        append_tensor(json, path, entries[i].array, begin, end);
    }
    qkv_json_end(json, '}');
    enum qkv_status status = json->status;
    while (!status && header->size % DATA_ALIGNMENT) status = qkv_buffer_append(ctx, header, " ", 1);
    if (status) return status;
    size = header->size - sizeof size;
    if (size > QKV_TENSORS_HEADER_MOST)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s: names and metadata take %llu bytes, more than the format's limit of %u",
                        path, (unsigned long long)size, QKV_TENSORS_HEADER_MOST);
    memcpy(header->data, &size, sizeof size);
    return QKV_OK;
}

/* ---- file -------------------------------------------------------------------------------------------------------- */

/* Whether conversion keeps all finite numbers finite. */
static bool safetensors_write_fits(const struct qkv_type *format, const void *bytes, const float *floats, float *back,
                                   size_t n) {
    qkv_type_floats(format, back, bytes, n);
    for (size_t i = 0; i < n; i++)
        if (isfinite(floats[i]) && !isfinite(back[i])) return false;
    return true;
}

static enum qkv_status write_converted(struct qkv_context *ctx, const struct entry *e, const void *data,
                                       struct qkv_replace *replace) {
    enum { PIECE = 8 * QKV_TYPE_BLOCK_MAX };
    float floats[PIECE], back[PIECE];
    const size_t count = qkv_array_elements(e->from), piece = PIECE; /* whole blocks of every type */
    unsigned char *bytes = qkv_allocate(ctx, piece / e->format->block, e->format->bytes);
    enum qkv_status status = bytes ? QKV_OK : QKV_MEMORY;
    for (size_t done = 0, n; done < count && !status; done += n) {
        n = count - done < piece ? count - done : piece;
        qkv_to_float(floats, (const unsigned char *)data + qkv_type_span(e->from->dtype, done), e->from->dtype, n);
        qkv_type_quantise(e->format, bytes, floats, n, NULL);
        if (!safetensors_write_fits(e->format, bytes, floats, back, n))
            status =
                qkv_fail(ctx, QKV_NUMBER,
                         "%s holds numbers that are too large for %s, so nothing was written; choose another format",
                         e->array->name, e->format->name);
        if (!status) status = qkv_replace_write(replace, bytes, n / e->format->block * e->format->bytes);
    }
    free(bytes);
    return status;
}

/* source: makes the numbers of arrays that have none; NULL: all have them. */
static enum qkv_status write_numbers(struct qkv_context *ctx, const struct entry *e,
                                     const struct qkv_tensors_source *source, struct qkv_replace *replace) {
    const void *data = e->from->data;
    const bool makes = source && !data;
    enum qkv_status status = makes ? source->make(source->user, e->position, &data) : QKV_OK;
    if (!status)
        status = e->format ? write_converted(ctx, e, data, replace) : qkv_replace_write(replace, data, e->array->bytes);
    if (makes) source->drop(source->user, e->position);
    return status;
}

static enum qkv_status write_parts(struct qkv_context *ctx, const char *path, const struct qkv_buffer *header,
                                   const struct entry *entries, size_t count, const struct qkv_tensors_source *source) {
    struct qkv_replace replace;
    enum qkv_status status = qkv_replace_begin(ctx, path, &replace);
    if (!status) status = qkv_replace_write(&replace, header->data, header->size);
    for (size_t i = 0; i < count && !status; i++) status = write_numbers(ctx, &entries[i], source, &replace);
    if (!status) return qkv_replace_commit(&replace);
    qkv_replace_cancel(&replace);
    return status;
}

static enum qkv_status write_entries(struct qkv_context *ctx, const char *path, struct entry *entries, size_t count,
                                     const struct qkv_tensors_source *source, const char *const *metadata,
                                     size_t metadata_count) {
    qsort(entries, count, sizeof *entries, compare_order);
    struct qkv_json header = {.ctx = ctx};
    enum qkv_status status = build_header(ctx, &header, path, entries, count, metadata, metadata_count);
    if (!status) status = write_parts(ctx, path, &header.text, entries, count, source);
    qkv_json_free(&header);
    return status;
}

enum qkv_status qkv_tensors_write(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                  size_t count, const char *const *metadata, size_t metadata_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    QKV_NEED_ALL(ctx, count, arrays);
    QKV_NEED_ALL(ctx, metadata_count, metadata);
    enum qkv_status status = check_names(ctx, path, arrays, count, metadata, metadata_count, true);
    if (status) return status;
    struct entry *entries = qkv_allocate(ctx, count, sizeof *entries);
    if (!entries) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct entry){.array = &arrays[i], .from = &arrays[i], .position = i};
    status = write_entries(ctx, path, entries, count, NULL, metadata, metadata_count);
    free(entries);
    return status;
}

/* The array as it is after conversion. Returns false where its rows are not whole blocks of the format. */
static bool array_in_format(const struct qkv_array *from, const struct qkv_type *format, struct qkv_array *out) {
    *out = *from;
    if (!format) return true;
    const size_t columns = from->rank ? from->shape[from->rank - 1] : 1, all = qkv_array_elements(from);
    out->dtype = qkv_type_number(format);
    return qkv_type_bytes(format, columns ? all / columns : 0, columns, &out->bytes);
}

enum qkv_status qkv_tensors_write_as(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                     const struct qkv_type *const *formats, size_t count,
                                     const struct qkv_tensors_source *source, const char *const *metadata,
                                     size_t metadata_count) {
    struct qkv_array *out = qkv_allocate(ctx, count, sizeof *out);
    struct entry *entries = qkv_allocate(ctx, count, sizeof *entries);
    enum qkv_status status = out && entries ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        if (!array_in_format(&arrays[i], formats[i], &out[i]))
            status = qkv_fail(ctx, QKV_SHAPE,
                              "%s: rows of %s have %zu numbers, which cannot be cut into blocks of %zu (%s); choose "
                              "another format",
                              path, arrays[i].name, arrays[i].rank ? arrays[i].shape[arrays[i].rank - 1] : 1,
                              formats[i]->block, formats[i]->name);
        entries[i] = (struct entry){&out[i], &arrays[i], formats[i], i};
    }
    if (!status) status = check_names(ctx, path, out, count, metadata, metadata_count, !source);
    if (!status) status = write_entries(ctx, path, entries, count, source, metadata, metadata_count);
    free(out);
    free(entries);
    return status;
}

/* Writes the header, and reserves room for the numbers. */
static enum qkv_status write_frame(struct qkv_context *ctx, const char *path, const struct qkv_buffer *header,
                                   size_t bytes, struct qkv_replace *replace) {
    enum qkv_status status = qkv_replace_begin(ctx, path, replace);
    if (status) return status;
    if (!replace->temporary) status = qkv_fail(ctx, QKV_FILE, "cannot write %s: it is not a regular file", path);
    if (!status) status = qkv_replace_write(replace, header->data, header->size);
    if (!status &&
        (fflush(replace->file) != 0 || ftruncate(fileno(replace->file), (off_t)(header->size + bytes)) != 0 ||
         fsync(fileno(replace->file)) != 0))
        status = qkv_fail_file(ctx, "write", path, errno);
    if (status) qkv_replace_cancel(replace);
    return status;
}

enum qkv_status qkv_tensors_frame(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                  size_t count, const char *const *metadata, size_t metadata_count,
                                  struct qkv_replace *replace, size_t *data) {
    size_t bytes = 0;
    enum qkv_status status = check_names(ctx, path, arrays, count, metadata, metadata_count, false);
    struct entry *entries = status ? NULL : qkv_allocate(ctx, count, sizeof *entries);
    struct qkv_json header = {.ctx = ctx};
    if (!entries) return status ? status : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        entries[i] = (struct entry){.array = &arrays[i], .position = i};
        if (arrays[i].dtype != arrays[0].dtype)
            status = qkv_fail(ctx, QKV_ARGUMENT, "%s: all tensors of a frame must have one type", path);
        bytes += arrays[i].bytes; /* build_header fails if the sum is too large */
    }
    if (!status) status = build_header(ctx, &header, path, entries, count, metadata, metadata_count);
    if (!status) status = write_frame(ctx, path, &header.text, bytes, replace);
    *data = header.text.size;
    qkv_json_free(&header);
    free(entries);
    return status;
}
