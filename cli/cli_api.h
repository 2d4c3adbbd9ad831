/* cli_api.h: requests for continuations as programs for the interface of OpenAI write them, and their answers. Requests
 * are JSON; an engine answers them. api_fields.c reads the fields, api_form.c those of constraints, api_request.c the
 * prompts, api_answer.c writes. */
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
    const char *name;                  /* of the model, in answers */
    struct cli_api_forms *forms;       /* constraints of earlier requests; NULL: each request makes its own */
    struct qkv_generate_options usual; /* sampling, tokens and ends where a request says nothing */
};

/* Why a request is refused. */
struct cli_api_error {
    int status;     /* of HTTP */
    char field[64]; /* "": the whole request */
    char text[600];
};
/* Fills it in; returns false. */
bool cli_api_refuse(struct cli_api_error *error, const char *field, const char *format, ...) CLI_PRINTF(3, 4);
/* Writes {"message", "type", "param", "code"}. */
void cli_api_put_error(struct qkv_json *out, const struct cli_api_error *error);

/* The fields of a request; −1, or NaN: it does not have them. */
struct cli_api_values {
    double temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
    int64_t n, max_tokens, max_completion_tokens, min_tokens, seed, top_k, logprobs, top_logprobs, chat_logprobs, echo;
};

enum { CLI_API_TOP = 20 }; /* likeliest tokens that a request can ask for */
/* One choice of an answer. */
struct cli_api_choice {
    char *text;
    size_t size, room;
    struct cli_api_token {
        struct qkv_token_score score;
        struct qkv_token_score top[CLI_API_TOP];
        size_t top_count;
        bool prompt;
    } * tokens;
    size_t count, token_room;
    enum qkv_finish finish;
};
struct cli_api_request {
    bool chat; /* else a completion */
    struct cli_api_values values;
    const json_t *body; /* borrowed while the request is read */
    struct qkv_engine_request ask;
    struct qkv_generate_options options;
    struct qkv_constraint *constraint; /* NULL: none */
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
    struct cli_api_choice *choices; /* (prompts, n) */
    size_t choice_count, open;      /* open: choices that have not ended */
    size_t prompt_tokens, cached_tokens, tokens;
    struct cli_api_error error; /* of a choice that failed */
};

/* Reads the fields of the body of a request: all but its prompts. False: *error says why it is refused. */
bool cli_api_read_fields(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Reads the fields that say the form of the answers. False: *error. */
bool cli_api_read_form(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Constraints that requests share; they serve the thread of api->ctx. NULL: no memory. */
struct cli_api_forms *cli_api_forms_open(void);
void cli_api_forms_close(struct cli_api_forms *forms);
/* Reads a body. `seed`: where the request has none. False: *error; close the request in both cases. */
bool cli_api_read(const struct cli_api *api, const json_t *body, bool chat, uint64_t seed,
                  struct cli_api_request *request, struct cli_api_error *error);
/* Gives the request to the engine. False: *error. */
bool cli_api_submit(const struct cli_api *api, struct cli_api_request *request, struct cli_api_error *error);
/* Takes an event of the engine if it is of this request. False without memory. */
bool cli_api_owns(const struct cli_api_request *request, const struct qkv_engine_event *event);
bool cli_api_take(struct cli_api_request *request, const struct qkv_engine_event *event);
/* Writes the whole answer, an object. `number` is part of its id; `created`: seconds since 1970. */
void cli_api_put_answer(const struct cli_api *api, const struct cli_api_request *request, uint64_t number,
                        int64_t created, struct qkv_json *out);
void cli_api_close(struct cli_api_request *request);

#endif
