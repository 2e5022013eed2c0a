/* Greedy continuations of lines of ids, for tests that compare with other programs:
 *
 *     decode_lines MODEL TOKENS LOGITS < LINES
 *
 * For each line (ids, blank-separated) it appends the logits after its last id to the file LOGITS (fp32, one
 * a word of the vocabulary), and writes a line "ID:MARGIN ..." of TOKENS greedy tokens, each with how far its
 * logit stands above the next one. End tokens end nothing. */
#include "core/device/open.h"
#include "core/model/open.h"
#include "core/store/files.h"
#include "core/stream/decoder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IDS 1024

static struct mt_error error;

static void need(int result)
{
    if (result < 0) {
        fprintf(stderr, "decode_lines: %s\n", error.message);
        exit(70);
    }
}

static int32_t best(const float *logits, size_t count, float *margin)
{
    size_t first = 0;
    float second = -INFINITY;
    for (size_t i = 1; i < count; i++) {
        if (logits[i] > logits[first]) {
            second = logits[first];
            first = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    *margin = logits[first] - second;
    return (int32_t)first;
}

static void continue_line(struct mt_decoder *decoder, size_t vocab, char *line, size_t tokens, FILE *file)
{
    int32_t ids[MAX_IDS];
    size_t count = 0;
    float margin, *logits = malloc(vocab * sizeof *logits);
    if (!logits)
        exit(70);
    for (char *word = strtok(line, " \n"); word && count < MAX_IDS; word = strtok(NULL, " \n"))
        ids[count++] = (int32_t)strtol(word, NULL, 10);
    mt_decoder_truncate(decoder, 0, 0);
    struct mt_decoder_input input = {.ids = ids, .tokens = count, .logits = logits};
    need(mt_decoder_forward(decoder, &input, 1, &error));
    fwrite(logits, sizeof *logits, vocab, file);
    for (size_t i = 0; i < tokens; i++) {
        int32_t id = best(logits, vocab, &margin);
        printf("%s%" PRId32 ":%.6g", i ? " " : "", id, (double)margin);
        input = (struct mt_decoder_input){.ids = &id, .tokens = 1, .logits = logits};
        need(mt_decoder_forward(decoder, &input, 1, &error));
    }
    putchar('\n');
    fflush(stdout);
    free(logits);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    struct mt_model *model;
    struct mt_device *device;
    struct mt_store *store;
    struct mt_tensors *weights;
    struct mt_decoder *decoder;
    struct mt_pool *pool = mt_pool_new(0);
    FILE *file = fopen(argv[3], "wb");
    char *line = NULL;
    size_t capacity = 0;
    if (!pool || !file)
        return 74;
    const struct mt_device_options device_options = {.pool = pool};
    const struct mt_store_options store_options = {.compute_dtype = MT_F32, .weights_only = true};
    const struct mt_decoder_options decoder_options = {.max_sequences = 1, .max_tokens = MAX_IDS};
    need(mt_model_open(argv[1], &model, &error));
    need(mt_device_open("cpu", &device_options, &device, &error));
    need(mt_store_new(model, device, &store_options, &store, &error));
    need(mt_store_open_files(model, argv[1], &weights, &error));
    need(mt_store_load_opened(store, weights, pool, &error));
    mt_tensors_close(weights);
    need(mt_decoder_new(store, device, pool, &decoder_options, &decoder, &error));
    while (getline(&line, &capacity, stdin) > 0)
        continue_line(decoder, model->vocab_size, line, strtoul(argv[2], NULL, 10), file);
    free(line);
    fclose(file);
    mt_decoder_free(decoder);
    mt_store_free(store);
    mt_device_close(device);
    mt_pool_free(pool);
    mt_model_free(model);
    return 0;
}
