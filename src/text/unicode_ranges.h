/* unicode_ranges: classes of the characters from U+0080 on, as the libraries of Hugging Face tokenizers have them. */
#ifndef QKV_UNICODE_RANGES_H
#define QKV_UNICODE_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct unicode_range {
    uint32_t first, last;
};
struct unicode_pair {
    uint32_t code, lower;
};
struct unicode_script {
    uint32_t first, last;
    int script;
};
extern const struct unicode_script qkv_unicode_scripts[]; /* of all characters (unicode_scripts.c) */
extern const size_t qkv_unicode_scripts_count;
extern const struct unicode_range qkv_unicode_nonspacing[], qkv_unicode_mark[], qkv_unicode_other[],
    qkv_unicode_punctuation[], qkv_unicode_number[], qkv_unicode_whole[];
extern const struct unicode_pair qkv_unicode_lower[];
extern const size_t qkv_unicode_nonspacing_count, qkv_unicode_mark_count, qkv_unicode_other_count,
    qkv_unicode_punctuation_count, qkv_unicode_number_count, qkv_unicode_whole_count, qkv_unicode_lower_count;

#endif
