/* Statements: text, prints, conditions, loops, assignments, macros. A loop, a macro and some blocks have a scope, in
 * which they assign; the variables around it are read only. */
#include "chat/chat_nodes.h"

#include <string.h>

#define EXECUTE(name)                                                                                                  \
    __attribute__((noinline)) static enum qkv_status name(struct chat_run *run, const struct chat_node *node)

static struct chat_scope *execute_scope(struct chat_run *run, struct chat_scope *parent) {
    struct chat_scope *scope = qkv_chat_take(&run->pool, 1, sizeof *scope);
    if (scope) scope->parent = parent;
    return scope;
}

/* ---- assignments ------------------------------------------------------------------------------------------------- */

static enum qkv_status execute_bind(struct chat_run *run, int name, struct chat_value value) {
    struct chat_scope *scope = run->scope;
    if (!scope) {
        run->names[name] = value;
        return QKV_OK;
    }
    for (size_t i = 0; i < scope->count; i++) {
        if (scope->items[i].name != name) continue;
        scope->items[i].value = value;
        return QKV_OK;
    }
    if (scope->count == scope->capacity) {
        const size_t capacity = qkv_max(4, 2 * scope->capacity);
        struct chat_binding *items = qkv_chat_take(&run->pool, capacity, sizeof *items);
        if (!items) return QKV_MEMORY;
        if (scope->count) memcpy(items, scope->items, scope->count * sizeof *items);
        scope->items = items;
        scope->capacity = capacity;
    }
    scope->items[scope->count++] = (struct chat_binding){name, value};
    return QKV_OK;
}

static enum qkv_status execute_assign(struct chat_run *run, const struct chat_node *target, struct chat_value value) {
    struct chat_value *items, object;
    size_t count, wanted = 0;
    enum qkv_status status;
    if (target->kind == CHAT_NAME) return execute_bind(run, target->name, value);
    if (target->kind == CHAT_MEMBER) {
        status = qkv_chat_evaluate(run, target->a, &object);
        if (status) return status;
        if (object.kind != CHAT_NAMESPACE) return qkv_chat_fail(run, "cannot assign attribute on non-namespace object");
        return qkv_chat_set(run, object.dict, target->value, value);
    }
    for (const struct chat_node *one = target->list; one; one = one->next) wanted++;
    if (value.kind != CHAT_UNDEFINED && value.kind != CHAT_TEXT && value.kind != CHAT_DICT && !qkv_chat_is_list(value))
        return qkv_chat_fail(run, "cannot unpack non-iterable %s object", qkv_chat_type(value));
    status = qkv_chat_iterate(run, value, &items, &count);
    if (status) return status;
    if (count < wanted) return qkv_chat_fail(run, "not enough values to unpack (expected %zu, got %zu)", wanted, count);
    if (count > wanted) return qkv_chat_fail(run, "too many values to unpack (expected %zu)", wanted);
    for (const struct chat_node *one = target->list; one && !status; one = one->next)
        status = execute_assign(run, one, *items++);
    return status;
}

EXECUTE(execute_set) {
    struct chat_value value;
    enum qkv_status status = qkv_chat_evaluate(run, node->b, &value);
    return status ? status : execute_assign(run, node->a, value);
}

/* Runs a list in a scope of its own. */
static enum qkv_status execute_inside(struct chat_run *run, const struct chat_node *list) {
    struct chat_scope *had = run->scope;
    run->scope = execute_scope(run, had);
    enum qkv_status status = run->scope ? qkv_chat_execute(run, list) : QKV_MEMORY;
    run->scope = had;
    return status;
}

/* The text of a block, after its filters. */
static enum qkv_status execute_capture(struct chat_run *run, const struct chat_node *node, struct chat_value *out) {
    const size_t mark = qkv_chat_begin(run);
    run->captures++;
    enum qkv_status status = execute_inside(run, node->list);
    run->captures--;
    if (!status) status = qkv_chat_end(run, mark, out);
    if (status || !node->b) return status;
    run->block = *out;
    return qkv_chat_evaluate(run, node->b, out);
}

EXECUTE(execute_set_block) {
    struct chat_value value;
    enum qkv_status status = execute_capture(run, node, &value);
    return status ? status : execute_assign(run, node->a, value);
}

EXECUTE(execute_filter_block) {
    struct chat_value value;
    enum qkv_status status = execute_capture(run, node, &value);
    return status ? status : qkv_chat_put_str(run, value);
}

EXECUTE(execute_with) {
    struct chat_scope *had = run->scope, *scope = execute_scope(run, had);
    enum qkv_status status = scope ? QKV_OK : QKV_MEMORY;
    for (const struct chat_node *set = node->other; set && !status; set = set->next) {
        struct chat_value value; /* names of the block around, not of its own */
        status = qkv_chat_evaluate(run, set->b, &value);
        run->scope = scope;
        if (!status) status = execute_assign(run, set->a, value);
        run->scope = had;
    }
    run->scope = scope;
    if (!status) status = qkv_chat_execute(run, node->list);
    run->scope = had;
    return status;
}

EXECUTE(execute_block) {
    const size_t begin = run->text.size;
    enum qkv_status status = execute_inside(run, node->list);
    if (status || !node->flag || run->captures) return status;
    struct chat_span *spans =
        qkv_list_room(run->ctx, run->spans, &run->span_capacity, run->span_count, 1, sizeof *spans);
    if (!spans) return QKV_MEMORY;
    run->spans = spans;
    spans[run->span_count++] = (struct chat_span){begin, run->text.size};
    return QKV_OK;
}

EXECUTE(execute_if) {
    for (const struct chat_node *branch = node->list; branch; branch = branch->next) {
        struct chat_value condition = qkv_chat_bool(true);
        enum qkv_status status = branch->a ? qkv_chat_evaluate(run, branch->a, &condition) : QKV_OK;
        if (status) return status;
        if (qkv_chat_truth(condition)) return qkv_chat_execute(run, branch->list);
    }
    return QKV_OK;
}

EXECUTE(execute_print) {
    struct chat_value value;
    enum qkv_status status = qkv_chat_evaluate(run, node->a, &value);
    run->line = node->line;
    return status ? status : qkv_chat_put_str(run, value);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* Whether the loop's condition is true for an item, which the target in run->scope becomes. */
static enum qkv_status execute_condition(struct chat_run *run, const struct chat_node *node, struct chat_value item,
                                         bool *truth) {
    struct chat_value condition = qkv_chat_bool(true);
    run->scope->count = 0;
    run->line = node->line;
    enum qkv_status status = execute_assign(run, node->a, item);
    if (!status && node->c) status = qkv_chat_evaluate(run, node->c, &condition);
    *truth = !status && qkv_chat_truth(condition);
    return status;
}

/* Only the items for which the condition is true, where the body asks how many there are. */
static enum qkv_status execute_choose(struct chat_run *run, const struct chat_node *node, struct chat_loop *loop) {
    struct chat_items list = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < loop->count && !status; i++) {
        bool truth;
        status = execute_condition(run, node, loop->items[i], &truth);
        if (truth) status = qkv_chat_add(run, &list, loop->items[i]);
    }
    loop->items = list.items;
    loop->count = list.count;
    return status;
}

/* Runs the body for each item; run->scope is the loop's. *any: it ran. */
static enum qkv_status execute_items(struct chat_run *run, const struct chat_node *node, struct chat_loop *loop,
                                     bool *any) {
    const bool asks = node->uses || node->flag;
    enum qkv_status status = asks && node->c ? execute_choose(run, node, loop) : QKV_OK;
    for (loop->index0 = 0; loop->index0 < loop->count && !status; loop->index0++) {
        bool truth = true;
        run->scope->count = 0;
        status = asks ? execute_assign(run, node->a, loop->items[loop->index0])
                      : execute_condition(run, node, loop->items[loop->index0], &truth);
        if (!truth || status) continue;
        *any = true;
        if (asks) status = execute_bind(run, run->program->loop, (struct chat_value){.kind = CHAT_LOOP, .loop = loop});
        if (!status) status = qkv_chat_work(run, 0);
        if (!status) status = qkv_chat_execute(run, node->list);
        const bool ends = run->flow == CHAT_BREAK;
        run->flow = CHAT_NEXT;
        if (ends) break;
    }
    return status;
}

static enum qkv_status execute_loop(struct chat_run *run, const struct chat_node *node, struct chat_value items,
                                    struct chat_scope *around, int64_t depth0) {
    struct chat_scope *had = run->scope;
    struct chat_loop *loop = qkv_chat_take(&run->pool, 1, sizeof *loop);
    bool any = false;
    if (!loop) return QKV_MEMORY;
    *loop = (struct chat_loop){.depth0 = depth0, .node = node->flag ? node : NULL, .scope = around};
    enum qkv_status status = qkv_chat_iterate(run, items, &loop->items, &loop->count);
    run->scope = execute_scope(run, around);
    if (!run->scope) status = QKV_MEMORY;
    if (!status) status = execute_items(run, node, loop, &any);
    run->scope = around;
    if (!status && !any && node->other) status = execute_inside(run, node->other);
    run->scope = had;
    return status;
}

EXECUTE(execute_for) {
    struct chat_value items;
    enum qkv_status status = qkv_chat_evaluate(run, node->b, &items);
    run->line = node->line;
    return status ? status : execute_loop(run, node, items, run->scope, 0);
}

enum qkv_status qkv_chat_call_loop(struct chat_run *run, const struct chat_loop *loop, struct chat_value items,
                                   struct chat_value *out) {
    const size_t mark = qkv_chat_begin(run);
    if (!loop->node) return qkv_chat_fail(run, "The loop must have the 'recursive' marker to be called recursively.");
    run->captures++;
    enum qkv_status status = execute_loop(run, loop->node, items, loop->scope, loop->depth0 + 1);
    run->captures--;
    return status ? status : qkv_chat_end(run, mark, out);
}

/* ---- macros ------------------------------------------------------------------------------------------------------ */

static struct chat_value execute_macro_value(struct chat_run *run, const struct chat_node *node) {
    struct chat_macro *macro = qkv_chat_take(&run->pool, 1, sizeof *macro);
    if (!macro) return (struct chat_value){.kind = CHAT_MISSING};
    *macro = (struct chat_macro){.node = node, .scope = run->scope};
    return (struct chat_value){.kind = CHAT_MACRO, .macro = macro};
}

EXECUTE(execute_macro) {
    const struct chat_value macro = execute_macro_value(run, node);
    return macro.kind == CHAT_MISSING ? QKV_MEMORY : execute_bind(run, node->name, macro);
}

EXECUTE(execute_call_block) {
    const struct chat_value caller = execute_macro_value(run, node);
    struct chat_value value;
    if (caller.kind == CHAT_MISSING) return QKV_MEMORY;
    enum qkv_status status = qkv_chat_evaluate_call(run, node->a, caller, &value);
    return status ? status : qkv_chat_put_str(run, value);
}

/* Takes the keyword argument of that name out of the arguments; MISSING: there is none. */
static struct chat_value execute_take_keyword(struct chat_args *args, struct chat_value name) {
    struct chat_value value = {.kind = CHAT_MISSING};
    for (size_t i = 0; i < args->keyword_count; i++) {
        if (args->keywords[i].size != name.size || memcmp(args->keywords[i].name, name.text, name.size)) continue;
        value = args->keywords[i].value;
        args->keyword_count--;
        memmove(args->keywords + i, args->keywords + i + 1, (args->keyword_count - i) * sizeof *args->keywords);
        break;
    }
    return value;
}

/* "parameter 'x' was not provided" */
static enum qkv_status execute_not_provided(struct chat_run *run, struct chat_value name, struct chat_value *out) {
    const size_t mark = qkv_chat_begin(run);
    struct chat_value hint;
    enum qkv_status status = qkv_chat_puts(run, "parameter '");
    if (!status) status = qkv_chat_put(run, name.text, name.size);
    if (!status) status = qkv_chat_put(run, "' was not provided", 19); /* with its zero */
    if (!status) status = qkv_chat_end(run, mark, &hint);
    return status ? status : qkv_chat_undefined_hint(run, hint.text, out);
}

/* The parameters of a macro, in run->scope; *used: positional arguments. */
static enum qkv_status execute_parameters(struct chat_run *run, const struct chat_node *node, struct chat_args *args,
                                          size_t *used) {
    enum qkv_status status = QKV_OK;
    *used = 0;
    for (const struct chat_node *one = node->other; one && !status; one = one->next) {
        struct chat_value value = execute_take_keyword(args, one->value);
        if (*used < args->count) {
            if (value.kind != CHAT_MISSING)
                return qkv_chat_fail(run, "macro '%.*s' got multiple values for argument '%.*s'", (int)node->value.size,
                                     node->value.text, (int)one->value.size, one->value.text);
            value = args->items[(*used)++];
        } else if (value.kind == CHAT_MISSING) {
            status = one->a ? qkv_chat_evaluate(run, one->a, &value) : execute_not_provided(run, one->value, &value);
        }
        if (!status) status = execute_bind(run, one->name, value);
    }
    return status;
}

/* caller, kwargs and varargs, where the body has them. */
static enum qkv_status execute_rest(struct chat_run *run, const struct chat_node *node, struct chat_args *args,
                                    size_t used) {
    enum qkv_status status = QKV_OK;
    struct chat_value value;
    const int name_size = (int)qkv_min(node->value.size, 100);
    if (node->uses & CHAT_USES_CALLER) {
        value = execute_take_keyword(args, qkv_chat_text("caller", 6));
        if (value.kind == CHAT_MISSING) status = qkv_chat_undefined_hint(run, "No caller defined", &value);
        if (!status) status = execute_bind(run, run->program->caller, value);
    }
    if (!status && node->uses & CHAT_USES_KEYWORDS) {
        status = qkv_chat_dict(run, CHAT_DICT, args->keyword_count, &value);
        for (size_t i = 0; i < args->keyword_count && !status; i++)
            status = qkv_chat_set(run, value.dict, qkv_chat_text(args->keywords[i].name, args->keywords[i].size),
                                  args->keywords[i].value);
        if (!status) status = execute_bind(run, run->program->keywords, value);
    } else if (!status && args->keyword_count) {
        return qkv_chat_fail(run, "macro '%.*s' takes no keyword argument '%.*s'", name_size, node->value.text,
                             (int)qkv_min(args->keywords->size, 100), args->keywords->name);
    }
    if (!status && node->uses & CHAT_USES_REST) {
        struct chat_items rest = {.count = args->count - used};
        if (rest.count) rest.items = args->items + used;
        status = qkv_chat_items_end(run, &rest, CHAT_TUPLE, &value);
        if (!status) status = execute_bind(run, run->program->rest, value);
    } else if (!status && args->count > used) {
        return qkv_chat_fail(run, "macro '%.*s' takes not more than %zu argument(s)", name_size, node->value.text,
                             used);
    }
    return status;
}

enum qkv_status qkv_chat_call_macro(struct chat_run *run, const struct chat_macro *macro, struct chat_args *args,
                                    struct chat_value *out) {
    struct chat_scope *had = run->scope;
    const size_t mark = qkv_chat_begin(run);
    size_t used;
    run->scope = execute_scope(run, macro->scope);
    enum qkv_status status = run->scope ? execute_parameters(run, macro->node, args, &used) : QKV_MEMORY;
    if (!status) status = execute_rest(run, macro->node, args, used);
    run->captures++;
    if (!status) status = qkv_chat_execute(run, macro->node->list);
    run->captures--;
    run->scope = had;
    return status ? status : qkv_chat_end(run, mark, out);
}

/* ---- all statements ---------------------------------------------------------------------------------------------- */

static enum qkv_status execute_node(struct chat_run *run, const struct chat_node *node) {
    switch (node->kind) {
    case CHAT_DATA:
        return qkv_chat_put(run, node->value.text, node->value.size);
    case CHAT_PRINT:
        return execute_print(run, node);
    case CHAT_IF:
        return execute_if(run, node);
    case CHAT_FOR:
        return execute_for(run, node);
    case CHAT_SET:
        return execute_set(run, node);
    case CHAT_SET_BLOCK:
        return execute_set_block(run, node);
    case CHAT_WITH:
        return execute_with(run, node);
    case CHAT_MACRO_NODE:
        return execute_macro(run, node);
    case CHAT_CALL_BLOCK:
        return execute_call_block(run, node);
    case CHAT_FILTER_BLOCK:
        return execute_filter_block(run, node);
    case CHAT_SCOPE:
        return execute_block(run, node);
    case CHAT_BREAK_NODE:
        run->flow = CHAT_BREAK;
        return QKV_OK;
    case CHAT_CONTINUE_NODE:
        run->flow = CHAT_CONTINUE;
        return QKV_OK;
    default:
        return qkv_chat_fail(run, "this is no statement");
    }
}

enum qkv_status qkv_chat_execute(struct chat_run *run, const struct chat_node *list) {
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    for (; list && !status && run->flow == CHAT_NEXT; list = list->next) {
        run->line = list->line;
        status = execute_node(run, list);
    }
    qkv_chat_leave(run);
    return status;
}
