/* What the files of methods and filters share. */
#ifndef MT_TEXT_JINJA_METHODS_H
#define MT_TEXT_JINJA_METHODS_H

#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

struct mt_jmethod_name {
    const char *name;
    mt_jmethod_call call; /* NULL: Python has it, this does not */
};

/* The method bound to `self`. NULL without an error where there is none of that name. */
struct mt_jvalue *mt_jfind_method(struct mt_jrun *run, const struct mt_jmethod_name *names,
                                  struct mt_jvalue *self, struct mt_jslice name);
/* Arguments without names: `least` to `most` of them into `values`, NULL where one was not given. */
bool mt_jpositional(struct mt_jrun *run, const char *what, const struct mt_jargs *args, size_t least,
                    size_t most, struct mt_jvalue **values);

bool mt_jis_none(const struct mt_jvalue *value); /* or not given */
/* True, or a failure that names `what` needs it. */
bool mt_jneed_text(struct mt_jrun *run, const char *what, const struct mt_jvalue *value);
bool mt_jneed_integer(struct mt_jrun *run, const char *what, const struct mt_jvalue *value, int64_t *integer);
/* Where the first (or last) such part of a text begins; SIZE_MAX where there is none. */
size_t mt_jfind_text(struct mt_jslice text, struct mt_jslice part, bool last);
/* Counts the work of finding a part, or of looking at each of so many bytes so often: from the end, and for
 * characters to strip, the one for each of the other. */
bool mt_jfind_work(struct mt_jrun *run, size_t bytes, size_t part_bytes, bool each);

/* The methods of str that stand in files of their own; each ends with NULLs. */
extern const struct mt_jmethod_name mt_jcase_methods[];
extern const struct mt_jmethod_name mt_jsplit_methods[];
extern const struct mt_jmethod_name mt_jfind_methods[];

enum mt_jside { MT_J_LEFT, MT_J_RIGHT, MT_J_CENTER }; /* where the text stands: ljust, rjust, center */

/* Without the characters (white space for NULL) at its ends. */
struct mt_jslice mt_jtrim(struct mt_jslice text, const struct mt_jslice *characters, bool left, bool right);
bool mt_jsplit_lines(struct mt_jrun *run, struct mt_jvalue *text, bool keep, struct mt_jvalue *list);
struct mt_jvalue *mt_jreplace(struct mt_jrun *run, struct mt_jvalue *text, struct mt_jslice old,
                              struct mt_jslice new, int64_t count); /* count < 0: all */
struct mt_jvalue *mt_jjustify(struct mt_jrun *run, struct mt_jvalue *text, int64_t width,
                              struct mt_jslice fill, enum mt_jside side);
struct mt_jvalue *mt_jchange_case(struct mt_jrun *run, struct mt_jvalue *text, enum mt_jcase mapping);
/* A titlecase first character and lower case for the rest. */
struct mt_jvalue *mt_jcapitalize(struct mt_jrun *run, struct mt_jvalue *text);
/* Whether there are cased characters, all of this case. */
bool mt_jall_cased(struct mt_jslice text, bool upper);

/* A stable sort by keys. `keys` and `items` are put in order together. */
bool mt_jsort(struct mt_jrun *run, struct mt_jvalue **keys, struct mt_jvalue **items, size_t count,
              bool reverse);

#endif
