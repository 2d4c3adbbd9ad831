/* Families whose tokenizers are ranks of tiktoken. The patterns and special tokens are those of the Python files that
 * the models are published with. */
#include <stdio.h>
#include <string.h>

#include "text/tiktoken.h"

#define SPACES  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SHORT   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BEFORE  "[^\\r\\n\\p{L}\\p{N}]?"
#define WORDS   SHORT "|" BEFORE "\\p{L}+|"
#define LLAMA_3 WORDS "\\p{N}{1,3}|" SPACES
#define QWEN    WORDS "\\p{N}|" SPACES
#define UPPER   "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER   "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define NO_HAN  "&&[^\\p{Han}]"

const char qkv_pattern_kimi[] = "[\\p{Han}]+|" BEFORE "[" UPPER NO_HAN "]*[" LOWER NO_HAN "]+" SHORT "?|" BEFORE
                                "[" UPPER NO_HAN "]+[" LOWER NO_HAN "]*" SHORT "?|\\p{N}{1,3}|" SPACES;

#define GPT_4O                                                                                                         \
    BEFORE "[" UPPER "]*[" LOWER "]+" SHORT "?|" BEFORE "[" UPPER "]+[" LOWER "]*" SHORT                               \
           "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct qkv_tiktoken_family families[] = {
    {.name = "qwen",
     .types = "qwen",
     .files = "qwen.tiktoken",
     .count = 151643,
     .pattern = QWEN,
     .nfc = true,
     .specials = "<|endoftext|> <|im_start|> <|im_end|>",
     .numbered = "<|extra_",
     .last = 204},
    {.name = "phi3small",
     .types = "phi3small",
     .files = "cl100k_base.tiktoken",
     .count = 100256,
     .pattern = LLAMA_3,
     .specials = "- <|endoftext|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|system|> <|user|> <|assistant|> - - "
                 "<|end|> - - - - - - - - - <|endofprompt|>"},
    {.name = "kimi",
     .types = "kimi_k2 kimi kimi_k25 kimi_vl kimi_linear",
     .files = "tiktoken.model",
     .count = 163584,
     .pattern = qkv_pattern_kimi,
     .specials = "[BOS] [EOS]",
     .numbered = "<|reserved_token_",
     .first = -1,
     .last = 253},
    {.name = "glm",
     .types = "chatglm glm glm4",
     .files = "",
     .count = 151329,
     .pattern = LLAMA_3,
     .specials = "<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|>",
     .before = "[gMASK] <sop>"},
    {.name = "llama",
     .types = "llama",
     .files = "",
     .count = 128000,
     .pattern = LLAMA_3,
     .specials = "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> "
                 "<|reserved_special_token_2|> <|reserved_special_token_3|> <|start_header_id|> <|end_header_id|> "
                 "<|reserved_special_token_4|> <|eot_id|>",
     .numbered = "<|reserved_special_token_",
     .first = 5,
     .last = 250,
     .before = "<|begin_of_text|>"},
    {.name = "gpt-4o",
     .types = "",
     .files = "o200k_base.tiktoken",
     .count = 199998,
     .pattern = GPT_4O,
     .specials = "- <|endoftext|> - - - - - - - - - - - - - - - - - - <|endofprompt|>"},
    {.name = "gpt-2",
     .types = "gpt2",
     .files = "r50k_base.tiktoken p50k_base.tiktoken gpt2.tiktoken",
     .count = 50256,
     .pattern = qkv_pattern_gpt2,
     .specials = "<|endoftext|>"},
};
enum { FAMILIES = sizeof families / sizeof *families };

static bool family_has(const char *list, const char *name) {
    const size_t n = name ? strlen(name) : 0;
    for (const char *at = list; n && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n && !strncmp(at, name, n)) return true;
    return false;
}

const struct qkv_tiktoken_family *qkv_tiktoken_find(const char *type, const char *file, size_t count) {
    for (size_t i = 0; i < FAMILIES; i++)
        if (family_has(families[i].types, type)) return &families[i];
    for (size_t i = 0; i < FAMILIES; i++)
        if (family_has(families[i].files, file)) return &families[i];
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].count == count) return &families[i];
    return NULL;
}

void qkv_tiktoken_names(char *out, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < FAMILIES && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s",
                              i == 0             ? ""
                              : i + 1 < FAMILIES ? ", "
                                                 : " and ",
                              families[i].name);
}
