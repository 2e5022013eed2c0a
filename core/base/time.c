/* Clocks: see time.h. */
#include "core/base/time.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

double mt_time_monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t mt_time_unix_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

const char *mt_time_format(int64_t unix_microseconds, char text[MT_TIME_TEXT_BYTES])
{
    int64_t seconds = unix_microseconds / 1000000, rest = unix_microseconds % 1000000;
    if (rest < 0) {
        rest += 1000000;
        seconds--;
    }
    time_t when = (time_t)seconds;
    struct tm utc;
    char date[MT_TIME_TEXT_BYTES];
    if (!gmtime_r(&when, &utc) || strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        *text = '\0';
        return text;
    }
    snprintf(text, MT_TIME_TEXT_BYTES, "%.26s.%03dZ", date, (int)(rest / 1000));
    return text;
}

const char *mt_time_duration(double seconds, char text[MT_TIME_TEXT_BYTES])
{
    if (!(seconds >= 0) || seconds > 1e10)
        snprintf(text, MT_TIME_TEXT_BYTES, "?");
    else if (seconds < 60)
        snprintf(text, MT_TIME_TEXT_BYTES, "%.0f s", floor(seconds));
    else if (seconds < 3600)
        snprintf(text, MT_TIME_TEXT_BYTES, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else if (seconds < 86400)
        snprintf(text, MT_TIME_TEXT_BYTES, "%d h %02d min", (int)seconds / 3600, (int)seconds / 60 % 60);
    else
        snprintf(text, MT_TIME_TEXT_BYTES, "%.0f d %d h", floor(seconds / 86400),
                 (int)(fmod(seconds, 86400) / 3600));
    return text;
}
