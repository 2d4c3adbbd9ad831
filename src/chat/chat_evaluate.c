/* The values of expressions. A node's function is not inlined, so that nested expressions need little of the stack. */
#include "chat/chat_nodes.h"

#include <string.h>

#define EVALUATE(name)                                                                                                 \
    __attribute__((noinline)) static enum qkv_status name(struct chat_run *run, const struct chat_node *node,          \
                                                          struct chat_value *out)

EVALUATE(evaluate_name) {
    for (const struct chat_scope *scope = run->scope; scope; scope = scope->parent) {
        for (size_t i = 0; i < scope->count; i++) {
            if (scope->items[i].name != node->name) continue;
            *out = scope->items[i].value;
            return QKV_OK;
        }
    }
    *out = run->names[node->name];
    if (out->kind != CHAT_MISSING) return QKV_OK;
    return qkv_chat_undefined(run, *out, run->program->names[node->name], out);
}

EVALUATE(evaluate_member) {
    struct chat_value object;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &object);
    run->line = node->line;
    return status ? status : qkv_chat_attribute(run, object, node->value, out);
}

EVALUATE(evaluate_slice) {
    const struct chat_node *bounds[3] = {node->b->a, node->b->b, node->b->c};
    struct chat_value object, parts[3] = {{0}, {0}, {0}};
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &object);
    for (size_t i = 0; i < 3 && !status; i++)
        if (bounds[i]) status = qkv_chat_evaluate(run, bounds[i], &parts[i]);
    run->line = node->line;
    return status ? status : qkv_chat_slice(run, object, parts, out);
}

EVALUATE(evaluate_index) {
    struct chat_value object, key;
    if (node->b->kind == CHAT_SLICE) return evaluate_slice(run, node, out);
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &object);
    if (!status) status = qkv_chat_evaluate(run, node->b, &key);
    run->line = node->line;
    return status ? status : qkv_chat_item(run, object, key, out);
}

static size_t evaluate_count(const struct chat_node *list) {
    size_t n = 0;
    for (; list; list = list->next) n++;
    return n;
}

EVALUATE(evaluate_list) {
    struct chat_list *list = qkv_chat_list(run, evaluate_count(node->list));
    enum qkv_status status = list ? QKV_OK : QKV_MEMORY;
    size_t i = 0;
    for (const struct chat_node *one = node->list; one && !status; one = one->next) {
        if (one->kind == CHAT_SLICE) return qkv_chat_fail(run, "slices stand alone in brackets");
        status = qkv_chat_evaluate(run, one, &list->items[i++]);
    }
    *out = (struct chat_value){.kind = node->kind == CHAT_MAKE_LIST ? CHAT_LIST : CHAT_TUPLE, .list = list};
    return status;
}

EVALUATE(evaluate_dict) {
    enum qkv_status status = qkv_chat_dict(run, CHAT_DICT, evaluate_count(node->list) / 2, out);
    for (const struct chat_node *one = node->list; one && !status; one = one->next->next) {
        struct chat_value key, value;
        status = qkv_chat_evaluate(run, one, &key);
        if (!status) status = qkv_chat_evaluate(run, one->next, &value);
        if (!status) status = qkv_chat_set(run, out->dict, key, value);
    }
    return status;
}

EVALUATE(evaluate_unary) {
    struct chat_value a;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &a);
    run->line = node->line;
    if (status || node->op != '!') return status ? status : qkv_chat_negate(run, node->op == '-', a, out);
    *out = qkv_chat_bool(!qkv_chat_truth(a));
    return QKV_OK;
}

EVALUATE(evaluate_binary) {
    struct chat_value a, b;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &a);
    if (!status) status = qkv_chat_evaluate(run, node->b, &b);
    run->line = node->line;
    return status ? status : qkv_chat_operate(run, (enum chat_operator)node->op, a, b, out);
}

EVALUATE(evaluate_words) {
    enum qkv_status status = QKV_OK;
    for (const struct chat_node *one = node->list; one && !status; one = one->next) {
        status = qkv_chat_evaluate(run, one, out);
        if (!status && qkv_chat_truth(*out) == (node->kind == CHAT_OR)) break;
    }
    return status;
}

EVALUATE(evaluate_concat) {
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = QKV_OK;
    for (const struct chat_node *one = node->list; one && !status; one = one->next) {
        struct chat_value v;
        status = qkv_chat_evaluate(run, one, &v);
        if (!status) status = qkv_chat_put_str(run, v);
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

EVALUATE(evaluate_chain) {
    struct chat_value left, right;
    bool result = true;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &left);
    for (const struct chat_node *one = node->list; one && !status && result; one = one->next) {
        status = qkv_chat_evaluate(run, one->a, &right);
        run->line = one->line;
        if (!status) status = qkv_chat_compare(run, (enum chat_comparison)one->op, left, right, &result);
        left = right;
    }
    *out = qkv_chat_bool(result);
    return status;
}

EVALUATE(evaluate_choice) {
    struct chat_value condition;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &condition);
    if (status) return status;
    if (qkv_chat_truth(condition)) return qkv_chat_evaluate(run, node->b, out);
    if (node->c) return qkv_chat_evaluate(run, node->c, out);
    return qkv_chat_undefined_hint(run, "the inline if-expression evaluated to false and no else section was defined.",
                                   out);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static enum qkv_status evaluate_keyword(struct chat_run *run, struct chat_args *args, size_t *capacity,
                                        struct chat_value name, struct chat_value value) {
    if (name.kind != CHAT_TEXT) return qkv_chat_fail(run, "keywords must be strings");
    for (size_t i = 0; i < args->keyword_count; i++)
        if (args->keywords[i].size == name.size && !memcmp(args->keywords[i].name, name.text, name.size))
            return qkv_chat_fail(run, "got multiple values for keyword argument '%.*s'", (int)qkv_min(name.size, 100),
                                 name.text);
    if (args->keyword_count == *capacity) {
        const size_t more = qkv_max(4, 2 * *capacity);
        struct chat_keyword *keywords = qkv_chat_take(&run->pool, more, sizeof *keywords);
        if (!keywords) return QKV_MEMORY;
        if (args->keyword_count) memcpy(keywords, args->keywords, args->keyword_count * sizeof *keywords);
        args->keywords = keywords;
        *capacity = more;
    }
    args->keywords[args->keyword_count++] = (struct chat_keyword){name.text, name.size, value};
    return qkv_chat_work(run, 8 * args->keyword_count);
}

/* "*list" or "**dict". */
static enum qkv_status evaluate_star(struct chat_run *run, bool two, struct chat_value v, struct chat_items *items,
                                     struct chat_args *args, size_t *capacity) {
    struct chat_value *more;
    size_t count = 0;
    enum qkv_status status = QKV_OK;
    if (two && v.kind != CHAT_DICT)
        return qkv_chat_fail(run, "argument after ** must be a mapping, not %s", qkv_chat_type(v));
    if (!two) status = qkv_chat_iterate(run, v, &more, &count);
    for (size_t i = 0; i < count && !status; i++) status = qkv_chat_add(run, items, more[i]);
    for (size_t i = 0; two && i < v.dict->count && !status; i++)
        status = evaluate_keyword(run, args, capacity, v.dict->entries[i].key, v.dict->entries[i].value);
    return status;
}

__attribute__((noinline)) static enum qkv_status evaluate_arguments(struct chat_run *run, const struct chat_node *list,
                                                                    struct chat_value caller, struct chat_args *args) {
    struct chat_items items = {0};
    size_t capacity = 0;
    enum qkv_status status = QKV_OK;
    args->keywords = NULL;
    args->keyword_count = 0;
    for (; list && !status; list = list->next) {
        const bool named = list->kind == CHAT_KEYWORD || list->kind == CHAT_STAR;
        struct chat_value v;
        status = qkv_chat_evaluate(run, named ? list->a : list, &v);
        if (status) break;
        if (list->kind == CHAT_KEYWORD)
            status = evaluate_keyword(run, args, &capacity, list->value, v);
        else if (list->kind == CHAT_STAR)
            status = evaluate_star(run, list->op == 2, v, &items, args, &capacity);
        else
            status = qkv_chat_add(run, &items, v);
    }
    if (!status && caller.kind != CHAT_MISSING)
        status = evaluate_keyword(run, args, &capacity, qkv_chat_text("caller", 6), caller);
    args->items = items.items;
    args->count = items.count;
    return status;
}

static enum qkv_status evaluate_called(struct chat_run *run, struct chat_value callee, struct chat_args *args,
                                       struct chat_value *out) {
    const struct chat_value none = {.kind = CHAT_MISSING};
    enum qkv_status status;
    switch (callee.kind) {
    case CHAT_FUNCTION:
        return qkv_chat_call_row(run, callee.row, "the function", none, args, out);
    case CHAT_METHOD:
        status = qkv_chat_call_row(run, callee.method->row, "the method", callee.method->self, args, out);
        if (!status && out->kind == CHAT_TEXT && callee.method->self.kind == CHAT_TEXT)
            out->safe = callee.method->self.safe;
        return status;
    case CHAT_MACRO:
        return run->calls->macro(run, callee.macro, args, out);
    case CHAT_LOOP:
        if (args->count != 1) return qkv_chat_fail(run, "loop() takes one argument");
        return run->calls->again(run, callee.loop, args->items[0], out);
    case CHAT_JOINER:
        *out = callee.cycle->used ? callee.cycle->separator : qkv_chat_text("", 0);
        callee.cycle->used = true;
        return QKV_OK;
    case CHAT_UNDEFINED:
        return qkv_chat_fail_undefined(run, callee);
    default:
        return qkv_chat_fail(run, "'%s' object is not callable", qkv_chat_type(callee));
    }
}

enum qkv_status qkv_chat_evaluate_call(struct chat_run *run, const struct chat_node *node, struct chat_value caller,
                                       struct chat_value *out) {
    struct chat_value callee;
    struct chat_args args;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &callee);
    if (!status) status = evaluate_arguments(run, node->list, caller, &args);
    run->line = node->line;
    return status ? status : evaluate_called(run, callee, &args, out);
}

/* A filter or a test. */
EVALUATE(evaluate_row) {
    struct chat_value self = run->block;
    struct chat_args args;
    const bool filter = node->kind == CHAT_FILTER;
    enum qkv_status status = node->a ? qkv_chat_evaluate(run, node->a, &self) : QKV_OK;
    if (!status) status = evaluate_arguments(run, node->list, (struct chat_value){.kind = CHAT_MISSING}, &args);
    run->line = node->line;
    if (status) return status;
    if (!node->row)
        return qkv_chat_fail(run, "No %s named '%.*s' found.", filter ? "filter" : "test",
                             (int)qkv_min(node->value.size, 100), node->value.text);
    status = qkv_chat_call_row(run, node->row, filter ? "the filter" : "the test", self, &args, out);
    return status;
}

/* ---- all expressions --------------------------------------------------------------------------------------------- */

static enum qkv_status evaluate_node(struct chat_run *run, const struct chat_node *node, struct chat_value *out) {
    switch (node->kind) {
    case CHAT_MEMBER:
        return evaluate_member(run, node, out);
    case CHAT_INDEX:
        return evaluate_index(run, node, out);
    case CHAT_MAKE_LIST:
    case CHAT_MAKE_TUPLE:
        return evaluate_list(run, node, out);
    case CHAT_MAKE_DICT:
        return evaluate_dict(run, node, out);
    case CHAT_UNARY:
        return evaluate_unary(run, node, out);
    case CHAT_BINARY:
        return evaluate_binary(run, node, out);
    case CHAT_AND:
    case CHAT_OR:
        return evaluate_words(run, node, out);
    case CHAT_CONCAT:
        return evaluate_concat(run, node, out);
    case CHAT_CHAIN:
        return evaluate_chain(run, node, out);
    case CHAT_CHOICE:
        return evaluate_choice(run, node, out);
    case CHAT_CALL:
        return qkv_chat_evaluate_call(run, node, (struct chat_value){.kind = CHAT_MISSING}, out);
    case CHAT_FILTER:
    case CHAT_TEST:
        return evaluate_row(run, node, out);
    default:
        return qkv_chat_fail(run, "this is no expression");
    }
}

enum qkv_status qkv_chat_evaluate(struct chat_run *run, const struct chat_node *node, struct chat_value *out) {
    if (node->kind == CHAT_CONSTANT) {
        *out = node->value;
        return QKV_OK;
    }
    run->line = node->line;
    if (node->kind == CHAT_NAME) return evaluate_name(run, node, out);
    *out = (struct chat_value){.kind = CHAT_MISSING};
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    status = evaluate_node(run, node, out);
    qkv_chat_leave(run);
    return status;
}
