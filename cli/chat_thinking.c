/* chat_thinking.c: divides answers into what the model thinks and what it says. Families of models write marks around
 * their thoughts, and templates want both apart: they leave old thoughts out of the talk. */
#include <stdlib.h>
#include <string.h>

#include "cli_chat.h"

/* The marks of families, at the beginning of an answer. `key`: of messages, for the thoughts; NULL: the first mark
 * begins what is said. */
struct cli_marks {
    const char *begin, *end, *key;
};
static const struct cli_marks marks[] = {
    {"<think>", "</think>", "reasoning_content"}, /* Qwen 3, DeepSeek R1, GLM, MiniMax, Nemotron, SmolLM3, Granite */
    {"<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>",
     "thinking"}, /* gpt-oss */
    {"<|channel|>final<|message|>", NULL, NULL},
    {"[THINK]", "[/THINK]", "reasoning_content"},                    /* Magistral */
    {"<seed:think>", "</seed:think>", "reasoning_content"},          /* Seed-OSS */
    {"<|START_THINKING|>", "<|END_THINKING|>", "reasoning_content"}, /* Command A */
    {"<|inner_prefix|>", "<|inner_suffix|>", "reasoning_content"},   /* Apertus */
    {"<thought>", "</thought>", "reasoning_content"},                /* EXAONE */
    {"<|channel>thought", "<channel|>", "reasoning_content"},        /* Gemma 4 */
};

bool cli_thinking_find(const char *name, enum cli_thinking *kind) {
    const char *at;
    for (size_t i = 0; (at = cli_choose_thinking("thinking", i)); i++)
        if (!strcmp(at, name)) {
            *kind = (enum cli_thinking)i;
            return true;
        }
    return false;
}

enum { ANSWER_BEGINS, ANSWER_THINKS, ANSWER_TURNS, ANSWER_SAYS };

/* ---- showing ----------------------------------------------------------------------------------------------------- */

static void answer_put(struct cli_answer *a, const char *text, size_t size) {
    if (a->file) cli_put_text(a->file, a->terminal, text, size);
}

/* Thoughts are dim where that is possible; elsewhere their marks tell them apart. */
static bool answer_dims(const struct cli_answer *a) {
    return a->kind == CLI_THINKING_DIM && cli_colored(a->descriptor);
}

static void answer_edge(struct cli_answer *a, const char *mark, bool begins) {
    if (!a->file || a->kind == CLI_THINKING_HIDE) return;
    if (answer_dims(a))
        fputs(begins ? "\033[2m" : "\033[0m", a->file);
    else
        answer_put(a, mark, strlen(mark));
    if (!begins) fputs("\n\n", a->file);
    a->dim = begins && answer_dims(a);
}

/* Keeps text of what is said or thought, and shows it; white space before it is left out. */
static void answer_keep(struct cli_answer *a, bool thought, const char *text, size_t size) {
    char **kept = thought ? &a->thought : &a->said;
    size_t *kept_size = thought ? &a->thought_size : &a->said_size;
    while (size && !*kept_size && strchr(" \t\r\n", *text)) text++, size--;
    if (!size) return;
    char *more = realloc(*kept, *kept_size + size + 1);
    a->broken |= !more;
    if (!more) return;
    *kept = more;
    for (size_t i = 0; i < size; i++)
        if (text[i]) more[(*kept_size)++] = text[i]; /* a text of JSON has no zeros */
    more[*kept_size] = 0;
    if (!thought || a->kind != CLI_THINKING_HIDE) answer_put(a, text, size);
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* Whether the text so far may become one of the marks; *found: it begins with that one. */
static bool answer_marks(const char *text, size_t size, const struct cli_marks **found) {
    bool may = false;
    for (size_t i = 0; i < CLI_COUNT_OF(marks); i++) {
        const size_t n = strlen(marks[i].begin);
        if (size >= n && !memcmp(text, marks[i].begin, n)) *found = &marks[i];
        may |= size < n && !memcmp(text, marks[i].begin, size);
    }
    return may;
}

/* Bytes at the end of the text that may be the beginning of the mark. */
static size_t answer_tail(const char *text, size_t size, const char *mark) {
    size_t n = strlen(mark) - 1;
    if (n > size) n = size;
    while (n && memcmp(text + size - n, mark, n) != 0) n--;
    return n;
}

static void answer_drop(struct cli_answer *a, size_t n) {
    memmove(a->held, a->held + n, a->held_size - n);
    a->held_size -= n;
}

static void answer_enter(struct cli_answer *a, const struct cli_marks *found) {
    a->marks = found;
    a->key = found->key;
    a->state = found->end ? ANSWER_THINKS : ANSWER_SAYS;
    if (found->end) answer_edge(a, found->begin, true);
}

/* Takes a step over the text that is held back; false: it needs more text, or none is left. */
static bool answer_step(struct cli_answer *a, bool ends) {
    const struct cli_marks *found = NULL;
    size_t blank = 0, n;
    switch (a->state) {
    case ANSWER_BEGINS:
        while (blank < a->held_size && strchr(" \t\r\n", a->held[blank])) blank++;
        const bool may = answer_marks(a->held + blank, a->held_size - blank, &found);
        if (!found && may && !ends) return false;
        if (found) answer_drop(a, blank + strlen(found->begin));
        if (found)
            answer_enter(a, found);
        else
            a->state = ANSWER_SAYS;
        return true;
    case ANSWER_THINKS:
        for (n = 0; n + strlen(a->marks->end) <= a->held_size; n++)
            if (!memcmp(a->held + n, a->marks->end, strlen(a->marks->end))) {
                answer_keep(a, true, a->held, n);
                answer_edge(a, a->marks->end, false);
                answer_drop(a, n + strlen(a->marks->end));
                a->state = ANSWER_SAYS;
                return true;
            }
        n = a->held_size - (ends ? 0 : answer_tail(a->held, a->held_size, a->marks->end));
        answer_keep(a, true, a->held, n);
        answer_drop(a, n);
        return false;
    default:
        answer_keep(a, false, a->held, a->held_size);
        a->held_size = 0;
        return false;
    }
}

static bool answer_take(struct cli_answer *a, const char *text, size_t size, bool ends) {
    char *held = realloc(a->held, a->held_size + size + 1);
    a->broken |= !held;
    if (!held) return false;
    a->held = held;
    if (size) memcpy(held + a->held_size, text, size);
    a->held_size += size;
    while (answer_step(a, ends)) {
    }
    if (a->file) a->broken |= fflush(a->file) != 0;
    return !a->broken;
}

bool cli_answer_text(void *user, const char *text, size_t size) {
    return answer_take(user, text, size, false) && !cli_stopping;
}

void cli_answer_begin(struct cli_answer *a, const char *prompt) {
    size_t size = strlen(prompt);
    while (size && strchr(" \t\r\n", prompt[size - 1])) size--;
    a->state = ANSWER_BEGINS;
    for (size_t i = 0; i < CLI_COUNT_OF(marks); i++) {
        const size_t n = strlen(marks[i].begin);
        if (marks[i].end && size >= n && !memcmp(prompt + size - n, marks[i].begin, n)) answer_enter(a, &marks[i]);
    }
}

bool cli_answer_end(struct cli_answer *a) {
    const bool done = answer_take(a, NULL, 0, true);
    if (a->dim) fputs("\033[0m", a->file);
    a->dim = false;
    while (a->thought_size && strchr(" \t\r\n", a->thought[a->thought_size - 1])) a->thought[--a->thought_size] = 0;
    return done;
}

void cli_answer_free(struct cli_answer *a) {
    free(a->said);
    free(a->thought);
    free(a->held);
    a->said = a->thought = a->held = NULL;
    a->said_size = a->thought_size = a->held_size = 0;
    a->key = NULL, a->marks = NULL;
    a->broken = false;
}
