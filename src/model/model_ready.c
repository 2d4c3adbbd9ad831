/* A model made ready to be multiplied: each operand has its row of the table of products, and what they pack is
 * packed; norms of adapters belong to their weights. */
#include "model/model.h"

enum qkv_status qkv_model_ready(struct qkv_model *m) {
    enum qkv_status status = qkv_model_check_alive(m);
    if (!status) status = qkv_weights_check(&m->weights);
    if (!status) status = qkv_model_check_file(m);
    if (!status) qkv_model_norm_adapters(m);
    return status ? status : qkv_model_pack(m);
}

enum qkv_status qkv_model_prepare(struct qkv_model *m, bool backward) {
    const struct qkv_product *product = qkv_model_product(m);
    if (m->sharing.first != m) return qkv_model_ready(m); /* the first one was prepared for all its shares */
    if (m->weights.product != product) {
        enum qkv_status status = qkv_weights_choose(&m->weights, product);
        if (!status && m->adapter) status = qkv_weights_choose(&m->adapter->base, product);
        for (size_t i = 0; i < m->named.count && !status; i++)
            status = qkv_weights_choose(&m->named.list[i]->base, product);
        if (status) return status;
        qkv_model_drop_packed(m);
    }
    enum qkv_status status = qkv_model_take_packed(m, backward);
    return status || !m->packed_weights ? status : qkv_model_ready(m);
}
