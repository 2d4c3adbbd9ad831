/* qkv/files.h: the names of the files in the folder of a model and of a training run; the folder of a run is also that
 * of a model. A part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_FILES_H
#define QKV_PUBLIC_FILES_H

/* Files of a model. */
#define QKV_CONFIG_FILE    "config.json" /* the spec */
#define QKV_TOKENIZER_FILE "tokenizer.json"
#define QKV_SOURCE_FILE    "source_tokenizer.json" /* the second tokenizer of an encoder–decoder */
#define QKV_LABELS_FILE    "labels.txt"            /* the names of classes */
#define QKV_WEIGHTS_FILE   "model.safetensors"
#define QKV_INDEX_FILE     QKV_WEIGHTS_FILE ".index.json" /* the index of published weights in several files */
/* Experimental: end tokens and sampling of published models, and of models trained or exported from them */
#define QKV_GENERATION_FILE "generation_config.json"
/* Experimental: the roles of tokens, of the same models */
#define QKV_ROLES_FILE        "tokenizer_config.json"
#define QKV_SOURCE_ROLES_FILE "source_tokenizer_config.json"
/* Experimental: how vectors of texts are computed, in the format of sentence-transformers */
#define QKV_MODULES_FILE   "modules.json"
#define QKV_SENTENCES_FILE "sentence_bert_config.json"
#define QKV_POOLING_FOLDER "1_Pooling"
#define QKV_POOLING_FILE   QKV_POOLING_FOLDER "/" QKV_CONFIG_FILE
#define QKV_PROMPTS_FILE   "config_sentence_transformers.json"
/* The folders of dense layers; their files are named like those of a model. */
#define QKV_DENSE_LIST(X)        X("2_Dense") X("3_Dense") X("4_Dense") X("5_Dense")
#define QKV_DENSE_FILES_(folder) folder "/" QKV_CONFIG_FILE, folder "/" QKV_WEIGHTS_FILE,
#define QKV_MODEL_FILES                                                                                                \
    QKV_CONFIG_FILE, QKV_GENERATION_FILE, QKV_ROLES_FILE, QKV_TOKENIZER_FILE, QKV_SOURCE_FILE, QKV_SOURCE_ROLES_FILE,  \
        QKV_LABELS_FILE, QKV_MODULES_FILE, QKV_SENTENCES_FILE, QKV_PROMPTS_FILE, QKV_POOLING_FILE,                     \
        QKV_DENSE_LIST(QKV_DENSE_FILES_) QKV_WEIGHTS_FILE

/* More files of a run. */
#define QKV_TRAIN_FILE      "train.json" /* the options, and facts about the data */
#define QKV_CHECKPOINT_FILE "checkpoint.safetensors"
#define QKV_BEST_FILE       "checkpoint-best.safetensors" /* written with the option keep */
/* earlier checkpoints, written with the option keep: the step is between BEGIN and END */
#define QKV_CHECKPOINT_BEGIN  "checkpoint-"
#define QKV_CHECKPOINT_END    ".safetensors"
#define QKV_LOG_FILE          "log.jsonl"
#define QKV_STATE_FILE        "state.json" /* running, done, failed or interrupted */
#define QKV_MACHINE_FILE      "machine.jsonl"
#define QKV_SAMPLES_FILE      "samples.jsonl"
#define QKV_TOKENS_DATA_FILE  "tokens.data.bin" /* the texts, targets or labelled texts as tokens */
#define QKV_TOKENS_VALID_FILE "tokens.valid.bin"
#define QKV_BESIDE_DATA_FILE  "tokens.data.beside.bin" /* the sources or labels of tokens.data.bin */
#define QKV_BESIDE_VALID_FILE "tokens.valid.beside.bin"
#define QKV_RUN_FILES                                                                                                  \
    QKV_TRAIN_FILE, QKV_CHECKPOINT_FILE, QKV_BEST_FILE, QKV_LOG_FILE, QKV_STATE_FILE, QKV_MACHINE_FILE,                \
        QKV_SAMPLES_FILE, QKV_TOKENS_DATA_FILE, QKV_TOKENS_VALID_FILE, QKV_BESIDE_DATA_FILE, QKV_BESIDE_VALID_FILE

#endif
