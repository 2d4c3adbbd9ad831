/* attend_table.c: the table of the attention kernels of one ISA, for the driver. */
#include "kernel/isa/attend_tile.h"
#include "kernel/isa/isa.h"

const struct qkv_attend_kernels QKV_K(attend_kernels) = {
    .width = W,
    .tile = TILE,
    .backward_keys = BACKWARD_KEYS,
    .forward_scratch = QKV_K(attend_forward_scratch),
    .backward_scratch = QKV_K(attend_backward_scratch),
    .few_scratch = QKV_K(attend_few_scratch),
    .weights_scratch = QKV_K(attend_weights_scratch),
    .sums_floats = QKV_K(attend_sums_floats),
    .forward = QKV_K(attend_forward),
    .combine = QKV_K(attend_combine),
    .rows_bytes = QKV_K(attend_rows_bytes),
    .pack_rows = QKV_K(attend_pack_rows),
    .delta = QKV_K(attend_delta),
    .backward = QKV_K(attend_backward),
    .forward_few = QKV_K(attend_forward_few),
    .backward_few = QKV_K(attend_backward_few),
    .attention_bias = QKV_K(attend_addend),
    .gather = QKV_K(attend_gather),
    .weights = QKV_K(attend_weights),
    .norm = QKV_K(attend_norm),
    .sinks = QKV_K(attend_sinks),
    .distances = QKV_K(attend_distances),
};
