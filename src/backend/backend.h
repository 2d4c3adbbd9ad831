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

#endif
