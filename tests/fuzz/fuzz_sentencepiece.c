/* A SentencePiece tokenizer.model: its pieces, its normaliser's table, texts in and out. */
#include "core/text/sentencepiece_file.h"
#include "core/text/sentencepiece_tokenizer.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const texts[] = {"Hello,  wörld 1234\n", "\xef\xbd\xb1\xe3\x82\x9b  x ",
                                        "\xff<0x0A>\xe2\x96\x81 a"};
    struct mt_sentencepiece_file file = {0};
    struct mt_error error = {0};
    if (mt_sentencepiece_file_parse((const char *)data, bytes, &file, &error) == 0)
        for (size_t i = 0; i < file.count; i++)
            mt_fuzz_use(file.pieces[i].text, file.pieces[i].bytes);
    mt_sentencepiece_file_free(&file);

    struct mt_tokenizer *tokenizer;
    if (mt_sentencepiece_tokenizer_load(mt_fuzz_folder("tokenizer.model"), "tokenizer.model",
                                        (const char *)data, bytes, &tokenizer, &error) < 0)
        return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mt_ids ids = {0};
        struct mt_text text = {0};
        if (mt_tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), true, &ids, &error) == 0 &&
            mt_tokenizer_decode(tokenizer, ids.data, ids.count, false, &text, &error) == 0)
            mt_fuzz_use(text.data, text.bytes);
        mt_ids_free(&ids);
        mt_text_free(&text);
    }
    mt_tokenizer_free(tokenizer);
    return 0;
}
