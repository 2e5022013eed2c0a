/* SHA-256 (FIPS 180-4), streaming. */
#ifndef MT_BASE_SHA256_H
#define MT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct mt_sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    uint8_t block[64];
    size_t block_bytes;
};

void mt_sha256_init(struct mt_sha256 *hash);
void mt_sha256_update(struct mt_sha256 *hash, const void *data, size_t bytes);
void mt_sha256_final(struct mt_sha256 *hash, uint8_t digest[32]);
void mt_sha256_hex(const uint8_t digest[32], char hex[65]);

#endif
