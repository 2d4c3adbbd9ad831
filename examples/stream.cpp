// stream.cpp: C++: loads a model folder and continues a text, writing it token by token.
//     stream RUN [PROMPT [TOKENS]]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <qkv.h>

struct freeing {
    void operator()(qkv_context *ctx) const { qkv_context_free(ctx); }
    void operator()(qkv_model *model) const { qkv_model_free(model); }
};

int main(int argc, char **argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s RUN [PROMPT [TOKENS]]\n", argv[0]);
        return 2;
    }
    const std::string prompt = argc > 2 ? argv[2] : "";
    qkv_generate_options options = qkv_generate_defaults();
    if (argc > 3) options.tokens = std::strtoul(argv[3], nullptr, 10);
    options.sampling.temperature = 0.8;

    qkv_context *new_context = nullptr;
    qkv_status status = qkv_context_create(&new_context, nullptr);
    const std::unique_ptr<qkv_context, freeing> ctx(new_context); // freed last
    qkv_model *new_model = nullptr;
    if (!status) status = qkv_model_load(ctx.get(), argv[1], &new_model);
    const std::unique_ptr<qkv_model, freeing> model(new_model);

    const auto write = [](void *, const char *text, std::size_t size) { // false stops the generation
        return std::fwrite(text, 1, size, stdout) == size && std::fflush(stdout) == 0;
    };
    if (!status) status = qkv_generate(model.get(), prompt.data(), prompt.size(), &options, write, nullptr, nullptr);
    if (status) std::fprintf(stderr, "%s: %s\n", argv[0], qkv_message(ctx.get()));
    std::printf("\n");
    return status ? 1 : 0;
}
