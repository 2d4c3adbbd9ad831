/* info_spec.c: prints what a model is made of for "qkv info": for each stack and kind of layer the heads, the mask,
 * the positions, the norms and the feed-forward. Parts without weights appear only here. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

#define TEXT(name, text, ...) text,
static const char *const positions[] = {QKV_POSITION_LIST(TEXT)};
static const char *const norms[] = {QKV_NORM_LIST(TEXT)};
static const char *const placements[] = {QKV_PLACEMENT_LIST(TEXT)};
static const char *const feed_forwards[] = {QKV_FFN_LIST(TEXT)};
static const char *const heads[] = {QKV_HEAD_LIST(TEXT)};
static const char *const ties[] = {QKV_TIE_LIST(TEXT)};
#undef TEXT

/* Prints a value and what it means. */
static void info_row(const char *stack, const char *kind, const char *what, const char *text) {
    char label[96];
    snprintf(label, sizeof label, "%s%s%s%s%s", stack, *kind ? "." : "", kind, *what ? " " : "", what);
    printf("  %-22s  %s\n", label, text);
}

static const char *mask_text(const struct qkv_attention_spec *a, char *text, size_t size) {
    const char *sees = a->causal ? "causal" : "all positions";
    if (a->window && a->window_right)
        snprintf(text, size, "%s, a window of %d before and %d behind", sees, a->window, a->window_right);
    else if (a->window)
        snprintf(text, size, "%s, a window of %d", sees, a->window);
    else if (a->chunk)
        snprintf(text, size, "%s, chunks of %d", sees, a->chunk);
    else
        snprintf(text, size, "%s", sees);
    return text;
}

static void print_attention(const char *stack, const struct qkv_layer_spec *kind) {
    const struct qkv_attention_spec *a = &kind->attention;
    char text[640], mask[96], groups[64] = "", position[96] = "", form[64] = "", share[64] = "";
    if (a->kv_heads != a->heads) snprintf(groups, sizeof groups, ", %d of keys and values", a->kv_heads);
    if (a->position.kind != QKV_POSITION_NONE)
        snprintf(position, sizeof position, ", position %s", positions[a->position.kind]);
    if (a->position.kind == QKV_POSITION_ROPE)
        snprintf(position, sizeof position, ", position rope (theta %g)", a->position.theta);
    if (strcmp(qkv_attention_form_text(a), "heads") != 0)
        snprintf(form, sizeof form, ", %s", qkv_attention_form_text(a));
    if (a->share) snprintf(share, sizeof share, ", keys and values shared (share %d)", a->share);
    snprintf(text, sizeof text, "%d heads of %d%s, mask %s%s%s%s%s%s%s", a->heads, a->head_dim, groups,
             mask_text(a, mask, sizeof mask), position, form, share,
             a->qk_norm.norm.given ? ", norms of queries and keys" : "", a->softcap > 0 ? ", capped scores" : "",
             a->sinks ? ", sinks" : "");
    info_row(stack, kind->name, "attention", text);
}

static void print_kind(const struct qkv_spec *spec, const char *stack, const struct qkv_layer_spec *kind) {
    const struct qkv_ffn_spec *ffn = &kind->ffn;
    char text[200], experts[96] = "";
    const bool cross = !strcmp(stack, "decoder") && spec->encoder.layers > 0;
    print_attention(stack, kind);
    if (cross) info_row(stack, kind->name, "cross attention", "to all positions of the encoder");
    snprintf(text, sizeof text, "%s, placement %s, eps %g", norms[kind->norm.kind], placements[kind->norm.placement],
             kind->norm.eps);
    info_row(stack, kind->name, "norms", text);
    if (ffn->experts.given)
        snprintf(experts, sizeof experts, ", %d experts of which a token goes through %d", ffn->experts.count,
                 ffn->experts.top_k);
    snprintf(text, sizeof text, "activation %s, %d wide%s%s", feed_forwards[ffn->kind], ffn->d_ff,
             qkv_ffn_gated(ffn->kind) ? ", with a gate" : "", experts);
    info_row(stack, kind->name, "feed-forward", text);
}

/* Lists the layers of a kind: "layers 0, 2, 4 and 3 more". */
static void print_stack(const struct qkv_spec *spec, const char *name, const struct qkv_stack_spec *stack) {
    char text[160];
    if (!stack->layers) return;
    snprintf(text, sizeof text, "%d layers, width %d, position of the embedding %s", stack->layers,
             qkv_spec_width(spec), positions[stack->embed.position.kind]);
    info_row(name, "", "", text);
    for (int k = 0; k < stack->kind_count; k++) {
        char shown[160] = "";
        size_t used = 0, count = 0;
        for (int i = 0; i < stack->layers && stack->kind_count > 1; i++) {
            if (stack->kind_of[i] != k || ++count > 6) continue;
            used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%d", used ? ", " : "layers ", i);
        }
        if (count > 6) snprintf(shown + used, sizeof shown - used, " and %zu more", count - 6);
        if (*shown) info_row(name, stack->kinds[k].name, "", shown);
        print_kind(spec, name, &stack->kinds[k]);
    }
}

void cli_info_print_spec(const struct qkv_spec *spec) {
    char text[200];
    print_stack(spec, "encoder", &spec->encoder);
    print_stack(spec, "decoder", &spec->decoder);
    const bool classes = cli_has_classes(spec);
    if (classes)
        snprintf(text, sizeof text, "%s, %d classes", heads[spec->head.kind], spec->head.classes);
    else
        snprintf(text, sizeof text, "%s, tie %s", heads[spec->head.kind], ties[spec->tie]);
    info_row("head", "", "", text);
}
