/* Inside core/formats: what is known of a tensor type. */
#ifndef MT_FORMATS_GGUF_TYPES_H
#define MT_FORMATS_GGUF_TYPES_H

#include "core/formats/dequantise.h"
#include "core/formats/gguf.h"

struct mt_gguf_type_info {
    const char *name;
    uint16_t elements, bytes; /* of a block */
    mt_dequantise_function *dequantise;
};

const struct mt_gguf_type_info *
mt_gguf_type_find(uint32_t type); /* NULL when the format has no such number */

#endif
