/* cli_api.h: requests for continuations as programs for the interface of OpenAI write them, and their answers. Requests
 * are JSON; an engine answers them. api_fields.c reads the fields, api_form.c those of constraints, api_request.c the
 * prompts, api_tools.c finds calls of tools, api_answer.c gathers and writes whole answers, api_stream.c pieces of
 * them, api_texts.c has what is made of texts. */
#ifndef QKV_CLI_API_H
#define QKV_CLI_API_H

#include <jansson.h>

#include "cli_chat.h"

/* What requests are answered with. */
struct cli_api {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_engine *engine;
    struct cli_talk_style style;       /* of chats */
    const struct cli_tools *tools;     /* how answers call tools; NULL: not known, calls are text */
    const char *name;                  /* of the model, in answers */
    struct cli_api_forms *forms;       /* constraints of earlier requests; NULL: each request makes its own */
    struct qkv_generate_options usual; /* sampling, tokens and ends where a request says nothing */
    size_t completion_tokens;          /* of completions, where they say nothing; 0: as `usual` */
    size_t form_memory;                /* of each constraint; 0: the library's */
    bool streams;                      /* requests may ask for their answers piece by piece */
    bool ignores;                      /* fields that are not known; else they are refused */
};

/* Why a request is refused. */
struct cli_api_error {
    int status;     /* of HTTP */
    char field[64]; /* "": the whole request */
    char text[600];
};
/* Fills it in; returns false. */
bool cli_api_refuse(struct cli_api_error *error, const char *field, const char *format, ...) CLI_PRINTF(3, 4);
/* Finds the name that a body has as its "model" among some, which end with NULL; without one *found is 0. `others` says
 * where the names are to be found. False: refused, with status 400 or 404. */
typedef const char *cli_api_names(const void *user, size_t i);
bool cli_api_find_model(const json_t *body, cli_api_names *names, const void *user, const char *others, size_t *found,
                        struct cli_api_error *error);
/* Writes {"message", "type", "param", "code"}. */
void cli_api_put_error(struct qkv_json *out, const struct cli_api_error *error);

/* The fields of a request; −1, or NaN: it does not have them. */
struct cli_api_values {
    double temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty, length_penalty;
    int64_t n, max_tokens, max_completion_tokens, min_tokens, seed, top_k, logprobs, top_logprobs, chat_logprobs, echo,
        beam, best_of, stop_early, ignore_eos, stream;
};
extern const struct cli_api_values cli_api_no_values;

enum { CLI_API_TOP = 20 }; /* likeliest tokens that a request can ask for */
struct cli_api_request;
/* One choice of an answer. */
struct cli_api_choice {
    char *text;
    size_t size, room;
    struct cli_api_token {
        struct qkv_token_score score;
        size_t size; /* its bytes in the text */
        size_t top_count;
        bool prompt;
    } * tokens;
    struct qkv_token_score *tops; /* (token_room, top of the request) */
    size_t count, token_room;
    enum qkv_finish finish;
    json_t *calls;       /* of tools: [{"name", "arguments"}]; NULL: none */
    size_t content_size; /* of the text in front of the calls; without calls all of it */
    /* what a stream has told of it */
    size_t told, told_tokens;
    bool begun, ended;
    float *vector; /* of a text: its embedding, or the probabilities of its classes */
    size_t width;
};
/* Writes the answer of a kind of request, an object. */
typedef void cli_api_put(const struct cli_api *api, const struct cli_api_request *request, uint64_t number,
                         int64_t created, struct qkv_json *out);
struct cli_api_request {
    cli_api_put *put;     /* NULL: cli_api_put_answer */
    const char *field;    /* of its prompts */
    bool chat;            /* else a completion */
    bool list, encodes64; /* the body has a list of texts; vectors are written as base64 */
    bool uses_tools;      /* calls of tools are looked for */
    struct cli_api_values values;
    bool streams, tells_usage;
    bool calls_only;     /* the answer is a list of calls of tools */
    const json_t *body;  /* borrowed while the request is read */
    const char *adapter; /* that answers it, by its name, which the answer has; NULL: the model itself */
    struct qkv_engine_request ask;
    struct qkv_generate_options options;
    struct qkv_search_options search;  /* beam 0: there is none */
    struct qkv_constraint *constraint; /* NULL: none */
    size_t form_bytes;                 /* that it takes; 0: it is an earlier request's */
    struct qkv_token_bias *biases;
    const char **stops;
    char **owned; /* texts of stops */
    size_t stop_count;
    /* its prompts, each a request of the engine */
    struct cli_api_prompt {
        char *text;
        size_t size;
        int32_t *ids; /* NULL: the text is the prompt */
        size_t count;
        uint64_t engine_id; /* 0: not submitted yet */
    } * prompts;
    size_t prompt_count;
    char *second;                   /* of pairs */
    char *languages[2];             /* of the sources and of the targets; NULL: the model's own */
    struct cli_api_choice *choices; /* (prompts, n) */
    size_t choice_count, open;      /* open: choices that have not ended */
    size_t prompt_tokens, cached_tokens, tokens;
    struct cli_api_error error; /* of a choice that failed */
};

/* Reads the text of a body, an object; NULL: *error. The caller drops the reference. */
json_t *cli_api_parse(const char *text, size_t size, struct cli_api_error *error);
/* Reads the fields of the body of a request: all but its prompts. False: *error says why it is refused. */
bool cli_api_read_fields(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Reads the fields that say the form of the answers. False: *error. */
bool cli_api_read_form(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Lets the answer be a list of calls of tools alone, of the function `wanted` if it is not NULL. False: *error. */
bool cli_api_form_tools(const struct cli_api *api, struct cli_api_request *request, const json_t *tools,
                        const char *wanted, struct cli_api_error *error);
enum { CLI_API_FORMS = 8 }; /* constraints that are kept for further requests */
/* Constraints that requests share; they serve the thread of api->ctx. NULL: no memory. */
struct cli_api_forms *cli_api_forms_open(void);
void cli_api_forms_close(struct cli_api_forms *forms);
/* Reads a body. `seed`: where the request has none. False: *error; close the request in both cases. */
bool cli_api_read(const struct cli_api *api, const json_t *body, bool chat, uint64_t seed,
                  struct cli_api_request *request, struct cli_api_error *error);
/* The same for texts whose vector, class or translation is wanted (api_texts.c). */
typedef bool cli_api_read_texts(const struct cli_api *api, const json_t *body, struct cli_api_request *request,
                                struct cli_api_error *error);
cli_api_read_texts cli_api_read_embedding, cli_api_read_class, cli_api_read_translation;
/* Reads the fields "source" and "target": languages that the model translates from and to. False: *error. */
bool cli_api_read_languages(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Reads the prompts of the field `key`: a text, token ids, or a list of these. */
bool cli_api_read_prompts(struct cli_api_request *request, const char *key, struct cli_api_error *error);
/* Ends the reading of a request whose prompts are known. */
bool cli_api_read_end(struct cli_api_request *request, struct cli_api_error *error);
/* Renders the talk of a chat, and encodes it; *text is freed with qkv_rendered_free, *ids with free. */
bool cli_api_render(const struct cli_api *api, struct cli_api_request *request, struct qkv_rendered *text,
                    int32_t **ids, size_t *count, struct cli_api_error *error);
/* The most bytes that a request takes until it is answered, with the engine's copies of it; `context` is that of the
 * engine. */
uint64_t cli_api_need(const struct cli_api *api, const struct cli_api_request *request, size_t context);
/* Gives the request to the engine. False: *error. */
bool cli_api_submit(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Takes an event of the engine if it is of this request. False without memory. */
bool cli_api_owns(const struct cli_api_request *request, const struct qkv_engine_event *event);
bool cli_api_take(const struct cli_api *api, struct cli_api_request *request, const struct qkv_engine_event *event);
/* Writes the whole answer, an object. `number` is part of its id; `created`: seconds since 1970. */
void cli_api_put_answer(const struct cli_api *api, const struct cli_api_request *request, uint64_t number,
                        int64_t created, struct qkv_json *out);
/* Writes what is new of a choice as a chunk, an object; false: there is nothing new. The last chunk of a stream with
 * usage is cli_api_put_usage's. */
bool cli_api_put_chunk(const struct cli_api *api, struct cli_api_request *request, size_t choice, uint64_t number,
                       int64_t created, struct qkv_json *out);
void cli_api_put_usage(const struct cli_api *api, const struct cli_api_request *request, uint64_t number,
                       int64_t created, struct qkv_json *out);
void cli_api_close(struct cli_api_request *request);

/* ---- parts of answers (api_answer.c) ----------------------------------------------------------------------------- */

/* Begins the object of an answer, or of a chunk, up to its choices. */
void cli_api_put_head(const struct cli_api *api, const struct cli_api_request *request, bool chunk, uint64_t number,
                      int64_t created, struct qkv_json *out);
/* "usage" of an open object. */
void cli_api_put_counts(const struct cli_api_request *request, struct qkv_json *out);
/* "logprobs" of an open choice: of its tokens from `first` on. */
void cli_api_put_scores(const struct cli_api *api, const struct cli_api_request *request,
                        const struct cli_api_choice *choice, size_t first, struct qkv_json *out);
/* "finish_reason"; NULL for a choice that goes on. */
const char *cli_api_finish(const struct cli_api_choice *choice);
/* The text of prompt i, which echo asks for, in memory of malloc; NULL: no memory. */
char *cli_api_prompt_text(const struct cli_api *api, const struct cli_api_request *request, size_t i, size_t *size);

/* ---- tools (api_tools.c) ----------------------------------------------------------------------------------------- */

/* How the models of a family write calls of tools. */
struct cli_tools;
/* Finds it by the source of a template; NULL: none is known. */
const struct cli_tools *cli_tools_find(const struct qkv_chat_template *template);
/* How many bytes of the text so far cannot become part of a call. */
size_t cli_tools_plain(const struct cli_tools *tools, const char *text, size_t size);
/* Finds the calls in a whole text; *content is the size of the text in front of them. NULL: there are none. */
json_t *cli_tools_parse(const struct cli_tools *tools, const char *text, size_t size, size_t *content);
/* The same of a text that is a list of calls; NULL: it is not whole. */
json_t *cli_tools_parse_list(const char *text, size_t size);
/* "tool_calls" of an open object: all calls of a choice, with an index if they are part of a chunk. */
void cli_tools_put(const json_t *calls, uint64_t number, size_t choice, bool chunk, struct qkv_json *out);

#endif
