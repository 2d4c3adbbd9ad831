/* qkv.h: the whole public interface of libqkv, transformers in C, in parts by subject. It is also the manual.
 *
 * A transformer is described by a spec (struct qkv_spec, or JSON), made of weights in a model (struct qkv_model), run forward
 * and backward by passes, trained from a text file by a trainer, and asked to write by sessions. In short:
 *
 *     struct qkv_context *ctx;                       // threads, instruction set, and the sentence of the latest failure
 *     struct qkv_model *model;
 *     if (qkv_context_create(&ctx, NULL) || qkv_model_load(ctx, "run", &model)) { puts(qkv_message(ctx)); … }
 *     struct qkv_generate_options o = qkv_generate_defaults();
 *     qkv_generate(model, "Once", 4, &o, write_text, NULL, NULL);
 *     qkv_model_free(model);
 *     qkv_context_free(ctx);
 *
 * Conventions.
 * - Calls that can fail return enum qkv_status, QKV_OK being 0, and their comments name the statuses that they fail with:
 *   QKV_ARGUMENT, what was passed makes no sense; QKV_MEMORY, there is not enough; QKV_FILE, the system cannot read or write
 *   it, or may not; QKV_FORMAT, what a file or a text holds is not what it should be; QKV_SPEC, a spec is impossible, or does
 *   not do what is asked of its model; QKV_SHAPE, sizes do not agree, or are too large; QKV_NUMBER, something is not finite;
 *   QKV_STOPPED, a function of the caller's said so; QKV_RANK, another rank cannot be reached. qkv_message(ctx) then has a sentence that says what is wrong, where, and
 *   what to do; after a call that succeeded it is empty. The library never prints, exits or aborts. After a failed create or
 *   load the out pointer is NULL (but see qkv_context_create); free calls take NULL.
 * - Pointers are given, unless a comment says that one may be NULL; structs of options may always be, which means their
 *   defaults, and arrays of no elements. NULL elsewhere is no crash: a call that returns a status fails with
 *   QKV_ARGUMENT and names the parameter; others do nothing, or return 0, false, NULL or a struct of these.
 * - Getters change nothing; what may be written through says so in its comment.
 * - Structs that a caller fills begin as their qkv_…_defaults() says, or with designated initialisers, {.field = value}: a
 *   field that is not named is 0, and 0 leaves things as they are. They grow at their ends, with fields for which the same holds.
 * - Each part says at its top whether it is stable: names, parameters and meanings stay, and structs only grow; or experimental:
 *   the next version may change it. What is experimental in a stable part says so itself.
 * - Tensors are row-major fp32. Letters: B batch rows, T positions (Tq queries, Tk keys), C = d_model, H and Hkv heads,
 *   D = head_dim, Dv = value_dim, V the vocabulary. Losses are in nats.
 * - Strings are zero-terminated UTF-8 and, like arrays, stay the caller's; what a call returns as the caller's own is freed
 *   with qkv_free.
 * - The same inputs give the same bits at any number of threads; in fp32 also for a row alone, in a batch, or decoded
 *   through the cache.
 * - A context, and everything made with it, serves one thread at a time. Several contexts serve several threads, which share
 *   nothing but what is const.
 */
#ifndef QKV_H
#define QKV_H

#include "qkv/context.h"   /* threads, kernels, precision, messages */
#include "qkv/tensors.h"   /* tensor files: safetensors */
#include "qkv/files.h"     /* the names of files in the folders of models and runs */
#include "qkv/output.h"    /* files that a program writes for its user */
#include "qkv/tokenizer.h" /* text to ids and back */
#include "qkv/spec.h"      /* a transformer as data */
#include "qkv/model.h"     /* weights, costs */
#include "qkv/published.h" /* models that others have published */
#include "qkv/pass.h"      /* forward and backward over a batch */
#include "qkv/generate.h"  /* sessions, sampling, generation */
#include "qkv/attention.h" /* attention on its own, without a model */
#include "qkv/modules.h"   /* blocks, stacks and models on float tensors */
#include "qkv/training.h"  /* optimizers, training runs, evaluation */
#include "qkv/sequences.h" /* encoders and encoder–decoders: read, classify, translate */
#include "qkv/ranks.h"     /* several processes or machines as one */
#include "qkv/support.h"   /* JSON, UTF-8, a clock: what programs beside the library need as well */

#endif
