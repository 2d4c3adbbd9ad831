/* family_tables: settings and tables that the tables of several families share (family_shared.c and others). */
#ifndef QKV_FAMILY_TABLES_H
#define QKV_FAMILY_TABLES_H

#include "family/family.h"

extern const struct qkv_family_rule qkv_family_activations[], qkv_family_gates[], qkv_family_ties[],
    qkv_family_flags[], /* a choice by true or false */
    qkv_family_gpt_scales[], qkv_family_attention_biases[], qkv_family_ffn_biases[], qkv_family_latent_biases[],
    qkv_family_query_biases[], qkv_family_head_norms[];
extern const struct qkv_family_tensor qkv_family_llama_tensors[], qkv_family_gemma_tensors[],
    qkv_family_deepseek_tensors[], qkv_family_bart_tensors[], qkv_family_output_norms[];
extern const struct qkv_family_rule qkv_family_t5_feed_forwards[], qkv_family_head_biases[];
/* Classes that exist for any decoder: the language model, classifiers of texts by their last token and of tokens,
 * answers to questions (two classes of tokens: where an answer begins, and where it ends), and the decoder alone. */
extern const struct qkv_family_rule qkv_family_decoder_classes[];
/* The heads of these classes: `tokens` is the name of a classifier of tokens, `lm` that of the language model. */
#define QKV_FAMILY_DECODER_HEADS(tokens, lm)                                                                           \
    {"head", "score", 0, 0, "class='ForSequenceClassification'"},                                                      \
        {"head", tokens, 0, 0, "class='ForTokenClassification'"},                                                      \
        {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"}, {                                                \
        "head", lm, 0, 0, NULL                                                                                         \
    }
/* Settings of encoders without a layer before the scores: a classifier of tokens, one for answers, and no head. */
#define QKV_FAMILY_CLASSIFY_TOKENS                                                                                     \
    "head.kind='classify_tokens'; head.classes=$id2label:count; head.bias=true; head.transform=null"
#define QKV_FAMILY_ANSWER "head.kind='classify_tokens'; head.classes=2; head.bias=true; head.transform=null"
#define QKV_FAMILY_BARE   "head.kind='none'; tie='none'"
/* Settings of heads that are not language models: scores are neither tied, scaled nor capped. */
#define QKV_FAMILY_SCORES "tie='none'; head.scale=1.0; head.softcap=0.0"
/* GGUF files of LLaMA and its descendants: sizes, other keys, and the orders of rows of queries and keys. */
#define QKV_FAMILY_GGUF_SIZES                                                                                          \
    "vocab_size=#token_embd.weight; hidden_size=$embedding_length; num_hidden_layers=$block_count; "                   \
    "num_attention_heads=$attention.head_count; tie_word_embeddings=!output.weight; "
#define QKV_FAMILY_GGUF_ROPE "rope_theta=$rope.freq_base|10000.0; rope_scaling=@scaling; "
#define QKV_FAMILY_GGUF_STEM                                                                                           \
    QKV_FAMILY_GGUF_SIZES QKV_FAMILY_GGUF_ROPE                                                                         \
        "max_position_embeddings=$context_length; intermediate_size=$feed_forward_length; "                            \
        "num_key_value_heads=$attention.head_count_kv|null; head_dim=$attention.key_length|null; "
#define QKV_FAMILY_GGUF_LLAMA  QKV_FAMILY_GGUF_STEM "rms_norm_eps=$attention.layer_norm_rms_epsilon; "
#define QKV_FAMILY_GGUF_BIASES "attention_bias=?blk.0.attn_q.bias; "
#define QKV_FAMILY_GGUF_GRANITE                                                                                        \
    "embedding_multiplier=$embedding_scale|1.0; attention_multiplier=$attention.scale; "                               \
    "residual_multiplier=$residual_scale|1.0; logits_scaling=$logit_scale|1.0; "
#define QKV_FAMILY_GGUF_EXPERTS "num_experts=$expert_count; num_experts_per_tok=$expert_used_count; "
/* Sets query_pre_attn_scalar of Gemma, which files do not say: the width of a head, but hidden_size / heads in the
 * model with `largest` layers. Returns false without memory. */
bool qkv_family_gguf_scale(json_t *config, int largest);
extern const struct qkv_family_tensor qkv_family_gguf_pairs[], qkv_family_gguf_joined[], qkv_family_gguf_gemma[],
    qkv_family_gguf_output_norms[], qkv_family_gguf_deepseek[];
/* T5: sizes; qkv_family_gguf_t5_finish sets feed_forward_proj by whether there are gates. */
#define QKV_FAMILY_GGUF_T5                                                                                             \
    "vocab_size=#token_embd.weight; d_model=$embedding_length; num_layers=$block_count; "                              \
    "num_heads=$attention.head_count; d_kv=$attention.key_length; d_ff=$feed_forward_length; "                         \
    "n_positions=$context_length; relative_attention_num_buckets=$attention.relative_buckets_count|32; "               \
    "layer_norm_epsilon=$attention.layer_norm_rms_epsilon; @gate=?enc.blk.0.ffn_gate.weight; "
#define QKV_FAMILY_GGUF_T5_BOTH                                                                                        \
    QKV_FAMILY_GGUF_T5 "num_decoder_layers=$decoder_block_count|$block_count; tie_word_embeddings=!output.weight; "    \
                       "@lm_head.weight=?output.weight"
bool qkv_family_gguf_t5_finish(json_t *config);
extern const struct qkv_family_tensor qkv_family_gguf_t5[];
/* BART, its embeddings and the norms of its descendants at the end of stacks. */
extern const struct qkv_family_choice qkv_family_bart_choices[];
extern const struct qkv_family_tensor qkv_family_bart_embeddings[];
#define QKV_FAMILY_BART_DEFAULTS "activation_function='gelu'; scale_embedding=false; tie_word_embeddings=true; "
#define QKV_FAMILY_BART_IGNORED                                                                                        \
    "model.shared.weight model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight lm_head.weight"
#define QKV_FAMILY_BART_ALIASES                                                                                        \
    "num_hidden_layers=!encoder_layers; num_attention_heads=!encoder_attention_heads; hidden_size=!d_model"
/* ModernBERT: the layer before the scores, which all heads have, and the layers' kinds. */
#define QKV_FAMILY_MODERNBERT_HEAD                                                                                     \
    "head.transform.norm.kind='layernorm'; head.transform.norm.eps=$norm_eps; head.transform.norm.bias=$norm_bias; "   \
    "head.transform.bias=$classifier_bias; head.transform.activation=$classifier_activation:activation; "
#define QKV_FAMILY_MODERNBERT_GLOBAL                                                                                   \
    "attention.window=0; attention.position.kind='rope'; attention.position.theta=$global_rope_theta; "                \
    "attention.position.scaling=$" QKV_FAMILY_FULL_SCALING ":scaling; "
#define QKV_FAMILY_MODERNBERT_LOCAL(window)                                                                            \
    "attention.window=$local_attention:" window "; attention.position.kind='rope'; "                                   \
    "attention.position.theta=$local_rope_theta; attention.position.scaling=$" QKV_FAMILY_LOCAL_SCALING ":scaling; "
#define QKV_FAMILY_MODERNBERT_KINDS(window)                                                                            \
    {"'full_attention'", "full", QKV_FAMILY_MODERNBERT_GLOBAL "norm.attention=true"},                                  \
        {"'sliding_attention'", "sliding", QKV_FAMILY_MODERNBERT_LOCAL(window) "norm.attention=true"},                 \
        {"'full_attention'", "first", QKV_FAMILY_MODERNBERT_GLOBAL "norm.attention=false"}, {                          \
        "'sliding_attention'", "first_sliding", QKV_FAMILY_MODERNBERT_LOCAL(window) "norm.attention=false"             \
    }
int qkv_family_modernbert_kind(const json_t *config, int layer, int listed);
/* T5 and its descendants: names of keys, defaults, and settings of a stack ("*." or "encoder."). */
#define QKV_FAMILY_T5_ALIASES                                                                                          \
    "hidden_size=!d_model; num_hidden_layers=!num_layers; num_attention_heads=!num_heads; head_dim=!d_kv"
#define QKV_FAMILY_T5_DEFAULTS                                                                                         \
    "relative_attention_num_buckets=32; relative_attention_max_distance=128; layer_norm_epsilon=1e-6; "                \
    "n_positions=512; dense_act_fn=null; is_gated_act=null; "
#define QKV_FAMILY_UMT5_DEFAULTS                                                                                       \
    "vocab_size=250112; d_model=512; d_kv=64; d_ff=1024; num_layers=8; num_heads=6; feed_forward_proj='gated-gelu'; "
#define QKV_FAMILY_T5_STACK(stack)                                                                                     \
    "vocab=$vocab_size; context=$n_positions; d_model=$d_model; encoder.layers=$num_layers; " stack                    \
    "attention.heads=$num_heads; " stack "attention.head_dim=$d_kv; " stack "attention.scale=1.0; " stack              \
    "attention.position.kind='buckets'; " stack "attention.position.buckets=$relative_attention_num_buckets; " stack   \
    "attention.position.max_distance=$relative_attention_max_distance; " stack "ffn.d_ff=$d_ff; " stack                \
    "embed.position.kind='none'; " stack "embed.scale=1.0; " stack "norm.kind='rmsnorm'; " stack                       \
    "norm.placement='pre'; " stack "norm.eps=$layer_norm_epsilon; "
#define QKV_FAMILY_T5_BOTH_STACKS                                                                                      \
    QKV_FAMILY_T5_STACK("*.")                                                                                          \
    "source_vocab=$vocab_size; decoder.layers=$num_decoder_layers; head.kind='lm'; head.bias=false"
extern const struct qkv_family_tensor qkv_family_t5_tensors[], qkv_family_t5_encoder_tensors[];
extern const struct qkv_family_choice qkv_family_t5_choices[], qkv_family_t5_encoder_choices[];

/* Conditions for a feed-forward without a gate: its matrix then has another name. */
#define QKV_FAMILY_T5_UNGATED                                                                                          \
    "feed_forward_proj=!'gated-gelu'; feed_forward_proj=!'gated-gelu_new'; feed_forward_proj=!'gated-silu'; "          \
    "feed_forward_proj=!'gated-relu'; feed_forward_proj=!'gated-tanh'; feed_forward_proj=!'gated-gelu_python'"
/* Windows of every second layer; windows of the layers that a list names, or, without a list, of all layers. Qwen:
 * layers with a window, which layers have experts, and the keys for these. */
extern const struct qkv_family_layers qkv_family_even_windows, qkv_family_listed_windows, qkv_family_qwen_layers;
int qkv_family_qwen_sparse(const json_t *config, int layer, int listed);
void qkv_family_write_qwen_sparse(json_t *config, const json_t *values);
/* Windows of all layers but every sliding_window_pattern-th one. */
int qkv_family_period_window(const json_t *config, int layer, int listed);
/* Writes use_sliding_window: whether the name of a kind contains "sliding". */
void qkv_family_write_windows(json_t *config, const json_t *names);
/* DeepSeek: whether a layer is one of the first ones, which have no experts. */
bool qkv_family_first_dense(const json_t *config, int layer);
void qkv_family_write_first_dense(json_t *config, const json_t *values);
/* The first layers have no experts; the others choose them by corrected scores, as DeepSeek V3. */
extern const struct qkv_family_layers qkv_family_corrected_layers;
/* Settings of LLaMA and its descendants, and their rotation, of a stack or of a kind of layer. */
#define QKV_FAMILY_LLAMA_STEM                                                                                          \
    "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "                                      \
    "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "                                \
    "decoder.attention.kv_heads=$num_key_value_heads; decoder.attention.head_dim=$head_dim; "                          \
    "decoder.embed.position.kind='none'; "
#define QKV_FAMILY_LLAMA_BASE QKV_FAMILY_LLAMA_STEM "decoder.ffn.d_ff=$intermediate_size; "
#define QKV_FAMILY_ROPE(stack)                                                                                         \
    stack "attention.position.kind='rope'; " stack "attention.position.theta=$rope_theta; " stack                      \
          "attention.position.scaling=$rope_scaling:scaling; "
#define QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_LLAMA_BASE QKV_FAMILY_ROPE("decoder.")
/* Settings of a layer without experts among layers with experts, and of the latter. Losses that balance experts are not
 * part of a published model. */
#define QKV_FAMILY_DENSE  "ffn.d_ff=$intermediate_size; ffn.experts=null"
#define QKV_FAMILY_SPARSE "ffn.experts.top_k=$num_experts_per_tok; ffn.experts.balance_loss=0; ffn.experts.z_loss=0; "
#define QKV_FAMILY_QWEN_SPARSE                                                                                         \
    QKV_FAMILY_SPARSE                                                                                                  \
    "ffn.d_ff=$moe_intermediate_size; ffn.experts.count=$num_experts; ffn.experts.scores='softmax'; "                  \
    "ffn.experts.normalize=$norm_topk_prob; "
#define QKV_FAMILY_DEEPSEEK_SPARSE                                                                                     \
    QKV_FAMILY_SPARSE                                                                                                  \
    "ffn.d_ff=$moe_intermediate_size; ffn.experts.count=$n_routed_experts; "                                           \
    "ffn.experts.scale=$routed_scaling_factor; ffn.experts.shared=$n_shared_experts:shared; "
#define QKV_FAMILY_CORRECTED_SPARSE                                                                                    \
    QKV_FAMILY_DEEPSEEK_SPARSE "ffn.experts.scores='sigmoid'; ffn.experts.correction=true; "                           \
                               "ffn.experts.normalize=$norm_topk_prob; ffn.experts.groups=$n_group; "                  \
                               "ffn.experts.top_groups=$topk_group; ffn.experts.group_score='top2'"
#define QKV_FAMILY_SHARED_EXPERTS                                                                                      \
    {"ffn.shared.gate", "model.layers.{N}.mlp.shared_experts.gate_proj", 0, 0, NULL},                                  \
        {"ffn.shared.up", "model.layers.{N}.mlp.shared_experts.up_proj", 0, 0, NULL}, {                                \
        "ffn.shared.down", "model.layers.{N}.mlp.shared_experts.down_proj", 0, 0, NULL                                 \
    }
/* Norms of the queries and keys of each head. */
#define QKV_FAMILY_HEAD_NORMS                                                                                          \
    "decoder.attention.qk_norm.kind='rmsnorm'; decoder.attention.qk_norm.eps=$rms_norm_eps; "                          \
    "decoder.attention.qk_norm.over='head'"
/* Gemma 2 without the placement of its norms. */
#define QKV_FAMILY_GEMMA2_DEFAULTS                                                                                     \
    "vocab_size=256000; hidden_size=2304; intermediate_size=9216; num_hidden_layers=26; num_attention_heads=8; "       \
    "num_key_value_heads=4; head_dim=256; max_position_embeddings=8192; rms_norm_eps=1e-6; rope_theta=10000.0; "       \
    "rope_scaling=null; tie_word_embeddings=true; attention_bias=false; hidden_activation='gelu_pytorch_tanh'; "       \
    "query_pre_attn_scalar=256; sliding_window=4096; attn_logit_softcapping=50.0; final_logit_softcapping=30.0"
#define QKV_FAMILY_GEMMA2_SPEC                                                                                         \
    QKV_FAMILY_LLAMA_SPEC                                                                                              \
    "decoder.ffn.bias=false; decoder.embed.scale=$hidden_size:sqrt; decoder.norm.kind='rmsnorm_plus_one'; "            \
    "decoder.norm.eps=$rms_norm_eps; decoder.attention.scale=$query_pre_attn_scalar:rsqrt; "                           \
    "decoder.attention.softcap=$attn_logit_softcapping:zero; head.softcap=$final_logit_softcapping:zero; "
/* Granite's multipliers, and Granite with experts. */
#define QKV_FAMILY_GRANITE_MULTIPLIERS                                                                                 \
    "decoder.norm.placement='pre'; decoder.embed.scale=$embedding_multiplier; "                                        \
    "decoder.attention.scale=$attention_multiplier; decoder.residual_scale=$residual_multiplier; "                     \
    "head.scale=$logits_scaling:reciprocal"
#define QKV_FAMILY_GRANITEMOE_DEFAULTS                                                                                 \
    "vocab_size=32000; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "      \
    "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-6; "    \
    "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; "                         \
    "embedding_multiplier=1.0; attention_multiplier=1.0; residual_multiplier=1.0; logits_scaling=1.0; "                \
    "num_local_experts=8; num_experts_per_tok=2"
#define QKV_FAMILY_GRANITEMOE_SPEC                                                                                     \
    QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_GRANITE_MULTIPLIERS                                            \
        "; decoder.ffn.bias=false; decoder.ffn.experts.count=$num_local_experts; "                                     \
        "decoder.ffn.experts.top_k=$num_experts_per_tok; decoder.ffn.experts.scores='chosen'; "                        \
        "decoder.ffn.experts.balance_loss=0"
extern const struct qkv_family_choice qkv_family_granitemoe_choices[];
extern const struct qkv_family_tensor qkv_family_granitemoe_tensors[];
/* GPT-J and CodeGen. */
#define QKV_FAMILY_GPTJ_SPEC                                                                                           \
    "vocab=$vocab_size; context=$n_positions; d_model=$n_embd; head.bias=true; "                                       \
    "decoder.layers=$n_layer; decoder.attention.heads=$n_head; decoder.attention.bias=false; "                         \
    "decoder.ffn.d_ff=$n_inner; decoder.ffn.bias=true; decoder.embed.position.kind='none'; "                           \
    "decoder.attention.position.kind='rope'; decoder.attention.position.pairing='interleaved'; "                       \
    "decoder.attention.position.fraction=$rotary_dim:rotary; decoder.norm.kind='layernorm'; "                          \
    "decoder.norm.placement='parallel'; decoder.norm.eps=$layer_norm_epsilon"
/* GLM-4: keys, and a rotation of neighbouring channels of part of a head. */
#define QKV_FAMILY_GLM_DEFAULTS                                                                                        \
    "vocab_size=151552; hidden_size=4096; intermediate_size=13696; num_hidden_layers=40; num_attention_heads=32; "     \
    "num_key_value_heads=2; head_dim=128; hidden_act='silu'; max_position_embeddings=131072; "                         \
    "rms_norm_eps=1.5625e-07; rope_theta=10000.0; rope_scaling=null; partial_rotary_factor=0.5; "                      \
    "tie_word_embeddings=false; attention_bias=true"
#define QKV_FAMILY_GLM_ROTATION                                                                                        \
    "decoder.attention.position.pairing='interleaved'; decoder.attention.position.fraction=$partial_rotary_factor; "   \
    "decoder.ffn.bias=false; "
#define QKV_FAMILY_DEEPSEEK_SPEC                                                                                       \
    "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "                                      \
    "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "                                \
    "decoder.attention.kv_heads=$num_key_value_heads; decoder.attention.latent.rank=$kv_lora_rank; "                   \
    "decoder.attention.latent.rope_dim=$qk_rope_head_dim; decoder.attention.head_dim=$qk_nope_head_dim:with_turned; "  \
    "decoder.attention.value_dim=$v_head_dim; decoder.attention.latent.query_rank=$q_lora_rank:zero; "                 \
    "decoder.attention.latent.eps=1e-6; decoder.embed.position.kind='none'; " QKV_FAMILY_ROPE("decoder.")              \
        QKV_FAMILY_RMSNORM "decoder.norm.placement='pre'; decoder.ffn.bias=false; "
#define QKV_FAMILY_RMSNORM   "decoder.norm.kind='rmsnorm'; decoder.norm.eps=$rms_norm_eps; "
#define QKV_FAMILY_NO_BIASES "*.attention.bias=false; *.ffn.bias=false; "
#define QKV_FAMILY_BIASES    "*.attention.bias=true; *.ffn.bias=true; "
/* Settings of BART and its descendants: the sizes of two stacks. */
#define QKV_FAMILY_BART_SPEC                                                                                           \
    "d_model=$d_model; head.kind='lm'; encoder.layers=$encoder_layers; decoder.layers=$decoder_layers; "               \
    "encoder.attention.heads=$encoder_attention_heads; decoder.attention.heads=$decoder_attention_heads; "             \
    "encoder.ffn.d_ff=$encoder_ffn_dim; decoder.ffn.d_ff=$decoder_ffn_dim; *.ffn.bias=true; "                          \
    "*.norm.kind='layernorm'; *.norm.eps=1e-5; vocab=$vocab_size; "
/* Settings of BERT and its descendants: the encoder, its tensors with the family's first part of names, and the layer
 * before the scores of a masked language model. */
#define QKV_FAMILY_ENCODER_SIZES                                                                                       \
    "vocab=$vocab_size; d_model=$hidden_size; encoder.layers=$num_hidden_layers; "                                     \
    "encoder.attention.heads=$num_attention_heads; encoder.ffn.d_ff=$intermediate_size; encoder.embed.scale=1.0; "     \
    "encoder.norm.kind='layernorm'; encoder.norm.eps=$layer_norm_eps; "
#define QKV_FAMILY_BERT_STEM  QKV_FAMILY_ENCODER_SIZES QKV_FAMILY_BIASES "encoder.embed.position.kind='learned'; "
#define QKV_FAMILY_TYPES      "encoder.embed.types=$type_vocab_size:types; "
#define QKV_FAMILY_EMBED_NORM "encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=$layer_norm_eps; "
#define QKV_FAMILY_BERT_SPEC                                                                                           \
    "context=$max_position_embeddings; " QKV_FAMILY_BERT_STEM QKV_FAMILY_TYPES QKV_FAMILY_EMBED_NORM                   \
    "encoder.norm.placement='post'"
/* The choices of BERT and of RoBERTa, and the tensors of their heads. */
extern const struct qkv_family_choice qkv_family_bert_choices[], qkv_family_roberta_choices[];
extern const struct qkv_family_rule qkv_family_roberta_heads[];
#define QKV_FAMILY_BERT_HEADS                                                                                          \
    {"head.transform", "bert.pooler.dense", 0, 0, "class='ForSequenceClassification'"},                                \
        {"head.transform", "cls.predictions.transform.dense", 0, 0, NULL},                                             \
        {"head.norm", "cls.predictions.transform.LayerNorm", 0, 0, NULL},                                              \
        QKV_FAMILY_UNTIED_TENSORS("ForMaskedLM", "cls.predictions.decoder", "cls.predictions.bias"),                   \
        {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"},                                                  \
        {"head", "classifier", 0, 0, "class=!'ForMaskedLM'"}, {                                                        \
        "head.bias", "=cls.predictions.bias", 0, 0, NULL                                                               \
    }
#define QKV_FAMILY_ROBERTA_HEADS                                                                                       \
    {"head.transform", "classifier.dense", 0, 0, "class='ForSequenceClassification'"},                                 \
        {"head.transform", "lm_head.dense", 0, 0, NULL}, {"head.norm", "lm_head.layer_norm", 0, 0, NULL},              \
        QKV_FAMILY_UNTIED_TENSORS("ForMaskedLM", "lm_head.decoder", "lm_head.bias"),                                   \
        {"head", "classifier.out_proj", 0, 0, "class='ForSequenceClassification'"},                                    \
        {"head", "classifier", 0, 0, "class='ForTokenClassification'"},                                                \
        {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"}, {                                                \
        "head.bias", "=lm_head.bias", 0, 0, NULL                                                                       \
    }
#define QKV_FAMILY_BERT_EMBEDDINGS(stem)                                                                               \
    {"embed.token", stem ".embeddings.word_embeddings", 0, 0, NULL},                                                   \
        {"embed.position", stem ".embeddings.position_embeddings", 0, 0, NULL},                                        \
        {"embed.type", stem ".embeddings.token_type_embeddings", 0, 0, NULL}, {                                        \
        "embed.norm", stem ".embeddings.LayerNorm", 0, 0, NULL                                                         \
    }
#define QKV_FAMILY_BERT_LAYERS(stem)                                                                                   \
    {"attn.q", stem ".encoder.layer.{N}.attention.self.query", 0, 0, NULL},                                            \
        {"attn.k", stem ".encoder.layer.{N}.attention.self.key", 0, 0, NULL},                                          \
        {"attn.v", stem ".encoder.layer.{N}.attention.self.value", 0, 0, NULL},                                        \
        {"attn.o", stem ".encoder.layer.{N}.attention.output.dense", 0, 0, NULL},                                      \
        {"attn_norm", stem ".encoder.layer.{N}.attention.output.LayerNorm", 0, 0, NULL},                               \
        {"ffn.up", stem ".encoder.layer.{N}.intermediate.dense", 0, 0, NULL},                                          \
        {"ffn.down", stem ".encoder.layer.{N}.output.dense", 0, 0, NULL}, {                                            \
        "ffn_norm", stem ".encoder.layer.{N}.output.LayerNorm", 0, 0, NULL                                             \
    }
#define QKV_FAMILY_BERT_TRANSFORMS(class, key)                                                                         \
    {"class='" class "'", "head.transform.activation=$" key ":activation"}, {                                          \
        "class=!'" class "'", ""                                                                                       \
    }
/* Rules of a masked language model whose scores have a table of their own. */
#define QKV_FAMILY_UNTIED(class)                                                                                       \
    { "class='" class "'; tie_word_embeddings=false", "tie='none'" }
#define QKV_FAMILY_UNTIED_END                                                                                          \
    {"tie_word_embeddings=true", ""}, {"tie_word_embeddings=false", ""}, {                                             \
        NULL, NULL                                                                                                     \
    }
/* Tensors of such a model: the table `scores`, and the masked language model's bias `bias_` where the table has
 * none. */
#define QKV_FAMILY_UNTIED_TENSORS(class, scores, bias_)                                                                \
    {"head.weight", scores, 0, 0, "class='" class "'; tie_word_embeddings=false"},                                     \
        {"head.bias", "=" bias_, 0, 0,                                                                                 \
         "class='" class "'; tie_word_embeddings=false; @" scores ".bias=false; @" bias_ "=true"},                     \
    {                                                                                                                  \
        "head.bias", scores, 0, 0, "class='" class "'; tie_word_embeddings=false"                                      \
    }
#define QKV_FAMILY_CHOICES_END                                                                                         \
    { "", NULL }

#endif
