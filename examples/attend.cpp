// attend.cpp: C++: causal attention on a program's own vectors, without a model: 4 query heads on 2 key-value heads, and
// two sequences, the second with padding. It prints the length of each output of head 0.
//     attend
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

struct freeing {
    void operator()(qkv_context *ctx) const { qkv_context_free(ctx); }
};

int main() {
    constexpr std::size_t B = 2, T = 6, H = 4, HKV = 2, D = 8;
    const std::int32_t lengths[B] = {6, 4}; // keys 4 and 5 of the second sequence are padding
    std::vector<float> q(B * T * H * D), k(B * T * HKV * D), v(k.size()), y(q.size());
    for (std::size_t i = 0; i < q.size(); i++) q[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < k.size(); i++) k[i] = std::cos(static_cast<float>(i));
    for (std::size_t i = 0; i < v.size(); i++) v[i] = 1 / static_cast<float>(i + 1);

    qkv_context *new_context = nullptr;
    const qkv_status status = qkv_context_create(&new_context, nullptr);
    const std::unique_ptr<qkv_context, freeing> ctx(new_context);
    qkv_attention_call call = qkv_attention_call_defaults();
    call.q = qkv_view_bthd(q.data(), QKV_F32, B, T, H, D), call.k = qkv_view_bthd(k.data(), QKV_F32, B, T, HKV, D);
    call.v = qkv_view_bthd(v.data(), QKV_F32, B, T, HKV, D), call.y = qkv_view_bthd(y.data(), QKV_F32, B, T, H, D);
    call.mask.causal = true, call.mask.lengths = lengths;
    if (status || qkv_attention_forward(ctx.get(), &call)) {
        std::fprintf(stderr, "%s\n", qkv_message(ctx.get()));
        return 1;
    }
    for (std::size_t b = 0; b < B; b++)
        for (std::size_t t = 0; t < static_cast<std::size_t>(lengths[b]); t++) {
            float square = 0;
            for (std::size_t d = 0; d < D; d++) square += std::pow(y[(b * T + t) * H * D + d], 2.0f);
            std::printf("sequence %zu, position %zu: |y| = %.4f\n", b, t, static_cast<double>(std::sqrt(square)));
        }
    return y[0] == v[0] ? 0 : 1; // the first query sees one key: its output is that key's value
}
