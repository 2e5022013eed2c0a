#include "tests/fuzz/fuzz.h"

#include "core/data/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_ROWS 10000

const char *mt_fuzz_file(const uint8_t *data, size_t bytes)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes) {
        perror("a file in memory");
        abort();
    }
    return path;
}

static char folder[64], only_file[128];

static void remove_folder(void)
{
    unlink(only_file);
    rmdir(folder);
}

const char *mt_fuzz_folder(const char *name)
{
    if (*folder)
        return folder;
    snprintf(folder, sizeof folder, "/tmp/megatrain-fuzz-XXXXXX");
    FILE *file = NULL;
    if (mkdtemp(folder)) {
        snprintf(only_file, sizeof only_file, "%s/%s", folder, name);
        file = fopen(only_file, "wb");
    }
    if (!file || fclose(file) != 0) {
        perror(folder);
        abort();
    }
    atexit(remove_folder);
    return folder;
}

void mt_fuzz_use(const void *data, size_t bytes)
{
    static volatile uint8_t sum;
    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}

static void use_value(const struct mt_value *value)
{
    if (value->kind == MT_VALUE_NUMBER || value->kind == MT_VALUE_TEXT)
        mt_fuzz_use(value->text, value->bytes);
    for (const struct mt_value *child = value->first; child; child = child->next) {
        mt_fuzz_use(child->key, child->key_bytes);
        use_value(child);
    }
}

void mt_fuzz_rows(const uint8_t *data, size_t bytes, enum mt_format format, enum mt_compression compression)
{
    const struct mt_source_file file = {
        .path = mt_fuzz_file(data, bytes), .format = format, .compression = compression};
    struct mt_error error = {0};
    struct mt_reader *reader;
    if (mt_reader_open(&file, 0, &reader, &error) < 0)
        return;
    int r = 1;
    for (size_t i = 0; r > 0 && i < MOST_ROWS; i++) {
        struct mt_arena *arena = mt_arena_new();
        struct mt_row row;
        r = arena ? mt_reader_next(reader, arena, &row, &error) : -1;
        if (r > 0 && row.text)
            mt_fuzz_use(row.text, row.bytes);
        if (r > 0 && row.object)
            use_value(row.object);
        mt_arena_free(arena);
    }
    unsigned char digest[32];
    if (r == 0)
        mt_reader_finish(reader, digest, &error);
    mt_reader_free(reader);
}
