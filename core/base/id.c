/* ULIDs: see id.h. 48 bits of milliseconds, 80 random bits; within one millisecond the random part counts up.
 */
#include "core/base/id.h"

#include "core/base/time.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static void random_bytes(uint8_t *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        ssize_t got = getrandom(bytes + done, count - done, 0);
        if (got > 0)
            done += (size_t)got;
        else if (got < 0 && errno != EINTR)
            abort(); /* Linux gives random bytes since 3.17; without them no id is safe to hand out */
    }
}

void mt_id_new(char id[MT_ID_BYTES])
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t last_ms;
    static uint8_t tail[10];

    pthread_mutex_lock(&mutex);
    uint64_t now_ms = (uint64_t)mt_time_unix_microseconds() / 1000;
    if (now_ms > last_ms) {
        last_ms = now_ms;
        random_bytes(tail, sizeof tail);
    } else {
        /* Same millisecond, or the clock went back: the next number after the last id. */
        size_t i = sizeof tail;
        while (i > 0 && ++tail[i - 1] == 0)
            i--;
        if (i == 0)
            last_ms++;
    }
    uint8_t raw[16];
    for (size_t i = 0; i < 6; i++)
        raw[i] = (uint8_t)(last_ms >> (40 - 8 * i));
    memcpy(raw + 6, tail, sizeof tail);
    pthread_mutex_unlock(&mutex);

    /* 128 bits as 26 digits of 5 bits, the first of 3. */
    unsigned __int128 value = 0;
    for (size_t i = 0; i < sizeof raw; i++)
        value = value << 8 | raw[i];
    for (size_t i = MT_ID_BYTES - 1; i-- > 0; value >>= 5)
        id[i] = digits[(size_t)(value & 31)];
    id[MT_ID_BYTES - 1] = '\0';
}

bool mt_id_valid(const char *text)
{
    if (!text || strnlen(text, MT_ID_BYTES) != MT_ID_BYTES - 1 || *text > '7')
        return false;
    return strspn(text, digits) == MT_ID_BYTES - 1;
}
