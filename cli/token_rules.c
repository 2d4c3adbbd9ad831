/* token_rules.c: rules for tokens and the settings of a search: the command line, else the model's folder, else
 * defaults. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli_text.h"

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* Reads words of ids with commas between them: each gets -1 behind it. */
static int rules_read_words(const char *text, struct cli_id_list *list) {
    const size_t size = strlen(text);
    list->ids = malloc((size + 2) * sizeof *list->ids);
    if (!list->ids) return cli_failed("out of memory");
    for (const char *at = text; *text;) {
        const char *end = at + strcspn(at, ",");
        int32_t *ids = NULL;
        size_t count = 0;
        int code = cli_read_ids("--bad-words", at, (size_t)(end - at), &ids, &count);
        if (!code && count) memcpy(list->ids + list->count, ids, count * sizeof *ids);
        free(ids);
        if (!code && !count) code = cli_usage("--bad-words has an empty word: \"%s\"", text);
        if (code) return code;
        list->count += count;
        list->ids[list->count++] = -1;
        if (!*end) break;
        at = end + 1;
    }
    return CLI_DONE;
}

int cli_rules_read(const struct cli_rules *given, struct cli_rules_read *read) {
    int code = CLI_DONE;
    *read = (struct cli_rules_read){0};
    if (given->suppress)
        code = cli_read_ids("--suppress", given->suppress, strlen(given->suppress), &read->suppressed.ids,
                            &read->suppressed.count);
    if (!code && given->suppress_first)
        code = cli_read_ids("--suppress-first", given->suppress_first, strlen(given->suppress_first),
                            &read->suppressed_first.ids, &read->suppressed_first.count);
    if (!code && given->bad_words) code = rules_read_words(given->bad_words, &read->bad_words);
    return code;
}

void cli_rules_free(struct cli_rules_read *read) {
    free(read->suppressed.ids);
    free(read->suppressed_first.ids);
    free(read->bad_words.ids);
    *read = (struct cli_rules_read){0};
}

/* Puts a list of the command line in the place of the folder's. */
static int rules_take_list(const char *option, bool given, const struct cli_id_list *list, int vocab,
                           struct qkv_token_list *to) {
    for (size_t i = 0; i < list->count; i++)
        if (list->ids[i] >= vocab)
            return cli_failed("--%s: id %d is none of the model's 0 to %d", option, (int)list->ids[i], vocab - 1);
    if (given) *to = (struct qkv_token_list){list->ids, list->count};
    return CLI_DONE;
}

static int rules_take_id(const char *option, int64_t given, int vocab, int32_t *to) {
    if (given >= vocab)
        return cli_failed("--%s: id %lld is none of the model's 0 to %d", option, (long long)given, vocab - 1);
    if (given >= 0) *to = (int32_t)given;
    return CLI_DONE;
}

int cli_rules_settle(const struct cli_rules *given, struct cli_rules_read *read, const struct qkv_model *model,
                     const struct qkv_token_rules **rules) {
    struct qkv_token_rules *r = &read->rules;
    const int vocab = qkv_model_spec(model)->vocab;
    const char *unread = qkv_model_unread_settings(model);
    *r = qkv_token_rules_defaults();
    qkv_model_token_rules(model, r);
    if (given->min_tokens >= 0) r->min_tokens = (size_t)given->min_tokens, r->min_length = 0;
    if (given->no_repeat >= 0) r->no_repeat = (size_t)given->no_repeat;
    if (given->source_no_repeat >= 0) r->source_no_repeat = (size_t)given->source_no_repeat;
    if (given->source_penalty >= 0) r->source_penalty = given->source_penalty;
    int code = rules_take_list("suppress", given->suppress, &read->suppressed, vocab, &r->suppressed);
    if (!code)
        code = rules_take_list("suppress-first", given->suppress_first, &read->suppressed_first, vocab,
                               &r->suppressed_first);
    if (!code) code = rules_take_list("bad-words", given->bad_words, &read->bad_words, vocab, &r->bad_words);
    if (!code) code = rules_take_id("force-first", given->force_first, vocab, &r->first);
    if (!code) code = rules_take_id("force-last", given->force_last, vocab, &read->last);
    if (given->force_last >= 0) r->last = (struct qkv_token_list){&read->last, 1};
    if (!code && *unread) cli_say("%s: keys of generation_config.json that have no effect here", unread);
    *rules = r;
    return code;
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

static void search_choose(const struct cli_search *s, struct qkv_search_options *o) {
    for (size_t i = 0; s->stopping && qkv_stopping_name((enum qkv_stopping)i); i++)
        if (!strcmp(s->stopping, qkv_stopping_name((enum qkv_stopping)i))) o->stopping = (enum qkv_stopping)i;
}

int cli_search_settle(const struct cli_search *s, struct cli_rules_read *read, const struct qkv_model *model,
                      struct qkv_search_options *o) {
    qkv_search_settings(model, o);
    if (s->beam) o->beam = (size_t)s->beam, o->sample = false;
    if (!isnan(s->length_penalty)) o->length_penalty = s->length_penalty;
    if (s->max_tokens) o->max_tokens = (size_t)s->max_tokens;
    if (s->repeat_penalty >= 0) o->sampling.repeat_penalty = s->repeat_penalty;
    search_choose(s, o);
    return cli_rules_settle(&s->rules, read, model, &o->rules);
}

const char *cli_choose_stopping(const char *option, size_t i) {
    (void)option;
    return qkv_stopping_name((enum qkv_stopping)i);
}

/* ---- the length of a text ---------------------------------------------------------------------------------------- */

void cli_length_settle(int64_t tokens, const struct qkv_model *model, struct qkv_generate_options *o) {
    struct qkv_search_options search = qkv_search_defaults();
    if (tokens >= 0) o->tokens = (size_t)tokens, o->max_length = 0;
    if (qkv_search_settings(model, &search) && search.beam > 1)
        cli_say("the model's folder asks for %zu beams; texts are continued without beams", search.beam);
}
