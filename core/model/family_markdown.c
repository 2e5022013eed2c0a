/* The family table for people: docs/models.md. */
#include "core/model/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "# Model families\n"
                           "\n"
                           "What `model_type` in a model folder's `config.json` may say. Each is one entry "
                           "of `core/model/family_*.c`, and this\n"
                           "page is printed from that table by `megatrain models --families --markdown`. "
                           "Each is compared with transformers in\n"
                           "fp64 by the golden files (`tests/golden/`). Any other `model_type`, and any "
                           "setting that would change the\n"
                           "mathematics and is not known, is refused by name. How a family is added: "
                           "[add-a-model.md](add-a-model.md).\n"
                           "\n"
                           "| model_type | class | norms | attention | positions | MLP |\n"
                           "|---|---|---|---|---|---|\n";

static void print_norms(FILE *out, const struct mt_family *family)
{
    const bool before = family->names[MT_ROLE_ATTENTION_NORM] || family->plain_norms;
    const bool after = family->names[MT_ROLE_POST_ATTENTION_NORM] != NULL;
    fprintf(out, "%s%s, %s%s%s%s%s", family->layer_norm ? "layer" : "RMS",
            family->norm_weight_offset != 0 ? ", 1 + weight" : "",
            before && after          ? "before and after each half"
            : family->norm_after_sum ? "of the sum after each half"
            : after                  ? "after each half"
                                     : "before each half",
            family->names[MT_ROLE_ATTENTION_SUB_NORM] ? " and inside" : "",
            family->names[MT_ROLE_EMBEDDING_NORM] || family->plain_entry_norm ? ", of the embedding" : "",
            family->norm_head.otherwise ? ", of the output matrix's rows" : "",
            family->plain_norms ? ", without weights" : "");
}

static void print_attention(FILE *out, const struct mt_family *family)
{
    static const char *const qk[] = {
        [MT_QK_NORM_NONE] = "",
        [MT_QK_NORM_HEAD] = ", q and k normed by head",
        [MT_QK_NORM_PER_HEAD] = ", q and k normed with weights by head",
        [MT_QK_NORM_WHOLE] = ", q and k normed whole",
    };
    static const char *const windows[] = {
        [MT_WINDOW_NONE] = "",
        [MT_WINDOW_ALL] = ", window",
        [MT_WINDOW_LAYER_TYPES] = ", windows by layer",
        [MT_WINDOW_FROM] = ", windows by layer",
        [MT_WINDOW_EVEN] = ", windows by layer",
        [MT_WINDOW_PATTERN] = ", windows by layer",
        [MT_WINDOW_NO_ROPE] = ", windows by layer",
    };
    fprintf(out, "%s%s%s%s", family->names[MT_ROLE_QKV] ? "one matrix" : "q, k, v", qk[family->qk_norm],
            windows[family->windows], family->attention_softcap > 0 ? ", scores capped" : "");
}

static void print_positions(FILE *out, const struct mt_family *family)
{
    static const char *const rules[] = {
        [MT_ROPE_EVERYWHERE] = "",
        [MT_ROPE_LISTED] = ", not in every layer",
        [MT_ROPE_WINDOWED] = ", in layers with a window",
        [MT_ROPE_WINDOWED_IF_ANY] = ", not in full layers beside windows",
        [MT_ROPE_BY_LAYER_TYPE] = ", two kinds",
        [MT_ROPE_NOWHERE] = "",
    };
    static const char *const added[] = {
        [MT_POSITIONS_NONE] = "none",
        [MT_POSITIONS_LEARNED] = "learned",
        [MT_POSITIONS_SINES] = "sines",
        [MT_POSITIONS_SINES_TO_END] = "sines",
    };
    if (family->alibi.key || family->alibi.otherwise) {
        fputs(family->alibi.key ? "linear biases if the config says so, else rotary" : "linear biases", out);
        return;
    }
    if (family->ropes == MT_ROPE_NOWHERE) {
        fputs(added[family->positions], out);
        return;
    }
    fprintf(out, "rotary%s%s%s", family->interleaved ? ", neighbours" : "",
            family->partial_rotary_factor > 0 ? ", part of a head" : "", rules[family->ropes]);
}

char *mt_family_markdown(void)
{
    char *text = NULL;
    size_t bytes, count;
    const struct mt_family *const *families = mt_family_table(&count);
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputs(head, out);
    for (size_t i = 0; i < count; i++) {
        const struct mt_family *family = families[i];
        const bool fused = family->names[MT_ROLE_GATE_UP] != NULL,
                   gated = family->names[MT_ROLE_GATE] || fused;
        fprintf(out, "| `%s`", family->model_type);
        for (const struct mt_family_fixed *when = family->when; when && when->key; when++)
            fprintf(out, "%s `%s` %s", when == family->when ? ", when" : ",", when->key,
                    strcmp(when->value, "null") == 0 ? "absent" : when->value);
        fprintf(out, " | %s | ", family->architecture);
        print_norms(out, family);
        fputs(" | ", out);
        print_attention(out, family);
        fputs(" | ", out);
        print_positions(out, family);
        fprintf(out, " | %s%s%s%s |\n", gated ? "gated " : "",
                family->activation ? family->activation : "silu", fused ? ", gate and up in one matrix" : "",
                family->parallel.key         ? ", beside attention if the config says so"
                : family->parallel.otherwise ? ", beside attention"
                                             : "");
    }
    fputs("\nRope scalings, for all of them: linear, dynamic, llama3, yarn, longrope. A missing setting has "
          "the default of\n"
          "transformers 5.24.\n",
          out);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}
