/* export_adapter.c: "qkv export --to peft" and "--to gguf-adapter": the adapter of a model alone. */
#include <stdio.h>

#include "cli_adapters.h"

static int notes_json(const struct cli_adapter_file *file, const struct qkv_gguf_notes *notes) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, notes ? "file" : "folder", file->out);
    qkv_json_put_text(&out, "to", notes ? "gguf-adapter" : "peft");
    qkv_json_put_text(&out, "dtype", file->dtype);
    if (notes) {
        qkv_json_put_text(&out, "architecture", qkv_gguf_notes_architecture(notes));
        cli_put_notes(&out, notes);
    }
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

int cli_adapter_write(const struct cli_adapter_file *file, struct qkv_model *model) {
    struct qkv_gguf_notes *notes = NULL;
    const char *note;
    char count[CLI_NUMBER];
    if (file->gguf ? qkv_adapter_export_gguf(model, file->family, file->dtype, file->out, &notes)
                   : qkv_adapter_save(model, file->base, file->out))
        return cli_broken(qkv_model_context(model));
    for (size_t i = 0; (note = qkv_gguf_note_at(notes, i)); i++) cli_say("%s", note);
    int code = CLI_DONE;
    if (file->json)
        code = notes_json(file, notes);
    else
        cli_wrote(file->out, "%s parameters of an adapter in %s%s%s", cli_grouped(count, cli_parameters(model)),
                  file->dtype, notes ? ", architecture " : "", notes ? qkv_gguf_notes_architecture(notes) : "");
    qkv_gguf_notes_free(notes);
    return code;
}
