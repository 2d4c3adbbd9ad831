/* costs: what a spec costs, from a planned model and dry runs; nothing of the model's size is allocated. */
#include "model/model.h"

#include <string.h>

/* Average number of keys that a query of a full context sees. */
static double average_keys(const struct qkv_attention_spec *a, size_t T) {
    double w = a->window > 0 && (size_t)a->window < T ? (double)a->window : (double)T, n = (double)T;
    double before = w * (w + 1) / 2 + (n - w) * w; /* Σ_i min(i + 1, w) */
    return a->causal ? before / n : (2 * before - n) / n;
}

static double attention_flops(const struct qkv_attention_spec *a, double keys) {
    return 2.0 * a->heads * ((double)a->head_dim + a->value_dim) * keys;
}

/* A product costs two FLOPs for each weight, a token; embeddings are look-ups, but a tied one is the head's matrix too. */
static double product_flops(const struct qkv_model *m) {
    double weights = 0;
    for (size_t i = 0; i < m->parameter_count; i++) {
        const struct qkv_array *a = &m->parameters[i].array;
        if (a->rank == 2 && !strstr(a->name, ".embed.")) {
            weights += (double)qkv_array_elements(a);
        }
    }
    if (m->head_weight && m->head_weight != &m->head_storage) {
        weights += (double)m->head_weight->rows * (double)m->head_weight->columns;
    }
    return 2 * weights;
}

/* The head's product, which is in no block. */
static double head_flops(const struct qkv_model *m) {
    return m->head_weight ? 2 * (double)m->head_weight->rows * (double)m->head_weight->columns : 0;
}

static double forward_flops(const struct qkv_model *m, size_t T) {
    const struct qkv_stack_spec *e = &m->spec.encoder, *d = &m->spec.decoder;
    double flops = product_flops(m);
    flops += e->layers * attention_flops(&e->attention, e->layers ? average_keys(&e->attention, T) : 0);
    flops += d->layers * attention_flops(&d->attention, d->layers ? average_keys(&d->attention, T) : 0);
    if (m->decoder.has_cross) {
        flops += d->layers * attention_flops(&d->cross, (double)T);
    }
    return flops;
}

/* Memory to run: a session where the model can have one, else a pass over one full sequence. */
static enum qkv_status measure_run(struct qkv_model *m, size_t T, size_t *bytes) {
    const struct qkv_spec *spec = &m->spec;
    if (m->decoder.spec && !m->encoder.spec && spec->head.kind == QKV_HEAD_LM && spec->decoder.attention.causal) {
        return qkv_session_measure(m, T, bytes);
    }
    return qkv_pass_measure(m, &(struct qkv_pass_options){.B = 1, .T = T, .source_T = T, .logits = true}, bytes);
}

enum qkv_status qkv_measure_costs(struct qkv_context *ctx, const struct qkv_spec *spec, size_t batch, size_t context,
                                  struct qkv_costs *costs) {
    QKV_CALL(ctx);
    struct qkv_model *m;
    *costs = (struct qkv_costs){0};
    enum qkv_status status = qkv_model_plan(ctx, spec, &m);
    if (status != QKV_OK) {
        return status;
    }
    size_t run_bytes = 0, step_bytes = 0, checkpoint_bytes = 0, evaluation_bytes = 0;
    status = measure_run(m, context, &run_bytes);
    if (status == QKV_OK) {
        struct qkv_pass_options train = {.B = batch, .T = context, .source_T = context, .train = true};
        status = qkv_pass_measure(m, &train, &step_bytes);
        train.train = false;
        if (status == QKV_OK) {
            status = qkv_pass_measure(m, &train, &evaluation_bytes);
        }
        train.train = train.checkpoint = true;
        if (status == QKV_OK) {
            status = qkv_pass_measure(m, &train, &checkpoint_bytes);
        }
    }
    for (size_t i = 0; i < m->parameter_count; i++) {
        costs->parameters += qkv_array_elements(&m->parameters[i].array);
    }
    costs->parameter_bytes = costs->parameters * sizeof(float);
    costs->train_bytes =
        m->arena.peak + m->packed.peak + m->gradients.peak + 2 * costs->parameter_bytes + step_bytes + evaluation_bytes;
    costs->checkpoint_bytes = costs->train_bytes - step_bytes + checkpoint_bytes;
    costs->run_bytes = m->arena.peak + qkv_model_panel_bytes(m, false) + run_bytes;
    const struct qkv_stack_spec *d = &spec->decoder;
    costs->cache_bytes_per_token = (size_t)d->layers * (size_t)d->attention.kv_heads *
                                   ((size_t)d->attention.head_dim + (size_t)d->attention.value_dim) * sizeof(float);
    costs->forward_flops = forward_flops(m, context);
    costs->train_flops = 3 * costs->forward_flops;
    costs->checkpoint_flops = costs->train_flops + costs->forward_flops - head_flops(m);
    qkv_model_free(m);
    return status;
}

double qkv_measure_flops(struct qkv_context *ctx) {
    return qkv_measure_peak(ctx);
}
