/* backend: the backends, and what another one has to write.
 *
 * A backend is a struct qkv_backend (base/backend.h). A context gets the CPU's; the test of backends
 * (tests/test_backends.c) has one whose memory the host cannot touch. */
#ifndef QKV_BACKEND_H
#define QKV_BACKEND_H

#include "base/backend.h"
#include "op/steps.h"

/* The CPU, and the backend that plans for it. */
extern const struct qkv_backend qkv_backend_cpu, qkv_backend_dry;

/* The CPU's steps, qkv_cpu_NAME. */
#define QKV_CPU_STEP_DECLARE(name) qkv_step qkv_cpu_##name;
QKV_STEP_LIST(QKV_CPU_STEP_DECLARE)
#undef QKV_CPU_STEP_DECLARE

/* Writes the tokens that would repeat n tokens of `length` ids, and returns how many they are: at most length. n 0:
 * none (cpu_candidates.c). */
size_t qkv_repeats(const int32_t *ids, size_t length, size_t n, int32_t *banned);

#endif
