/* sanitizers.h: defines a name for each sanitizer of the build, for gcc and clang; gcc does not tell about the one
 * for undefined behaviour. TEST_SANITIZED: a sanitizer that replaces malloc. */
#ifndef QKV_SANITIZERS_H
#define QKV_SANITIZERS_H

#ifdef __has_feature
#define TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define TEST_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TEST_HAS_FEATURE(address_sanitizer)
#define TEST_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__) || TEST_HAS_FEATURE(thread_sanitizer)
#define TEST_THREAD_SANITIZER 1
#endif
#if TEST_HAS_FEATURE(undefined_behavior_sanitizer)
#define TEST_BEHAVIOUR_SANITIZER 1
#endif
#if defined(TEST_ADDRESS_SANITIZER) || defined(TEST_THREAD_SANITIZER)
#define TEST_SANITIZED 1
#endif

#endif
