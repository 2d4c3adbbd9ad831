/* tokenize.c: "qkv tokenize": text to token ids, and ids back to text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

struct arguments {
    bool ids, pieces, specials;
    struct cli_common common;
};

static const struct arguments defaults = {.common = {.threads = 1}};

static const struct cli_option options[] = {
    {CLI_FLAG, 0, "ids", NULL, offsetof(struct arguments, ids),
     "the other way: ids, apart by spaces or commas, to text", 0, 0, NULL},
    {CLI_FLAG, 0, "pieces", NULL, offsetof(struct arguments, pieces), "a line for each token: its id and its text", 0,
     0, NULL},
    {CLI_FLAG, 0, "specials", NULL, offsetof(struct arguments, specials),
     "special tokens written in the text, as <|endoftext|>, become their id, and those that the tokenizer's template "
     "places "
     "around a text are added: the ids of encode() in Hugging Face tokenizers",
     0, 0, NULL},
};

CLI_CONDITION(reads_ids, struct arguments, a->ids)

static const struct cli_rule rules[] = {
    {"pieces specials", reads_ids, "--ids makes text of ids; leave one of them out"},
};

/* A model folder's tokenizer, or a tokenizer.json itself. */
static int tokenize_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **tokenizer) {
    struct stat info;
    char *inside = NULL;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        size_t n = strlen(path) + sizeof "/" QKV_TOKENIZER_FILE;
        if (!(inside = malloc(n))) return cli_failed("out of memory");
        snprintf(inside, n, "%s%s" QKV_TOKENIZER_FILE, path, path[strlen(path) - 1] == '/' ? "" : "/");
    }
    enum qkv_status status = qkv_tokenizer_load(ctx, inside ? inside : path, tokenizer);
    free(inside);
    return status ? cli_broken(ctx) : CLI_DONE;
}

/* ---- text to ids ----------------------------------------------------------------------------------------------------- */

struct printer {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    const struct arguments *arguments;
    size_t printed;
};

static void print_some(struct printer *p, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (p->arguments->pieces) {
            size_t n;
            const char *piece = qkv_tokenizer_token(p->tokenizer, ids[i], &n);
            printf("%d\t", ids[i]);
            cli_print_quoted(piece ? piece : "", piece ? n : 0);
            putchar('\n');
        } else {
            printf(p->printed ? " %d" : "%d", ids[i]);
        }
        p->printed++;
    }
}

static int print_ids(struct printer *p, const char *text, size_t size) {
    int32_t *ids;
    size_t count;
    if (qkv_tokenizer_encode(p->ctx, p->tokenizer, text, size, p->arguments->specials, &ids, &count))
        return cli_broken(p->ctx);
    print_some(p, ids, count);
    qkv_free(ids);
    return CLI_DONE;
}

/* Standard input piece by piece, so that it may be larger than memory. */
static int encode_stream(struct printer *p) {
    size_t capacity = 1 << 20, size = 0;
    char *text = malloc(capacity);
    int code = CLI_DONE;
    bool end = false;
    while (text && !end && code == CLI_DONE) {
        if (size == capacity) {
            char *grown = capacity < CLI_LINES_MOST ? realloc(text, capacity *= 2) : NULL;
            if (!grown) break;
            text = grown;
        }
        size_t got = fread(text + size, 1, capacity - size, stdin), cut;
        size += got;
        end = got == 0;
        if (ferror(stdin)) {
            code = cli_failed("cannot read standard input");
            break;
        }
        cut = qkv_tokenizer_cut(p->tokenizer, text, size, end);
        if (cut > 0) code = print_ids(p, text, cut);
        memmove(text, text + cut, size - cut);
        size -= cut;
    }
    if (!end && code == CLI_DONE) code = cli_failed("out of memory");
    free(text);
    return code;
}

static int tokenize_encode(struct printer *p, const char *const *words, size_t count) {
    const int32_t *before = NULL, *after = NULL;
    size_t before_count = 0, after_count = 0;
    if (p->arguments->specials) qkv_tokenizer_template(p->tokenizer, &before, &before_count, &after, &after_count);
    print_some(p, before, before_count);
    int code = count > 0 ? print_ids(p, words[0], strlen(words[0])) : encode_stream(p);
    if (code == CLI_DONE) print_some(p, after, after_count);
    if (code == CLI_DONE && !p->arguments->pieces) putchar('\n');
    return code;
}

/* ---- ids to text ----------------------------------------------------------------------------------------------------- */

static int decode_ids(struct printer *p, const char *text, size_t size) {
    int32_t *ids = malloc((size / 2 + 1) * sizeof *ids); /* an id and what parts it from the next are two bytes */
    size_t count = 0;
    int code = ids ? CLI_DONE : cli_failed("out of memory");
    for (size_t i = 0; i < size && code == CLI_DONE;) {
        char word[24];
        size_t n = 0;
        int64_t id;
        while (i < size && text[i] && strchr(" ,\t\r\n[]", text[i])) i++;
        while (i + n < size && (!text[i + n] || !strchr(" ,\t\r\n[]", text[i + n]))) n++;
        if (!n) break;
        snprintf(word, sizeof word, "%.*s", n < 23 ? (int)n : 23, text + i);
        if (!cli_read_count(word, 0, INT32_MAX, &id))
            code = cli_failed("\"%s\" is no token id; ids are whole numbers from 0 to %d", word,
                              qkv_tokenizer_vocab(p->tokenizer) - 1);
        else
            ids[count++] = (int32_t)id;
        i += n;
    }
    char *decoded = NULL;
    size_t bytes = 0;
    if (code == CLI_DONE && qkv_tokenizer_decode(p->ctx, p->tokenizer, ids, count, &decoded, &bytes))
        code = cli_broken(p->ctx);
    if (code == CLI_DONE) fwrite(decoded, 1, bytes, stdout);
    qkv_free(decoded);
    free(ids);
    return code;
}

static int tokenize_decode(struct printer *p, const char *const *words, size_t count) {
    char *text = NULL;
    size_t size = 0;
    if (count > 0) return decode_ids(p, words[0], strlen(words[0]));
    int code = cli_read_all("-", CLI_LINES_MOST, &text, &size);
    if (code == CLI_DONE) code = decode_ids(p, text, size);
    free(text);
    return code;
}

static int tokenize_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_tokenizer *tokenizer = NULL;
    if (!count) return cli_usage("tokenize: say which tokenizer: a model folder or a tokenizer.json");
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = tokenize_load(ctx, words[0], &tokenizer);
    if (code == CLI_DONE) {
        struct printer p = {ctx, tokenizer, a, 0};
        code = a->ids ? tokenize_decode(&p, words + 1, count - 1) : tokenize_encode(&p, words + 1, count - 1);
    }
    qkv_tokenizer_free(tokenizer);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_tokenize(void) {
    static const struct cli_command command = {
        .name = "tokenize",
        .summary = "turn text into token ids, or ids into text",
        .usage = "RUN [TEXT]\nRUN --ids [IDS]",
        .description =
            "RUN is a model folder or a tokenizer.json. Without TEXT or IDS they are read from standard input (ids: at "
            "most 1 GiB). Every text, valid UTF-8 or not, comes back from its ids byte for byte (with --specials, with "
            "the template's tokens).",
        .examples = "qkv tokenize run/ \"To be, or not to be\"\n"
                    "qkv tokenize run/ --pieces \"To be\"\n"
                    "qkv tokenize run/ < book.txt | qkv tokenize run/ --ids > same-book.txt",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 2,
        .run = tokenize_run,
    };
    return &command;
}
