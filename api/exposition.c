/* exposition.c: families, samples, histograms. See exposition.h. */
#include "api/exposition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void mt_exposition_family(struct mt_exposition *page, const char *name, const char *type, const char *help)
{
    size_t bytes = strlen(name);
    const char *shown_type = type;
    if (page->open_metrics && strcmp(type, "counter") == 0)
        bytes -= strlen("_total");
    else if (page->open_metrics && strcmp(type, "info") == 0)
        bytes -= strlen("_info");
    else if (strcmp(type, "info") == 0)
        shown_type = "gauge"; /* the older format knows no other */
    mt_text_printf(&page->text, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)bytes, name, help, (int)bytes, name,
                   shown_type);
}

static void label(struct mt_text *text, const char *name, const char *value, bool first)
{
    mt_text_printf(text, "%s%s=\"", first ? "{" : ",", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            mt_text_printf(text, "\\%c", *value);
        else if (*value == '\n')
            mt_text_puts(text, "\\n");
        else
            mt_text_append(text, value, 1);
    }
    mt_text_puts(text, "\"");
}

static void sample(struct mt_exposition *page, const char *name, const char *suffix,
                   const char *const *labels, const char *bound, double value)
{
    bool first = true;
    mt_text_printf(&page->text, "%s%s", name, suffix);
    for (; labels && labels[0]; labels += 2, first = false)
        label(&page->text, labels[0], labels[1], first);
    if (bound) {
        label(&page->text, "le", bound, first);
        first = false;
    }
    mt_text_puts(&page->text, first ? " " : "} ");
    mt_text_number(&page->text, value);
    mt_text_puts(&page->text, "\n");
}

void mt_exposition_sample(struct mt_exposition *page, const char *name, const char *const *labels,
                          double value)
{
    sample(page, name, "", labels, NULL, value);
}

static void bucket(struct mt_exposition *page, const char *name, const char *const *labels, double bound,
                   double count)
{
    struct mt_text text = {0};
    mt_text_number(&text, bound);
    if (page->open_metrics && isfinite(bound) && bound == floor(bound) && fabs(bound) < 1e15)
        mt_text_puts(&text, ".0");
    mt_text_append(&text, "", 1);
    if (!text.failed)
        sample(page, name, "_bucket", labels, text.data, count);
    page->text.failed |= text.failed;
    mt_text_free(&text);
}

void mt_exposition_histogram(struct mt_exposition *page, const char *name, const char *const *labels,
                             const json_t *histogram)
{
    size_t i;
    json_t *pair;
    double count = json_number_value(json_object_get(histogram, "count"));
    json_array_foreach(json_object_get(histogram, "buckets"), i, pair)
    {
        double bound = json_number_value(json_array_get(pair, 0));
        if (json_is_number(json_array_get(pair, 0)) && isfinite(bound))
            bucket(page, name, labels, bound, json_number_value(json_array_get(pair, 1)));
    }
    bucket(page, name, labels, INFINITY, count);
    sample(page, name, "_sum", labels, NULL, json_number_value(json_object_get(histogram, "sum")));
    sample(page, name, "_count", labels, NULL, count);
}

void mt_exposition_end(struct mt_exposition *page)
{
    if (page->open_metrics)
        mt_text_puts(&page->text, "# EOF\n");
}
