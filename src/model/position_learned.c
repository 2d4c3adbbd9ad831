/* Learned positions: a parameter, {stack}.embed.position.weight, is added to the embedding. */
#include "model/model.h"

enum qkv_status qkv_position_learned(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    (void)fill;
    tables->learned = true;
    return QKV_OK;
}
