/* backend_cpu: the backend of CPUs: the host's memory, the operators of room op, and the steps of this room. */
#include "backend/backends.h"

#define STEP(name) [QKV_STEP_##name] = qkv_cpu_##name,
static qkv_step *const cpu_steps[QKV_STEP_COUNT] = {QKV_STEP_LIST(STEP)};

const struct qkv_backend qkv_backend_cpu = {
    .name = "cpu", .plan = &qkv_backend_dry, .operators = qkv_operators, .steps = cpu_steps, QKV_HOST_ROWS};
