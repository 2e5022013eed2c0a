/* Rendering a conversation, and finding the assistant's turns in the text. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/text/template_internal.h"
#include "core/text/turn_frames.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* All renderings of one conversation together may take so many times the steps of one. */
#define RENDERINGS_STEPS 2
/* So many answers are found by rendering what stands before them, and the last one; others by their frames.
 */
#define RENDERED_ANSWERS 16

struct turns {
    const struct mt_jinja_template *jinja;
    json_t *variables; /* `messages` and `add_generation_prompt` are set anew for each rendering */
    json_t *messages;
    const json_t *given;           /* the same as they came, with their `loss_weight` */
    struct mt_jinja_output whole;  /* the conversation */
    struct mt_jinja_output before; /* a beginning of it */
    struct mt_text prompt;         /* the generation prompt alone, where the template writes one */
    struct mt_text unsaid;         /* an answer that says nothing, up to its end, once one was rendered */
    enum { NOT_ASKED, ALL_UNWRITTEN, NOT_ALL_UNWRITTEN } unwritten; /* answers without text */
    struct mt_turn_frames frames;
    size_t answers;   /* found so far */
    size_t last_user; /* the last message of a user; 0 where there is none */
    size_t steps;     /* taken by all renderings */
    bool generation_prompt;
    struct mt_error *error;
};

static int render_variables(struct turns *turns, struct mt_jinja_output *output)
{
    const size_t most = RENDERINGS_STEPS * mt_jinja_default_limits.steps;
    struct mt_jinja_limits limits = mt_jinja_default_limits;
    limits.steps = mt_size_min(limits.steps, most - turns->steps);
    const struct mt_jinja_options options = {
        .limits = &limits,
        .follow = output == &turns->whole ? "messages" : NULL,
    };
    const int r = mt_jinja_render(turns->jinja, turns->variables, &options, output, turns->error);
    turns->steps = mt_size_min(turns->steps + output->steps, most);
    if (r == -EOVERFLOW && turns->steps == most)
        return mt_error_set(
            turns->error, -EOVERFLOW, MT_REASON_BAD_DATA,
            "the conversation is too long (%zu messages) for its answers to be found: the chat "
            "template was stopped, it takes too many steps",
            json_array_size(turns->messages));
    return r;
}

/* The first `count` messages. */
static int render(struct turns *turns, size_t count, bool generation_prompt, struct mt_jinja_output *output)
{
    json_t *messages = json_array();
    for (size_t i = 0; messages && i < count; i++)
        if (json_array_append(messages, json_array_get(turns->messages, i)) < 0)
            break;
    if (!messages || json_array_size(messages) != count ||
        json_object_set_new(turns->variables, "messages", messages) < 0 ||
        json_object_set_new(turns->variables, "add_generation_prompt", json_boolean(generation_prompt)) < 0)
        return mt_error_set(turns->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for a conversation");
    return render_variables(turns, output);
}

static size_t common_beginning(const struct mt_text *a, const struct mt_text *b)
{
    return mt_common_beginning(a->data, a->bytes, b->data, b->bytes);
}

static bool begins_with(const struct mt_text *text, const struct mt_text *beginning)
{
    return common_beginning(text, beginning) == beginning->bytes;
}

static int add_part(struct mt_chat_rendering *rendering, size_t begin, size_t end, bool answer,
                    struct mt_error *error)
{
    if (begin == end)
        return 0;
    if (rendering->num_parts == rendering->capacity) {
        const size_t capacity = mt_size_max(rendering->capacity * 2, 4);
        void *parts = reallocarray(rendering->parts, capacity, sizeof *rendering->parts);
        if (!parts)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a conversation");
        rendering->parts = parts;
        rendering->capacity = capacity;
    }
    rendering->parts[rendering->num_parts++] =
        (struct mt_chat_part){.offset = begin, .bytes = end - begin, .answer = answer};
    return 0;
}

/* --- turn by turn
 * ------------------------------------------------------------------------------------------------------- */

/* A rendered answer has not the whole generation prompt: an empty block of reasoning is missing, say. What
 * both have in common may by chance go on into the answer, so it ends with a line or a tag. */
static int move_to_boundary(const struct mt_text *whole, const struct mt_text *prompted,
                            const struct mt_text *plain, size_t *begin)
{
    if (!begins_with(whole, plain) || plain->bytes > *begin)
        return -ENOENT;
    while (*begin > plain->bytes && !strchr("\n>]", whole->data[*begin - 1]))
        (*begin)--;
    /* With nothing in common the answer would have another header, unless there is none to have. */
    const bool only_reasoning =
        prompted->bytes > plain->bytes && begins_with(prompted, plain) &&
        memmem(prompted->data + plain->bytes, prompted->bytes - plain->bytes, "think", 5);
    return *begin > plain->bytes || only_reasoning ? 0 : -ENOENT;
}

/* Where an answer begins: behind the generation prompt, or behind what the rendered answer has of it. */
static int find_begin(struct turns *turns, size_t turn, size_t *begin)
{
    const struct mt_text *whole = &turns->whole.text;
    int r = render(turns, turn, true, &turns->before);
    if (r < 0)
        return r;
    *begin = common_beginning(whole, &turns->before.text);
    if (*begin == turns->before.text.bytes)
        return 0;
    const struct mt_text prompted = turns->before.text; /* kept: the buffer is another's now */
    turns->before.text = (struct mt_text){0};
    r = render(turns, turn, false, &turns->before);
    if (r == 0)
        r = move_to_boundary(whole, &prompted, &turns->before.text, begin);
    struct mt_text owned = prompted;
    mt_text_free(&owned);
    return r;
}

/* The end of the last line or tag before two texts part, if what was said lies before it. 0: no such place.
 */
static size_t boundary_before(const struct mt_text *whole, size_t begin, size_t end, const char *content)
{
    if (!content || !*content)
        return 0;
    while (end > begin && !strchr("\n>]", whole->data[end - 1]))
        end--;
    return end > begin && memmem(whole->data + begin, end - begin, content, strlen(content)) ? end : 0;
}

/* The last answer may be written otherwise than the same answer before other messages: with another end
 * (gpt-oss), or with its reasoning (Qwen3). Its end is looked for without the former, then as the longest end
 * of the answer as the last one that stands at `begin`. */
static int find_rewritten_end(struct turns *turns, size_t turn, size_t begin, const struct mt_text *upto,
                              size_t *end)
{
    const struct mt_text *whole = &turns->whole.text;
    const char *content =
        json_string_value(json_object_get(json_array_get(turns->messages, turn), "content"));
    const size_t least = content && *content ? 4 : 8; /* so long that it is no chance */
    for (size_t length = mt_size_min(upto->bytes, whole->bytes - begin); length >= least; length--)
        if (memcmp(upto->data + upto->bytes - length, whole->data + begin, length) == 0) {
            *end = begin + length;
            return 0;
        }
    /* With a generation prompt behind it, it is not the last: up to where the prompt, or the next message,
     * begins. */
    struct mt_jinja_output prompted = {0};
    int r = render(turns, turn + 1, true, &prompted);
    const size_t common = r == 0 ? common_beginning(whole, &prompted.text) : 0;
    *end = common;
    if (turns->prompt.bytes && prompted.text.bytes >= turns->prompt.bytes &&
        memcmp(prompted.text.data + prompted.text.bytes - turns->prompt.bytes, turns->prompt.data,
               turns->prompt.bytes) == 0)
        *end = prompted.text.bytes - turns->prompt.bytes;
    else
        *end = boundary_before(whole, begin, common, content);
    mt_jinja_output_free(&prompted);
    return r < 0 ? r : *end > begin && *end <= common ? 0 : -ENOENT;
}

static int find_end(struct turns *turns, size_t turn, size_t begin, size_t *end)
{
    const struct mt_text *upto = &turns->before.text;
    int r = render(turns, turn + 1, false, &turns->before);
    if (r < 0)
        return r;
    if (begins_with(&turns->whole.text, upto) && upto->bytes >= begin) {
        *end = upto->bytes;
        return 0;
    }
    return find_rewritten_end(turns, turn, begin, upto, end);
}

/* Whether an answer ends with what was said: the template has written no end-of-turn token. */
static bool ends_with_content(const struct turns *turns, size_t turn, size_t begin, size_t end)
{
    const json_t *content = json_object_get(json_array_get(turns->messages, turn), "content");
    const char *said = json_string_value(content);
    size_t bytes = json_string_length(content);
    while (bytes && isspace((unsigned char)said[bytes - 1]))
        bytes--;
    while (end > begin && isspace((unsigned char)turns->whole.text.data[end - 1]))
        end--;
    return bytes && end - begin >= bytes && memcmp(turns->whole.text.data + end - bytes, said, bytes) == 0;
}

/* White space that the template writes behind the end-of-turn token is not the answer's. */
static size_t without_space(const struct mt_text *text, size_t begin, size_t end)
{
    size_t last = end;
    while (last > begin && isspace((unsigned char)text->data[last - 1]))
        last--;
    return last > begin ? last : end;
}

static size_t skip_space(const struct mt_text *text, size_t at, size_t end)
{
    while (at < end && isspace((unsigned char)text->data[at]))
        at++;
    return at;
}

/* The length of a tag, `<...>`, at an offset; 0 where none stands there. */
static size_t tag_at(const struct mt_text *text, size_t at, size_t end)
{
    const char *close = at < end && text->data[at] == '<' ? memchr(text->data + at, '>', end - at) : NULL;
    return close ? (size_t)(close - (text->data + at)) + 1 : 0;
}

static bool tag_has(const struct mt_text *text, size_t at, size_t length, const char *word)
{
    return memmem(text->data + at, length, word, strlen(word));
}

/* An empty block of reasoning at the beginning of an answer, `<think></think>` or `</think>` alone, belongs
 * to the prompt, as it does where a template writes it into the generation prompt: nobody said it. */
static size_t behind_empty_reasoning(const struct mt_text *text, size_t begin, size_t end)
{
    size_t at = skip_space(text, begin, end), length = tag_at(text, at, end);
    if (!length || !tag_has(text, at, length, "think"))
        return begin;
    if (text->data[at + 1] != '/') {
        at = skip_space(text, at + length, end);
        length = tag_at(text, at, end);
    }
    if (!length || text->data[at + 1] != '/' || !tag_has(text, at, length, "think"))
        return begin;
    at = skip_space(text, at + length, end);
    return at < end ? at : begin;
}

/* Some templates write the end of a turn only before the next one. */
static size_t behind_late_end(const struct mt_text *text, size_t end)
{
    static const char *const words[] = {"end", "eos", "eot"};
    const size_t at = skip_space(text, end, text->bytes), length = tag_at(text, at, text->bytes);
    for (size_t i = 0; length && i < sizeof words / sizeof *words; i++)
        if (tag_has(text, at, length, words[i]))
            return at + length;
    return end;
}

static bool is_answer(const struct turns *turns, size_t turn)
{
    const char *role = json_string_value(json_object_get(json_array_get(turns->messages, turn), "role"));
    return strcmp(role, "assistant") == 0;
}

static struct mt_jinja_span place_of(const struct turns *turns, size_t turn)
{
    return turn < turns->whole.num_places ? turns->whole.places[turn] : (struct mt_jinja_span){0};
}

/* Whether a text of the message stands in what was written for it, and not in what is written for nothing. */
static bool shows(const struct turns *turns, struct mt_jinja_span written, const json_t *said)
{
    const char *text = json_string_value(said);
    const size_t bytes = json_string_length(said);
    return bytes && turns->unsaid.bytes && !memmem(turns->unsaid.data, turns->unsaid.bytes, text, bytes) &&
           memmem(turns->whole.text.data + written.begin, written.end - written.begin, text, bytes);
}

static bool shows_call_or_reasoning(const struct turns *turns, struct mt_jinja_span written,
                                    const json_t *message)
{
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
    const json_t *function = json_object_get(call, "function");
    return shows(turns, written, json_object_get(function ? function : call, "name")) ||
           shows(turns, written, json_object_get(message, "reasoning_content")) ||
           shows(turns, written, json_object_get(message, "thinking"));
}

static bool is_empty_text(const json_t *text)
{
    return !text || json_is_null(text) || (json_is_string(text) && json_string_length(text) == 0);
}

/* The conversation up to an answer, and the same with nothing said there. */
static int render_unsaid(struct turns *turns, size_t turn, bool *unwritten)
{
    json_t *message = json_incref(json_array_get(turns->messages, turn));
    json_t *nothing = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
    struct mt_jinja_output said = {0}, empty = {0};
    int r = render(turns, turn + 1, false, &said);
    if (r == 0 && (!nothing || json_array_set(turns->messages, turn, nothing) < 0))
        r = mt_error_set(turns->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a conversation");
    if (r == 0) {
        struct mt_error *error = turns->error, refused = {0};
        turns->error = &refused; /* where the template refuses the empty answer, this one says something */
        const bool rendered = render(turns, turn + 1, false, &empty) == 0;
        *unwritten = rendered && said.text.bytes == empty.text.bytes &&
                     memcmp(said.text.data, empty.text.data, said.text.bytes) == 0;
        turns->error = error;
        const size_t same = rendered ? common_beginning(&said.text, &empty.text) : 0;
        if (json_array_set(turns->messages, turn, message) < 0 ||
            (rendered && !*unwritten && !turns->unsaid.bytes &&
             mt_text_append(&turns->unsaid, empty.text.data + same, empty.text.bytes - same) < 0))
            r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a conversation");
    }
    json_decref(message);
    json_decref(nothing);
    mt_jinja_output_free(&said);
    mt_jinja_output_free(&empty);
    return r;
}

static bool has_no_text(const json_t *message)
{
    return is_empty_text(json_object_get(message, "content")) &&
           (json_object_get(message, "tool_calls") || json_object_get(message, "reasoning_content") ||
            json_object_get(message, "thinking"));
}

/* Many such answers of which nothing is written are seen at once: with all of them empty the text is the
 * same. */
static int ask_for_all(struct turns *turns)
{
    mt_autojson json_t *messages = json_copy(turns->messages);
    mt_autojson json_t *nothing = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
    struct mt_error *error = turns->error, refused = {0};
    struct mt_jinja_output empty = {0};
    bool ok = messages && nothing;
    for (size_t turn = 0; ok && turn < json_array_size(messages); turn++)
        if (is_answer(turns, turn) && has_no_text(json_array_get(messages, turn)))
            ok = json_array_set(messages, turn, nothing) == 0;
    if (!ok || json_object_set(turns->variables, "messages", messages) < 0 ||
        json_object_set_new(turns->variables, "add_generation_prompt",
                            json_boolean(turns->generation_prompt)) < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a conversation");
    turns->error = &refused;
    const bool same = render_variables(turns, &empty) == 0 && empty.text.bytes == turns->whole.text.bytes &&
                      memcmp(empty.text.data, turns->whole.text.data, empty.text.bytes) == 0;
    turns->error = error;
    turns->unwritten = same ? ALL_UNWRITTEN : NOT_ALL_UNWRITTEN;
    mt_jinja_output_free(&empty);
    return 0;
}

/* Whether an answer without text says the rest of it, a call or reasoning, in vain: the template writes of it
 * what it writes of an answer that says nothing. Learning that would teach to answer with nothing. */
static int is_unwritten(struct turns *turns, size_t turn, bool *unwritten)
{
    const json_t *message = json_array_get(turns->messages, turn);
    *unwritten = false;
    if (!has_no_text(message) || shows_call_or_reasoning(turns, place_of(turns, turn), message))
        return 0;
    int r = turns->unwritten == NOT_ASKED ? ask_for_all(turns) : 0;
    *unwritten = turns->unwritten == ALL_UNWRITTEN;
    return r < 0 || *unwritten ? r : render_unsaid(turns, turn, unwritten);
}

/* An answer with a `loss_weight` of 0 is not to be learned, and none of which nothing is written. */
static int is_learned(struct turns *turns, size_t turn, bool *learned)
{
    const json_t *weight = json_object_get(json_array_get(turns->given, turn), "loss_weight");
    bool unwritten = false;
    *learned = !json_is_number(weight) || json_number_value(weight) != 0;
    int r = *learned ? is_unwritten(turns, turn, &unwritten) : 0;
    *learned = *learned && !unwritten;
    return r;
}

/* The text before an answer, and the answer from its first own word to its end. Where nothing ends the last
 * answer, the tokenizer's end token does: the model must learn to stop. */
static int add_turn(struct turns *turns, size_t turn, size_t begin, size_t *end, size_t done,
                    struct mt_chat_rendering *rendering)
{
    const struct mt_text *whole = &turns->whole.text;
    const bool unended = ends_with_content(turns, turn, begin, *end);
    *end = unended ? behind_late_end(whole, *end) : without_space(whole, begin, *end);
    begin = behind_empty_reasoning(whole, begin, *end);
    bool learned = false;
    int r = is_learned(turns, turn, &learned);
    if (r == 0)
        r = add_part(rendering, done, begin, false, turns->error);
    if (r == 0)
        r = add_part(rendering, begin, *end, learned, turns->error);
    if (r == 0 && unended && *end == whole->bytes && rendering->num_parts)
        rendering->parts[rendering->num_parts - 1].end = true;
    return r;
}

/* Where an answer begins and ends: as its frame tells, else from what the template writes up to it. */
static int find_bounds(struct turns *turns, size_t turn, struct mt_turn_bounds *bounds)
{
    const struct mt_text *whole = &turns->whole.text;
    const struct mt_jinja_span place = place_of(turns, turn);
    const uint64_t kind = mt_turn_kind(turns->messages, turn, turns->last_user > turn);
    if (turns->answers++ >= RENDERED_ANSWERS && turn + 1 < json_array_size(turns->messages) &&
        mt_turn_frames_find(&turns->frames, kind, whole, &turns->prompt, place, bounds))
        return 0;
    int r = find_begin(turns, turn, &bounds->begin);
    if (r == 0)
        r = find_end(turns, turn, bounds->begin, &bounds->end);
    if (r == 0)
        mt_turn_frames_note(&turns->frames, kind, whole, &turns->prompt, place, *bounds);
    return r;
}

static void find_last_user(struct turns *turns)
{
    for (size_t turn = json_array_size(turns->messages); turn-- && !turns->last_user;) {
        const char *role = json_string_value(json_object_get(json_array_get(turns->messages, turn), "role"));
        if (strcmp(role, "user") == 0)
            turns->last_user = turn;
    }
}

static int parts_by_turns(struct turns *turns, struct mt_chat_rendering *rendering)
{
    size_t done = 0;
    find_last_user(turns);
    for (size_t turn = 0; turn < json_array_size(turns->messages); turn++) {
        struct mt_turn_bounds bounds = {0, 0};
        if (!is_answer(turns, turn))
            continue;
        int r = find_bounds(turns, turn, &bounds);
        if (r == -ENOENT || (r == 0 && bounds.begin < done))
            return mt_error_set(
                turns->error, -EINVAL, MT_REASON_BAD_DATA,
                "message %zu: this answer can't be told from the rest of what the chat template "
                "writes; a template with {%% generation %%} marks tells it",
                turn + 1);
        if (r < 0)
            return r;
        r = add_turn(turns, turn, bounds.begin, &bounds.end, done, rendering);
        if (r < 0)
            return r;
        done = bounds.end;
    }
    return add_part(rendering, done, turns->whole.text.bytes, false, turns->error);
}

/* --- by the template's marks
 * ------------------------------------------------------------------------------------------- */

/* What a generation prompt adds to the messages before the first answer. */
static int find_prompt(struct turns *turns)
{
    size_t first = 0;
    while (first < json_array_size(turns->messages) &&
           strcmp(json_string_value(json_object_get(json_array_get(turns->messages, first), "role")),
                  "assistant") != 0)
        first++;
    if (first == 0 || first == json_array_size(turns->messages))
        return 0;
    struct mt_jinja_output plain = {0};
    int r = render(turns, first, true, &turns->before);
    if (r == 0)
        r = render(turns, first, false, &plain);
    if (r == 0 && begins_with(&turns->before.text, &plain.text) &&
        turns->before.text.bytes > plain.text.bytes &&
        mt_text_append(&turns->prompt, turns->before.text.data + plain.text.bytes,
                       turns->before.text.bytes - plain.text.bytes) < 0)
        r = -ENOMEM;
    mt_jinja_output_free(&plain);
    return r == -ENOMEM ? r : 0; /* what the template refuses here it refuses where it matters, too */
}

/* A mark may hold what the generation prompt writes, which is not learned. */
static size_t behind_prompt(const struct turns *turns, size_t begin, size_t end)
{
    const struct mt_text *whole = &turns->whole.text;
    const size_t most = mt_size_min(turns->prompt.bytes, end - begin);
    size_t length = 0;
    while (length < most && whole->data[begin + length] == turns->prompt.data[length])
        length++;
    while (length && length < turns->prompt.bytes && !strchr("\n>]", whole->data[begin + length - 1]))
        length--;
    return begin + length;
}

/* The marks that come with a message: those in what was written of it, else those that its rendering adds. */
static int find_marks(struct turns *turns, size_t turn, size_t *first, size_t *end)
{
    const struct mt_jinja_span place = place_of(turns, turn);
    if (place.end) {
        for (*first = 0; *first < turns->whole.num_spans && turns->whole.spans[*first].begin < place.begin;)
            (*first)++;
        for (*end = *first; *end < turns->whole.num_spans && turns->whole.spans[*end].end <= place.end;)
            (*end)++;
        return 0;
    }
    int r = render(turns, turn, false, &turns->before);
    *first = turns->before.num_spans;
    if (r == 0)
        r = render(turns, turn + 1, false, &turns->before);
    *end = turns->before.num_spans;
    return r < 0 ? r : *end < *first || *end > turns->whole.num_spans ? -ENOENT : 0;
}

/* Which marks hold an answer that is not to be learned: those that come with its message. Sets a byte a mark
 * in `silent` (zeroed). */
static int find_silent_marks(struct turns *turns, char *silent)
{
    for (size_t turn = 0; turn < json_array_size(turns->messages); turn++) {
        bool learned = true;
        size_t first = 0, end = 0;
        int r = is_answer(turns, turn) ? is_learned(turns, turn, &learned) : 0;
        if (r == 0 && !learned)
            r = find_marks(turns, turn, &first, &end);
        if (r < 0)
            return r;
        memset(silent + first, 1, end - first);
    }
    return 0;
}

static int parts_by_marks(struct turns *turns, struct mt_chat_rendering *rendering)
{
    mt_autofree char *silent = calloc(turns->whole.num_spans, 1);
    size_t done = 0;
    if (!silent)
        return mt_error_set(turns->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for a conversation");
    int r = find_silent_marks(turns, silent);
    for (size_t i = 0; r == 0 && i < turns->whole.num_spans; i++) {
        const struct mt_jinja_span *span = &turns->whole.spans[i];
        if (span->begin < done) /* one within another: the outer one, which ends later, is what counts */
            return -ENOENT;
        const size_t begin = behind_empty_reasoning(&turns->whole.text,
                                                    behind_prompt(turns, span->begin, span->end), span->end);
        r = add_part(rendering, done, begin, false, turns->error);
        if (r == 0)
            r = add_part(rendering, begin, span->end, !silent[i], turns->error);
        done = span->end;
    }
    return r == 0 ? add_part(rendering, done, turns->whole.text.bytes, false, turns->error) : r;
}

static int find_parts(struct turns *turns, bool generation_prompt, struct mt_chat_rendering *rendering)
{
    if (find_prompt(turns) < 0)
        return mt_error_set(turns->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for a conversation");
    if (turns->whole.num_spans && !turns->whole.spans_lost) {
        const int r = parts_by_marks(turns, rendering);
        if (r != -ENOENT)
            return r;
        rendering->num_parts = 0;
    }
    int r = parts_by_turns(turns, rendering);
    if (r < 0 && r != -ENOMEM && generation_prompt) { /* nothing is learned of it */
        rendering->num_parts = 0;
        r = add_part(rendering, 0, turns->whole.text.bytes, false, turns->error);
    }
    return r;
}

int mt_template_render(const struct mt_template *template, const json_t *conversation, bool generation_prompt,
                       struct mt_chat_rendering *rendering, struct mt_error *error)
{
    mt_autojson json_t *variables = NULL;
    rendering->text.bytes = 0;
    rendering->num_parts = 0;
    int r = mt_template_variables(template, conversation, &variables, error);
    if (r < 0)
        return r;
    mt_autojson json_t *messages = json_incref(json_object_get(variables, "messages"));
    struct turns turns = {
        .jinja = mt_template_for(template, variables),
        .variables = variables,
        .messages = messages,
        .given = json_is_object(conversation) ? json_object_get(conversation, "messages") : conversation,
        .generation_prompt = generation_prompt,
        .error = error,
    };
    r = render(&turns, json_array_size(messages), generation_prompt, &turns.whole);
    if (r == 0)
        r = find_parts(&turns, generation_prompt, rendering);
    if (r == 0 && mt_text_append(&rendering->text, turns.whole.text.data, turns.whole.text.bytes) < 0)
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a conversation");
    mt_jinja_output_free(&turns.whole);
    mt_jinja_output_free(&turns.before);
    mt_text_free(&turns.prompt);
    mt_text_free(&turns.unsaid);
    return r;
}
