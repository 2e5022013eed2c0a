/* How a chat template frames answers: which text it writes before and behind them. An answer's bounds are
 * found by rendering the conversation up to it, which for thousands of answers is thousands of renderings; an
 * answer that is told by the same frame as others of its kind needs none. */
#ifndef MT_TEXT_TURN_FRAMES_H
#define MT_TEXT_TURN_FRAMES_H

#include "core/text/jinja/jinja.h"

#include <jansson.h>

/* Bounds of an answer in the text of the conversation. */
struct mt_turn_bounds {
    size_t begin, end;
};

struct mt_turn_frame {
    uint64_t kind;
    size_t header, footer; /* bytes between what the message wrote and the answer */
    size_t place, end;     /* an example: of its header and its footer */
    size_t prompted;       /* how far the message began like the generation prompt */
    unsigned seen;
};

#define MT_TURN_FRAMES 32

struct mt_turn_frames { /* starts as {0} */
    struct mt_turn_frame list[MT_TURN_FRAMES];
    size_t count;
};

/* What of a message and its neighbours decides how a template writes it: roles, which members there are and
 * are not empty, whether a user speaks later. */
uint64_t mt_turn_kind(const json_t *messages, size_t turn, bool user_follows);

/* Notes the frame of an answer whose bounds are known. `place` is what its message wrote; `prompt` the
 * generation prompt. */
void mt_turn_frames_note(struct mt_turn_frames *frames, uint64_t kind, const struct mt_text *whole,
                         const struct mt_text *prompt, struct mt_jinja_span place,
                         struct mt_turn_bounds bounds);

/* The bounds of an answer that stands in a frame that several of its kind had, and in no other; false: not
 * so. */
bool mt_turn_frames_find(const struct mt_turn_frames *frames, uint64_t kind, const struct mt_text *whole,
                         const struct mt_text *prompt, struct mt_jinja_span place,
                         struct mt_turn_bounds *bounds);

/* How far two texts are the same, in bytes. */
size_t mt_common_beginning(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

#endif
