/* core/base/sha256.h, against the examples of FIPS 180-4 and NIST's test vectors. The source is included, so
 * that both of its ways to compress a block are tested on a machine that would choose one. */
#include "core/base/sha256.c" // NOLINT(bugprone-suspicious-include)
#include "tests/unit/support.h"

static void expect_digest(const void *data, size_t bytes, const char *expected)
{
    struct mt_sha256 hash;
    uint8_t digest[32];
    char hex[65];
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, data, bytes);
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, hex);
    assert_string_equal(hex, expected);
}

static void known_vectors_agree(void **state)
{
    (void)state;
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_digest(two_blocks, strlen(two_blocks),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    const size_t million = 1000000;
    char *letters = malloc(million);
    memset(letters, 'a', million);
    expect_digest(letters, million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

static void the_way_the_data_is_cut_does_not_matter(void **state)
{
    (void)state;
    uint8_t data[700];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i + 3 * i);
    for (size_t length = 0; length <= sizeof data; length += 13) {
        struct mt_sha256 whole, parts;
        uint8_t expected[32], digest[32];
        mt_sha256_init(&whole);
        mt_sha256_update(&whole, data, length);
        mt_sha256_final(&whole, expected);
        for (size_t step = 1; step < 200; step += 9) {
            mt_sha256_init(&parts);
            for (size_t at = 0; at < length; at += step)
                mt_sha256_update(&parts, data + at, length - at < step ? length - at : step);
            mt_sha256_final(&parts, digest);
            assert_memory_equal(digest, expected, 32);
        }
    }
}

static void every_length_around_a_block_is_padded_right(void **state)
{
    (void)state;
    /* SHA-256 of the concatenated digests of 0 to 129 bytes of 'x', computed with Python's hashlib. */
    uint8_t text[129], digests[130 * 32];
    memset(text, 'x', sizeof text);
    for (size_t length = 0; length <= sizeof text; length++) {
        struct mt_sha256 hash;
        mt_sha256_init(&hash);
        mt_sha256_update(&hash, text, length);
        mt_sha256_final(&hash, digests + 32 * length);
    }
    expect_digest(digests, sizeof digests,
                  "6d0989028287a2bd990515b95658bb810cf688b69517dfc49e4b3778e0b6d923");
}

static void both_ways_to_compress_agree(void **state)
{
    (void)state;
    if (!cpu_has_sha()) {
        /* What the other cases tested was the plain way, the only one here. */
        return;
    }
    uint8_t data[64 * 50];
    uint32_t plain[8] = {1, 2, 3, 4, 5, 6, 7, 0xffffffff}, fast[8];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    memcpy(fast, plain, sizeof plain);
    for (size_t blocks = 0; blocks <= 50; blocks += 7) {
        compress_plain(plain, data, blocks);
        compress_fast(fast, data, blocks);
        assert_memory_equal(plain, fast, sizeof plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors_agree),
        cmocka_unit_test(the_way_the_data_is_cut_does_not_matter),
        cmocka_unit_test(both_ways_to_compress_agree),
        cmocka_unit_test(every_length_around_a_block_is_padded_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
