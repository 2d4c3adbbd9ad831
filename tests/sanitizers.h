/* sanitizers.h: which sanitizers a test is built with, by gcc or clang: a name is defined where it is. gcc does not say so
 * of the one of undefined behaviour. TEST_SANITIZED: one of those that replace malloc. */
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
