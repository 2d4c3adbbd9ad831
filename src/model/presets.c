/* Presets: named specs, as JSON that a user could write, and the training options that suit them. Keys with their
 * default are left out, so that a setting changes everything that follows from it. */
#include "model/spec.h"

#include <string.h>

#define START   "{\"format\": \"qkv\", \"version\": 1, "
#define START_2 "{\"format\": \"qkv\", \"version\": 2, "

struct preset {
    const char *name, *summary, *json;
    const char *const *recipe;
};
#define RECIPE(...)                                                                                                    \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }

/* The toy models of tutorials: sinusoids, PyTorch's initialisation, an untied head, all lines in every step, Adam at a
 * constant rate, no validation data. */
#define TINY                                                                                                           \
    "\"d_model\": 32, \"context\": 16, \"tie\": \"none\", \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}},"      \
    " \"init\": {\"kind\": \"torch\"}, \"head\": {\"bias\": true}"
#define TINY_PARTS       "\"layers\": 2, \"attention\": {\"heads\": 4}, \"ffn\": {\"kind\": \"relu\", \"d_ff\": 64}"
#define TINY_STACK       "{" TINY_PARTS "}"
#define TINY_STACK_FINAL "{" TINY_PARTS ", \"norm\": {\"final\": true}}"
#define TINY_RECIPE                                                                                                    \
    "batch=256", "steps=200", "rate=1e-3", "schedule=constant", "warmup=0", "optimizer=adam", "beta2=0.999",           \
        "weight_decay=0", "clip=0", "valid_fraction=0", "eval_every=0", "precision=fp32"

/* BERT outside its layers: types of tokens, a norm after the embedding, and one more layer before the scores. */
#define BERT                                                                                                           \
    "\"embed\": {\"types\": 2, \"norm\": {\"kind\": \"layernorm\", \"eps\": 1e-12}},"                                  \
    " \"head\": {\"kind\": \"lm\", \"bias\": true, \"transform\": {\"activation\": \"gelu\","                          \
    " \"norm\": {\"kind\": \"layernorm\", \"eps\": 1e-12}}},"

static const struct preset presets[] = {
    {.name = "nano-gpt",
     .summary = "a GPT that trains in minutes on a CPU: 4 layers, 4 heads, d_model 128, context 64 (nanoGPT's CPU "
                "settings)",
     .json = START "\"d_model\": 128, \"context\": 64, \"decoder\": {\"layers\": 4,"
                   " \"attention\": {\"heads\": 4, \"bias\": false}, \"norm\": {\"bias\": false},"
                   " \"ffn\": {\"kind\": \"gelu\", \"bias\": false}}}",
     .recipe = RECIPE("tokenizer=chars", "batch=12", "steps=2000", "rate=1e-3", "min_rate=1e-4", "warmup=100",
                      "beta2=0.99", "eval_every=250", "eval_batches=20")},
    {.name = "baby-gpt",
     .summary = "a small GPT on characters: 6 layers, 6 heads, d_model 384, context 256 (nanoGPT's Shakespeare)",
     .json = START "\"d_model\": 384, \"context\": 256, \"dropout\": 0.2, \"decoder\": {\"layers\": 6,"
                   " \"attention\": {\"heads\": 6, \"bias\": false}, \"norm\": {\"bias\": false},"
                   " \"ffn\": {\"kind\": \"gelu\", \"bias\": false}}}",
     .recipe = RECIPE("tokenizer=chars", "batch=64", "steps=5000", "rate=1e-3", "min_rate=1e-4", "warmup=100",
                      "beta2=0.99", "eval_every=250")},
    {.name = "gpt2-small",
     .summary = "GPT-2 with 124M parameters: 12 layers, 12 heads, d_model 768, context 1024 (Radford et al. 2019)",
     .json = START "\"vocab\": 50257, \"d_model\": 768, \"context\": 1024, \"decoder\": {\"layers\": 12,"
                   " \"attention\": {\"heads\": 12}, \"ffn\": {\"kind\": \"gelu_tanh\"}}}",
     .recipe = RECIPE("tokenizer=bpe:50257", "batch=8", "accumulate=8", "steps=100000", "rate=6e-4", "min_rate=6e-5",
                      "warmup=2000", "beta2=0.95", "eval_every=1000", "save_every=1000")},
    {.name = "llama-style",
     .summary = "RoPE, RMSNorm, SwiGLU, grouped-query attention: 16 layers, 16 heads, 4 kv heads, d_model 1024",
     .json =
         START "\"d_model\": 1024, \"context\": 1024, \"position\": {\"kind\": \"rope\", \"theta\": 10000.0},"
               " \"tie\": \"none\", \"decoder\": {\"layers\": 16,"
               " \"attention\": {\"heads\": 16, \"kv_heads\": 4, \"bias\": false}, \"norm\": {\"kind\": \"rmsnorm\"},"
               " \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 2816, \"bias\": false}}}",
     .recipe = RECIPE("tokenizer=bpe:8192", "batch=16", "accumulate=8", "steps=20000", "rate=3e-4", "min_rate=3e-5",
                      "warmup=1000", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "bloom-style",
     .summary = "ALiBi instead of position vectors: 8 layers, 8 heads, d_model 512, context 512",
     .json =
         START "\"d_model\": 512, \"context\": 512, \"position\": {\"kind\": \"alibi\"}, \"decoder\": {\"layers\": 8,"
               " \"attention\": {\"heads\": 8}, \"ffn\": {\"kind\": \"gelu_tanh\"}}}",
     .recipe = RECIPE("tokenizer=bpe:4096", "batch=16", "accumulate=4", "steps=10000", "rate=6e-4", "min_rate=6e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "mqa-style",
     .summary =
         "multi-query attention, one kv head for all: 8 layers, 8 heads, d_model 512, context 512 (Shazeer 2019)",
     .json = START "\"d_model\": 512, \"context\": 512, \"decoder\": {\"layers\": 8,"
                   " \"attention\": {\"heads\": 8, \"kv_heads\": 1}, \"ffn\": {\"kind\": \"gelu_tanh\"}}}",
     .recipe = RECIPE("tokenizer=bpe:4096", "batch=16", "accumulate=4", "steps=10000", "rate=6e-4", "min_rate=6e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "mla-tiny",
     .summary = "latent attention, whose cache has 80 numbers for each position instead of 320 for keys and values: 4 "
                "layers, 4 heads, d_model 128, context 64 (after DeepSeek-V2, 2024)",
     .json = START_2 "\"d_model\": 128, \"context\": 64, \"decoder\": {\"layers\": 4,"
                     " \"attention\": {\"heads\": 4, \"head_dim\": 48, \"value_dim\": 32, \"bias\": false,"
                     " \"latent\": {\"rank\": 64, \"query_rank\": 96, \"rope_dim\": 16},"
                     " \"position\": {\"kind\": \"rope\", \"pairing\": \"interleaved\"}},"
                     " \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"swiglu\", \"bias\": false}}}",
     .recipe = RECIPE("tokenizer=chars", "batch=12", "steps=2000", "rate=1e-3", "min_rate=1e-4", "warmup=100",
                      "beta2=0.99", "eval_every=250", "eval_batches=20")},
    {.name = "deepseek-style",
     .summary = "latent attention, also for queries, and a mixture of experts after one dense layer: sigmoids choose 4 "
                "of 32 experts in 4 groups, corrections balance their loads, and one more expert is shared: 8 layers, "
                "8 heads, d_model 512, context 1024 (after DeepSeek-V3, 2024)",
     .json = START_2
     "\"d_model\": 512, \"context\": 1024, \"tie\": \"none\", \"decoder\": {\"layers\": 8,"
     " \"attention\": {\"heads\": 8, \"head_dim\": 96, \"value_dim\": 64, \"bias\": false,"
     " \"latent\": {\"rank\": 256, \"query_rank\": 384, \"rope_dim\": 32},"
     " \"position\": {\"kind\": \"rope\", \"theta\": 10000.0, \"pairing\": \"interleaved\"}},"
     " \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"swiglu\", \"bias\": false},"
     " \"kinds\": {\"dense\": {\"ffn\": {\"d_ff\": 1408}}, \"experts\": {\"ffn\": {\"d_ff\": 256,"
     " \"experts\": {\"count\": 32, \"top_k\": 4, \"scores\": \"sigmoid\", \"scale\": 2.5, \"correction\": true,"
     " \"groups\": 4, \"top_groups\": 2, \"shared\": 256}}}},"
     " \"pattern\": [\"dense\", \"experts\", \"experts\", \"experts\", \"experts\", \"experts\", \"experts\","
     " \"experts\"]}}",
     .recipe = RECIPE("tokenizer=bpe:8192", "batch=16", "accumulate=4", "steps=10000", "rate=5e-4", "min_rate=5e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "moe-tiny",
     .summary = "a mixture of experts with the FLOPs of nano-gpt, in which each token uses 2 of 8 experts: 4 layers, 4 "
                "heads, d_model 128, context 64 (after Mixtral, 2024)",
     .json = START_2 "\"d_model\": 128, \"context\": 64, \"decoder\": {\"layers\": 4,"
                     " \"attention\": {\"heads\": 4, \"bias\": false}, \"norm\": {\"bias\": false},"
                     " \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 168, \"bias\": false,"
                     " \"experts\": {\"count\": 8, \"top_k\": 2, \"scale\": 2.0}}}}",
     .recipe = RECIPE("tokenizer=chars", "batch=12", "steps=2000", "rate=1e-3", "min_rate=1e-4", "warmup=100",
                      "beta2=0.99", "eval_every=250", "eval_batches=20")},
    {.name = "gemma-style",
     .summary = "sandwich norms with weights 1 + w, capped scores of attention and head, windows of 128 positions, and "
                "full attention with slower rotations in every sixth layer: 12 layers, 8 heads, 2 kv heads, d_model "
                "512, context 1024 (after Gemma 2 and 3, 2024 and 2025)",
     .json = START_2
     "\"d_model\": 512, \"context\": 1024, \"embed\": {\"scale\": 22.627416998}, \"head\": {\"softcap\": 30.0},"
     " \"decoder\": {\"layers\": 12,"
     " \"attention\": {\"heads\": 8, \"kv_heads\": 2, \"softcap\": 50.0, \"bias\": false,"
     " \"position\": {\"kind\": \"rope\", \"theta\": 10000.0}},"
     " \"norm\": {\"kind\": \"rmsnorm_plus_one\", \"placement\": \"sandwich\"},"
     " \"ffn\": {\"kind\": \"geglu_tanh\", \"d_ff\": 1408, \"bias\": false},"
     " \"kinds\": {\"local\": {\"attention\": {\"window\": 128}},"
     " \"global\": {\"attention\": {\"position\": {\"theta\": 1000000.0}}}},"
     " \"pattern\": [\"local\", \"local\", \"local\", \"local\", \"local\", \"global\"]}}",
     .recipe = RECIPE("tokenizer=bpe:8192", "batch=16", "accumulate=4", "steps=10000", "rate=5e-4", "min_rate=5e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "neox-style",
     .summary = "attention and feed-forward in parallel, rotations of a quarter of each head, a head that is not tied: "
                "8 layers, 8 heads, d_model 512, context 512 (after GPT-NeoX and Pythia, 2022 and 2023)",
     .json = START_2 "\"d_model\": 512, \"context\": 512, \"tie\": \"none\", \"decoder\": {\"layers\": 8,"
                     " \"attention\": {\"heads\": 8, \"position\": {\"kind\": \"rope\", \"fraction\": 0.25}},"
                     " \"norm\": {\"placement\": \"parallel_two\"}, \"ffn\": {\"kind\": \"gelu\"}}}",
     .recipe = RECIPE("tokenizer=bpe:4096", "batch=16", "accumulate=4", "steps=10000", "rate=6e-4", "min_rate=6e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "qwen3-style",
     .summary = "norms of the queries and keys of each head, wide heads, slow rotations: 12 layers, 8 heads of 128, 4 "
                "kv heads, d_model 512, context 1024 (after Qwen3, 2025)",
     .json = START_2 "\"d_model\": 512, \"context\": 1024, \"decoder\": {\"layers\": 12,"
                     " \"attention\": {\"heads\": 8, \"kv_heads\": 4, \"head_dim\": 128, \"bias\": false,"
                     " \"qk_norm\": {\"kind\": \"rmsnorm\", \"eps\": 1e-6, \"over\": \"head\"},"
                     " \"position\": {\"kind\": \"rope\", \"theta\": 1000000.0}},"
                     " \"norm\": {\"kind\": \"rmsnorm\", \"eps\": 1e-6},"
                     " \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 1536, \"bias\": false}}}",
     .recipe = RECIPE("tokenizer=bpe:8192", "batch=16", "accumulate=4", "steps=10000", "rate=5e-4", "min_rate=5e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "mixtral-style",
     .summary = "a mixture of experts, in which each token uses the best 2 of 8 experts with weights that sum to 1: 8 "
                "layers, 8 heads, 2 kv heads, d_model 512, context 1024 (after Mixtral, 2024)",
     .json = START_2 "\"d_model\": 512, \"context\": 1024, \"tie\": \"none\", \"decoder\": {\"layers\": 8,"
                     " \"attention\": {\"heads\": 8, \"kv_heads\": 2, \"bias\": false,"
                     " \"position\": {\"kind\": \"rope\", \"theta\": 1000000.0}},"
                     " \"norm\": {\"kind\": \"rmsnorm\"},"
                     " \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 1024, \"bias\": false,"
                     " \"experts\": {\"count\": 8, \"top_k\": 2, \"balance_loss\": 0.02}}}}",
     .recipe = RECIPE("tokenizer=bpe:8192", "batch=16", "accumulate=4", "steps=10000", "rate=5e-4", "min_rate=5e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "gpt-oss-style",
     .summary = "a mixture of experts with biases and clamped gates, in which each token uses 4 of 16 experts with a "
                "softmax over these 4; a sink in each attention head, and windows of 128 positions in every other "
                "layer: 8 layers, 8 heads, 2 kv heads, d_model 512, context 1024 (after gpt-oss, 2025)",
     .json = START_2 "\"d_model\": 512, \"context\": 1024, \"tie\": \"none\", \"decoder\": {\"layers\": 8,"
                     " \"attention\": {\"heads\": 8, \"kv_heads\": 2, \"sinks\": true,"
                     " \"position\": {\"kind\": \"rope\", \"theta\": 150000.0}},"
                     " \"norm\": {\"kind\": \"rmsnorm\"},"
                     " \"ffn\": {\"kind\": \"swiglu_clamped\", \"d_ff\": 512,"
                     " \"experts\": {\"count\": 16, \"top_k\": 4, \"scores\": \"chosen\", \"bias\": true}},"
                     " \"kinds\": {\"local\": {\"attention\": {\"window\": 128}}, \"global\": {}},"
                     " \"pattern\": [\"local\", \"global\"]}}",
     .recipe = RECIPE("tokenizer=bpe:8192", "batch=16", "accumulate=4", "steps=10000", "rate=5e-4", "min_rate=5e-5",
                      "warmup=500", "beta2=0.95", "eval_every=500", "save_every=500")},
    {.name = "transformer-base",
     .summary =
         "the original encoder-decoder: 6+6 layers, 8 heads, d_model 512, post-norm, all embeddings tied (Vaswani et "
         "al. 2017)",
     .json = START "\"d_model\": 512, \"context\": 512, \"position\": {\"kind\": \"sinusoidal\"},"
                   " \"embed_scale\": 22.627416998, \"tie\": \"all\", \"dropout\": 0.1,"
                   " \"encoder\": {\"layers\": 6, \"attention\": {\"heads\": 8}, \"norm\": {\"placement\": \"post\"},"
                   " \"ffn\": {\"kind\": \"relu\", \"d_ff\": 2048}},"
                   " \"decoder\": {\"layers\": 6, \"attention\": {\"heads\": 8}, \"norm\": {\"placement\": \"post\"},"
                   " \"ffn\": {\"kind\": \"relu\", \"d_ff\": 2048}}}",
     .recipe = RECIPE("tokenizer=bpe:37000", "batch=0", "batch_tokens=25000", "accumulate=8", "steps=100000",
                      "schedule=inverse_sqrt", "rate=7e-4", "warmup=4000", "beta2=0.98", "eps=1e-9", "weight_decay=0",
                      "clip=0", "label_smoothing=0.1", "eval_every=1000", "eval_batches=0", "save_every=1000")},
    {.name = "t5-style",
     .summary = "an encoder-decoder without biases: RMSNorm, GeGLU, unscaled scores, a learned bias for each bucket of "
                "distances: 6+6 layers, 8 heads, d_model 512 (after Raffel et al. 2020)",
     .json =
         START "\"d_model\": 512, \"context\": 512, \"position\": {\"kind\": \"buckets\"}, \"tie\": \"all\","
               " \"dropout\": 0.1,"
               " \"encoder\": {\"layers\": 6, \"attention\": {\"heads\": 8, \"scale\": 1.0, \"bias\": false},"
               " \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"geglu\", \"d_ff\": 1024, \"bias\": false}},"
               " \"decoder\": {\"layers\": 6, \"attention\": {\"heads\": 8, \"scale\": 1.0, \"bias\": false},"
               " \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"geglu\", \"d_ff\": 1024, \"bias\": "
               "false}}}",
     .recipe = RECIPE("tokenizer=bpe:32000", "batch=0", "batch_tokens=16384", "accumulate=8", "steps=100000",
                      "schedule=inverse_sqrt", "rate=1e-3", "warmup=4000", "beta2=0.98", "weight_decay=0.01",
                      "eval_every=1000", "eval_batches=0", "save_every=1000")},
    {.name = "g2p",
     .summary = "letters to phonemes: an encoder-decoder of 3+3 layers, 4 heads, d_model 128, context 64",
     .json = START "\"d_model\": 128, \"context\": 64, \"dropout\": 0.1,"
                   " \"encoder\": {\"layers\": 3, \"attention\": {\"heads\": 4}},"
                   " \"decoder\": {\"layers\": 3, \"attention\": {\"heads\": 4}}}",
     .recipe = RECIPE("tokenizer=words", "source_tokenizer=chars", "batch=0", "batch_tokens=2048", "steps=20000",
                      "rate=2e-3", "min_rate=2e-5", "warmup=300", "beta2=0.98", "weight_decay=0.01",
                      "label_smoothing=0.1", "eval_every=500", "eval_batches=0", "save_every=500")},
    {.name = "tiny-seq2seq",
     .summary = "a small encoder-decoder for experiments: 2+2 layers, 4 heads, d_model 64, context 64, characters",
     .json = START "\"d_model\": 64, \"context\": 64, \"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}},"
                   " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}}}",
     .recipe = RECIPE("tokenizer=chars", "batch=64", "steps=2000", "rate=2e-3", "warmup=100", "beta2=0.98",
                      "weight_decay=0.01", "eval_every=250", "eval_batches=0", "save_every=500")},
    {.name = "tiny-lm",
     .summary = "a decoder for a toy corpus of a few lines: 2 layers, 4 heads, d_model 32, context 16, words (lines)",
     .json = START_2 TINY ", \"decoder\": " TINY_STACK "}",
     .recipe = RECIPE("tokenizer=whitespace", TINY_RECIPE)},
    {.name = "tiny-encoder",
     .summary =
         "an encoder for a toy corpus with hidden words: 2 layers, 4 heads, d_model 32, context 16, words (lines)",
     .json = START_2 TINY ", \"encoder\": " TINY_STACK_FINAL "}",
     .recipe = RECIPE("task=mlm", "mask_each=true", "tokenizer=whitespace", TINY_RECIPE)},
    {.name = "tiny-translator",
     .summary = "an encoder-decoder for toy pairs: 2+2 layers, 4 heads, d_model 32, context 16, words (pairs)",
     .json = START_2 TINY ", \"encoder\": " TINY_STACK ", \"decoder\": " TINY_STACK "}",
     .recipe = RECIPE("tokenizer=whitespace", "source_tokenizer=shared", TINY_RECIPE)},
    {.name = "bert-base",
     .summary = "BERT with 12 layers, 12 heads, d_model 768, context 512 (Devlin et al. 2019)",
     .json = START_2
     "\"d_model\": 768, \"context\": 512, \"dropout\": 0.1, " BERT
     " \"encoder\": {\"layers\": 12, \"attention\": {\"heads\": 12},"
     " \"norm\": {\"placement\": \"post\", \"eps\": 1e-12}, \"ffn\": {\"kind\": \"gelu\", \"d_ff\": 3072}}}",
     .recipe = RECIPE("task=mlm", "tokenizer=bpe:30522", "batch=256", "accumulate=64", "steps=1000000", "rate=1e-4",
                      "schedule=linear", "min_rate=0", "warmup=10000", "beta2=0.999", "weight_decay=0.01",
                      "eval_every=5000", "save_every=1000")},
    {.name = "bert-tiny",
     .summary = "BERT with 2 layers, 2 heads, d_model 128, context 128 (after Turc et al. 2019)",
     .json =
         START_2 "\"d_model\": 128, \"context\": 128, \"dropout\": 0.1, " BERT
                 " \"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 2},"
                 " \"norm\": {\"placement\": \"post\", \"eps\": 1e-12}, \"ffn\": {\"kind\": \"gelu\", \"d_ff\": 512}}}",
     .recipe = RECIPE("task=mlm", "tokenizer=words:4096", "batch=32", "steps=5000", "rate=1e-3", "schedule=linear",
                      "min_rate=0", "warmup=500", "beta2=0.98", "weight_decay=0.01", "eval_every=500")},
    {.name = "text-classifier",
     .summary = "an encoder that classifies lines: 1 layer, 4 heads, d_model 128, context 128, mean pooling",
     .json = START "\"d_model\": 128, \"context\": 128, \"dropout\": 0.4,"
                   " \"head\": {\"kind\": \"classify\", \"pool\": \"mean\"},"
                   " \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}, \"ffn\": {\"d_ff\": 256}}}",
     .recipe =
         RECIPE("tokenizer=words:3000", "batch=64", "steps=1000", "rate=5e-4", "warmup=100", "beta2=0.98",
                "weight_decay=0.1", "label_smoothing=0.1", "eval_every=100", "eval_batches=0", "metric=accuracy")},
    {.name = "vit-tiny",
     .summary = "a vision transformer that classifies images of 28 x 28: 4 layers, 4 heads, d_model 64, patches of 7",
     .json = START_2
     "\"d_model\": 64, \"context\": 17, \"head\": {\"kind\": \"classify\"},"
     " \"embed\": {\"input\": {\"kind\": \"patches\", \"channels\": 1, \"height\": 28, \"width\": 28, \"patch\": 7}},"
     " \"encoder\": {\"layers\": 4, \"attention\": {\"heads\": 4}, \"ffn\": {\"d_ff\": 128}}}",
     .recipe = RECIPE("batch=64", "steps=1500", "rate=2e-3", "warmup=100", "beta2=0.98", "weight_decay=0.05",
                      "eval_every=250", "eval_batches=0", "metric=accuracy")},
};
#define PRESET_COUNT (sizeof presets / sizeof *presets)

static const struct preset *find_preset(const char *name) {
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (!strcmp(presets[i].name, name)) return &presets[i];
    return NULL;
}

const char *const *qkv_preset_recipe(const char *name) {
    const struct preset *preset = name ? find_preset(name) : NULL;
    return preset ? preset->recipe : NULL;
}

const char *qkv_preset_json(const char *name) {
    const struct preset *preset = find_preset(name);
    return preset ? preset->json : NULL;
}

bool qkv_preset_at(size_t i, const char **name, const char **summary) {
    if (i >= PRESET_COUNT) return false;
    if (name) *name = presets[i].name;
    if (summary) *summary = presets[i].summary;
    return true;
}

static const char *preset_name(const void *list, size_t i) {
    (void)list;
    return presets[i].name;
}

/* Fails with the first presets, the number of others, and the nearest name. */
enum qkv_status qkv_preset_check(struct qkv_context *ctx, const char *name) {
    enum { LISTED = 200 };
    char known[LISTED + 100] = "";
    if (find_preset(name)) return QKV_OK;
    size_t i = 0;
    for (size_t used = 0; i < PRESET_COUNT && used < LISTED; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", presets[i].name);
    const char *closest = qkv_closest_name(name, preset_name, NULL, PRESET_COUNT);
    return qkv_fail(ctx, QKV_ARGUMENT, "\"%.100s\" is not a preset; presets are %s and %zu more%s%s%s", name, known,
                    PRESET_COUNT - i, closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
}

enum qkv_status qkv_spec_preset(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, name);
    QKV_NEED_ALL(ctx, setting_count, settings);
    char text[128];
    memset(spec, 0, sizeof *spec);
    enum qkv_status status = qkv_preset_check(ctx, name);
    if (status) return status;
    const char *json = qkv_preset_json(name);
    snprintf(text, sizeof text, "preset %s", name);
    return qkv_spec_parse(ctx, spec, text, json, strlen(json), settings, setting_count);
}

struct qkv_settings qkv_settings_defaults(void) {
    return (struct qkv_settings){0};
}

enum qkv_status qkv_spec_vary(struct qkv_context *ctx, struct qkv_spec *spec, const char *preset, const char *path,
                              const struct qkv_settings *settings) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    const struct qkv_settings usual = qkv_settings_defaults();
    if (!settings) settings = &usual;
    char name[128];
    if (path) return qkv_spec_read_all(ctx, spec, path, settings);
    memset(spec, 0, sizeof *spec);
    enum qkv_status status = qkv_preset_check(ctx, preset);
    if (status) return status;
    const char *json = qkv_preset_json(preset);
    snprintf(name, sizeof name, "preset %s", preset);
    return qkv_spec_parse_all(ctx, spec, name, json, strlen(json), settings);
}
