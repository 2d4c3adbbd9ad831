/* topology: which stacks a spec has. */
#include "model/spec.h"

enum qkv_topology qkv_spec_topology(const struct qkv_spec *spec) {
    if (!spec) return QKV_DECODER_ALONE;
    if (spec->encoder.layers <= 0) return QKV_DECODER_ALONE;
    return spec->decoder.layers > 0 ? QKV_ENCODER_DECODER : QKV_ENCODER_ALONE;
}
