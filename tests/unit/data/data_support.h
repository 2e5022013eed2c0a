/* What the tests of core/data share. */
#ifndef MT_TEST_DATA_SUPPORT_H
#define MT_TEST_DATA_SUPPORT_H

#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "tests/unit/support.h"

/* A dataset with what it needs, to be freed together. */
struct fixture {
    struct mt_tokenizer *tokenizer;
    struct mt_chat *chat;
    struct mt_dataset *dataset;
    struct mt_sample sample; /* the last one that was asked for */
};

static inline const char *write_file(void **state, const char *name, const char *text)
{
    struct mt_error error = {0};
    const char *path = mt_test_path(state, name);
    mt_assert_ok(mt_file_write_atomic(path, text, strlen(text), 0666, &error), &error);
    return path;
}

/* Options with the usual values; no validation split, no packing. */
static inline struct mt_dataset_options usual_options(void)
{
    return (struct mt_dataset_options){.max_seq_len = 1024, .seed = 42};
}

/* Opens one path (NULL: what `options` name); the result of mt_dataset_open. */
static inline int try_open(struct fixture *fixture, struct mt_dataset_options options, const char *path,
                           struct mt_error *error)
{
    *fixture = (struct fixture){0};
    mt_assert_ok(mt_tokenizer_load("bytes", &fixture->tokenizer, error), error);
    mt_assert_ok(mt_chat_open(NULL, NULL, &fixture->chat, error), error);
    const char *const paths[] = {path};
    if (path) {
        options.paths = paths;
        options.num_paths = 1;
    }
    options.tokenizer = fixture->tokenizer;
    options.chat = fixture->chat;
    return mt_dataset_open(&options, &fixture->dataset, error);
}

static inline void free_fixture(struct fixture *fixture)
{
    mt_sample_free(&fixture->sample);
    mt_dataset_free(fixture->dataset);
    mt_chat_free(fixture->chat);
    mt_tokenizer_free(fixture->tokenizer);
}

static inline struct fixture open_dataset(struct mt_dataset_options options, const char *path)
{
    struct mt_error error = {0};
    struct fixture fixture;
    mt_assert_ok(try_open(&fixture, options, path, &error), &error);
    return fixture;
}

/* Opening fails with a message that has `why` in it. */
static inline void assert_refused(struct mt_dataset_options options, const char *path, const char *why)
{
    struct mt_error error = {0};
    struct fixture fixture;
    if (try_open(&fixture, options, path, &error) == 0)
        fail_msg("%s was accepted; expected: %s", path, why);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(error.message, why);
    free_fixture(&fixture);
}

/* Sample i, until the next one is asked for. */
static inline const struct mt_sample *sample_of(struct fixture *fixture, size_t i)
{
    struct mt_error error = {0};
    mt_sample_free(&fixture->sample);
    mt_assert_ok(mt_dataset_sample(fixture->dataset, i, &fixture->sample, &error), &error);
    return &fixture->sample;
}

/* The text of sample i with special tokens written out; `learned_only` takes what is learned. To be freed. */
static inline char *sample_text(struct fixture *fixture, size_t i, bool learned_only)
{
    struct mt_error error = {0};
    struct mt_text text = {0};
    const struct mt_sample *sample = sample_of(fixture, i);
    mt_text_append(&text, "", 0);
    for (size_t t = 0; t < sample->tokens; t++)
        if (!learned_only || sample->learned[t])
            mt_assert_ok(mt_tokenizer_decode(fixture->tokenizer, &sample->ids[t], 1, false, &text, &error),
                         &error);
    return text.data;
}

static inline void assert_sample(struct fixture *fixture, size_t i, bool learned_only, const char *expected)
{
    char *text = sample_text(fixture, i, learned_only);
    assert_string_equal(text, expected);
    free(text);
}

#endif
