/* qkv/chat.h: templates of chats: the text that a model sees of a talk; a part of qkv.h, which includes it.
 * Experimental.
 *
 * A model that was trained on talks comes with a template: a program in Jinja that writes the messages of a talk, with
 * their roles, tools and documents, as one text. Templates run as in Hugging Face's transformers: jinja2's
 * ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, break and continue, {% generation %} blocks, tojson
 * without escapes of HTML, raise_exception and strftime_now. Values print as in Python. Integers have 64 bits.
 *
 * The text has the tokens that begin and end a text where the template writes them. So encode it without adding any,
 * and with special tokens recognised: qkv_tokenizer_encode(…, specials true, …). Texts of the talk that look like
 * special tokens become special tokens, as in transformers.
 *
 * Templates and talks may come from strangers: templates cannot reach files, the network or the memory of the process,
 * and they end with a sentence at the limits below. */
#ifndef QKV_PUBLIC_CHAT_H
#define QKV_PUBLIC_CHAT_H

#include "qkv/context.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* Limits of one rendering, and of what it reads, in bytes: a template; a talk; the text; the values. Steps are
 * operations, and pieces of 64 bytes of texts. */
#define QKV_CHAT_BYTES  ((size_t)1 << 20)
#define QKV_CHAT_TALK   ((size_t)1 << 26)
#define QKV_CHAT_OUTPUT ((size_t)1 << 26)
#define QKV_CHAT_MEMORY ((size_t)1 << 29)
#define QKV_CHAT_STEPS  ((size_t)100000000)

/* The templates of a model, parsed, with its special tokens. Read-only after it is made: several threads may render
 * with it, each with a context of its own. */
struct qkv_chat_template;

/* Parses one template. `name` is for sentences: the path of its file. *out is the caller's. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT: "NAME, line 12: …". */
QKV_API enum qkv_status qkv_chat_template_parse(struct qkv_context *ctx, const char *name, const char *text,
                                                size_t size, struct qkv_chat_template **out);
/* Opens the templates of a model, and the texts of its special tokens. `path` is one of
 * - a folder, published or a run: chat_template.jinja, else chat_template.json, else the key chat_template of
 *   tokenizer_config.json (a text, or a list of templates with names); and additional_chat_templates/NAME.jinja. The
 *   tokens are those of tokenizer_config.json and special_tokens_map.json;
 * - a GGUF file: the keys tokenizer.chat_template and tokenizer.chat_template.NAME;
 * - any other file: one template.
 * `file` is a file with one template that replaces those of the model; NULL: none. *out is the caller's. A model
 * without a template is QKV_FILE, with a sentence that says so. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE,
 * QKV_FORMAT. */
QKV_API enum qkv_status qkv_chat_template_open(struct qkv_context *ctx, const char *path, const char *file,
                                               struct qkv_chat_template **out);
/* Frees templates. NULL is allowed. */
QKV_API void qkv_chat_template_free(struct qkv_chat_template *t);
/* Gives the name of the i-th template, "default", and its source of *size bytes, zero-terminated; false past the last.
 * Both are owned by `t`. Any thread. */
QKV_API bool qkv_chat_template_at(const struct qkv_chat_template *t, size_t i, const char **name, const char **source,
                                  size_t *size);

struct qkv_chat_template_options {
    size_t size; /* sizeof(struct qkv_chat_template_options), set by qkv_chat_template_defaults */
    /* The template to use, where there are several. NULL: tool_use if the talk has tools and the model such a template,
     * else default. */
    const char *name;
    /* Further variables of the template, as the text of a JSON object: {"enable_thinking": false}. They win over those
     * of the talk, and both over the model's special tokens. NULL: none. */
    const char *variables;
    int64_t now; /* seconds since 1970, which strftime_now shows in the zone of this machine; 0: the clock */
    bool add_generation_prompt; /* the text ends with what begins an answer of the model */
};
/* No name, no variables, the clock, no beginning of an answer. */
QKV_API void qkv_chat_template_options_init(struct qkv_chat_template_options *options, size_t size);
static inline struct qkv_chat_template_options qkv_chat_template_defaults(void) {
    struct qkv_chat_template_options options;
    qkv_chat_template_options_init(&options, sizeof options);
    return options;
}

/* A rendered talk. */
struct qkv_rendered {
    char *text; /* UTF-8, zero-terminated; it may have zeros inside if the template writes them */
    size_t size;
    /* The bytes that {% generation %} blocks wrote, [spans[2·i], spans[2·i + 1]), in order: the texts of the model, for
     * training on them alone. Blocks inside macros and captured blocks are not in the list. */
    size_t *spans;
    size_t span_count;
};
/* Renders a talk, which is JSON: a list of messages, or an object with "messages", "tools", "documents" and further
 * variables of the template. A message is an object with a text "role"; its "content" is a text, null, or a list of
 * parts {"type": "text", "text": …} if the template reads such lists. Parts of other types, such as images, are refused
 * by name. *out is the caller's, freed with qkv_rendered_free. `options` NULL: the defaults. Sentences name the line of
 * the template. Fails with QKV_ARGUMENT (there is no template of that name), QKV_MEMORY (also at the limit of memory),
 * QKV_FORMAT (the talk, or what the template says about it), QKV_STOPPED. */
QKV_API enum qkv_status qkv_chat_template_render(struct qkv_context *ctx, const struct qkv_chat_template *t,
                                                 const struct qkv_chat_template_options *options, const char *talk,
                                                 size_t size, struct qkv_rendered *out);
/* Frees the text and the spans. NULL is allowed. */
QKV_API void qkv_rendered_free(struct qkv_rendered *rendered);

#ifdef __cplusplus
}
#endif
#endif

#endif
