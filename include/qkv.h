/* qkv.h: the public interface of libqkv, transformers in C, in parts by subject. It is also the manual.
 *
 * A spec (struct qkv_spec, or JSON) describes a transformer. A model (struct qkv_model) holds its weights. Passes run
 * it forward and backward, a trainer trains it on files, and sessions generate text. For example:
 *
 *     struct qkv_context *ctx;          // threads, instruction set, and the sentence of the latest failure
 *     struct qkv_model *model;
 *     if (qkv_context_create(&ctx, NULL) || qkv_model_load(ctx, "run", &model)) { puts(qkv_message(ctx)); … }
 *     struct qkv_generate_options o = qkv_generate_defaults();
 *     qkv_generate(model, "Once", 4, &o, write_text, NULL, NULL);
 *     qkv_model_free(model);
 *     qkv_context_free(ctx);
 *
 * Conventions.
 * - A call that can fail returns enum qkv_status; QKV_OK is 0. Its comment names the statuses that it fails with.
 *   QKV_ARGUMENT: an argument makes no sense. QKV_MEMORY: there is not enough memory. QKV_FILE: the system cannot read
 *   or write a file, or does not permit it. QKV_FORMAT: the content of a file or text is not valid. QKV_SPEC: a spec is
 *   impossible, or its model cannot do what is asked. QKV_SHAPE: sizes do not agree, or are too large. QKV_NUMBER: a
 *   number is not finite. QKV_STOPPED: a callback of the caller stopped the call. QKV_FULL: a cache has not enough free
 *   pages. QKV_RANK: another rank cannot be reached.
 * - After a failure, qkv_message(ctx) is a sentence that says what is wrong, where, and what to do; after a success it
 *   is empty. The library never prints, exits or aborts. After a create or load that failed, the out pointer is NULL
 *   (qkv_context_create is an exception). Free calls accept NULL.
 * - A pointer must not be NULL unless its comment allows it. Two kinds may always be NULL: structs of options, which
 *   then mean the defaults, and arrays without elements. A NULL that is not allowed does not crash: a call that returns
 *   a status fails with QKV_ARGUMENT and names the parameter; other calls do nothing, or return 0, false, NULL or a
 *   struct of these.
 * - Getters change nothing. A comment says so if the result may be written to.
 * - Initialise a struct that you fill with its qkv_…_defaults(), or with designated initialisers, {.field = value},
 *   which set all other fields to 0; the comments of fields say what 0 means. New fields are added at the ends of
 *   structs, and 0 there changes nothing.
 * - Versions. Until 1.0.0, programs are compatible with a library of the same minor version (0.1) in source and as they
 *   are built. The symbols of the shared library have that version, so a program that was built for another one is
 *   refused when it starts. Lists QKV_…_LIST grow at their ends, so the values of an enumeration keep their numbers.
 * - Each part says at its top whether it is stable or experimental. Stable: names, parameters and meanings stay, and
 *   structs only grow. Experimental: the next version may change it. Experimental items of a stable part say so. A
 *   program that uses them defines QKV_EXPERIMENTAL before it includes qkv.h; else they are not declared. The structs
 *   of specs, and experimental fields of other structs, are always declared.
 * - Tensors are row-major fp32. Letters: B batch rows, T positions (Tq queries, Tk keys), C = d_model, H and Hkv heads,
 *   D = head_dim, Dv = value_dim, V the vocabulary. Losses are in nats.
 * - Strings are zero-terminated UTF-8. Strings and arrays that you pass stay yours. A result that is called the
 *   caller's is freed with qkv_free.
 * - The same inputs give the same bits with any number of threads; in fp32 a row also has the same bits alone, in a
 *   batch, and when decoded with the cache.
 * - A context, and everything made with it, serves one thread at a time. Several threads need several contexts, which
 *   share only constant data. */
#ifndef QKV_H
#define QKV_H

#include "qkv/context.h"    /* threads, kernels, precision, messages */
#include "qkv/tensors.h"    /* tensor files: safetensors */
#include "qkv/files.h"      /* names of the files in the folders of models and runs */
#include "qkv/output.h"     /* files that a program writes for its user */
#include "qkv/tokenizer.h"  /* text to ids and back */
#include "qkv/chat.h"       /* talks to text, by the templates of models */
#include "qkv/kinds.h"      /* the kinds of the parts of a transformer */
#include "qkv/spec.h"       /* a transformer as data */
#include "qkv/keys.h"       /* the keys of a spec in words */
#include "qkv/model.h"      /* weights, costs */
#include "qkv/published.h"  /* published models of others */
#include "qkv/adapter.h"    /* adapters of models (LoRA) */
#include "qkv/pass.h"       /* forward and backward over a batch */
#include "qkv/constrain.h"  /* texts of a given form: JSON, regular expressions, choices */
#include "qkv/generate.h"   /* sessions, sampling, generation */
#include "qkv/engine.h"     /* many requests in one batch */
#include "qkv/attention.h"  /* attention without a model */
#include "qkv/modules.h"    /* blocks, stacks and models on float tensors */
#include "qkv/training.h"   /* optimizers, training runs */
#include "qkv/evaluation.h" /* evaluation of texts, memory of uses */
#include "qkv/sequences.h"  /* encoders and encoder–decoders: read, classify, translate */
#include "qkv/ranks.h"      /* several processes or machines that train together */

#endif
