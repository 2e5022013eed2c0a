/* Metadata, tensors, tokenizer and chat template of a GGUF file. */
#include "core/formats/gguf.h"
#include "core/text/gguf_tokenizer.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void use_value(const struct mt_gguf_value *value)
{
    struct mt_gguf_strings strings = {.value = value};
    struct mt_gguf_text text;
    int64_t integer;
    double number;
    if (mt_gguf_string(value, &text))
        mt_fuzz_use(text.data, text.bytes);
    if (value->is_array && value->kind == MT_GGUF_STRING)
        while (mt_gguf_next_string(&strings, &text))
            mt_fuzz_use(text.data, text.bytes);
    for (size_t i = 0; i < value->count && i < 100; i++) {
        mt_gguf_number(value, i, &number);
        mt_gguf_integer(value, i, &integer);
    }
}

/* The first and the last elements: both ends of where its data must be. */
static void use_tensor(const struct mt_gguf_tensor *tensor)
{
    float numbers[512];
    const size_t count = tensor->elements < 512 ? tensor->elements : 512;
    if (mt_gguf_read_f32(tensor, 0, count, numbers) == 0)
        mt_fuzz_use(numbers, count * sizeof *numbers);
    if (mt_gguf_read_f32(tensor, tensor->elements - count, count, numbers) == 0)
        mt_fuzz_use(numbers, count * sizeof *numbers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *path = mt_fuzz_file(data, bytes);
    struct mt_error error = {0};
    struct mt_gguf *file;
    if (mt_gguf_open(path, &file, &error) < 0)
        return 0;
    for (size_t i = 0; i < mt_gguf_num_values(file); i++)
        use_value(mt_gguf_value_at(file, i));
    for (size_t i = 0; i < mt_gguf_num_tensors(file); i++) {
        /* A tensor lies within its file; no sanitizer sees one that does not. */
        if (mt_gguf_tensor_at(file, i)->bytes > bytes)
            abort();
        use_tensor(mt_gguf_tensor_at(file, i));
    }
    mt_gguf_close(file);

    struct mt_tokenizer *tokenizer = NULL;
    struct mt_ids ids = {0};
    json_t *template = NULL, *config = NULL;
    if (mt_gguf_tokenizer_load(path, &tokenizer, &error) == 0)
        mt_tokenizer_encode(tokenizer, "Hello,  wörld 1234\n", 20, true, &ids, &error);
    mt_tokenizer_free(tokenizer);
    mt_ids_free(&ids);
    if (mt_gguf_template_read(path, &template, &config, &error) == 0) {
        json_decref(template);
        json_decref(config);
    }
    return 0;
}
