#include "core/formats/thrift.h"

#include "core/base/bytes.h"

#define MAX_DEPTH 32

static uint64_t fail(struct mt_thrift *thrift)
{
    thrift->bad = true;
    thrift->at = thrift->end;
    return 0;
}

static uint8_t read_byte(struct mt_thrift *thrift)
{
    return thrift->at < thrift->end ? *thrift->at++ : (uint8_t)fail(thrift);
}

static uint64_t read_varint(struct mt_thrift *thrift)
{
    uint64_t value;
    const size_t used = mt_varint_read(thrift->at, (size_t)(thrift->end - thrift->at), &value);
    thrift->at += used;
    return used ? value : fail(thrift);
}

static int64_t read_zigzag(struct mt_thrift *thrift)
{
    const uint64_t value = read_varint(thrift);
    return (int64_t)(value >> 1 ^ -(value & 1));
}

bool mt_thrift_next(struct mt_thrift *thrift, struct mt_thrift_field *field)
{
    const uint8_t byte = read_byte(thrift);
    field->type = (enum mt_thrift_type)(byte & 15);
    if (thrift->bad || field->type == MT_THRIFT_STOP)
        return false;
    if (field->type > MT_THRIFT_STRUCT)
        return fail(thrift), false;
    field->id = byte >> 4 ? (int16_t)(field->id + (byte >> 4)) : (int16_t)read_zigzag(thrift);
    return !thrift->bad;
}

static void skip_bytes(struct mt_thrift *thrift, uint64_t bytes)
{
    if (bytes > (uint64_t)(thrift->end - thrift->at))
        fail(thrift);
    else
        thrift->at += bytes;
}

static void skip(struct mt_thrift *thrift, enum mt_thrift_type type, bool element, unsigned depth);

static void skip_map(struct mt_thrift *thrift, unsigned depth)
{
    const uint64_t count = read_varint(thrift);
    if (!count)
        return;
    const uint8_t types = read_byte(thrift);
    for (uint64_t i = 0; i < count && !thrift->bad; i++) {
        skip(thrift, (enum mt_thrift_type)(types >> 4), true, depth);
        skip(thrift, (enum mt_thrift_type)(types & 15), true, depth);
    }
}

/* In a list a bool is a byte; in a struct it is in the field's type. */
static void skip(struct mt_thrift *thrift, enum mt_thrift_type type, bool element, unsigned depth)
{
    if (depth == MAX_DEPTH)
        fail(thrift);
    if (thrift->bad)
        return;
    switch (type) {
    case MT_THRIFT_TRUE:
    case MT_THRIFT_FALSE:
        if (element)
            read_byte(thrift);
        return;
    case MT_THRIFT_BYTE:
        read_byte(thrift);
        return;
    case MT_THRIFT_I16:
    case MT_THRIFT_I32:
    case MT_THRIFT_I64:
        read_varint(thrift);
        return;
    case MT_THRIFT_DOUBLE:
        skip_bytes(thrift, 8);
        return;
    case MT_THRIFT_BINARY:
        skip_bytes(thrift, read_varint(thrift));
        return;
    case MT_THRIFT_LIST:
    case MT_THRIFT_SET: {
        enum mt_thrift_type inner;
        const size_t count = mt_thrift_list(thrift, type, &inner);
        for (size_t i = 0; i < count && !thrift->bad; i++)
            skip(thrift, inner, true, depth + 1);
        return;
    }
    case MT_THRIFT_MAP:
        skip_map(thrift, depth + 1);
        return;
    case MT_THRIFT_STRUCT: {
        struct mt_thrift_field field = {0};
        while (mt_thrift_next(thrift, &field))
            skip(thrift, field.type, false, depth + 1);
        return;
    }
    case MT_THRIFT_STOP:
        break;
    }
    fail(thrift);
}

void mt_thrift_skip(struct mt_thrift *thrift, enum mt_thrift_type type)
{
    skip(thrift, type, false, 0);
}

int64_t mt_thrift_integer(struct mt_thrift *thrift, enum mt_thrift_type type)
{
    switch (type) {
    case MT_THRIFT_TRUE:
    case MT_THRIFT_FALSE:
        return type == MT_THRIFT_TRUE;
    case MT_THRIFT_BYTE:
        return (int8_t)read_byte(thrift);
    case MT_THRIFT_I16:
    case MT_THRIFT_I32:
    case MT_THRIFT_I64:
        return read_zigzag(thrift);
    default:
        return (int64_t)fail(thrift);
    }
}

const char *mt_thrift_binary(struct mt_thrift *thrift, enum mt_thrift_type type, size_t *bytes)
{
    *bytes = 0;
    const uint64_t length = type == MT_THRIFT_BINARY ? read_varint(thrift) : fail(thrift);
    const char *data = (const char *)thrift->at;
    skip_bytes(thrift, type == MT_THRIFT_BINARY ? length : UINT64_MAX);
    if (thrift->bad)
        return "";
    *bytes = (size_t)length;
    return data;
}

size_t mt_thrift_list(struct mt_thrift *thrift, enum mt_thrift_type type, enum mt_thrift_type *element)
{
    *element = MT_THRIFT_STOP;
    if (type != MT_THRIFT_LIST && type != MT_THRIFT_SET)
        return fail(thrift);
    const uint8_t byte = read_byte(thrift);
    const uint64_t count = byte >> 4 == 15 ? read_varint(thrift) : byte >> 4;
    *element = (enum mt_thrift_type)(byte & 15);
    if (count > (uint64_t)(thrift->end - thrift->at)) /* each takes a byte at least */
        return fail(thrift);
    return (size_t)count;
}
