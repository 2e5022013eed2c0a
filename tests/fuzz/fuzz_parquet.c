#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    mt_fuzz_rows(data, bytes, MT_FORMAT_PARQUET, MT_COMPRESSION_NONE);
    return 0;
}
