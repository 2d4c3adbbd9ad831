/* model_grid.h: random specs over the whole grid, in all three topologies, each with a model of random weights and a
 * batch. */
#ifndef QKV_MODEL_GRID_H
#define QKV_MODEL_GRID_H

#include "test.h"
#include "weights.h"

enum { B = 3, T = 11, CONTEXT = 16, VOCAB = 23 };

/* ---- random specs of the decoder grid --------------------------------------------------------------------------- */

static inline const char *pick(struct qkv_random *r, const char *const *list, size_t n) {
    return list[qkv_random_below(r, n)];
}
#define PICK(r, ...) pick(r, (const char *const[]){__VA_ARGS__}, TEST_COUNT(((const char *const[]){__VA_ARGS__})))

/* The kinds of the library's own lists. */
#define GRID_POSITION(name, text, help, file)                       text,
#define GRID_TEXT(name, text, help)                                 text,
#define GRID_PLACEMENT(name, text, help, file, final, norms, whole) text,
#define GRID_FFN(name, text, help, activation, gated)               text,
#define GRID_NORM(name, text, help, centered, offset)               text,
#define GRID_BIAS(name, text, help, parts)                          text,
#define GRID_NORM_OVER(name, text, help)                            text,
#define GRID_SCALING(name, text, help, by_length)                   text,
enum { GRID_POSITION_TEXT = 520 };

/* A scaling for a rotation of this many pairs; 0: for heads of several widths, the smallest of which has `least`
 * pairs. Lengths of the grid lie on both sides of original_context. */
static inline const char *random_scaling(struct qkv_random *r, size_t pairs, size_t least,
                                         char out[GRID_POSITION_TEXT]) {
    const char *kind = PICK(r, QKV_SCALING_LIST(GRID_SCALING));
    char lists[2][120] = {"[", "["}, original[40] = "", factors[300] = "";
    if (!strcmp(kind, "longrope") && !pairs) kind = "yarn"; /* its lists are of one width */
    if ((!strcmp(kind, "ntk") || !strcmp(kind, "dynamic")) && least < 2) kind = "linear";
    if (strcmp(kind, "linear") && strcmp(kind, "ntk"))
        snprintf(original, sizeof original, ", \"original_context\": %zu", test_between(r, 3, 12));
    for (size_t k = 0; k < 2; k++)
        for (size_t j = 0, used = 1; j < pairs && used < sizeof lists[k]; j++)
            used += (size_t)snprintf(lists[k] + used, sizeof lists[k] - used, "%s%.3g", j ? ", " : "",
                                     1 + 3 * qkv_random_uniform(r));
    if (!strcmp(kind, "longrope"))
        snprintf(factors, sizeof factors, ", \"short\": %s], \"long\": %s]", lists[0], lists[1]);
    snprintf(out, GRID_POSITION_TEXT, ", \"scaling\": {\"kind\": \"%s\", \"factor\": %s%s%s%s}", kind,
             PICK(r, "1.5", "4.0"), original, factors, PICK(r, "", ", \"attention_factor\": 1.25"));
    return out;
}

/* {"kind": …} of a position; rope also in another way. head_dim: of the attention; 0: of several. */
static inline const char *random_position(struct qkv_random *r, bool embedding, size_t head_dim,
                                          char out[GRID_POSITION_TEXT]) {
    const char *kind = embedding ? PICK(r, QKV_EMBED_POSITION_LIST(GRID_POSITION) "none")
                                 : PICK(r, QKV_ATTENTION_POSITION_LIST(GRID_POSITION) "none", "rope");
    char scaling[GRID_POSITION_TEXT] = "";
    const char *more = "";
    const bool rope = !strcmp(kind, "rope"), turned = rope && qkv_random_below(r, 2);
    if (turned) more = ", \"theta\": 50, \"pairing\": \"interleaved\", \"fraction\": 0.5";
    if (rope && qkv_random_below(r, 2))
        random_scaling(r, head_dim / (turned ? 4 : 2), (head_dim ? head_dim : 4) / (turned ? 4 : 2), scaling);
    if (!strcmp(kind, "buckets"))
        more = PICK(r, ", \"buckets\": 8, \"max_distance\": 9",
                    ", \"buckets\": 8, \"max_distance\": 9, \"per_layer\": true");
    if (!strcmp(kind, "relative"))
        more = PICK(r, ", \"max_distance\": 4", ", \"max_distance\": 4, \"per_layer\": true");
    if (!strcmp(kind, "alibi"))
        more = PICK(r, "", ", \"learn\": true", ", \"learn\": true, \"per_layer\": true",
                    ", \"form\": \"mpt\", \"max\": 4", ", \"form\": \"falcon\"");
    snprintf(out, GRID_POSITION_TEXT, "{\"kind\": \"%s\"%s%.400s}", kind, more, scaling);
    return out;
}

/* Differences do not measure slopes across the kinks of ReLU and of clipping, so gradients are checked without them
 * here; test_op and the golden cases check them. */
static bool smooth_only;

#define GRID_KINK(name, text, help, activation, gated) || (!strcmp(kind, text) && !strcmp(#activation, "relu"))
static inline const char *random_ffn(struct qkv_random *r) {
    const char *kind;
    do {
        kind = PICK(r, QKV_FFN_LIST(GRID_FFN));
    } while (smooth_only && (false QKV_FFN_LIST(GRID_KINK)));
    return kind;
}

/* Specs of version 1 only, for tests that change the number of layers by hand. */
static bool one_kind_only;

/* As JSON; with `together`, keys and values both have a bias or neither has. */
static inline const char *random_bias(struct qkv_random *r, bool together, char out[16]) {
    const char *kind;
    do {
        kind = PICK(r, QKV_BIAS_LIST(GRID_BIAS));
    } while (together && strcmp(kind, "true") && strcmp(kind, "false") && !strchr(kind, 'k') != !strchr(kind, 'v'));
    const bool bare = !strcmp(kind, "true") || !strcmp(kind, "false");
    snprintf(out, 16, bare ? "%s" : "\"%s\"", kind);
    return out;
}

/* {"kind": …} of norms of queries and keys, or null. A small eps would leave only rounding of a few numbers that are
 * almost equal. */
static inline const char *random_qk_norm(struct qkv_random *r, char out[160]) {
    const char *kind = PICK(r, QKV_NORM_LIST(GRID_NORM)), *weight = PICK(r, "true", "true", "false");
    const char *over = PICK(r, QKV_NORM_OVER_LIST(GRID_NORM_OVER));
    const bool biased = !strncmp(kind, "layernorm", 9) && !strcmp(weight, "true") && qkv_random_below(r, 2);
    snprintf(out, 160, "{\"kind\": \"%s\", \"eps\": 0.1, \"weight\": %s, \"bias\": %s, \"over\": \"%s\"%s}", kind,
             weight, biased ? "true" : "false", over, PICK(r, "", ", \"after_rotation\": true"));
    return qkv_random_below(r, 3) ? "null" : out;
}

/* For tests that hold with latents, too: for calls with a cache and for passes; for comparisons of the two only
 * if they allow a difference. */
static bool latents_too;

/* , "latent": {…} of heads with a rotation of `turned` channels, or with other numbers where none turns. */
static inline const char *random_latent(struct qkv_random *r, size_t turned, bool rotated, char out[120]) {
    snprintf(out, 120, ", \"latent\": {\"rank\": %s, \"query_rank\": %s, \"rope_dim\": %zu, \"eps\": 0.1}",
             PICK(r, "7", "12", "3"), PICK(r, "0", "6", "11"), rotated ? turned : test_between(r, 0, turned));
    return out;
}

/* The processing of q, k and v before attention, and the right side of a window for queries that see later keys. */
static inline const char *random_projections(struct qkv_random *r, bool causal, const char *latent, char out[300]) {
    char norm[160];
    snprintf(out, 300, ", \"qk_norm\": %s%s%s%s", latent ? "null" : random_qk_norm(r, norm), latent ? latent : "",
             latent || smooth_only ? "" : PICK(r, "", "", ", \"clip\": 1.5"),
             causal ? "" : PICK(r, "", "", ", \"window_right\": 1", ", \"window_right\": 3"));
    const size_t used = strlen(out);
    snprintf(out + used, 300 - used, "%s%s", PICK(r, "", "", ", \"chunk\": 4", ", \"chunk\": 7"),
             PICK(r, "", "", ", \"temperature\": {\"length\": 3, \"beta\": 0.7}",
                  ", \"temperature\": {\"length\": 2, \"offset\": 1}"));
    return out;
}

/* {…} of experts, or null. A gradient by differences must not change the choice of experts, so all of them are
 * chosen there; nor their order, on which the weights of sparsemixer depend: test_route checks those. */
static inline const char *random_experts(struct qkv_random *r, char out[340]) {
    const char *scores, *group = PICK(r, QKV_GROUP_SCORE_LIST(GRID_TEXT));
    do scores = PICK(r, QKV_EXPERT_SCORES_LIST(GRID_TEXT));
    while (smooth_only && !strcmp(scores, "sparsemixer"));
    char groups[80] = "", shared[60] = "";
    const char *more = "";
    const char *k = smooth_only ? "4" : PICK(r, "1", "2", "3", "4");
    if (*k <= '2' && qkv_random_below(r, 2))
        snprintf(groups, sizeof groups, ", \"groups\": 2, \"top_groups\": %s, \"group_score\": \"%s\"",
                 PICK(r, "1", "2"), group);
    if (!strcmp(scores, "sparsemixer"))
        more = PICK(r, "", ", \"margin\": 2.5", ", \"margin\": 0.6");
    else if (strcmp(scores, "chosen"))
        more = PICK(r, "", ", \"normalize\": false");
    if (qkv_random_below(r, 2))
        snprintf(shared, sizeof shared, ", \"shared\": 7, \"shared_gate\": %s", PICK(r, "true", "false"));
    snprintf(out, 340,
             "{\"count\": 4, \"top_k\": %s, \"scores\": \"%s\"%s, \"scale\": %s, \"bias\": %s, \"unbiased\": %s, "
             "\"correction\": %s%s%s, "
             "\"scale_inputs\": %s, \"balance_loss\": 0, \"z_loss\": 0}",
             k, scores, more, PICK(r, "1.0", "1.7"), PICK(r, "true", "false"), PICK(r, "false", "true"),
             PICK(r, "true", "false"), groups, shared, PICK(r, "true", "false"));
    return qkv_random_below(r, 3) ? "null" : out;
}

/* A kind of layer, without its braces; `own_position`: of version 2, which has it in the attention. */
static inline void random_kind(struct qkv_random *r, char *out, size_t size, bool own_position, bool causal,
                               bool beside_encoder) {
    size_t kv[] = {4, 2, 1};
    const char *norm = PICK(r, QKV_NORM_LIST(GRID_NORM)), *weight = PICK(r, "true", "true", "true", "false");
    const bool biased = !strncmp(norm, "layernorm", 9) && !strcmp(weight, "true") && qkv_random_below(r, 2);
    char text[GRID_POSITION_TEXT], bias[16], projections[300], of_latent[120], experts[340];
    enum { TURNED = 4 }; /* of latents */
    const bool latent = latents_too && !qkv_random_below(r, 3);
    const size_t head_dim = 2 * test_between(r, latent ? TURNED / 2 + 1 : 2, 5);
    const char *position = random_position(r, false, latent ? TURNED : head_dim, text), *ffn = random_ffn(r),
               *placement = PICK(r, QKV_PLACEMENT_LIST(GRID_PLACEMENT));
    const bool rotated = !own_position || strstr(position, "\"rope\"");
    const bool shared = !strcmp(placement, "parallel"); /* all sublayers read the norm of attention */
    /* Nor across a clamp. */
    const char *limit = !strcmp(ffn, "swiglu_clamped") && !smooth_only ? ", \"limit\": 0.8" : "";
    snprintf(
        out, size,
        "\"attention\": {\"heads\": 4, \"kv_heads\": %zu, \"head_dim\": %zu, \"value_dim\": %zu, "
        "\"window\": %d, \"softcap\": %s, \"bias\": %s%s%s%s%s}, \"norm\": {\"kind\": \"%s\", \"placement\": \"%s\", "
        "\"final\": %s, \"weight\": %s, \"bias\": %s%s}, \"ffn\": {\"kind\": \"%s\", \"d_ff\": %s, \"bias\": %s%s, "
        "\"experts\": %s}%s%s",
        latent ? 4 : kv[qkv_random_below(r, 3)], head_dim, test_between(r, 3, 9),
        qkv_random_below(r, 3) ? 0 : (int)test_between(r, 1, 5), PICK(r, "0.0", "0.0", "3.0"),
        random_bias(r, latent, bias),
        PICK(r, "", ", \"scale\": 0.3", ", \"sinks\": true", ", \"scale\": 0.4, \"sinks\": true"),
        random_projections(r, causal, latent ? random_latent(r, TURNED, rotated, of_latent) : NULL, projections),
        own_position ? ", \"position\": " : "", own_position ? position : "", norm, placement, PICK(r, "true", "false"),
        weight, biased ? "true" : "false", shared ? "" : PICK(r, "", "", ", \"attention\": false"), ffn,
        PICK(r, "24", "10"), PICK(r, "true", "false"), limit, random_experts(r, experts),
        PICK(r, "", "", ", \"residual_scale\": 0.6"),
        beside_encoder && !shared && !qkv_random_below(r, 3) ? ", \"cross_only\": true" : "");
}

/* In version 2 two or three kinds, which take turns, or one whose layers share weights. */
static inline void random_stack(struct qkv_random *r, char *out, size_t size, int version, bool causal,
                                bool beside_encoder) {
    char kinds[3][2000];
    for (size_t i = 0; i < 3; i++) random_kind(r, kinds[i], sizeof kinds[i], version == 2, causal, beside_encoder);
    const char *share = one_kind_only ? "" : PICK(r, "", "", ", \"share\": 1");
    if (version == 1)
        snprintf(out, size, "{\"layers\": 2%s, %s}", share, kinds[0]);
    else if (!qkv_random_below(r, 4))
        snprintf(out, size, "{\"layers\": 4, \"share\": %s, %s}", PICK(r, "1", "2", "3"), kinds[0]);
    else if (!qkv_random_below(r, 3) &&
             !strstr(kinds[0], "cross_only")) /* layers that read keys and values of others */
        snprintf(out, size,
                 "{\"layers\": 4, \"pattern\": [\"own\", \"%s\", \"reads\", \"own\"], %s, \"kinds\": {\"own\": {}, "
                 "\"reads\": {\"attention\": {\"share\": 1}}}}",
                 PICK(r, "own", "reads"), kinds[0]);
    else if (qkv_random_below(r, 2))
        snprintf(out, size,
                 "{\"layers\": 3, \"pattern\": [\"a\", \"b\", \"a\"], \"kinds\": {\"a\": {%s}, \"b\": {%s}}}", kinds[0],
                 kinds[1]);
    else
        snprintf(
            out, size,
            "{\"layers\": 3, \"pattern\": [\"c\", \"a\", \"b\"], \"kinds\": {\"a\": {%s}, \"b\": {%s}, \"c\": {%s}}}",
            kinds[0], kinds[1], kinds[2]);
}

/* The keys of an lm head except its kind; often none. With a tied head, a transform is as wide as the embedding. */
static inline void random_head(struct qkv_random *r, bool tied, char out[400]) {
    char transform[300] = "", norm[120] = "null";
    const char *activation;
    do {
        activation = PICK(r, QKV_FFN_LIST(GRID_FFN) "none");
    } while (strstr(activation, "glu") || (smooth_only && !strncmp(activation, "relu", 4)));
    if (qkv_random_below(r, 2))
        snprintf(norm, sizeof norm, "{\"kind\": \"%s\", \"weight\": %s}", PICK(r, QKV_NORM_LIST(GRID_NORM)),
                 PICK(r, "true", "false"));
    if (!qkv_random_below(r, 3))
        snprintf(transform, sizeof transform,
                 ", \"transform\": {\"width\": %s, \"activation\": \"%s\", \"bias\": %s, \"norm\": %s}",
                 tied ? "20" : PICK(r, "20", "13"), activation, PICK(r, "true", "false"), norm);
    snprintf(out, 400, "\"bias\": %s%s%s%s", PICK(r, "true", "false"), transform, PICK(r, "", "", ", \"scale\": 0.6"),
             PICK(r, "", "", ", \"softcap\": 2.5"));
}

enum topology { DECODER, ENCODER, BOTH };

/* {…} of an embedding in version 2; its tokens are `width` wide, 0: as wide as the model. `masks`: no stack with it is
 * causal, so it may scale by masks. */
static inline const char *random_embedding(struct qkv_random *r, int width, bool masks, char out[500]) {
    char position[120], layout[60] = "", offset[40] = "", norm[120] = "null", narrow[80] = "", masked[60] = "";
    const char *kind = PICK(r, QKV_EMBED_POSITION_LIST(GRID_POSITION) "none"),
               *of_norm = PICK(r, QKV_NORM_LIST(GRID_NORM));
    if (!strcmp(kind, "sinusoidal"))
        snprintf(layout, sizeof layout, ", \"layout\": \"%s\"", PICK(r, QKV_SINUSOID_LIST(GRID_TEXT)));
    if (strcmp(kind, "none")) snprintf(offset, sizeof offset, ", \"offset\": %s", PICK(r, "0", "2", "7"));
    snprintf(position, sizeof position, "{\"kind\": \"%s\"%s%s}", kind, layout, offset);
    if (qkv_random_below(r, 2))
        snprintf(norm, sizeof norm, "{\"kind\": \"%s\", \"eps\": 1e-3, \"weight\": %s}%s", of_norm,
                 PICK(r, "true", "true", "false"), PICK(r, "", "", ", \"norm_tokens\": true"));
    if (width)
        snprintf(narrow, sizeof narrow, ", \"bias\": %s, \"project\": \"%s\"", PICK(r, "true", "false"),
                 PICK(r, QKV_PROJECT_LIST(GRID_TEXT)));
    if (masks && qkv_random_below(r, 2))
        snprintf(masked, sizeof masked, ", \"masked\": {\"token\": %s%s}", PICK(r, "3", "11"),
                 PICK(r, "", ", \"share\": 0.3"));
    snprintf(out, 500, "{\"position\": %s, \"scale\": %s, \"types\": %s, \"norm\": %s, \"width\": %d%s%s}", position,
             PICK(r, "1.0", "4.5"), PICK(r, "0", "1", "3"), norm, width, narrow, masked);
    return out;
}

static inline void random_spec(struct qkv_context *ctx, struct qkv_random *r, enum topology topology,
                               struct qkv_spec *spec) {
    char decoder[6300] = "null", encoder[7100] = "null", embedding[800], head[400], json[16200], text[500];
    const int version = qkv_random_below(r, 2) && !one_kind_only ? 2 : 1;
    const int width = version == 2 && !qkv_random_below(r, 3) ? 6 : 0;
    int own = width, C = 20;
    if (topology != ENCODER) {
        random_stack(r, decoder, sizeof decoder, version, true, topology == BOTH);
    }
    if (topology != DECODER) {
        random_stack(r, encoder, sizeof encoder, version, false, false);
    }
    char texts[2][GRID_POSITION_TEXT];
    const char *added = random_position(r, true, 0, texts[0]), *other = random_position(r, false, 0, texts[1]);
    if (version == 1)
        snprintf(embedding, sizeof embedding, "\"position\": %s, \"embed_scale\": %s", PICK(r, added, other),
                 PICK(r, "1.0", "4.5"));
    else
        snprintf(embedding, sizeof embedding, "\"embed\": %s", random_embedding(r, width, topology == ENCODER, text));
    if (version == 2 && topology == BOTH && qkv_random_below(r, 2)) { /* an embedding of its own */
        const size_t end = strlen(encoder) - 1;
        own = qkv_random_below(r, 2) ? 6 : 0;
        snprintf(encoder + end, sizeof encoder - end, ", \"embed\": %s}", random_embedding(r, own, true, text));
    }
    if (version == 2 && topology == BOTH && qkv_random_below(r, 2)) { /* and a width */
        const size_t end = strlen(encoder) - 1;
        C = 12;
        snprintf(encoder + end, sizeof encoder - end, ", \"d_model\": %d}", C);
    }
    const bool one_table = topology == BOTH && !width && (own ? own : C) == 20;
    const char *tie = width ? "none" : one_table ? PICK(r, "none", "head", "all", "stacks") : PICK(r, "none", "head");
    random_head(r, *tie == 'h' || *tie == 'a', head);
    snprintf(json, sizeof json,
             "{\"format\": \"qkv\", \"version\": %d, \"vocab\": %d, \"d_model\": 20, \"context\": %d, %s, "
             "\"tie\": \"%s\", \"head\": {\"kind\": \"lm\", %s}, \"encoder\": %s, \"decoder\": %s}",
             version, VOCAB, CONTEXT, embedding, tie, head, encoder, decoder);
    if (qkv_spec_parse(ctx, spec, "grid", json, strlen(json), NULL, 0)) {
        fail_msg("%s\n%s", qkv_message(ctx), json);
    }
}

/* Dropout everywhere that a spec can have it, inside feed-forwards by another share. */
static inline void drop_everywhere(struct qkv_spec *spec, double p) {
    spec->dropout = p;
    for (int k = 0; k < spec->encoder.kind_count; k++)
        spec->encoder.kinds[k].residual_dropout = p / 3,
        spec->encoder.kinds[k].ffn.dropout = spec->encoder.kinds[k].ffn.experts.given ? 0 : p / 2;
    for (int k = 0; k < spec->decoder.kind_count; k++)
        spec->decoder.kinds[k].attention.dropout = p / 3,
        spec->decoder.kinds[k].ffn.dropout = spec->decoder.kinds[k].ffn.experts.given ? 0 : p / 2;
}

struct sample {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_random random;
    int32_t ids[B * T], targets[B * T], source[B * T], lengths[B], source_lengths[B];
    struct qkv_batch batch;
};

/* A random batch, ragged in both stacks. */
static inline void fill_batch(struct sample *s) {
    for (size_t n = 0; n < (size_t)B * T; n++) {
        s->ids[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
        s->source[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
        s->targets[n] = qkv_random_below(&s->random, 5) ? (int32_t)qkv_random_below(&s->random, VOCAB) : QKV_IGNORE;
    }
    for (size_t b = 0; b < B; b++) {
        s->lengths[b] = b == 0 ? T : (int32_t)test_between(&s->random, 0, T);
        s->source_lengths[b] = b == 0 ? T : (int32_t)test_between(&s->random, 0, T);
    }
    s->batch = (struct qkv_batch){.B = B,
                                  .T = T,
                                  .ids = s->ids,
                                  .lengths = s->lengths,
                                  .targets = s->targets,
                                  .source_T = T,
                                  .source = s->source,
                                  .source_lengths = s->source_lengths};
}

static inline void start(struct sample *s, uint64_t stream, enum topology topology,
                         const struct qkv_context_options *options) {
    memset(s, 0, sizeof *s);
    s->random = test_random(stream);
    assert_int_equal(qkv_context_create(&s->ctx, options), QKV_OK);
    OWNED_SPEC struct qkv_spec spec = {0};
    random_spec(s->ctx, &s->random, topology, &spec);
    if (qkv_model_create(s->ctx, &spec, qkv_random_bits(&s->random), &s->model)) {
        fail_msg("%s", qkv_message(s->ctx));
    }
    for (size_t i = 0; i < qkv_model_parameters(s->model);
         i++) { /* larger than at the start, so that everything matters */
        float *w = test_weights_mutable(s->model, i);
        const struct qkv_array *p = qkv_model_parameter(s->model, i);
        for (size_t k = 0; k < qkv_array_elements(p); k++) {
            w[k] += 0.2F * (float)qkv_random_normal(&s->random);
        }
    }
    fill_batch(s);
}

static inline void finish(struct sample *s) {
    qkv_model_free(s->model);
    qkv_context_free(s->ctx);
}

static inline void copy_weights(struct qkv_model *to, struct qkv_model *from) {
    for (size_t i = 0; i < qkv_model_parameters(to); i++)
        memcpy(test_weights_mutable(to, i), test_weights(from, i),
               qkv_array_elements(qkv_model_parameter(to, i)) * sizeof(float));
}

/* A model of another spec with the same weights. */
static inline struct qkv_model *model_like(struct sample *s, const struct qkv_spec *spec) {
    struct qkv_model *model;
    assert_int_equal(qkv_model_create(s->ctx, spec, 1, &model), QKV_OK);
    copy_weights(model, s->model);
    return model;
}

/* Buckets of distances are others without causal: half of them are of later keys then. */
static inline bool has_buckets(const struct qkv_stack_spec *stack) {
    for (int k = 0; k < stack->kind_count; k++)
        if (stack->kinds[k].attention.position.kind == QKV_POSITION_BUCKETS) return true;
    return false;
}

/* A session whose rotations are those of a pass over `length` positions. */
static inline struct qkv_session *make_session(struct qkv_model *model, size_t length) {
    struct qkv_session *session;
    if (qkv_session_create(model, &QKV_OPTIONS(qkv_session_options, .length = length), &session))
        fail_msg("%s", qkv_message(qkv_model_context(model)));
    return session;
}

static inline struct qkv_pass *make_pass(struct sample *s, bool train) {
    struct qkv_pass *pass;
    struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .source_T = T, .train = train, .logits = true};
    if (qkv_pass_create(s->model, &o, &pass)) {
        fail_msg("%s", qkv_message(s->ctx));
    }
    return pass;
}

static inline double forward(struct sample *s, struct qkv_pass *pass) {
    if (qkv_pass_forward(pass, &s->batch)) {
        fail_msg("%s", qkv_message(s->ctx));
    }
    return qkv_pass_loss(pass, NULL);
}

static inline float *copy_output(struct qkv_pass *pass) {
    struct qkv_array y = qkv_pass_output(pass);
    float *copy = malloc(y.bytes);
    memcpy(copy, y.data, y.bytes);
    return copy;
}

/* All gradients, one parameter after the other. The caller frees them. */
static inline float *copy_gradients(struct qkv_model *model, size_t *count) {
    *count = 0;
    for (size_t p = 0; p < qkv_model_parameters(model); p++)
        *count += qkv_array_elements(qkv_model_parameter(model, p));
    float *all = calloc(*count, sizeof *all), *to = all;
    for (size_t p = 0; p < qkv_model_parameters(model); p++) {
        const size_t n = qkv_array_elements(qkv_model_parameter(model, p));
        memcpy(to, test_gradient(model, p), n * sizeof *to);
        to += n;
    }
    return all;
}

/* The same, and clears the model's gradients. */
static inline float *take_gradients(struct sample *s, size_t *count) {
    float *all = copy_gradients(s->model, count);
    qkv_model_clear_gradients(s->model);
    return all;
}

#endif
