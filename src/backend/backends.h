/* backends: the backends, and what another one has to write, row by row.
 *
 * A backend is a struct qkv_backend (base/backend.h); a context gets the CPU's (context.c). The test of backends
 * (tests/test_backends.c) makes one whose memory the host cannot touch, out of the CPU's rows. A backend for a GPU has
 * a file src/backend/backend_NAME.c that fills in the struct:
 *
 * - take, release: memory of the device, zeroed. Arenas of numbers are cut from it, so addresses are computed by the
 *   host and read by the device: one address space, or a base address and offsets that the rows know.
 * - of_host: false. Training and passes then touch numbers through rows alone. What still reads or writes them from
 *   the host and needs a backend of the host: ranks, decoders (their scores, pages and lists of pages), and files of
 *   weights. Public calls that give pointers to numbers do as well.
 * - write, read: copies between the host and the device, which are complete when they return.
 * - lend: copies an array of the host's into the arena that it gets, and returns the copy. The backend that plans takes
 *   the same memory.
 * - operators: for each of QKV_OPERATOR_LIST (op/op.h):
 *     - check: sizes and options of a node are the host's, so the CPU's row can be called for them; ids, targets and
 *       indices are the device's, and have to be checked there, or copied back for it.
 *     - forward, backward: read and write the tensors of the node, of type QKV_F32, or QKV_BF16 where the context's
 *       product stores activations so. They take scratch from tape->arena, and give it back. Gradients are added in the
 *       order that learning.order defines (docs/sums.md): results may not depend on the number of rows or parts.
 *     - Records of a node (`saved`) are plain structs of the host with sizes, options and pointers to the arena; they
 *       are the arguments of a kernel. What forward saves for backward is in the arena.
 *     - node->fused: the next node, which the same pass may compute. A row that does not fuse runs both forwards.
 *     - Results that the host reads (struct qkv_loss, losses of groups) are written by the row, in the host's memory.
 *     - cost: the CPU's, which reads sizes alone.
 *   Products read an operand's parts (struct qkv_operand_part): weights in the arena in fp32, stored weights in the
 *   types of files (type/type.h), or packed by the step `pack`. What is done to a product's result is one of
 *   QKV_EPILOGUE_LIST (kernel/epilogue.h).
 * - steps: for each of QKV_STEP_LIST (op/steps.h), a struct of plain fields, which its comment defines. A field "of the
 *   host" is read or written in the host's memory.
 * - plan: a backend that takes the same memory and computes nothing; qkv_backend_dry, if its rows take what the CPU's
 *   take.
 * - loop, compute: the CPU's, for calls on plain buffers of the host (qkv_attention_forward, qkv_rotate).
 *
 * A backend need not reproduce the bits of the CPU's. It keeps the promises of op/op.h and kernel/product.h: a row of a
 * result depends on that row alone, and sums are taken in the order of the tree. */
#ifndef QKV_BACKENDS_H
#define QKV_BACKENDS_H

#include "base/backend.h"
#include "op/steps.h"

/* The CPU, and the backend that plans for it. */
extern const struct qkv_backend qkv_backend_cpu, qkv_backend_dry;

/* The CPU's steps, qkv_cpu_NAME. */
#define QKV_CPU_STEP_DECLARE(name) qkv_step qkv_cpu_##name;
QKV_STEP_LIST(QKV_CPU_STEP_DECLARE)
#undef QKV_CPU_STEP_DECLARE

/* ---- rules for the next token (score_rules.c) ---- */

/* Whether any rule is on. */
bool qkv_score_changes(const struct qkv_score_rules *rules);
/* Writes the scores `from` (vocab) as the rules change them to `to`. Penalties work on what a score has more than
 * `shift`, and a forced token gets the score `shift`. */
void qkv_score_apply(const struct qkv_score_rules *rules, const struct qkv_score_text *text, double shift,
                     const float *from, float *to, size_t vocab);
/* The only tokens that may follow a text; none: any may. They point into the rules. */
struct qkv_token_list qkv_score_forced(const struct qkv_score_rules *rules, const struct qkv_score_text *text);

#endif
