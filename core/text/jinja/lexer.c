/* The lexer: text and tags in turn. Between tags the rules of jinja2 decide what white space a tag takes with
 * it: "-" all around it, "+" none; without a sign a block or comment takes the blanks before it on its own
 * line and the line end after it. Within a tag "}}" and "%}" end it only outside of brackets. */
#include "core/text/jinja/lexer.h"

#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_NESTED_BRACKETS 500

struct lexer {
    struct mt_arena *arena;
    const char *name;
    struct mt_jslice source;
    size_t position;
    size_t located; /* the offset that line and column belong to */
    uint32_t line, column;
    struct mt_jtoken *tokens;
    size_t count, capacity;
    char brackets[MAX_NESTED_BRACKETS];
    size_t num_brackets;
    struct mt_error *error;
};

/* The place of an offset; offsets mostly come in order. */
static void locate(struct lexer *lexer, size_t offset, uint32_t *line, uint32_t *column)
{
    if (offset < lexer->located) {
        lexer->located = 0;
        lexer->line = lexer->column = 1;
    }
    for (; lexer->located < offset; lexer->located++) {
        const unsigned char byte = (unsigned char)lexer->source.data[lexer->located];
        if (byte == '\n') {
            lexer->line++;
            lexer->column = 1;
        } else if ((byte & 0xc0) != 0x80) {
            lexer->column++;
        }
    }
    *line = lexer->line;
    *column = lexer->column;
}

static int fail(struct lexer *lexer, size_t offset, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int fail(struct lexer *lexer, size_t offset, int code, const char *format, ...)
{
    uint32_t line, column;
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    locate(lexer, offset, &line, &column);
    return mt_error_set(lexer->error, code, MT_REASON_BAD_MODEL, "%s:%u:%u: %s", lexer->name, line, column,
                        message);
}

static int out_of_memory(struct lexer *lexer)
{
    return mt_error_set(lexer->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
}

static struct mt_jtoken *push(struct lexer *lexer, enum mt_jtoken_type type, size_t offset)
{
    if (lexer->count == lexer->capacity) {
        const size_t capacity = mt_size_max(64, lexer->capacity * 2);
        struct mt_jtoken *tokens = mt_arena_alloc(lexer->arena, capacity, sizeof *tokens);
        if (!tokens)
            return NULL;
        if (lexer->count)
            memcpy(tokens, lexer->tokens, lexer->count * sizeof *tokens);
        lexer->tokens = tokens;
        lexer->capacity = capacity;
    }
    struct mt_jtoken *token = &lexer->tokens[lexer->count++];
    *token = (struct mt_jtoken){.type = type};
    locate(lexer, offset, &token->line, &token->column);
    return token;
}

static bool starts(const struct lexer *lexer, size_t offset, const char *text)
{
    const size_t length = strlen(text);
    return lexer->source.bytes - offset >= length && memcmp(lexer->source.data + offset, text, length) == 0;
}

static size_t skip_space(const struct lexer *lexer, size_t offset)
{
    while (offset < lexer->source.bytes) {
        uint32_t character;
        const size_t length =
            mt_jcharacter(lexer->source.data + offset, lexer->source.bytes - offset, &character);
        if (!mt_jis_space(character))
            break;
        offset += length;
    }
    return offset;
}

static struct mt_jslice without_end_space(struct mt_jslice text)
{
    while (text.bytes) {
        uint32_t character;
        const size_t length = mt_jcharacter_before(text.data, text.bytes, &character);
        if (!mt_jis_space(character))
            break;
        text.bytes -= length;
    }
    return text;
}

/* The end of a block or comment at `offset` ("%}" or "#}", a sign before it): the offset after it and the
 * white space that it takes, 0 where there is no such end. */
static size_t tag_end(const struct lexer *lexer, size_t offset, const char *end)
{
    const char sign = offset < lexer->source.bytes ? lexer->source.data[offset] : '\0';
    const size_t after = offset + (sign == '-' || sign == '+');
    if (!starts(lexer, after, end))
        return 0;
    const size_t length = strlen(end);
    if (sign == '-')
        return skip_space(lexer, after + length);
    if (sign == '+' && end[0] == '}')
        return 0;
    if (sign != '+' && end[0] != '}' && starts(lexer, after + length, "\n"))
        return after + length + 1;
    return after + length;
}

/* Emits the text before a tag, less what the tag takes. */
static int push_data(struct lexer *lexer, size_t begin, size_t end, char sign, bool variable)
{
    struct mt_jslice text = {lexer->source.data + begin, end - begin};
    if (sign == '-') {
        text = without_end_space(text);
    } else if (sign != '+' && !variable) {
        const char *newline = memrchr(text.data, '\n', text.bytes);
        const size_t line = newline ? (size_t)(newline - text.data) + 1 : 0;
        const bool line_starts = newline || begin == 0 || lexer->source.data[begin - 1] == '\n';
        const struct mt_jslice rest = {text.data + line, text.bytes - line};
        if (line_starts && rest.bytes && without_end_space(rest).bytes == 0)
            text.bytes = line;
    }
    if (!text.bytes)
        return 0;
    struct mt_jtoken *token = push(lexer, MT_J_TOKEN_DATA, begin);
    if (!token)
        return out_of_memory(lexer);
    token->text = text;
    return 0;
}

/* `{% raw %}` at `offset`: the offset after it, or 0. */
static size_t raw_begin(const struct lexer *lexer, size_t offset)
{
    offset += 2;
    if (offset < lexer->source.bytes &&
        (lexer->source.data[offset] == '-' || lexer->source.data[offset] == '+'))
        offset++;
    offset = skip_space(lexer, offset);
    if (!starts(lexer, offset, "raw"))
        return 0;
    offset = skip_space(lexer, offset + 3);
    if (starts(lexer, offset, "-%}"))
        return skip_space(lexer, offset + 3);
    return starts(lexer, offset, "%}") ? offset + 2 : 0;
}

/* The text of a raw block up to and over its end. */
static int lex_raw(struct lexer *lexer, size_t tag)
{
    const size_t begin = lexer->position;
    for (size_t i = begin; i + 1 < lexer->source.bytes; i++) {
        if (!starts(lexer, i, "{%"))
            continue;
        size_t offset = i + 2;
        char sign = offset < lexer->source.bytes ? lexer->source.data[offset] : '\0';
        if (sign == '-' || sign == '+')
            offset++;
        else
            sign = '\0';
        offset = skip_space(lexer, offset);
        if (!starts(lexer, offset, "endraw"))
            continue;
        const size_t end = tag_end(lexer, skip_space(lexer, offset + 6), "%}");
        if (!end)
            continue;
        lexer->position = end;
        return push_data(lexer, begin, i, sign, false);
    }
    return fail(lexer, tag, -EINVAL, "a raw block without its endraw");
}

static int lex_comment(struct lexer *lexer, size_t tag)
{
    for (size_t i = lexer->position; i < lexer->source.bytes; i++) {
        const size_t end = tag_end(lexer, i, "#}");
        if (end) {
            lexer->position = end;
            return 0;
        }
    }
    return fail(lexer, tag, -EINVAL, "a comment without its end `#}`");
}

/* --- within tags ---------------------------------------------------------------------------------------- */

static int lex_number(struct lexer *lexer)
{
    const char *text = lexer->source.data + lexer->position;
    const size_t left = lexer->source.bytes - lexer->position;
    size_t i = 0, digits;
#define DIGITS()                                                                                             \
    do                                                                                                       \
        while (i < left && ((text[i] >= '0' && text[i] <= '9') ||                                            \
                            (text[i] == '_' && i && text[i - 1] != '_' && i + 1 < left &&                    \
                             text[i + 1] >= '0' && text[i + 1] <= '9')))                                     \
            i++;                                                                                             \
    while (0)
    DIGITS();
    digits = i;
    bool is_float = false;
    if (i + 1 < left && text[i] == '.' && text[i + 1] >= '0' && text[i + 1] <= '9') {
        i++;
        DIGITS();
        is_float = true;
    }
    if (i + 1 < left && (text[i] == 'e' || text[i] == 'E')) {
        const size_t sign = text[i + 1] == '+' || text[i + 1] == '-';
        if (i + 1 + sign < left && text[i + 1 + sign] >= '0' && text[i + 1 + sign] <= '9') {
            i += 1 + sign;
            DIGITS();
            is_float = true;
        }
    }
    /* After a dot digits are an index: `x.0.1`. */
    if (is_float && lexer->position && text[-1] == '.') {
        is_float = false;
        i = digits;
    }
    struct mt_jtoken *token = push(lexer, is_float ? MT_J_TOKEN_FLOAT : MT_J_TOKEN_INTEGER, lexer->position);
    if (!token)
        return out_of_memory(lexer);
    if (is_float) {
        if (!mt_jread_float((struct mt_jslice){text, i}, &token->number))
            return fail(lexer, lexer->position, -EINVAL, "%.*s is not a number", (int)mt_size_min(i, 40),
                        text);
        lexer->position += i;
        return 0;
    }
    int base = 10;
    if (text[0] == '0') {
        const char kind = left > 1 ? (char)(text[1] | 32) : '\0';
        base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        i = 1;
        if (base != 10) {
            i = 2;
            while (i < left && (text[i] == '_' || (text[i] >= '0' && text[i] <= '9') ||
                                (base == 16 && (text[i] | 32) >= 'a' && (text[i] | 32) <= 'f')))
                i++;
        } else {
            while (i < left && (text[i] == '0' || (text[i] == '_' && i + 1 < left && text[i + 1] == '0')))
                i++;
        }
    }
    bool overflow = false;
    if (!mt_jread_int((struct mt_jslice){text, i}, base == 10 ? 10 : 0, &token->integer, &overflow))
        return fail(lexer, lexer->position, overflow ? -ENOTSUP : -EINVAL,
                    overflow ? "%.*s: whole numbers of more than 64 bits are not supported"
                             : "%.*s is not a number",
                    (int)mt_size_min(i, 40), text);
    lexer->position += i;
    return 0;
}

/* The value of `count` hexadecimal digits at `text`, or a number above any character. */
static uint32_t read_hex(const char *text, size_t left, size_t count)
{
    if (left < count)
        return UINT32_MAX;
    uint32_t value = 0;
    for (size_t i = 0; i < count; i++) {
        const char c = text[i], lower = (char)(c | 32);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + (uint32_t)(lower - 'a' + 10);
        else
            return UINT32_MAX;
    }
    return value;
}

/* One escape at text[0] == '\\'; writes to `out`, sets the numbers of bytes read and written. */
static int unescape(struct lexer *lexer, const char *text, size_t left, char *out, size_t *used,
                    size_t *written)
{
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    const size_t offset = (size_t)(text - lexer->source.data);
    const char kind = text[1];
    const char *simple = kind ? strchr(names, kind) : NULL;
    *used = 2;
    *written = 1;
    if (simple) {
        out[0] = values[simple - names];
        return 0;
    }
    uint32_t character;
    if (kind == '\n') {
        *written = 0;
        return 0;
    } else if (kind >= '0' && kind <= '7') {
        character = 0;
        size_t i = 1;
        for (; i < left && i < 4 && text[i] >= '0' && text[i] <= '7'; i++)
            character = character * 8 + (uint32_t)(text[i] - '0');
        *used = i;
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
        const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        character = read_hex(text + 2, left - 2, digits);
        *used = 2 + digits;
        if (character > 0x10ffff)
            return fail(lexer, offset, -EINVAL, "a broken escape \\%c in a string", kind);
        if (character >= 0xd800 && character < 0xe000)
            return fail(lexer, offset, -ENOTSUP, "half of a surrogate pair in a string is not supported");
    } else if (kind == 'N') {
        return fail(lexer, offset, -ENOTSUP, "\\N in a string is not supported");
    } else { /* anything else stands for itself, with its backslash */
        out[0] = '\\';
        *used = 1;
        return 0;
    }
    *written = mt_utf8_write(character, out);
    return 0;
}

static int lex_string(struct lexer *lexer)
{
    const size_t begin = lexer->position;
    const char quote = lexer->source.data[begin];
    size_t end = begin + 1;
    while (end < lexer->source.bytes && lexer->source.data[end] != quote)
        end += lexer->source.data[end] == '\\' ? 2 : 1;
    if (end >= lexer->source.bytes)
        return fail(lexer, begin, -EINVAL, "a string without its closing quote");

    struct mt_jtoken *token = push(lexer, MT_J_TOKEN_STRING, begin);
    /* An escape never takes less room than what it stands for: \x80 is two bytes, \U0001f600 four. */
    char *text = mt_arena_alloc(lexer->arena, end - begin, 1);
    if (!token || !text)
        return out_of_memory(lexer);
    size_t written = 0;
    for (size_t i = begin + 1; i < end;) {
        size_t used = 1, added = 1;
        if (lexer->source.data[i] == '\\') {
            int r = unescape(lexer, lexer->source.data + i, end - i, text + written, &used, &added);
            if (r < 0)
                return r;
        } else {
            text[written] = lexer->source.data[i];
        }
        i += used;
        written += added;
    }
    token->text = (struct mt_jslice){text, written};
    lexer->position = end + 1;
    return 0;
}

static int lex_name(struct lexer *lexer)
{
    const size_t begin = lexer->position;
    size_t end = begin;
    while (end < lexer->source.bytes) {
        uint32_t character;
        const size_t length = mt_jcharacter(lexer->source.data + end, lexer->source.bytes - end, &character);
        if (!mt_jis_word(character))
            break;
        end += length;
    }
    struct mt_jtoken *token = push(lexer, MT_J_TOKEN_NAME, begin);
    if (!token)
        return out_of_memory(lexer);
    token->text = (struct mt_jslice){lexer->source.data + begin, end - begin};
    lexer->position = end;
    return 0;
}

static int lex_operator(struct lexer *lexer)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                            "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!starts(lexer, lexer->position, operators[i]))
            continue;
        const char c = operators[i][0];
        if (c == '(' || c == '[' || c == '{') {
            if (lexer->num_brackets == MAX_NESTED_BRACKETS)
                return fail(lexer, lexer->position, -EOVERFLOW, "more than %d brackets within one another",
                            MAX_NESTED_BRACKETS);
            lexer->brackets[lexer->num_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (!lexer->num_brackets)
                return fail(lexer, lexer->position, -EINVAL, "unexpected `%c`", c);
            if (lexer->brackets[--lexer->num_brackets] != c)
                return fail(lexer, lexer->position, -EINVAL, "unexpected `%c` where `%c` is expected", c,
                            lexer->brackets[lexer->num_brackets]);
        }
        struct mt_jtoken *token = push(lexer, MT_J_TOKEN_OPERATOR, lexer->position);
        if (!token)
            return out_of_memory(lexer);
        token->text = (struct mt_jslice){operators[i], strlen(operators[i])};
        lexer->position += token->text.bytes;
        return 0;
    }
    uint32_t character;
    const size_t length = mt_jcharacter(lexer->source.data + lexer->position,
                                        lexer->source.bytes - lexer->position, &character);
    return fail(lexer, lexer->position, -EINVAL, "unexpected character `%.*s`", (int)length,
                lexer->source.data + lexer->position);
}

/* The tokens of a tag up to and over its end. */
static int lex_tag(struct lexer *lexer, bool variable, size_t tag)
{
    const char *end = variable ? "}}" : "%}";
    lexer->num_brackets = 0;
    for (;;) {
        lexer->position = skip_space(lexer, lexer->position);
        if (lexer->position == lexer->source.bytes)
            return fail(lexer, tag, -EINVAL, "a tag without its end `%s`", end);
        const size_t after = lexer->num_brackets ? 0 : tag_end(lexer, lexer->position, end);
        if (after) {
            if (!push(lexer, variable ? MT_J_TOKEN_VARIABLE_END : MT_J_TOKEN_BLOCK_END, lexer->position))
                return out_of_memory(lexer);
            lexer->position = after;
            return 0;
        }
        uint32_t character;
        mt_jcharacter(lexer->source.data + lexer->position, lexer->source.bytes - lexer->position,
                      &character);
        int r;
        if (character >= '0' && character <= '9')
            r = lex_number(lexer);
        else if (character == '"' || character == '\'')
            r = lex_string(lexer);
        else if (mt_jis_word(character))
            r = lex_name(lexer);
        else
            r = lex_operator(lexer);
        if (r < 0)
            return r;
    }
}

/* The offset of the next tag, or the end. */
static size_t next_tag(const struct lexer *lexer)
{
    const char *data = lexer->source.data;
    for (size_t i = lexer->position; i + 1 < lexer->source.bytes; i++) {
        const char *brace = memchr(data + i, '{', lexer->source.bytes - 1 - i);
        if (!brace)
            break;
        i = (size_t)(brace - data);
        if (data[i + 1] == '{' || data[i + 1] == '%' || data[i + 1] == '#')
            return i;
    }
    return lexer->source.bytes;
}

static int lex(struct lexer *lexer)
{
    while (lexer->position < lexer->source.bytes) {
        const size_t begin = lexer->position, tag = next_tag(lexer);
        if (tag == lexer->source.bytes) {
            lexer->position = tag;
            return push_data(lexer, begin, tag, '+', true);
        }
        const char kind = lexer->source.data[tag + 1];
        char sign = tag + 2 < lexer->source.bytes ? lexer->source.data[tag + 2] : '\0';
        if (sign != '-' && sign != '+')
            sign = '\0';
        int r = push_data(lexer, begin, tag, sign, kind == '{');
        if (r < 0)
            return r;
        lexer->position = tag + 2 + (sign != '\0');
        const size_t raw = kind == '%' ? raw_begin(lexer, tag) : 0;
        if (raw) {
            lexer->position = raw;
            r = lex_raw(lexer, tag);
        } else if (kind == '#') {
            r = lex_comment(lexer, tag);
        } else {
            if (!push(lexer, kind == '{' ? MT_J_TOKEN_VARIABLE_BEGIN : MT_J_TOKEN_BLOCK_BEGIN, tag))
                return out_of_memory(lexer);
            r = lex_tag(lexer, kind == '{', tag);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int mt_jlex(struct mt_arena *arena, const char *name, struct mt_jslice source, struct mt_jtoken **tokens,
            size_t *count, struct mt_error *error)
{
    struct lexer lexer = {
        .arena = arena, .name = name, .source = source, .line = 1, .column = 1, .error = error};
    int r = lex(&lexer);
    if (r < 0)
        return r;
    if (!push(&lexer, MT_J_TOKEN_END, source.bytes))
        return out_of_memory(&lexer);
    *tokens = lexer.tokens;
    *count = lexer.count;
    return 0;
}
