// block.cpp: an encoder block on a C++ program's own vectors. It reads a batch of two sequences with padding and prints
// the length of each output. unique_ptr frees what the library made.
//     block
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

namespace {
struct free_context {
    void operator()(qkv_context *ctx) const { qkv_context_free(ctx); }
};
struct free_spec {
    void operator()(qkv_spec *spec) const { qkv_spec_free(spec); }
};
struct free_module {
    void operator()(qkv_module *module) const { qkv_module_free(module); }
};

constexpr std::size_t B = 2, T = 5, C = 32;
constexpr char text[] = R"({"format": "qkv", "version": 2, "vocab": 8, "context": 16, "d_model": 32,
    "encoder": {"layers": 1, "attention": {"heads": 4, "causal": false}, "ffn": {"d_ff": 64}}, "decoder": null})";

int fail(const qkv_context *ctx) {
    std::fprintf(stderr, "%s\n", qkv_message(ctx));
    return 1;
}
} // namespace

int main() {
    qkv_context *new_context = nullptr;
    const qkv_status status = qkv_context_create(&new_context, nullptr);
    const std::unique_ptr<qkv_context, free_context> ctx(new_context);
    qkv_module *new_block = nullptr;
    qkv_module_options options = qkv_module_defaults();
    options.kind = QKV_MODULE_ENCODER_BLOCK;
    options.seed = 7;
    qkv_spec new_spec{};
    if (status || qkv_spec_parse(ctx.get(), &new_spec, "block", text, sizeof text - 1, nullptr, 0))
        return fail(ctx.get());
    const std::unique_ptr<qkv_spec, free_spec> spec(&new_spec); // frees the kinds of layers, which the spec owns
    if (qkv_module_create(ctx.get(), spec.get(), &options, &new_block)) return fail(ctx.get());
    const std::unique_ptr<qkv_module, free_module> block(new_block);

    std::vector<float> x(B * T * C), y(B * T * C);
    for (std::size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i));
    const std::int32_t lengths[B] = {5, 3}; // positions 3 and 4 of the second sequence are padding
    qkv_module_input in = qkv_module_input_defaults();
    in.x = {x.data(), B, T, C};
    in.self.mask.lengths = lengths;
    if (qkv_module_forward(block.get(), &in, {y.data(), B, T, C})) return fail(ctx.get());
    for (std::size_t b = 0; b < B; b++)
        for (std::size_t t = 0; t < static_cast<std::size_t>(lengths[b]); t++) {
            const float *row = &y[(b * T + t) * C];
            std::printf("sequence %zu, position %zu: |y| = %.4f\n", b, t,
                        std::sqrt(std::inner_product(row, row + C, row, 0.0)));
        }
}
