/* Kinds of values: their names in Python, and which values are true. */
#include "chat/chat.h"

#include <string.h>

bool qkv_chat_text_is(struct chat_value v, const char *text) {
    return v.kind == CHAT_TEXT && strlen(text) == v.size && !memcmp(v.text, text, v.size);
}

const char *qkv_chat_type(struct chat_value v) {
    static const char *const types[] = {
#define VALUE_TYPE(name, type) type,
        CHAT_KIND_LIST(VALUE_TYPE)
#undef VALUE_TYPE
    };
    return v.kind == CHAT_TEXT && v.safe ? "Markup" : types[v.kind];
}

bool qkv_chat_truth(struct chat_value v) {
    switch (v.kind) {
    case CHAT_MISSING:
    case CHAT_UNDEFINED:
    case CHAT_NONE:
        return false;
    case CHAT_BOOL:
        return v.truth;
    case CHAT_INT:
        return v.integer != 0;
    case CHAT_REAL:
        return v.real != 0;
    case CHAT_TEXT:
        return v.size > 0;
    case CHAT_DICT:
        return v.dict->count > 0;
    case CHAT_LIST:
    case CHAT_TUPLE:
    case CHAT_RANGE:
    case CHAT_ITEMS:
    case CHAT_KEYS:
    case CHAT_VALUES:
        return v.list->count > 0;
    case CHAT_LOOP:
        return v.loop->count > 0;
    default:
        return true;
    }
}
