#include "core/text/turn_frames.h"

#include <string.h>

#define ENOUGH 3 /* answers of a kind in a frame before it tells others */

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           ((json_is_array(value) || json_is_object(value)) && !json_array_size(value) &&
            !json_object_size(value));
}

static uint64_t mix_role(uint64_t hash, const json_t *messages, size_t index)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages, index), "role"));
    return mix(hash, role ? role : "");
}

uint64_t mt_turn_kind(const json_t *messages, size_t turn, bool user_follows)
{
    const char *name;
    json_t *value;
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), user_follows ? "user" : "");
    hash = turn ? mix_role(hash, messages, turn - 1) : mix(hash, "first");
    hash = mix_role(hash, messages, turn + 1);
    json_object_foreach(json_array_get(messages, turn), name, value) if (!is_empty(value)) hash =
        mix(mix(hash, name), json_is_string(value) ? "text" : "");
    return hash;
}

size_t mt_common_beginning(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t length = 0;
    while (length < a_bytes && length < b_bytes && a[length] == b[length])
        length++;
    return length;
}

static size_t prompted(const struct mt_text *whole, const struct mt_text *prompt, struct mt_jinja_span place)
{
    return mt_common_beginning(whole->data + place.begin, place.end - place.begin, prompt->data,
                               prompt->bytes);
}

static bool same_frame(const struct mt_turn_frame *frame, const struct mt_text *whole,
                       struct mt_jinja_span place)
{
    return frame->header + frame->footer <= place.end - place.begin &&
           memcmp(whole->data + place.begin, whole->data + frame->place, frame->header) == 0 &&
           memcmp(whole->data + place.end - frame->footer, whole->data + frame->end, frame->footer) == 0;
}

void mt_turn_frames_note(struct mt_turn_frames *frames, uint64_t kind, const struct mt_text *whole,
                         const struct mt_text *prompt, struct mt_jinja_span place,
                         struct mt_turn_bounds bounds)
{
    if (place.begin >= place.end || bounds.begin < place.begin || bounds.end > place.end ||
        bounds.begin > bounds.end)
        return;
    const struct mt_turn_frame new = {
        .kind = kind,
        .header = bounds.begin - place.begin,
        .footer = place.end - bounds.end,
        .place = place.begin,
        .end = bounds.end,
        .prompted = prompted(whole, prompt, place),
        .seen = 1,
    };
    for (size_t i = 0; i < frames->count; i++) {
        struct mt_turn_frame *frame = &frames->list[i];
        if (frame->kind == kind && frame->header == new.header && frame->footer == new.footer &&
            frame->prompted == new.prompted &&same_frame(frame, whole, place)) {
            frame->seen++;
            return;
        }
    }
    if (frames->count < MT_TURN_FRAMES)
        frames->list[frames->count++] = new;
}

bool mt_turn_frames_find(const struct mt_turn_frames *frames, uint64_t kind, const struct mt_text *whole,
                         const struct mt_text *prompt, struct mt_jinja_span place,
                         struct mt_turn_bounds *bounds)
{
    const struct mt_turn_frame *found = NULL;
    if (place.begin >= place.end)
        return false;
    const size_t like_prompt = prompted(whole, prompt, place);
    for (size_t i = 0; i < frames->count; i++) {
        const struct mt_turn_frame *frame = &frames->list[i];
        if (frame->kind != kind || frame->prompted != like_prompt || !same_frame(frame, whole, place))
            continue;
        if (found)
            return false;
        found = frame;
    }
    if (!found || found->seen < ENOUGH)
        return false;
    *bounds = (struct mt_turn_bounds){place.begin + found->header, place.end - found->footer};
    return true;
}
