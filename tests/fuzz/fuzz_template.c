/* A chat template over a conversation: parsed and rendered within bounds, and the answers found in it. */
#include "core/base/cleanup.h"
#include "core/text/jinja/jinja.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static json_t *variables(void)
{
    static json_t *made;
    if (!made)
        made = json_loads(
            "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"ä "
            "Q\\n\"},"
            "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
            "\"arguments\":"
            "{\"a\":[1,2.5,null,true]}}}]},{\"role\":\"tool\",\"content\":\"{}\"},{\"role\":\"assistant\","
            "\"content\":\"A\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
            "\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_generation_prompt\":true}",
            0, NULL);
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct mt_jinja_limits limits = {
        .steps = 100000, .memory_bytes = (size_t)16 << 20, .output_bytes = (size_t)1 << 20, .depth = 200};
    const struct mt_jinja_options options = {.limits = &limits, .follow = "messages"};
    struct mt_jinja_template *template;
    struct mt_jinja_output output = {0};
    struct mt_error error = {0};
    if (mt_jinja_parse((const char *)data, bytes, "fuzz", &template, &error) < 0)
        return 0;
    if (mt_jinja_render(template, variables(), &options, &output, &error) == 0)
        mt_fuzz_use(output.text.data, output.text.bytes);
    for (size_t i = 0; i < output.num_places; i++)
        if (output.places[i].begin > output.places[i].end)
            abort();
    mt_jinja_output_free(&output);
    mt_jinja_free(template);
    return 0;
}
