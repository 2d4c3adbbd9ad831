/* tokenize.c: "qkv tokenize": text to token ids, ids back to text, and training a tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

struct arguments {
    bool ids, pieces, offsets, specials, skip, force, quiet, json;
    struct cli_texts train, special;
    const char *kind, *output, *text_key;
    struct cli_common common;
};

static const struct arguments defaults = {.common = {.threads = 1}};

static const struct cli_option options[] = {
    {CLI_FLAG, 0, "ids", NULL, offsetof(struct arguments, ids),
     .help = "turn ids, separated by spaces or commas, into text"},
    {CLI_FLAG, 0, "pieces", NULL, offsetof(struct arguments, pieces),
     .help = "print a line for each token: its id and its text"},
    {CLI_FLAG, 0, "offsets", NULL, offsetof(struct arguments, offsets),
     .help = "print a line for each token: its id, its range in the bytes of the text (the first byte, and the byte "
             "after the last), and its text"},
    {CLI_FLAG, 0, "skip-specials", NULL, offsetof(struct arguments, skip),
     .help = "with --ids: leave special tokens out of the text, which the decoder of the tokenizer's file makes"},
    {CLI_FLAG, 0, "specials", NULL, offsetof(struct arguments, specials),
     .help = "encode as encode() of Hugging Face tokenizers does: special tokens in the text, such as <|endoftext|>, "
             "become their ids, and the special tokens of the tokenizer's template are added"},
    {CLI_READS, 0, "train", "FILE", offsetof(struct arguments, train),
     .help = "text to make a tokenizer from, or a folder of texts; several are read as one text, one after the other; "
             "patterns, JSON lines (.jsonl, .ndjson) and packed files (.gz, .zst) are read as documents"},
    {CLI_TEXT, 0, "text-key", "KEY", offsetof(struct arguments, text_key),
     .help = "with --train: the key of JSON lines whose value is a text", .before = "text"},
    {CLI_TEXT, 0, "tokenizer", "KIND", offsetof(struct arguments, kind), .choice = cli_choose_tokenizer, .open = true,
     .help = "with --train: bytes, chars, chars+bytes, words, whitespace or bpe, also with a size: bpe:4096",
     .before = "chars"},
    {CLI_TEXTS, 0, "special", "TEXT", offsetof(struct arguments, special),
     .help = "with --train: text that is always one token, such as <mask>; bpe has <|endoftext|> if no other is given"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output),
     .help = "with --train: tokenizer.json to write"},
    CLI_JSON(struct arguments,
             "{\"ids\"} (with --pieces or --offsets {\"tokens\"}, with --ids {\"text\"}), or the result of --train,"),
    CLI_FORCE(struct arguments),
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet),
     .help = "with --train: show no progress and no result"},
};

CLI_CONDITION(reads_ids, struct arguments, a->ids)
CLI_CONDITION(reads_text, struct arguments, !a->ids)
CLI_CONDITION(makes_none, struct arguments, a->train.count == 0)
CLI_CONDITION(makes_one, struct arguments, a->train.count > 0)

static const struct cli_rule rules[] = {
    {"skip-specials", reads_text, "it is for --ids; add that"},
    {"pieces offsets specials", reads_ids, "--ids turns ids into text; leave one of them out"},
    {"tokenizer special text-key output force quiet", makes_none,
     "no tokenizer is made; name its training text with --train FILE"},
    {"ids pieces offsets specials skip-specials", makes_one, "--train makes a tokenizer; leave one of them out"},
};

/* ---- text to ids ------------------------------------------------------------------------------------------------- */

struct printer {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    const struct arguments *arguments;
    size_t printed, read; /* tokens; bytes */
    struct qkv_json json;
};

static void put_place(struct qkv_json *json, const char *key, const size_t *place, size_t base) {
    qkv_json_key(json, key);
    if (place)
        qkv_json_count(json, base + *place);
    else
        qkv_json_raw(json, "null");
}

/* Puts a token; `span`: the bytes of the text that it stands for, NULL: none. */
static void put_token(struct printer *p, int32_t id, const size_t *span, size_t base) {
    size_t n = 0;
    if (!p->arguments->pieces && !p->arguments->offsets) {
        qkv_json_integer(&p->json, id);
        return;
    }
    const char *piece = qkv_tokenizer_token(p->tokenizer, id, &n);
    qkv_json_begin(&p->json, '{');
    qkv_json_put_integer(&p->json, "id", id);
    cli_json_put_token(&p->json, "text", piece, n);
    if (p->arguments->offsets) put_place(&p->json, "begin", span, base);
    if (p->arguments->offsets) put_place(&p->json, "end", span ? span + 1 : NULL, base);
    qkv_json_end(&p->json, '}');
}

/* `spans`: the bytes of the text for each id, counted from `base`; NULL: none. */
static void print_some(struct printer *p, const int32_t *ids, const size_t *spans, size_t base, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (p->arguments->json) {
            put_token(p, ids[i], spans ? &spans[2 * i] : NULL, base);
        } else if (p->arguments->pieces || p->arguments->offsets) {
            size_t n;
            const char *piece = qkv_tokenizer_token(p->tokenizer, ids[i], &n);
            printf("%d\t", ids[i]);
            if (p->arguments->offsets && spans)
                printf("%zu\t%zu\t", base + spans[2 * i], base + spans[2 * i + 1]);
            else if (p->arguments->offsets)
                printf("-\t-\t");
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
    size_t *spans = NULL;
    const bool specials = p->arguments->specials;
    if (p->arguments->offsets
            ? qkv_tokenizer_encode_spans(p->ctx, p->tokenizer, text, size, specials, &ids, &spans, &count)
            : qkv_tokenizer_encode(p->ctx, p->tokenizer, text, size, specials, &ids, &count))
        return cli_broken(p->ctx);
    print_some(p, ids, spans, p->read, count);
    p->read += size;
    qkv_free(spans);
    qkv_free(ids);
    return CLI_DONE;
}

/* Reads standard input piece by piece, so it may be larger than memory. */
static int encode_stream(struct printer *p) {
    size_t capacity = 1 << 20, size = 0;
    char *text = malloc(capacity);
    int code = CLI_DONE;
    bool end = false;
    while (text && !end && code == CLI_DONE) {
        if (size == capacity) {
            char *grown = capacity < CLI_LINES_MAX ? realloc(text, capacity *= 2) : NULL;
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
    if (p->arguments->json) {
        p->json = cli_json_stream(stdout);
        qkv_json_begin(&p->json, '{');
        qkv_json_key(&p->json, p->arguments->pieces || p->arguments->offsets ? "tokens" : "ids");
        qkv_json_begin(&p->json, '[');
    }
    print_some(p, before, NULL, 0, before_count);
    int code = count > 0 ? print_ids(p, words[0], strlen(words[0])) : encode_stream(p);
    if (code == CLI_DONE) print_some(p, after, NULL, 0, after_count);
    if (!p->arguments->json) {
        if (code == CLI_DONE && !p->arguments->pieces && !p->arguments->offsets) putchar('\n');
        return code;
    }
    qkv_json_end(&p->json, ']');
    qkv_json_end(&p->json, '}');
    const int written = cli_json_end(&p->json);
    return code ? code : written;
}

/* ---- ids to text ------------------------------------------------------------------------------------------------- */

static int decode_ids(struct printer *p, const char *text, size_t size) {
    int32_t *ids = NULL;
    size_t count = 0, bytes = 0;
    char *decoded = NULL;
    int code = cli_read_ids("the ids", text, size, &ids, &count);
    if (code == CLI_DONE && qkv_tokenizer_text(p->ctx, p->tokenizer, ids, count, p->arguments->skip, &decoded, &bytes))
        code = cli_broken(p->ctx);
    if (code == CLI_DONE && p->arguments->json) {
        struct qkv_json out = cli_json();
        qkv_json_begin(&out, '{');
        qkv_json_key(&out, "text");
        qkv_json_string(&out, decoded, bytes);
        qkv_json_end(&out, '}');
        code = cli_json_end(&out);
    } else if (code == CLI_DONE) {
        fwrite(decoded, 1, bytes, stdout);
    }
    qkv_free(decoded);
    free(ids);
    return code;
}

static int tokenize_decode(struct printer *p, const char *const *words, size_t count) {
    char *text = NULL;
    size_t size = 0;
    if (count > 0) return decode_ids(p, words[0], strlen(words[0]));
    int code = cli_read_all("-", CLI_LINES_MAX, &text, &size);
    if (code == CLI_DONE) code = decode_ids(p, text, size);
    free(text);
    return code;
}

/* ---- training a tokenizer ---------------------------------------------------------------------------------------- */

static int made_json(const struct arguments *a, const struct qkv_tokenizer *tokenizer) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "file", a->output);
    qkv_json_put_integer(&out, "tokens", qkv_tokenizer_vocab(tokenizer));
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static int tokenize_make(struct qkv_context *ctx, const struct arguments *a) {
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    struct qkv_tokenizer *tokenizer = NULL;
    char text[2][CLI_NUMBER];
    int code = CLI_DONE;
    cli_progress_start(&progress, a->quiet, false);
    cli_catch_signals();
    const double start = qkv_clock();
    enum qkv_status status =
        qkv_tokenizer_learn(ctx, a->kind, a->train.items, a->train.count, a->text_key, a->special.items,
                            a->special.count, cli_task_progress, &task, &tokenizer);
    cli_progress_clear(&progress);
    if (!status) status = qkv_tokenizer_save(ctx, tokenizer, a->output);
    if (status == QKV_STOPPED) {
        cli_say("interrupted; no tokenizer was written");
        code = CLI_INTERRUPTED;
    } else if (status)
        code = status == QKV_ARGUMENT ? cli_misused(ctx) : cli_broken(ctx);
    else
        cli_progress_line(&progress, "%s: %s tokens, made in %s", a->output,
                          cli_grouped(text[0], (uint64_t)qkv_tokenizer_vocab(tokenizer)),
                          cli_seconds(text[1], qkv_clock() - start));
    if (code == CLI_DONE && a->json) code = made_json(a, tokenizer);
    qkv_tokenizer_free(tokenizer);
    return code;
}

static int tokenize_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_tokenizer *tokenizer = NULL;
    if (a->train.count) {
        if (count)
            return cli_usage("tokenize: --train makes a tokenizer from the files that it names; leave \"%s\" out",
                             words[0]);
        if (!a->output || !*a->output) return cli_usage("tokenize: name a file for the tokenizer: -o FILE");
        int made = cli_open(&a->common, &ctx);
        if (made == CLI_DONE) made = tokenize_make(ctx, a);
        qkv_context_free(ctx);
        return made;
    }
    if (!count)
        return cli_usage("tokenize: name a tokenizer: a model folder, a GGUF file, a tokenizer.json, a .model "
                         "of SentencePiece or a .tiktoken");
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE && qkv_folder_tokenizer(ctx, words[0], &tokenizer)) code = cli_broken(ctx);
    if (code == CLI_DONE) {
        struct printer p = {.ctx = ctx, .tokenizer = tokenizer, .arguments = a};
        code = a->ids ? tokenize_decode(&p, words + 1, count - 1) : tokenize_encode(&p, words + 1, count - 1);
    }
    qkv_tokenizer_free(tokenizer);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_tokenize(void) {
    static const struct cli_command command = {
        .name = "tokenize",
        .words = CLI_WORD_MODEL,
        .summary = "turn text into token ids, or ids into text; train a tokenizer",
        .usage = "RUN [TEXT]\nRUN --ids [IDS]\n--train FILE [--tokenizer KIND] -o tokenizer.json",
        .description =
            "RUN is a model folder or a tokenizer.json, written by qkv or published, a GGUF file, a .model of "
            "SentencePiece, or a .tiktoken with the ranks of a known family. Without TEXT or IDS, standard "
            "input is read (ids: at most 1 GiB). If every byte has a token, as in all kinds except "
            "chars and whitespace, the ids of a text give back its bytes exactly, valid UTF-8 or not. The "
            "ids of --specials also give back the tokens of the template. --train writes a "
            "tokenizer.json, which Hugging Face tokenizers and train --tokenizer read.",
        .examples = "qkv tokenize run/ \"To be, or not to be\"\n"
                    "qkv tokenize run/ --pieces \"To be\"\n"
                    "qkv tokenize run/ < book.txt | qkv tokenize run/ --ids > same-book.txt\n"
                    "qkv tokenize --train book.txt --tokenizer bpe:4096 -o tokenizer.json",
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
