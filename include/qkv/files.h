/* qkv/files.h: the names of the files in the folder of a model and of a training run, and their contents. The folder of
 * a run is also that of a model. A part of qkv.h, which includes it. Stable. Experimental: the lists with help
 * texts. */
#ifndef QKV_PUBLIC_FILES_H
#define QKV_PUBLIC_FILES_H

/* Files of a model. */
#define QKV_CONFIG_FILE       "config.json"
#define QKV_TOKENIZER_FILE    "tokenizer.json"
#define QKV_SOURCE_FILE       "source_tokenizer.json"
#define QKV_LABELS_FILE       "labels.txt"
#define QKV_WEIGHTS_FILE      "model.safetensors"
#define QKV_INDEX_FILE        QKV_WEIGHTS_FILE ".index.json"
#define QKV_GENERATION_FILE   "generation_config.json"       /* experimental */
#define QKV_ROLES_FILE        "tokenizer_config.json"        /* experimental */
#define QKV_SOURCE_ROLES_FILE "source_tokenizer_config.json" /* experimental */
#ifdef QKV_EXPERIMENTAL
/* Experimental: how vectors of texts are computed, in the format of sentence-transformers */
#define QKV_MODULES_FILE   "modules.json"
#define QKV_SENTENCES_FILE "sentence_bert_config.json"
#define QKV_POOLING_FOLDER "1_Pooling"
#define QKV_POOLING_FILE   QKV_POOLING_FOLDER "/" QKV_CONFIG_FILE
#define QKV_PROMPTS_FILE   "config_sentence_transformers.json"
#endif
/* The folders of dense layers; their files are named like those of a model. */
#define QKV_DENSE_LIST(X)        X("2_Dense") X("3_Dense") X("4_Dense") X("5_Dense")
#define QKV_DENSE_FILES_(folder) folder "/" QKV_CONFIG_FILE, folder "/" QKV_WEIGHTS_FILE,

/* An adapter, in the format of PEFT. */
#define QKV_ADAPTER_CONFIG_FILE  "adapter_config.json"
#define QKV_ADAPTER_WEIGHTS_FILE "adapter_model.safetensors"

/* More files of a run. */
#define QKV_TRAIN_FILE      "train.json"
#define QKV_CHECKPOINT_FILE "checkpoint.safetensors"
#define QKV_BEST_FILE       "checkpoint-best.safetensors"
/* earlier checkpoints: the step is between BEGIN and END */
#define QKV_CHECKPOINT_BEGIN  "checkpoint-"
#define QKV_CHECKPOINT_END    ".safetensors"
#define QKV_LOG_FILE          "log.jsonl"
#define QKV_STATE_FILE        "state.json"
#define QKV_MACHINE_FILE      "machine.jsonl"
#define QKV_SAMPLES_FILE      "samples.jsonl"
#define QKV_TOKENS_DATA_FILE  "tokens.data.bin"
#define QKV_TOKENS_VALID_FILE "tokens.valid.bin"
#define QKV_REFERENCE_FILE    "reference.safetensors"
#define QKV_BESIDE_DATA_FILE  "tokens.data.beside.bin"
#define QKV_BESIDE_VALID_FILE "tokens.valid.beside.bin"

/* X(name, content, written, removal): the files of a folder: what is in a file, when it is written, and whether it may
 * be removed. A removal begins with "Yes" or "No". Neighbours with the same content are of the same kind. */
#define QKV_DENSE_CONTENT_ "A dense layer after the pooling: its widths and activation, and its weights."
#define QKV_DENSE_WRITTEN_ "When a run begins from a published model for vectors, and by its export."
#define QKV_DENSE_REMOVAL_ "No: without it vectors cannot be computed."
#define QKV_MODEL_BEGIN_LIST_(X)                                                                                       \
    X(QKV_CONFIG_FILE,                                                                                                 \
      "The spec: layers, widths, heads, norms. In a published model, the config.json of Hugging Face transformers.",   \
      "When a run begins or a model is made or exported.", "No: without it the model cannot be read.")                 \
    X(QKV_GENERATION_FILE,                                                                                             \
      "The tokens that end a text, and how the model's authors choose tokens: temperature, top-k, top-p, beams, "      \
      "lengths, tokens that are forced or excluded.",                                                                  \
      "When a run begins from a published model, and by its export.",                                                  \
      "Yes, but texts may then not end where they should.")                                                            \
    X(QKV_ROLES_FILE, "The roles of tokens: which ones begin and end a text; and the template of a chat.",             \
      "When a run begins from a published model, and by its export.",                                                  \
      "Yes, but prompts of a chat model then lack their template.")                                                    \
    X(QKV_TOKENIZER_FILE, "The tokenizer, in the format of Hugging Face tokenizers.",                                  \
      "When a run begins or a model is made or exported.", "No: without it the model reads and writes ids only.")      \
    X(QKV_SOURCE_FILE, "The tokenizer of the sources, for an encoder-decoder with two tokenizers.",                    \
      "When a run begins or a model is exported.", "No: without it the model reads no sources.")                       \
    X(QKV_SOURCE_ROLES_FILE, "The roles of the tokens of the sources.",                                                \
      "When a run begins from a published model, and by its export.",                                                  \
      "Yes, but sources may then lack their first or last token.")                                                     \
    X(QKV_LABELS_FILE, "The names of the classes, one a line, in the order of their numbers.",                         \
      "When a run of a classifier begins, and by its export.",                                                         \
      "Yes, if the run will not be resumed; classes then have numbers instead of names.")                              \
    X(QKV_MODULES_FILE,                                                                                                \
      "The steps from a text to a vector, in the format of sentence-transformers: model, pooling, dense layers, "      \
      "norm.",                                                                                                         \
      "When a run begins from a published model for vectors, and by its export.",                                      \
      "No: without it vectors are pooled otherwise.")                                                                  \
    X(QKV_SENTENCES_FILE, "The largest number of tokens of a text that becomes a vector.",                             \
      "When a run begins from a published model for vectors, and by its export.",                                      \
      "Yes, but longer texts are then not cut there.")                                                                 \
    X(QKV_PROMPTS_FILE, "The texts that a model for vectors expects before queries and documents.",                    \
      "When a run begins from a published model for vectors, and by its export.",                                      \
      "No: without it prompts have no names.")                                                                         \
    X(QKV_POOLING_FILE, "The pooling: which hidden states become the vector.",                                         \
      "When a run begins from a published model for vectors, and by its export.",                                      \
      "No: without it vectors cannot be computed.")                                                                    \
    X("2_Dense/" QKV_CONFIG_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                          \
    X("2_Dense/" QKV_WEIGHTS_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                         \
    X("3_Dense/" QKV_CONFIG_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                          \
    X("3_Dense/" QKV_WEIGHTS_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                         \
    X("4_Dense/" QKV_CONFIG_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                          \
    X("4_Dense/" QKV_WEIGHTS_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                         \
    X("5_Dense/" QKV_CONFIG_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)                          \
    X("5_Dense/" QKV_WEIGHTS_FILE, QKV_DENSE_CONTENT_, QKV_DENSE_WRITTEN_, QKV_DENSE_REMOVAL_)
/* Files of a model, in the order in which they are written. */
#define QKV_MODEL_FILE_LIST(X)                                                                                         \
    QKV_MODEL_BEGIN_LIST_(X)                                                                                           \
    X(QKV_WEIGHTS_FILE,                                                                                                \
      "The weights, in the format safetensors. In a run: those of the best evaluation so far, or the latest ones "     \
      "before the first evaluation.",                                                                                  \
      "By each evaluation that is the best so far; before the first evaluation, with each checkpoint; by an export.",  \
      "No: without it there is no model. A run that is resumed without it takes its next evaluation for the best.")
/* Files of a published model that no call writes. */
#define QKV_PUBLISHED_FILE_LIST(X)                                                                                     \
    X(QKV_INDEX_FILE, "For published weights in several files: the file of each tensor.",                              \
      "By those who published the model. qkv only reads it.", "No: without it the weights are not found.")
/* More files of a run. */
#define QKV_RUN_BEGIN_LIST_(X)                                                                                         \
    X(QKV_ADAPTER_CONFIG_FILE,                                                                                         \
      "The settings of an adapter: rank, scale, the adapted weights, and where the model is.",                         \
      "With adapter_model.safetensors, by a run that trains an adapter (lora).",                                       \
      "No: without it the adapter cannot be read.")                                                                    \
    X(QKV_ADAPTER_WEIGHTS_FILE, "The weights of an adapter. In a run: those of the best evaluation so far.",           \
      "By each evaluation that is the best so far, in a run that trains an adapter (lora).",                           \
      "No: without it there is no adapter.")                                                                           \
    X(QKV_TRAIN_FILE,                                                                                                  \
      "The options of the run with their defaults, and facts about its data: files, hashes, numbers of tokens.",       \
      "When the run begins, and when it is resumed with another option.", "No: without it the run cannot be resumed.") \
    X(QKV_CHECKPOINT_FILE, "What a resume needs: the latest weights, the state of the optimizer, the step.",           \
      "After every save_every steps, at the end, and when a signal stops the run.",                                    \
      "Yes, if the run will not be resumed. It is about three times as large as the weights.")                         \
    X(QKV_BEST_FILE, "The checkpoint of the best evaluation so far, if the option keep is more than 1.",               \
      "By each evaluation that is the best so far.", "Yes.")                                                           \
    X(QKV_LOG_FILE, "A line for each step: loss, gradient norm, learning rate, speed.", "With every step.",            \
      "Yes, after the run: only reports read it.")                                                                     \
    X(QKV_STATE_FILE, "Whether the run is running, done, failed or interrupted, and in which process.",                \
      "When training begins, with every checkpoint, and when it ends.",                                                \
      "Yes, after the run: the state is then not known.")                                                              \
    X(QKV_MACHINE_FILE,                                                                                                \
      "A line for each start of the run: the machine, its processor, threads, kernels and precision.",                 \
      "When the run begins and whenever it is resumed.", "Yes: only reports read it.")                                 \
    X(QKV_SAMPLES_FILE, "A line for each sample that the model wrote during training.",                                \
      "After an evaluation, if samples are asked for.", "Yes: only reports read it.")                                  \
    X(QKV_TOKENS_DATA_FILE, "The training data as tokens: the texts, the targets of pairs, or the labelled texts.",    \
      "When the run begins.", "Yes: a resume makes it again from the data, if these are unchanged.")                   \
    X(QKV_TOKENS_VALID_FILE, "The validation data as tokens.", "When a run with validation data begins.",              \
      "Yes: a resume makes it again from the data, if these are unchanged.")                                           \
    X(QKV_REFERENCE_FILE,                                                                                              \
      "The log probabilities of the answers of preferences, by the model that the run began with.",                    \
      "When a run on preferences begins.",                                                                             \
      "Yes, if the run trains an adapter: a resume makes it again. Else only if the run will not be resumed.")         \
    X(QKV_BESIDE_DATA_FILE, "The sources, labels or marks that belong to the lines of tokens.data.bin.",               \
      "When a run on pairs, labelled lines or talks begins.",                                                          \
      "Yes: a resume makes it again from the data, if these are unchanged.")
#define QKV_RUN_FILE_LIST(X)                                                                                           \
    QKV_RUN_BEGIN_LIST_(X)                                                                                             \
    X(QKV_BESIDE_VALID_FILE, "The sources, labels or marks that belong to the lines of tokens.valid.bin.",             \
      "When a run on pairs, labelled lines or talks with validation data begins.",                                     \
      "Yes: a resume makes it again from the data, if these are unchanged.")
/* Files of a run whose names have a number. */
#define QKV_NUMBERED_FILE_LIST(X)                                                                                      \
    X(QKV_CHECKPOINT_BEGIN "STEP" QKV_CHECKPOINT_END,                                                                  \
      "An earlier checkpoint, of the step in its name, if the option keep is more than 1.",                            \
      "When a newer checkpoint is written. The run removes the oldest ones that are more than keep.", "Yes.")

/* The names alone, with commas between them, for initialisers. */
#define QKV_FILE_NAME_(name, content, written, removal) name,
#define QKV_MODEL_FILES                                 QKV_MODEL_BEGIN_LIST_(QKV_FILE_NAME_) QKV_WEIGHTS_FILE
#define QKV_RUN_FILES                                   QKV_RUN_BEGIN_LIST_(QKV_FILE_NAME_) QKV_BESIDE_VALID_FILE

#endif
