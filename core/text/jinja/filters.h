/* The filters, one group a file; filters.c has their names. */
#ifndef MT_TEXT_JINJA_FILTERS_H
#define MT_TEXT_JINJA_FILTERS_H

#include "core/text/jinja/methods.h"

#define FILTER(name)                                                                                         \
    struct mt_jvalue *mt_jfilter_##name(struct mt_jrun *run, struct mt_jvalue *value,                        \
                                        const struct mt_jargs *args)

/* filters_text.c */
FILTER(upper);
FILTER(lower);
FILTER(capitalize);
FILTER(title);
FILTER(trim);
FILTER(replace);
FILTER(indent);
FILTER(center);
FILTER(truncate);
FILTER(wordcount);
FILTER(escape);
FILTER(forceescape);
FILTER(safe);
FILTER(string);
FILTER(format);
FILTER(from_json);
FILTER(urlencode);
FILTER(xmlattr);
/* filters_number.c */
FILTER(int);
FILTER(float);
FILTER(round);
FILTER(abs);
FILTER(filesizeformat);
FILTER(sum);
/* filters_list.c */
FILTER(length);
FILTER(first);
FILTER(last);
FILTER(list);
FILTER(items);
FILTER(join);
FILTER(reverse);
FILTER(batch);
FILTER(slice);
/* filters_sort.c */
FILTER(sort);
FILTER(dictsort);
FILTER(unique);
FILTER(min);
FILTER(max);
FILTER(groupby);
/* filters_select.c */
FILTER(default);
FILTER(attr);
FILTER(map);
FILTER(select);
FILTER(reject);
FILTER(selectattr);
FILTER(rejectattr);

/* item.a.0.b for "a.0.b" (NULL or none: the item itself). What is missing on the way is `absent`, unless
 * NULL. */
struct mt_jvalue *mt_jattribute_path(struct mt_jrun *run, struct mt_jvalue *item, struct mt_jvalue *path,
                                     struct mt_jvalue *absent);
bool mt_jgiven(const struct mt_jvalue *value); /* neither NULL nor none */
/* A whole number that was given, or stays as it was. */
bool mt_jgiven_integer(struct mt_jrun *run, const char *what, const struct mt_jvalue *value,
                       int64_t *integer);

#endif
