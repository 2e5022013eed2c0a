#include "core/data/cache.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/base/version.h"
#include "core/formats/data_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

/* Raised when the same rows and template give other tokens or masks than before. */
#define RULES 3
#define INDEX "index"
#define MAGIC "MTDATA1"
#define UNUSED_SECONDS (30 * 24 * 3600)

/* The index: this, then parts and digests, then the XXH3 of all of it. */
struct header {
    char magic[8];
    uint64_t bytes; /* of the whole file */
    uint64_t num_parts, num_digests;
    uint64_t array_bytes[MT_SAMPLES_NUM_ARRAYS], array_hash[MT_SAMPLES_NUM_ARRAYS];
    struct mt_dataset_stats stats;
};

char *mt_dataset_cache_folder(void)
{
    const char *set = getenv("MEGATRAIN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (set && *set)
        return strdup(set);
    if (xdg && *xdg)
        return mt_path_join(xdg, "megatrain/data");
    return home && *home ? mt_path_join(home, ".cache/megatrain/data") : NULL;
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the data set's cache");
}

/* Everything that the samples depend on. Split, packing and order are made anew each time. */
static int make_key(struct mt_cache *cache, const struct mt_dataset_options *options,
                    const struct mt_sources *sources, struct mt_error *error)
{
    struct mt_dataset_options samples_only = *options;
    struct mt_sha256 hash;
    unsigned char digest[32];
    samples_only.packing = false;
    samples_only.val_size = 0;
    samples_only.seed = 0;
    samples_only.num_mix = 0; /* its parts are in `sources` */
    mt_sha256_init(&hash);
    char line[128];
    snprintf(line, sizeof line, "megatrain %s %d %zu %zu", MT_VERSION, RULES, sizeof(struct header),
             sources->count);
    mt_sha256_update(&hash, line, strlen(line) + 1);
    mt_dataset_hash_options(&hash, &samples_only, sources);
    for (size_t i = 0; i < sources->count; i++)
        for (size_t f = 0; f < sources->list[i].num_files; f++) {
            const struct mt_source_file *file = &sources->list[i].files[f];
            struct mt_file_identity identity = {0};
            int r = mt_file_identity_read(file->path, &identity, error);
            if (r < 0)
                return r;
            mt_sha256_update(&hash, file->path, strlen(file->path) + 1);
            mt_sha256_update(&hash, &identity, sizeof identity);
        }
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, cache->key);
    return 0;
}

int mt_cache_begin(struct mt_cache *cache, const struct mt_dataset_options *options,
                   const struct mt_sources *sources, struct mt_error *error)
{
    *cache = (struct mt_cache){
        .folder = {.parent = options->cache_dir, .memory = options->cache_memory_bytes},
    };
    if (!options->cache_dir || options->max_rows)
        return 0;
    return make_key(cache, options, sources, error);
}

static int hash_of(const struct mt_bulk *sealed, uint64_t *result, struct mt_error *error)
{
    struct mt_bulk_view view = {.bulk = sealed};
    XXH3_state_t *hash = XXH3_createState();
    int r = hash ? 0 : no_memory(error);
    if (hash)
        XXH3_64bits_reset(hash);
    for (uint64_t at = 0; r == 0 && at < sealed->bytes;) {
        const uint64_t left = sealed->bytes - at;
        const size_t piece = left < MT_BULK_VIEW_BYTES ? (size_t)left : MT_BULK_VIEW_BYTES;
        const void *data;
        r = mt_bulk_view_at(&view, at, piece, &data, error);
        if (r == 0)
            XXH3_64bits_update(hash, data, piece);
        at += piece;
    }
    *result = r == 0 ? XXH3_64bits_digest(hash) : 0;
    XXH3_freeState(hash);
    mt_bulk_view_end(&view);
    return r;
}

/* --- reading ----------------------------------------------------------------------------------------------
 */

/* The parts and digests behind the header, into the dataset. */
static bool take_index(const char *data, size_t bytes, struct header *header, struct mt_dataset *dataset)
{
    uint64_t hash;
    size_t parts, digests, expected;
    if (bytes < sizeof *header + sizeof hash)
        return false;
    memcpy(header, data, sizeof *header);
    memcpy(&hash, data + bytes - sizeof hash, sizeof hash);
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0 || header->bytes != bytes ||
        XXH3_64bits(data, bytes - sizeof hash) != hash ||
        !mt_size_mul(header->num_parts, sizeof *dataset->parts, &parts) ||
        !mt_size_mul(header->num_digests, sizeof *dataset->digests, &digests) ||
        !mt_size_add(parts, digests, &expected) || expected != bytes - sizeof *header - sizeof hash)
        return false;
    dataset->parts = malloc(parts + 1);
    dataset->digests = malloc(digests + 1);
    if (!dataset->parts || !dataset->digests)
        return false;
    memcpy(dataset->parts, data + sizeof *header, parts);
    memcpy(dataset->digests, data + sizeof *header + parts, digests);
    dataset->num_parts = (size_t)header->num_parts;
    dataset->num_digests = (size_t)header->num_digests;
    dataset->stats = header->stats;
    return true;
}

static bool parts_fit(const struct mt_dataset *dataset)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < dataset->num_parts; i++) {
        if (dataset->parts[i].first_sample != samples)
            return false;
        samples += dataset->parts[i].num_samples;
    }
    return samples == dataset->samples.count;
}

static bool load(const char *folder, const char *index, struct mt_dataset *dataset)
{
    mt_autofree char *data = NULL;
    size_t bytes;
    struct header header;
    struct stat status;
    if (stat(index, &status) < 0 || !S_ISREG(status.st_mode) ||
        mt_file_read(index, (size_t)1 << 30, &data, &bytes, NULL) < 0 ||
        !take_index(data, bytes, &header, dataset))
        return false;
    for (size_t i = 0; i < MT_SAMPLES_NUM_ARRAYS; i++) {
        struct mt_bulk *array = &dataset->samples.arrays[i];
        uint64_t hash;
        if (mt_bulk_open(array, folder, mt_samples_names[i], header.array_bytes[i], NULL) < 0 ||
            hash_of(array, &hash, NULL) < 0 || hash != header.array_hash[i])
            return false;
    }
    return mt_samples_adopt(&dataset->samples, NULL) == 0 && parts_fit(dataset);
}

int mt_cache_find(const struct mt_cache *cache, struct mt_dataset *dataset, struct mt_error *error)
{
    if (!*cache->key)
        return 0;
    mt_autofree char *folder = mt_path_join(cache->folder.parent, cache->key);
    mt_autofree char *index = folder ? mt_path_join(folder, INDEX) : NULL;
    if (!index)
        return no_memory(error);
    if (!mt_path_exists(folder))
        return 0;
    if (load(folder, index, dataset)) {
        utimensat(AT_FDCWD, index, NULL, 0); /* it was used */
        return 1;
    }
    mt_samples_free(&dataset->samples);
    free(dataset->parts);
    free(dataset->digests);
    dataset->parts = NULL;
    dataset->digests = NULL;
    dataset->num_parts = dataset->num_digests = 0;
    dataset->stats = (struct mt_dataset_stats){0};
    mt_folder_remove(folder, NULL); /* where it cannot be removed, the new one will not be kept either */
    return 0;
}

/* --- writing ----------------------------------------------------------------------------------------------
 */

/* Of an entry; far ahead where it cannot be told. */
static time_t last_use(const char *path)
{
    mt_autofree char *index = mt_path_join(path, INDEX);
    struct stat status;
    return index && (stat(index, &status) == 0 || stat(path, &status) == 0) ? status.st_mtime : INT64_MAX;
}

/* Entries that nobody used for long, and what a killed process left. */
static void prune(const char *parent)
{
    DIR *folder = opendir(parent);
    const time_t now = time(NULL);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const bool left = strncmp(entry->d_name, ".tmp-", 5) == 0;
        if (!left && strlen(entry->d_name) != 64)
            continue;
        mt_autofree char *path = mt_path_join(parent, entry->d_name);
        if (path && (left ? mt_bulk_folder_is_left(path) : now - last_use(path) > UNUSED_SECONDS))
            mt_folder_remove(path, NULL);
    }
    if (folder)
        closedir(folder);
}

static int write_index(const struct mt_cache *cache, const struct mt_dataset *dataset, struct mt_error *error)
{
    struct header header;
    memset(&header, 0, sizeof header); /* its gaps, too: it is hashed */
    const size_t parts = dataset->num_parts * sizeof *dataset->parts;
    const size_t digests = dataset->num_digests * sizeof *dataset->digests;
    const size_t bytes = sizeof header + parts + digests + sizeof(uint64_t);
    memcpy(header.magic, MAGIC, sizeof header.magic);
    header.bytes = bytes;
    header.num_parts = dataset->num_parts;
    header.num_digests = dataset->num_digests;
    header.stats = dataset->stats;
    for (size_t i = 0; i < MT_SAMPLES_NUM_ARRAYS; i++) {
        header.array_bytes[i] = dataset->samples.arrays[i].bytes;
        int r = hash_of(&dataset->samples.arrays[i], &header.array_hash[i], error);
        if (r < 0)
            return r;
    }
    mt_autofree char *data = malloc(bytes);
    mt_autofree char *path = mt_path_join(cache->folder.path, INDEX);
    if (!data || !path)
        return no_memory(error);
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header, dataset->parts, parts);
    memcpy(data + sizeof header + parts, dataset->digests, digests);
    const uint64_t hash = XXH3_64bits(data, bytes - sizeof hash);
    memcpy(data + bytes - sizeof hash, &hash, sizeof hash);
    return mt_file_write_atomic(path, data, bytes, 0600, error);
}

int mt_cache_keep(struct mt_cache *cache, struct mt_dataset *dataset, struct mt_error *error)
{
    if (!*cache->key || !*cache->folder.path)
        return 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < MT_SAMPLES_NUM_ARRAYS; i++) {
        dataset->samples.arrays[i].folder = &cache->folder;
        r = mt_bulk_save(&dataset->samples.arrays[i], error);
        dataset->samples.arrays[i].folder = NULL;
    }
    if (r == 0)
        r = write_index(cache, dataset, error);
    mt_autofree char *folder = r == 0 ? mt_path_join(cache->folder.parent, cache->key) : NULL;
    if (r < 0 || !folder)
        return r < 0 ? r : no_memory(error);
    if (rename(cache->folder.path, folder) == 0)
        mt_bulk_folder_keep(&cache->folder); /* else another process was faster: its entry is as good */
    prune(cache->folder.parent);
    return 0;
}

void mt_cache_end(struct mt_cache *cache)
{
    mt_bulk_folder_remove(&cache->folder); /* open arrays stay */
}
