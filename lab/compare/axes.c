/* axes: what may vary. An axis turns a value into settings of the spec or options of training, in the form that
 * users write. */
#include <stdlib.h>
#include <string.h>

#include "lab/compare/compare_room.h"

/* ---- the axes ---------------------------------------------------------------------------------------------------- */

/* The names of a list, "relu, gelu, …". */
#define FIRST_FFN(name, text, help, activation, gated)               ", " text
#define FIRST_POSITION(name, text, help, file)                       ", " text
#define FIRST_PLACEMENT(name, text, help, file, final, norms, whole) ", " text
#define FIRST_NORM(name, text, help, file, final, norms, whole)      ", " text "-layer, " text "-rms"

static const char ffn_values[] =
    QKV_FFN_LIST(FIRST_FFN) ", moe:E:k, moe:E:k:S (a token uses k of E experts, and S shared ones that all tokens use)";
static const char position_values[] =
    QKV_POSITION_LIST(FIRST_POSITION) ", rope:half, rope:interleaved, rope:X (rotates the share X of a head)";
static const char norm_values[] = QKV_PLACEMENT_LIST(FIRST_PLACEMENT) QKV_PLACEMENT_LIST(FIRST_NORM);
static const struct known {
    const char *name, *values, *help;
} known[] = {
    {"kv", "mha, gqa:N (N key-value heads), mqa, mla, mla:R (a latent of width R)",
     "key-value heads, or a latent for keys and values"},
    {"share", "0, N (each layer that has keys and values is followed by N that read them)",
     "layers that share keys and values (attention.share)"},
    {"position", position_values + 2, "encoding of positions"},
    {"norm", norm_values + 2, "place of the norms, LayerNorm or RMSNorm, parallel sublayers"},
    {"ffn", ffn_values + 2, "feed-forward sublayer"},
};
enum { KNOWN = sizeof known / sizeof *known };

static const char *const trains[] = {"precision",   "optimizer",       "rate",       "min_rate",
                                     "warmup",      "schedule",        "beta1",      "beta2",
                                     "eps",         "momentum",        "clip",       "weight_decay",
                                     "dropout",     "label_smoothing", "accumulate", "checkpoint_activations",
                                     "decay_share", "average"};
enum { TRAINS = sizeof trains / sizeof *trains };

bool qkv_axis_at(size_t i, const char **name, const char **values, const char **help) {
    if (i >= KNOWN) return false;
    *name = known[i].name;
    *values = known[i].values;
    *help = known[i].help;
    return true;
}

bool qkv_axis_trains(const char *option) {
    for (size_t i = 0; i < TRAINS; i++)
        if (!strcmp(trains[i], option)) return true;
    return false;
}

static bool is_in(const char *list, const char *value) { /* whether the list ", a, b" has the value */
    size_t n = strlen(value);
    for (const char *at = list; (at = strstr(at, ", ")); at += 2)
        if (!strncmp(at + 2, value, n) && (at[2 + n] == ',' || at[2 + n] == 0)) return true;
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum qkv_status no_axis(struct qkv_context *ctx, const char *name) {
    char list[512];
    size_t used = 0;
    for (size_t i = 0; i < TRAINS; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", trains[i]);
    return qkv_fail(
        ctx, QKV_ARGUMENT,
        "there is no axis \"%.40s\"; there are kv, share, position, norm, ffn, the options of training %s, and keys of "
        "the spec (d_model, decoder.layers)",
        name, list);
}

static enum qkv_status no_value(struct qkv_context *ctx, const struct known *axis, const char *value) {
    return qkv_fail(ctx, QKV_ARGUMENT, "axis %s has no value \"%s\"; it has %s", axis->name, value, axis->values);
}

/* Reads a whole number after "gqa:", or a share in (0, 1] after "rope:". */
static bool read_tail(const char *value, const char *begin, double min, double max, bool whole, double *number) {
    size_t n = strlen(begin);
    char *end;
    if (strncmp(value, begin, n) != 0 || value[n] < '0' || value[n] > '9') return false;
    *number = strtod(value + n, &end);
    bool fits = *number > min && *number <= max;
    return !*end && fits && (!whole || *number == (double)(long)*number);
}

/* The numbers after "moe:": all experts, experts of a token, shared experts (0 if left out). */
enum { MOE_EXPERTS, MOE_CHOSEN, MOE_SHARED, MOE_NUMBERS, MOE_MAX = 1 << 16 };
static bool read_moe(const char *value, int numbers[MOE_NUMBERS]) {
    const char *at = value + strlen("moe");
    int count = 0;
    numbers[MOE_SHARED] = 0;
    if (strncmp(value, "moe", strlen("moe")) != 0) return false;
    for (; count < MOE_NUMBERS && at[0] == ':' && at[1] >= '0' && at[1] <= '9'; count++) {
        char *end;
        const long number = strtol(at + 1, &end, 10);
        if (number > MOE_MAX) return false;
        numbers[count] = (int)number;
        at = end;
    }
    return !*at && count > MOE_CHOSEN && numbers[MOE_CHOSEN] >= 1 && numbers[MOE_CHOSEN] <= numbers[MOE_EXPERTS];
}

enum { SHARE_MAX = QKV_LAYERS_MAX - 1 };
static bool is_value(const char *axis, const char *value) {
    static const char kv[] = ", mha, mqa, mla";
    double number;
    if (!strcmp(axis, "kv"))
        return is_in(kv, value) || read_tail(value, "gqa:", 0, 1e6, true, &number) ||
               read_tail(value, "mla:", 0, 1e6, true, &number);
    if (!strcmp(axis, "share")) return !strcmp(value, "0") || read_tail(value, "", 0, SHARE_MAX, true, &number);
    if (!strcmp(axis, "norm")) return is_in(norm_values, value);
    int moe[MOE_NUMBERS];
    if (!strcmp(axis, "ffn"))
        return read_moe(value, moe) || (strncmp(value, "moe", strlen("moe")) != 0 && is_in(ffn_values, value));
    return strcmp(value, "rope:X") != 0 &&
           (is_in(position_values, value) || read_tail(value, "rope:", 0, 1, false, &number));
}

/* Tries an option of training: the library knows its name, type and range. */
static enum qkv_status check_training(struct qkv_context *ctx, const char *name, const char *value) {
    struct qkv_train_options options;
    enum qkv_status status = qkv_train_defaults(ctx, NULL, &options);
    options.data = "-";
    options.rate = 1000; /* large, so that checks against other options pass until those are known */
    options.batch = 1 << 20;
    if (!status) status = qkv_train_set(ctx, &options, name, value);
    if (!strcmp(name, "warmup")) options.steps = options.warmup + 1;
    for (size_t i = 0; !status && qkv_train_option_at(i, NULL, NULL, NULL); i++)
        if (qkv_train_idle(&options, i, NULL)) return QKV_OK; /* whether it has an effect depends on the variant */
    return status ? status : qkv_train_check(ctx, &options);
}

static enum qkv_status check_key(struct qkv_context *ctx, const char *name, const char *value) {
    struct qkv_buffer text = {0};
    enum qkv_status status = qkv_buffer_print(ctx, &text, "%s=%s", name, value);
    if (!status) status = qkv_spec_check_settings(ctx, (const char *const[]){text.data}, 1);
    qkv_buffer_free(&text);
    return status;
}

static enum qkv_status check_value(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value) {
    if (!*value)
        return qkv_fail(ctx, QKV_ARGUMENT, "axis %s has an empty value; values are separated by single commas",
                        axis->name);
    for (size_t i = 0; i < axis->values.count; i++)
        if (!strcmp(axis->values.items[i], value))
            return qkv_fail(ctx, QKV_ARGUMENT, "axis %s has the value %s twice", axis->name, value);
    for (size_t i = 0; i < KNOWN; i++)
        if (!strcmp(known[i].name, axis->name))
            return is_value(axis->name, value) ? QKV_OK : no_value(ctx, &known[i], value);
    return qkv_axis_trains(axis->name) ? check_training(ctx, axis->name, value) : check_key(ctx, axis->name, value);
}

static enum qkv_status read_values(struct qkv_context *ctx, struct qkv_axis *axis, const char *text) {
    enum qkv_status status = QKV_OK;
    for (bool more = true; more && !status;) {
        size_t n = strcspn(text, ",");
        char *value = qkv_copy_bytes(ctx, text, n);
        status = value ? check_value(ctx, axis, value) : QKV_MEMORY;
        if (!status) status = qkv_texts_add(ctx, &axis->values, "%s", value);
        free(value);
        more = text[n] == ',';
        text += n + more;
    }
    return status;
}

/* Whether a spec has a key with this name at its top. */
static bool is_key(const char *axis) {
    const char *name;
    for (size_t i = 0; (name = qkv_spec_key_at(i)); i++)
        if (!strcmp(name, axis)) return true;
    return false;
}

enum qkv_status qkv_axis_parse(struct qkv_context *ctx, const char *text, struct qkv_axis *axis) {
    const char *equals = strchr(text, '=');
    bool found = false;
    *axis = (struct qkv_axis){0};
    axis->name = qkv_copy_bytes(ctx, text, equals ? (size_t)(equals - text) : strlen(text));
    if (!axis->name) return QKV_MEMORY;
    for (char *c = axis->name; *c; c++) /* also accepts weight-decay */
        if (*c == '-' && !strchr(axis->name, '.')) *c = '_';
    for (size_t i = 0; i < KNOWN; i++) found = found || !strcmp(known[i].name, axis->name);
    enum qkv_status status = QKV_OK;
    if (!found && !qkv_axis_trains(axis->name) && !strchr(axis->name, '.') && !is_key(axis->name))
        status = no_axis(ctx, axis->name);
    else if (!equals)
        status = qkv_fail(ctx, QKV_ARGUMENT, "axis %s has no values; write them after it: kv=mha,mqa", axis->name);
    if (!status) status = read_values(ctx, axis, equals + 1);
    if (status) qkv_axis_free(axis);
    return status;
}

void qkv_axis_free(struct qkv_axis *axis) {
    free(axis->name);
    qkv_texts_free(&axis->values);
    *axis = (struct qkv_axis){0};
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* The path of a kind of layer of the decoder: "decoder.kinds.local", or "decoder" if it has no name. */
static const char *axis_kind(const struct qkv_layer_spec *kind, char text[QKV_KIND_NAME + 16]) {
    snprintf(text, QKV_KIND_NAME + 16, "decoder%s%s", kind->name[0] ? ".kinds." : "", kind->name);
    return text;
}

static enum qkv_status apply_kv(struct qkv_context *ctx, const char *value, const struct qkv_layer_spec *kind,
                                struct qkv_texts *settings) {
    char where[QKV_KIND_NAME + 16];
    const bool latent = !strncmp(value, "mla", 3), given = kind->attention.latent.given;
    int heads = latent || !strcmp(value, "mha") ? kind->attention.heads
                : !strcmp(value, "mqa")         ? 1
                                                : atoi(value + strlen("gqa:"));
    enum qkv_status status = qkv_texts_add(ctx, settings, "%s.attention.kv_heads=%d", axis_kind(kind, where), heads);
    if (!status && latent && value[3])
        return qkv_texts_add(ctx, settings, "%s.attention.latent.rank=%s", where, value + strlen("mla:"));
    if (status || latent == given) return status;
    return qkv_texts_add(ctx, settings, "%s.attention.latent=%s", where, latent ? "{}" : "null");
}

/* Two kinds of layers that take turns: one that has keys and values, then those that read them. */
static enum qkv_status apply_share(struct qkv_context *ctx, const char *value, const struct qkv_stack_spec *s,
                                   struct qkv_texts *settings) {
    const long readers = strtol(value, NULL, 10);
    struct qkv_buffer pattern = {0};
    if (s->kinds[0].name[0])
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "axis share makes two kinds of layers, but the decoder has kinds already; compare "
                        "decoder.kinds.%s.attention.share instead",
                        s->kinds[s->kind_count - 1].name);
    if (s->layers % (readers + 1) != 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "axis share: groups of 1 + %ld layers do not divide decoder.layers, %d (choose another number "
                        "of layers, or of layers that share)",
                        readers, s->layers);
    if (!readers) return QKV_OK;
    enum qkv_status status = qkv_buffer_print(ctx, &pattern, "decoder.pattern=[\"own\"");
    for (long i = 0; i < readers && !status; i++) status = qkv_buffer_print(ctx, &pattern, ",\"reads\"");
    if (!status) status = qkv_texts_add(ctx, settings, "%s]", pattern.data);
    qkv_buffer_free(&pattern);
    if (status) return status;
    return qkv_texts_add(ctx, settings, "decoder.kinds={\"own\":{},\"reads\":{\"attention\":{\"share\":1}}}");
}

static enum qkv_status apply_position(struct qkv_context *ctx, const char *value, struct qkv_texts *settings) {
    const char *tail = strchr(value, ':');
    enum qkv_status status = qkv_texts_add(ctx, settings, "position.kind=%.*s", (int)strcspn(value, ":"), value);
    if (status || !tail) return status;
    bool number = tail[1] >= '0' && tail[1] <= '9';
    return qkv_texts_add(ctx, settings, "position.%s=%s", number ? "fraction" : "pairing", tail + 1);
}

static enum qkv_status apply_norm(struct qkv_context *ctx, const char *value, const struct qkv_layer_spec *kind,
                                  bool last, struct qkv_texts *settings) {
    char where[QKV_KIND_NAME + 16];
    axis_kind(kind, where);
#define PLACEMENT_TEXT(name, text, help, file, final, norms, whole)  text,
#define PLACEMENT_FINAL(name, text, help, file, final, norms, whole) final,
    static const char *const texts[] = {QKV_PLACEMENT_LIST(PLACEMENT_TEXT)};
    static const bool final[] = {QKV_PLACEMENT_LIST(PLACEMENT_FINAL)};
    const char *dash = strrchr(value, '-');
    const bool rms = dash && !strcmp(dash, "-rms"), kind_too = rms || (dash && !strcmp(dash, "-layer"));
    const size_t n = kind_too ? (size_t)(dash - value) : strlen(value);
    enum qkv_status status = qkv_texts_add(ctx, settings, "%s.norm.placement=%.*s", where, (int)n, value);
    for (int i = 0; i < QKV_PLACEMENT_COUNT && last && !status;
         i++) /* not every form has a norm after the last layer */
        if (strlen(texts[i]) == n && !strncmp(texts[i], value, n))
            status = qkv_texts_add(ctx, settings, "%s.norm.final=%s", where, final[i] ? "true" : "false");
    if (status || !kind_too) return status;
    status = qkv_texts_add(ctx, settings, "%s.norm.kind=%s", where, rms ? "rmsnorm" : "layernorm");
    return status || !rms ? status : qkv_texts_add(ctx, settings, "%s.norm.bias=false", where);
}

/* QKV_FFN_COUNT for an unknown kind, which the spec refuses later. */
static enum qkv_ffn_kind ffn_of(const char *kind) {
#define FFN_TEXT(name, text, help, activation, gated) text,
    static const char *const texts[] = {QKV_FFN_LIST(FFN_TEXT)};
    for (int i = 0; i < QKV_FFN_COUNT; i++)
        if (!strcmp(texts[i], kind)) return (enum qkv_ffn_kind)i;
    return QKV_FFN_COUNT;
}

/* The width at which a feed-forward of another kind has as many weights as a token uses now. Gated kinds have three
 * matrices where the others have two (Shazeer 2020, "GLU variants improve transformer"). */
static long ffn_width_as(const struct qkv_ffn_spec *ffn, enum qkv_ffn_kind other, int d_model) {
    enum { MULTIPLE = 8 };
    const struct qkv_experts_spec *experts = &ffn->experts;
    const bool from = qkv_ffn_gated(ffn->kind), to = qkv_ffn_gated(other);
    const double now = experts->given ? (double)ffn->d_ff * experts->top_k + experts->shared : ffn->d_ff;
    if (from == to) return (long)now;
    if (!experts->given && ffn->d_ff == qkv_ffn_width(ffn->kind, d_model))
        return qkv_ffn_width(other, d_model); /* a default width stays a default */
    const long rounded = (long)(now * (to ? 2.0 / 3 : 1.5) / MULTIPLE + 0.5) * MULTIPLE;
    return rounded > 0 ? rounded : MULTIPLE;
}

/* Replaces a feed-forward by experts of the same active width. The softmax scores of the chosen experts are divided
 * by their sum, so k experts of 1/k of the width average what one feed-forward adds up: the result is 1/k as large.
 * The scale k restores the size at the beginning, and with it the share of the shared experts. */
static enum qkv_status apply_moe(struct qkv_context *ctx, const int moe[MOE_NUMBERS], const struct qkv_layer_spec *kind,
                                 int d_model, struct qkv_texts *settings) {
    enum { MULTIPLE = 4 };
    char where[QKV_KIND_NAME + 16];
    const enum qkv_ffn_kind gated = qkv_ffn_gated(kind->ffn.kind) ? kind->ffn.kind : QKV_FFN_SWIGLU;
    const double width = (double)ffn_width_as(&kind->ffn, gated, d_model) / (moe[MOE_CHOSEN] + moe[MOE_SHARED]);
    const long rounded = (long)(width / MULTIPLE + 0.5) * MULTIPLE, d_ff = rounded > 0 ? rounded : MULTIPLE;
    axis_kind(kind, where);
    enum qkv_status status = QKV_OK;
    if (gated != kind->ffn.kind) status = qkv_texts_add(ctx, settings, "%s.ffn.kind=swiglu", where);
    if (!status) status = qkv_texts_add(ctx, settings, "%s.ffn.d_ff=%ld", where, d_ff);
    if (status) return status;
    return qkv_texts_add(ctx, settings, "%s.ffn.experts={\"count\": %d, \"top_k\": %d, \"scale\": %d, \"shared\": %ld}",
                         where, moe[MOE_EXPERTS], moe[MOE_CHOSEN], moe[MOE_CHOSEN], d_ff * moe[MOE_SHARED]);
}

static enum qkv_status apply_ffn(struct qkv_context *ctx, const char *value, const struct qkv_layer_spec *kind,
                                 int d_model, struct qkv_texts *settings) {
    char where[QKV_KIND_NAME + 16];
    int moe[MOE_NUMBERS];
    if (read_moe(value, moe)) return apply_moe(ctx, moe, kind, d_model, settings);
    axis_kind(kind, where);
    const enum qkv_ffn_kind other = ffn_of(value);
    const bool experts = kind->ffn.experts.given;
    enum qkv_status status = qkv_texts_add(ctx, settings, "%s.ffn.kind=%s", where, value);
    if (!status && experts) status = qkv_texts_add(ctx, settings, "%s.ffn.experts=null", where);
    if (status || other == QKV_FFN_COUNT) return status;
    if (!experts && qkv_ffn_gated(kind->ffn.kind) == qkv_ffn_gated(other)) return status;
    return qkv_texts_add(ctx, settings, "%s.ffn.d_ff=%ld", where, ffn_width_as(&kind->ffn, other, d_model));
}

enum qkv_status qkv_axis_apply(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value,
                               const struct qkv_spec *base, struct qkv_texts *settings, struct qkv_texts *training) {
    const struct qkv_stack_spec *s = &base->decoder;
    bool kv = !strcmp(axis->name, "kv"), norm = !strcmp(axis->name, "norm"), ffn = !strcmp(axis->name, "ffn");
    enum qkv_status status = QKV_OK;
    if (!strcmp(axis->name, "position")) return apply_position(ctx, value, settings);
    if (!strcmp(axis->name, "share")) return apply_share(ctx, value, s, settings);
    for (int i = 0; (kv || norm || ffn) && i < s->kind_count && !status; i++) {
        const struct qkv_layer_spec *kind = &s->kinds[i];
        bool last = kind == qkv_stack_layer(s, (size_t)s->layers - 1);
        status = kv     ? apply_kv(ctx, value, kind, settings)
                 : norm ? apply_norm(ctx, value, kind, last, settings)
                        : apply_ffn(ctx, value, kind, qkv_stack_width(base, s), settings);
    }
    if (kv || norm || ffn) return status;
    return qkv_texts_add(ctx, qkv_axis_trains(axis->name) ? training : settings, "%s=%s", axis->name, value);
}

enum qkv_status qkv_axis_name(struct qkv_context *ctx, const struct qkv_axis *axis, const char *value,
                              struct qkv_buffer *name) {
    const char *space = name->size ? " " : "";
    for (size_t i = 0; i < KNOWN; i++)
        if (!strcmp(known[i].name, axis->name)) return qkv_buffer_print(ctx, name, "%s%s", space, value);
    if (!strcmp(axis->name, "precision") || !strcmp(axis->name, "optimizer") || !strcmp(axis->name, "schedule"))
        return qkv_buffer_print(ctx, name, "%s%s", space, value);
    const char *dot = strrchr(axis->name, '.');
    return qkv_buffer_print(ctx, name, "%s%s=%s", space, dot ? dot + 1 : axis->name, value);
}
