/* info_tree.c: prints the parameters of a model as a tree for "qkv info": names are cut at their dots. Numbered
 * neighbours of the same shape, such as the layers of a stack, are printed once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct node {
    char name[64];
    const struct qkv_array *array; /* of a leaf */
    size_t numbers;                /* of the whole subtree */
    struct node *first, *last, *next;
};

static void node_free(struct node *node) {
    while (node) {
        struct node *next = node->next;
        node_free(node->first);
        free(node);
        node = next;
    }
}

/* Returns the child with this name, and makes it if there is none; NULL without memory. */
static struct node *info_child(struct node *parent, const char *name, size_t n) {
    struct node *c;
    if (n >= sizeof c->name) n = sizeof c->name - 1;
    for (c = parent->first; c; c = c->next)
        if (strlen(c->name) == n && !memcmp(c->name, name, n)) return c;
    if (!(c = calloc(1, sizeof *c))) return NULL;
    memcpy(c->name, name, n);
    if (parent->last)
        parent->last->next = c;
    else
        parent->first = c;
    parent->last = c;
    return c;
}

/* Length of the first part: "decoder.layers.0.attn.q.weight" becomes decoder, layers.0, attn, q.weight. */
static size_t info_part(const char *name) {
    size_t n = strcspn(name, ".");
    if (name[n] && name[n + 1] >= '0' && name[n + 1] <= '9') n += 1 + strcspn(name + n + 1, ".");
    if (!strcmp(name + n, ".weight") || !strcmp(name + n, ".bias")) n = strlen(name);
    return n;
}

static bool info_insert(struct node *root, const struct qkv_array *array) {
    struct node *at = root;
    size_t numbers = qkv_array_elements(array);
    at->numbers += numbers;
    for (const char *name = array->name; *name;) {
        size_t n = info_part(name);
        if (!(at = info_child(at, name, n))) return false;
        at->numbers += numbers;
        name += n + (name[n] == '.');
    }
    at->array = array;
    return true;
}

size_t cli_parameters(const struct qkv_model *model) {
    size_t numbers = 0;
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        numbers += qkv_array_elements(qkv_model_parameter(model, i));
    return numbers;
}

static struct node *build_tree(const struct qkv_model *model) {
    struct node *root = calloc(1, sizeof *root);
    for (size_t i = 0; root && i < qkv_model_parameters(model); i++) {
        if (info_insert(root, qkv_model_parameter(model, i))) continue;
        node_free(root);
        root = NULL;
    }
    return root;
}

static bool same_shape(const struct qkv_array *a, const struct qkv_array *b) {
    if (!a || !b) return a == b;
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static bool same_below(const struct node *a, const struct node *b) {
    if (!same_shape(a->array, b->array) || a->numbers != b->numbers) return false;
    for (a = a->first, b = b->first; a && b; a = a->next, b = b->next)
        if (strcmp(a->name, b->name) != 0 || !same_below(a, b)) return false;
    return !a && !b;
}

static bool numbered_alike(const struct node *a, const struct node *b) {
    const char *x = strrchr(a->name, '.'), *y = strrchr(b->name, '.');
    if (!x || !y || x[1] < '0' || x[1] > '9' || y[1] < '0' || y[1] > '9') return false;
    return x - a->name == y - b->name && !memcmp(a->name, b->name, (size_t)(x - a->name)) && same_below(a, b);
}

static void shape_text(const struct qkv_array *array, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; array && i < array->rank && used < size - 24; i++)
        used += (size_t)snprintf(text + used, size - used, i ? " x %zu" : "%zu", array->shape[i]);
}

static void print_node(const struct node *node, const char *indent, const char *branch, size_t repeated,
                       const char *last) {
    char number[CLI_NUMBER], shape[128], name[160], times[48] = "";
    if (repeated > 1) { /* if layers share weights, a group has only its first layer */
        const long from = strtol(strrchr(node->name, '.') + 1, NULL, 10), to = strtol(strrchr(last, '.') + 1, NULL, 10);
        const bool gaps = to - from + 1 != (long)repeated;
        snprintf(name, sizeof name, gaps ? "%s, .., %ld" : "%s to %ld", node->name, to);
        snprintf(times, sizeof times, "  (%zu times)", repeated);
    } else {
        snprintf(name, sizeof name, "%s", node->name);
    }
    shape_text(node->array, shape, sizeof shape);
    /* counts characters: the indent is in columns, and a character has up to three bytes */
    size_t columns = 0;
    for (const char *c = indent; *c; c++) columns += (*c & 0xC0) != 0x80;
    for (const char *c = branch; *c; c++) columns += (*c & 0xC0) != 0x80;
    int room = columns < 36 ? (int)(36 - columns) : 1;
    printf("%s%s%-*s %-16s %15s%s\n", indent, branch, room, name, shape, cli_grouped(number, node->numbers), times);
}

static void print_tree(const struct node *parent, const char *indent, bool utf8) {
    for (const struct node *node = parent->first; node; node = node->next) {
        const struct node *first = node;
        size_t repeated = 1;
        char deeper[256];
        while (node->next && numbered_alike(first, node->next)) node = node->next, repeated++;
        bool end = !node->next;
        const char *branch = utf8 ? (end ? "└─ " : "├─ ") : end ? "`- " : "|- ", *stem = utf8 ? "│  " : "|  ";
        print_node(first, indent, branch, repeated, node->name);
        snprintf(deeper, sizeof deeper, "%s%s", indent, end ? "   " : stem);
        print_tree(first, deeper, utf8);
    }
}

int cli_info_print_tree(const struct qkv_model *model, const char *name) {
    struct node *tree = build_tree(model);
    if (!tree) return cli_failed("out of memory");
    printf("%-36s %-16s %15s\n", name, "shape", "parameters");
    print_tree(tree, "", cli_locale_utf8());
    node_free(tree);
    return CLI_DONE;
}
