/* Tokenises many texts in one run, for tests that compare with other programs:
 *
 *     tokenize_lines MODEL [special] [spans] [decode] [save=FOLDER] < TEXTS
 *
 * Each text is a line with its number of bytes, then those bytes. For each it writes a line of ids, with
 * `spans` of id:begin:end, or with `decode` the length and bytes of what the ids decode to (special tokens
 * written out); a text that is refused gives "error: ...". With "repeat=N" it encodes all of it N times, and
 * writes seconds. */
#include "core/text/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct request {
    const struct mt_tokenizer *tokenizer;
    bool special, spans, decode;
    size_t repeat;
};

static void write_result(const struct request *request, const struct mt_ids *ids,
                         const struct mt_spans *spans)
{
    struct mt_text text = {0};
    if (request->decode) {
        mt_tokenizer_decode(request->tokenizer, ids->data, ids->count, false, &text, NULL);
        printf("%zu\n", text.bytes);
        fwrite(text.data, 1, text.bytes, stdout);
        mt_text_free(&text);
    }
    for (size_t i = 0; !request->decode && i < ids->count; i++) {
        printf("%s%" PRId32, i ? " " : "", ids->data[i]);
        if (request->spans)
            printf(":%" PRIu32 ":%" PRIu32, spans->data[i].begin, spans->data[i].end);
    }
    putchar('\n');
}

static void answer(const struct request *request, const char *text, size_t bytes)
{
    struct mt_ids ids = {0};
    struct mt_spans spans = {0};
    struct mt_error error = {0};
    const int r = mt_tokenizer_encode_spans(request->tokenizer, text, bytes, request->special, &ids,
                                            request->spans ? &spans : NULL, &error);
    if (r < 0)
        printf("error: %s\n", error.message);
    else
        write_result(request, &ids, &spans);
    mt_ids_free(&ids);
    mt_spans_free(&spans);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The time of all texts together, without reading and writing. */
static void measure(const struct request *request, char **texts, const size_t *bytes, size_t count)
{
    for (size_t i = 0; i < request->repeat; i++) {
        struct mt_ids ids = {0};
        const double start = seconds();
        for (size_t k = 0; k < count; k++) {
            ids.count = 0;
            mt_tokenizer_encode(request->tokenizer, texts[k], bytes[k], request->special, &ids, NULL);
        }
        printf("%.6f\n", seconds() - start);
        fflush(stdout);
        mt_ids_free(&ids);
    }
}

static char *read_text(size_t *bytes)
{
    if (scanf("%zu", bytes) != 1 || getchar() != '\n')
        return NULL;
    char *text = malloc(*bytes + 1);
    return text && fread(text, 1, *bytes, stdin) == *bytes ? text : NULL;
}

int main(int argc, char **argv)
{
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer;
    struct request request = {0};
    if (argc < 2 || mt_tokenizer_load(argv[1], &tokenizer, &error) < 0) {
        fprintf(stderr, "tokenize_lines: %s\n", argc < 2 ? "no model" : error.message);
        return 65;
    }
    request.tokenizer = tokenizer;
    for (int i = 2; i < argc; i++) {
        request.special = request.special || strcmp(argv[i], "special") == 0;
        request.spans = request.spans || strcmp(argv[i], "spans") == 0;
        request.decode = request.decode || strcmp(argv[i], "decode") == 0;
        if (strncmp(argv[i], "save=", 5) == 0 && mt_tokenizer_save(tokenizer, argv[i] + 5, &error) < 0) {
            fprintf(stderr, "tokenize_lines: %s\n", error.message);
            return 74;
        }
        if (strncmp(argv[i], "repeat=", 7) == 0)
            request.repeat = strtoul(argv[i] + 7, NULL, 10);
    }
    char **texts = NULL;
    size_t *lengths = NULL, count = 0, bytes;
    for (char *text; (text = read_text(&bytes)) != NULL;) {
        if (!request.repeat) {
            answer(&request, text, bytes);
            free(text);
            continue;
        }
        char **more_texts = reallocarray(texts, count + 1, sizeof *texts);
        size_t *more_lengths = more_texts ? reallocarray(lengths, count + 1, sizeof *lengths) : NULL;
        if (!more_lengths)
            return 70;
        texts = more_texts;
        lengths = more_lengths;
        texts[count] = text;
        lengths[count++] = bytes;
    }
    measure(&request, texts, lengths, count);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
    free(lengths);
    mt_tokenizer_free(tokenizer);
    return 0;
}
