/* The classes of transformers: the meaning of a class's name, the same in every family. */
#include <stdlib.h>
#include <string.h>

#include "family/family_tables.h"

/* The end of a name, and the value of `class` in tables; of two that end alike the longer one is first. */
static const struct {
    const char *end, *class;
} ends[] = {
    {"ForCausalLM", "ForCausalLM"},
    {"LMHeadModel", "ForCausalLM"},
    {"ForMaskedLM", "ForMaskedLM"},
    {"ForPreTraining", "ForPreTraining"},
    {"ForConditionalGeneration", "ForConditionalGeneration"},
    {"MTModel", "ForConditionalGeneration"},
    {"ForSequenceClassification", "ForSequenceClassification"},
    {"ForTokenClassification", "ForTokenClassification"},
    {"ForQuestionAnswering", "ForQuestionAnswering"},
    {"ForImageClassification", "ForImageClassification"},
    {"EncoderModel", "EncoderModel"},
    {"Model", "Model"},
};

static const char *class_of(const char *architecture, size_t n) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i].end);
        if (n >= end && !strncmp(architecture + n - end, ends[i].end, end)) return ends[i].class;
    }
    return NULL;
}

const char *qkv_family_class(const struct qkv_family *family, const char *architecture) {
    const char *class = class_of(architecture, strlen(architecture)), *list = family->classes;
    struct qkv_family_piece piece;
    while (class && qkv_family_next(&list, &piece))
        if (!strcmp(piece.key, class)) return class_of(piece.value, strlen(piece.value));
    return class;
}

const char *qkv_family_architecture(const struct qkv_family *family, const char *class, size_t *n) {
    for (const char *at = family->architectures; *at; at += *n, at += *at == ',') {
        *n = strcspn(at, ",");
        const char *here = class_of(at, *n);
        if (here && class && !strcmp(here, class)) return at;
    }
    *n = strcspn(family->architectures, ",");
    return family->architectures;
}

const char *const qkv_family_answer[2] = {QKV_ANSWER_BEGIN, QKV_ANSWER_END};

const struct qkv_family_rule qkv_family_decoder_classes[] = {
    {"'ForCausalLM'", "head.kind='lm'"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='last'; head.classes=$id2label:count; "
                                    "head.bias=false; " QKV_FAMILY_SCORES},
    {"'ForTokenClassification'",
     "head.kind='classify_tokens'; head.classes=$id2label:count; head.bias=true; " QKV_FAMILY_SCORES},
    {"'ForQuestionAnswering'", "head.kind='classify_tokens'; head.classes=2; head.bias=true; " QKV_FAMILY_SCORES},
    {"'Model'", QKV_FAMILY_BARE "; head.bias=false; head.scale=1.0; head.softcap=0.0"},
    {NULL, NULL},
};
