/* engine_crowd.h: models of all kinds that an engine serves, and requests that use all that a request can ask for. */
#ifndef QKV_ENGINE_CROWD_H
#define QKV_ENGINE_CROWD_H

#include "search_fixture.h"

#include "generate/engine.h"

enum { CROWD_CONTEXT = 640, CROWD_TEXT = 600, CROWD_ANSWERS = 4, CROWD_FORMS = 3, CROWD_ADAPTERS = 2, CROWD_TOP = 3 };
enum { CROWD_LONGEST_SECOND = 50, CROWD_BEAM_TEXT = 60, CROWD_BEAM_TOKENS = 40 };

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct crowd_asked {
    enum qkv_engine_kind kind;
    size_t adapter; /* 0: none */
    char text[CROWD_TEXT + 1], second[CROWD_LONGEST_SECOND + 1];
    const char *target; /* the language of a translation; NULL: the model's own */
    bool pair, searches, log_probabilities, prompt_probabilities;
    struct qkv_generate_options options;
    const char *stops[2];
    struct qkv_token_rules rules;
    int32_t listed[6];
    struct qkv_token_bias biases[2];
    size_t bias_count, min_tokens, top, answers;
    double presence, frequency;
    size_t form; /* of the constraint, from 1; 0: none */
    struct qkv_search_options search;
    struct qkv_embed_options embed;
    struct qkv_line_options line;
};
/* The model, and the beginning that many texts have. */
struct crowd_maker {
    struct qkv_random *random;
    const struct qkv_model *model;
    int32_t end, letter; /* tokens that end texts: a rare one, and one that is not */
    char common[CROWD_TEXT + 1];
};
typedef void crowd_ask(const struct crowd_maker *m, struct crowd_asked *a);

static inline size_t crowd_below(const struct crowd_maker *m, size_t n) {
    return (size_t)qkv_random_below(m->random, n);
}

static inline void crowd_letters(struct qkv_random *r, char *text, size_t n) {
    for (size_t i = 0; i < n; i++) text[i] = "abcdefghijklmnopqrstuvwxyz ,."[qkv_random_below(r, 29)];
    text[n] = 0;
    if (n) text[0] = (char)('a' + qkv_random_below(r, 26));
}

/* A text of 1 to `longest` characters; two of three begin alike. */
static inline void crowd_text(const struct crowd_maker *m, struct crowd_asked *a, size_t longest) {
    const size_t n = 1 + crowd_below(m, longest);
    crowd_letters(m->random, a->text, n);
    if (crowd_below(m, 3)) memcpy(a->text, m->common, crowd_below(m, n) + 1);
}

/* ---- what a request asks for ---- */

static inline void crowd_drawn(const struct crowd_maker *m, struct crowd_asked *a) {
    struct qkv_sampling *s = &a->options.sampling;
    s->temperature = 0.5 + qkv_random_uniform(m->random);
    s->top_k = crowd_below(m, 2) ? (int)(1 + crowd_below(m, 40)) : 0;
    s->top_p = crowd_below(m, 2) ? 0.7 : 1;
    s->min_p = crowd_below(m, 2) ? 0.02 : 0;
    s->repeat_penalty = crowd_below(m, 2) ? 1.2 : 1;
    s->repeat_last = crowd_below(m, 2) ? 5 : 0;
    a->answers = 1 + crowd_below(m, CROWD_ANSWERS);
    a->top = crowd_below(m, CROWD_TOP + 1);
}

static inline void crowd_greedy(const struct crowd_maker *m, struct crowd_asked *a) {
    a->options.sampling.temperature = 0;
    a->options.tokens = 1 + crowd_below(m, 60); /* guesses are right where tokens repeat */
    a->log_probabilities = crowd_below(m, 2);
}

static inline void crowd_penalised(const struct crowd_maker *m, struct crowd_asked *a) {
    const size_t vocab = (size_t)m->model->spec.vocab;
    a->options.sampling.temperature = crowd_below(m, 2) ? 0 : 0.9;
    a->presence = 0.7, a->frequency = 0.3;
    for (; a->bias_count < 2; a->bias_count++)
        a->biases[a->bias_count] = (struct qkv_token_bias){(int32_t)crowd_below(m, vocab), a->bias_count ? -100 : 2.5F};
    a->options.end_id = m->letter;
    a->min_tokens = 4;
}

static inline void crowd_stopped(const struct crowd_maker *m, struct crowd_asked *a) {
    a->stops[0] = "e", a->stops[1] = "zq";
    a->options.stops = a->stops, a->options.stop_count = 2;
    a->options.sampling.temperature = 1;
    a->options.sampling.seed = crowd_below(m, 1000);
    a->answers = 1 + crowd_below(m, CROWD_ANSWERS);
}

static inline void crowd_ruled(const struct crowd_maker *m, struct crowd_asked *a) {
    struct qkv_token_rules *r = &a->rules;
    fixture_ids(m->random, a->listed, 6, m->model->spec.vocab);
    a->listed[5] = -1;
    r->no_repeat = 1 + crowd_below(m, 3), r->min_tokens = 3;
    r->source_penalty = crowd_below(m, 2) ? 1.3 : 1;
    r->source_no_repeat = crowd_below(m, 2) ? 3 : 0;
    r->suppressed = (struct qkv_token_list){a->listed, 2};
    r->suppressed_first = (struct qkv_token_list){a->listed + 2, 1};
    r->last = (struct qkv_token_list){a->listed + 3, 1};
    r->bad_words = (struct qkv_token_list){a->listed + 4, 2};
    a->options.rules = a->search.rules = r;
    a->options.sampling.temperature = crowd_below(m, 2) ? 0 : 0.8;
}

static inline void crowd_formed(const struct crowd_maker *m, struct crowd_asked *a) {
    a->form = 1 + crowd_below(m, CROWD_FORMS);
    a->options.sampling.temperature = crowd_below(m, 2) ? 0 : 1;
    a->options.end_id = m->end;
    a->options.tokens = 40;
    a->answers = 1 + crowd_below(m, 2);
}

static inline void crowd_told(const struct crowd_maker *m, struct crowd_asked *a) {
    a->prompt_probabilities = true;
    a->top = crowd_below(m, CROWD_TOP + 1);
    if (crowd_below(m, 3) == 0) a->options.tokens = 0;
}

/* Beams, whose pages are few, so that a cache of few pages can hold them. */
static inline void crowd_beams(const struct crowd_maker *m, struct crowd_asked *a) {
    crowd_text(m, a, CROWD_BEAM_TEXT);
    if (crowd_below(m, 2)) crowd_ruled(m, a);
    a->searches = true;
    a->search.beam = 1 + crowd_below(m, CROWD_ANSWERS);
    a->search.n_best = 1 + crowd_below(m, a->search.beam);
    a->search.max_tokens = 1 + crowd_below(m, CROWD_BEAM_TOKENS);
    a->search.length_penalty = (double)crowd_below(m, 3) - 0.5;
    a->search.stopping = (enum qkv_stopping)crowd_below(m, 3);
    a->search.sampling.repeat_penalty = crowd_below(m, 2) ? 1.2 : 1;
}

static inline void crowd_drawn_together(const struct crowd_maker *m, struct crowd_asked *a) {
    crowd_beams(m, a);
    a->search.sample = true;
    a->search.n_best = 1 + crowd_below(m, CROWD_ANSWERS);
    a->search.beam = 1;
    a->search.sampling.seed = crowd_below(m, 1000);
}

static inline void crowd_embedded(const struct crowd_maker *m, struct crowd_asked *a) {
    static const enum qkv_pool pools[] = {QKV_POOL_FIRST, QKV_POOL_MEAN, QKV_POOL_LAST, QKV_POOL_MAX};
    a->kind = QKV_ENGINE_EMBED;
    a->embed.pool = pools[crowd_below(m, 4)];
    a->embed.normalize = crowd_below(m, 2);
}

static inline void crowd_classified(const struct crowd_maker *m, struct crowd_asked *a) {
    a->kind = QKV_ENGINE_CLASSIFY;
    a->pair = crowd_below(m, 2);
    a->line.long_lines = QKV_LONG_KEEP_START;
    crowd_letters(m->random, a->second, 1 + crowd_below(m, CROWD_LONGEST_SECOND));
}

static inline void crowd_filled(const struct crowd_maker *m, struct crowd_asked *a) {
    const size_t masks = 1 + crowd_below(m, 5);
    a->kind = QKV_ENGINE_FILL;
    a->top = CROWD_TOP;
    a->text[CROWD_TEXT - 5 * sizeof QKV_TOKEN_MASK] = 0;
    for (size_t i = 0; i < masks; i++) strcat(a->text, QKV_TOKEN_MASK);
}

/* Answers that need more pages together than the few of a tight cache. */
enum { CROWD_WIDE = 3, CROWD_WIDE_PROMPT = 100 };
static inline void crowd_wide(const struct crowd_maker *m, struct crowd_asked *a) {
    const bool source = m->model->encoder.spec != NULL;
    crowd_letters(m->random, a->text, CROWD_WIDE_PROMPT);
    a->options.tokens = source ? 150 : 60;
    a->answers = CROWD_WIDE;
    a->listed[0] = m->end;
    a->rules.suppressed = (struct qkv_token_list){a->listed, 1};
    a->options.rules = &a->rules;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Rows of 256 numbers: whole blocks of q4_K. */
#define CROWD_STACK(norm, more, ffn)                                                                                   \
    "{\"layers\": 2, \"norm\": {\"kind\": \"" norm "\"}, \"attention\": {\"heads\": 4, \"kv_heads\": 2}, \"ffn\": "    \
    "{\"kind\": \"" ffn "\", \"d_ff\": 256}" more "}"
#define CROWD_LEARNED ", \"embed\": {\"position\": {\"kind\": \"learned\"}}"
static const struct crowd_kind {
    const char *name, *json;
    bool letters;  /* a tokenizer of letters with special tokens; else of bytes */
    size_t tight;  /* pages of a tight cache; 0: it has none */
    bool prefixes; /* prompts share pages */
    crowd_ask *asks[12];
} crowd_kinds[] = {
    {"a decoder",
     "\"decoder\": {\"layers\": 2, \"norm\": {\"kind\": \"rmsnorm\"}, \"attention\": {\"heads\": 4, \"kv_heads\": 2, "
     "\"position\": {\"kind\": \"rope\"}}, \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 256}}",
     .tight = 5, .prefixes = true,
     .asks = {crowd_drawn, crowd_beams, crowd_greedy, crowd_formed, crowd_told, crowd_stopped, crowd_embedded,
              crowd_ruled, crowd_drawn_together, crowd_penalised}},
    {"an encoder-decoder",
     "\"encoder\": " CROWD_STACK("layernorm", CROWD_LEARNED,
                                 "gelu") ", \"decoder\": " CROWD_STACK("layernorm", CROWD_LEARNED, "gelu"),
     .letters = true, .tight = 5,
     .asks = {crowd_drawn, crowd_beams, crowd_greedy, crowd_formed, crowd_stopped, crowd_embedded, crowd_ruled,
              crowd_drawn_together, crowd_penalised}},
    {"an encoder", "\"encoder\": " CROWD_STACK("layernorm", CROWD_LEARNED, "gelu"), .letters = true,
     .asks = {crowd_filled, crowd_embedded}},
    {"a classifier",
     "\"head\": {\"kind\": \"classify\", \"classes\": 5, \"pool\": \"mean\"}, \"encoder\": " CROWD_STACK(
         "layernorm", CROWD_LEARNED, "gelu"),
     .letters = true, .asks = {crowd_classified, crowd_embedded}},
};

/* The model's own language, and two that its tokenizer has tokens for. */
enum { CROWD_TARGETS = 3 };
static const char *const crowd_targets[CROWD_TARGETS] = {NULL, "de", "fr"};

/* Makes requests of all kinds. The first needs many pages; the second has a long text. */
static inline void crowd_make(const struct crowd_kind *kind, struct qkv_model *model, struct qkv_random *r,
                              struct crowd_asked *asked, size_t count) {
    struct crowd_maker m = {.random = r, .model = model, .end = 255, .letter = 'y'};
    const bool translates = model->encoder.spec && model->decoder.spec;
    size_t asks = 0;
    if (kind->letters) m.end = m.letter = qkv_tokenizer_special(qkv_model_tokenizer(model), QKV_TOKEN_END);
    while (kind->asks[asks]) asks++;
    crowd_letters(r, m.common, CROWD_TEXT);
    for (size_t i = 0; i < count; i++) {
        struct crowd_asked *a = &asked[i];
        *a = (struct crowd_asked){.adapter = crowd_below(&m, CROWD_ADAPTERS + 1),
                                  .log_probabilities = true,
                                  .options = qkv_generate_defaults(),
                                  .rules = qkv_token_rules_defaults(),
                                  .search = qkv_search_defaults(),
                                  .embed = qkv_embed_defaults(model),
                                  .line = qkv_line_defaults(),
                                  .answers = 1};
        a->options.tokens = 1 + crowd_below(&m, 24);
        a->options.sampling.seed = crowd_below(&m, 1000);
        crowd_text(&m, a, i % 20 == 1 ? CROWD_TEXT : 150);
        if (i == 1) memcpy(a->text, m.common, CROWD_TEXT + 1);
        (i || !kind->tight ? kind->asks[(i + 1) % asks] : crowd_wide)(&m, a);
        if (translates && !a->kind && !a->options.rules) a->target = crowd_targets[crowd_below(&m, CROWD_TARGETS)];
    }
}

#endif
