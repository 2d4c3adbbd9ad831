/* export_merge.c: what an export cost the matrices that an adapter was merged into. */
#include "cli_adapters.h"

void cli_put_merge(struct qkv_json *out, const struct qkv_model *model) {
    double error, worst, change;
    const char *name;
    const size_t count = qkv_adapter_merge_cost(model, &error, &worst, &name, &change);
    if (!count) return;
    qkv_json_key(out, "merge");
    qkv_json_begin(out, '{');
    qkv_json_put_count(out, "matrices", count);
    qkv_json_put_real(out, "error", error);
    qkv_json_put_real(out, "worst_error", worst);
    qkv_json_put_text(out, "worst", name);
    qkv_json_put_real(out, "change", change);
    qkv_json_end(out, '}');
}

void cli_say_merge(const struct qkv_model *model) {
    double error, worst, change;
    const char *name;
    const size_t count = qkv_adapter_merge_cost(model, &error, &worst, &name, &change);
    if (count == 1)
        cli_say("merging rounds a matrix, %s: its error is %.3g%% of the exact sum, and the adapter changes %.3g%%",
                name, 100 * error, 100 * change);
    else if (count)
        cli_say("merging rounds %zu matrices: their errors are %.3g%% of the exact sums (mean; at most %.3g%%, of "
                "%s), and the adapter changes %.3g%% (mean)",
                count, 100 * error, 100 * worst, name, 100 * change);
}
