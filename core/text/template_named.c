/* Named templates, for models that come without: our own Jinja text for the formats that are in common use,
 * under the names that LLaMA-Factory gives them. Each marks what the assistant says. None has a form for
 * tools: they are refused, not dropped. */
#include "core/text/template_internal.h"

#include <string.h>

/* Common to all: the text of a message, the first system message, and the refusals. */
#define PRELUDE                                                                                              \
    "{%- macro text(content) -%}"                                                                            \
    "{%- if content is string -%}{{ content }}"                                                              \
    "{%- elif content is sequence and content is not mapping -%}"                                            \
    "{%- for part in content -%}"                                                                            \
    "{%- if part.type != 'text' -%}{{ raise_exception('only parts of type text are possible') }}{%- endif "  \
    "-%}"                                                                                                    \
    "{{ part.text }}"                                                                                        \
    "{%- endfor -%}"                                                                                         \
    "{%- elif content is defined and content is not none -%}"                                                \
    "{{ raise_exception('the content of a message must be a text') }}"                                       \
    "{%- endif -%}"                                                                                          \
    "{%- endmacro -%}"                                                                                       \
    "{%- if tools -%}{{ raise_exception('this named template has no form for tools') }}{%- endif -%}"        \
    "{%- for message in messages -%}"                                                                        \
    "{%- if message.role not in ('system', 'user', 'assistant') or message.tool_calls -%}"                   \
    "{{ raise_exception('this named template has no form for the role or the calls of a message: ' ~ "       \
    "message.role) }}"                                                                                       \
    "{%- endif -%}"                                                                                          \
    "{%- endfor -%}"

/* For templates whose answers end with it: without one the model would never learn to stop. */
#define NEEDS_END                                                                                            \
    "{%- if not eos_token -%}{{ raise_exception('the tokenizer names no eos_token to end an answer with') "  \
    "}}"                                                                                                     \
    "{%- endif -%}"

/* The conversation without its system message, which is `system` ('' where there is none). */
#define SPLIT_SYSTEM                                                                                         \
    "{%- set system = '' -%}{%- set turns = messages -%}"                                                    \
    "{%- if messages[0].role == 'system' -%}"                                                                \
    "{%- set system = text(messages[0].content) -%}{%- set turns = messages[1:] -%}"                         \
    "{%- endif -%}"

#define ANSWER(end) "{%- generation -%}{{ text(message.content) ~ " end " }}{%- endgeneration -%}"

/* <|im_start|>role ... <|im_end|> */
#define CHATML_TURNS                                                                                         \
    "{%- for message in messages -%}"                                                                        \
    "{{ '<|im_start|>' ~ message.role ~ '\\n' }}"                                                            \
    "{%- if message.role == 'assistant' -%}" ANSWER(                                                         \
        "'<|im_end|>'") "{%- else -%}{{ text(message.content) ~ '<|im_end|>' }}{%- endif -%}{{ '\\n' }}"     \
                        "{%- endfor -%}"                                                                     \
                        "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"

/* <|role|> on a line of its own. */
#define ROLE_LINES(end)                                                                                      \
    "{%- for message in messages -%}"                                                                        \
    "{{ '<|' ~ message.role ~ '|>\\n' }}"                                                                    \
    "{%- if message.role == 'assistant' -%}" ANSWER(                                                         \
        end) "{%- else -%}{{ text(message.content) ~ " end " }}{%- endif -%}{{ '\\n' }}"                     \
             "{%- endfor -%}"                                                                                \
             "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"

/* [INST] ... [/INST] with the system message in the first. */
#define INSTRUCTIONS(system, before, after, answer_begin, answer_end, between)                               \
    SPLIT_SYSTEM                                                                                             \
    "{{ bos_token }}"                                                                                        \
    "{%- for message in turns -%}"                                                                           \
    "{%- if message.role == 'user' -%}"                                                                      \
    "{{ " before " ~ (" system " if loop.first and system else '') ~ text(message.content) ~ " after " }}"   \
    "{%- else -%}{{ " answer_begin " }}{%- generation -%}{{ text(message.content) ~ " answer_end " }}"       \
    "{%- endgeneration -%}{{ " between " }}{%- endif -%}"                                                    \
    "{%- endfor -%}"                                                                                         \
    "{%- if add_generation_prompt -%}{{ " answer_begin " }}{%- endif -%}"

static const struct {
    const char *name, *source;
} templates[] = {
    {"chatml", PRELUDE CHATML_TURNS},
    {"qwen", PRELUDE "{%- if messages[0].role != 'system' -%}"
                     "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}"
                     "{%- endif -%}" CHATML_TURNS},
    {"yi", PRELUDE CHATML_TURNS},
    {"phi4", PRELUDE "{%- for message in messages -%}"
                     "{{ '<|im_start|>' ~ message.role ~ '<|im_sep|>' }}"
                     "{%- if message.role == 'assistant' -%}" ANSWER(
                         "'<|im_end|>'") "{%- else -%}{{ text(message.content) ~ '<|im_end|>' }}{%- endif -%}"
                                         "{%- endfor -%}"
                                         "{%- if add_generation_prompt -%}{{ "
                                         "'<|im_start|>assistant<|im_sep|>' }}{%- endif -%}"},
    {"llama2", PRELUDE NEEDS_END SPLIT_SYSTEM
     "{%- for message in turns -%}"
     "{%- if message.role == 'user' -%}"
     "{{ bos_token ~ '[INST] ' ~ ('<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' if loop.first and system else "
     "'')"
     " ~ text(message.content) ~ ' [/INST]' }}"
     "{%- else -%}"
     "{%- generation -%}{{ ' ' ~ text(message.content) ~ ' ' ~ eos_token }}{%- endgeneration -%}"
     "{%- endif -%}"
     "{%- endfor -%}"},
    {"llama3",
     PRELUDE "{{ bos_token }}"
             "{%- for message in messages -%}"
             "{{ '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\\n\\n' }}"
             "{%- if message.role == 'assistant' -%}" ANSWER(
                 "'<|eot_id|>'") "{%- else -%}{{ text(message.content) ~ '<|eot_id|>' }}{%- endif -%}"
                                 "{%- endfor -%}"
                                 "{%- if add_generation_prompt -%}"
                                 "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"},
    {"mistral",
     PRELUDE NEEDS_END INSTRUCTIONS("system ~ '\\n\\n'", "'[INST] '", "'[/INST]'", "''", "eos_token", "''")},
    {"gemma", PRELUDE INSTRUCTIONS("system ~ '\\n\\n'", "'<start_of_turn>user\\n'", "'<end_of_turn>\\n'",
                                   "'<start_of_turn>model\\n'", "'<end_of_turn>'", "'\\n'")},
    {"phi", PRELUDE ROLE_LINES("'<|end|>'")},
    {"zephyr", PRELUDE NEEDS_END ROLE_LINES("eos_token")},
    {"cohere",
     PRELUDE "{%- set names = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} -%}"
             "{{ bos_token }}"
             "{%- for message in messages -%}"
             "{{ '<|START_OF_TURN_TOKEN|><|' ~ names[message.role] ~ '_TOKEN|>' }}"
             "{%- if message.role == 'assistant' -%}" ANSWER(
                 "'<|END_OF_TURN_TOKEN|>'") "{%- else -%}{{ text(message.content) ~ '<|END_OF_TURN_TOKEN|>' "
                                            "}}{%- endif -%}"
                                            "{%- endfor -%}"
                                            "{%- if add_generation_prompt -%}"
                                            "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif -%}"},
    {"deepseek", PRELUDE NEEDS_END SPLIT_SYSTEM
     "{{ bos_token ~ (system ~ '\\n\\n' if system else '') }}"
     "{%- for message in turns -%}"
     "{%- if message.role == 'user' -%}{{ 'User: ' ~ text(message.content) ~ '\\n\\n' }}"
     "{%- else -%}{{ 'Assistant:' }}{%- generation -%}{{ ' ' ~ text(message.content) ~ eos_token }}"
     "{%- endgeneration -%}{%- endif -%}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"},
    {"deepseek3", PRELUDE NEEDS_END SPLIT_SYSTEM
     "{{ bos_token ~ system }}"
     "{%- for message in turns -%}"
     "{%- if message.role == 'user' -%}{{ '<｜User｜>' ~ text(message.content) }}"
     "{%- else -%}{{ '<｜Assistant｜>' }}" ANSWER(
         "eos_token") "{%- endif -%}"
                      "{%- endfor -%}"
                      "{%- if add_generation_prompt -%}{{ '<｜Assistant｜>' }}{%- endif -%}"},
    {"openchat", PRELUDE SPLIT_SYSTEM
     "{{ bos_token ~ (system ~ '<|end_of_turn|>' if system else '') }}"
     "{%- for message in turns -%}"
     "{%- if message.role == 'user' -%}"
     "{{ 'GPT4 Correct User: ' ~ text(message.content) ~ '<|end_of_turn|>' }}"
     "{%- else -%}{{ 'GPT4 Correct Assistant:' }}{%- generation -%}"
     "{{ ' ' ~ text(message.content) ~ '<|end_of_turn|>' }}{%- endgeneration -%}{%- endif -%}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ 'GPT4 Correct Assistant:' }}{%- endif -%}"},
    {"vicuna", PRELUDE NEEDS_END SPLIT_SYSTEM
     "{{ bos_token ~ (system or \"A chat between a curious user and an artificial intelligence assistant. "
     "The assistant gives helpful, detailed, and polite answers to the user's questions.\") ~ ' ' }}"
     "{%- for message in turns -%}"
     "{%- if message.role == 'user' -%}{{ 'USER: ' ~ text(message.content) ~ ' ' }}"
     "{%- else -%}{{ 'ASSISTANT:' }}{%- generation -%}{{ ' ' ~ text(message.content) ~ eos_token }}"
     "{%- endgeneration -%}{%- endif -%}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%}"},
    {"granite3",
     PRELUDE "{%- for message in messages -%}"
             "{{ '<|start_of_role|>' ~ message.role ~ '<|end_of_role|>' }}"
             "{%- if message.role == 'assistant' -%}" ANSWER(
                 "'<|end_of_text|>'") "{%- else -%}{{ text(message.content) ~ '<|end_of_text|>' }}{%- endif "
                                      "-%}{{ '\\n' }}"
                                      "{%- endfor -%}"
                                      "{%- if add_generation_prompt -%}"
                                      "{{ '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif -%}"},
    {"default", PRELUDE NEEDS_END
     "{{ bos_token }}"
     "{%- for message in messages -%}"
     "{%- if message.role == 'assistant' -%}{{ 'Assistant:' }}{%- generation -%}"
     "{{ ' ' ~ text(message.content) ~ eos_token }}{%- endgeneration -%}"
     "{%- else -%}{{ ('System: ' if message.role == 'system' else 'Human: ') ~ text(message.content) }}"
     "{%- endif -%}{{ '\\n' }}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"},
};

#define NUM_TEMPLATES (sizeof templates / sizeof *templates)

const char *mt_template_source(const char *name)
{
    for (size_t i = 0; i < NUM_TEMPLATES; i++)
        if (strcmp(name, templates[i].name) == 0)
            return templates[i].source;
    return NULL;
}

const char *const *mt_template_names(void)
{
    static const char *const names[] = {"chatml",    "qwen",     "yi",     "phi4",     "llama2",  "llama3",
                                        "mistral",   "gemma",    "phi",    "zephyr",   "cohere",  "deepseek",
                                        "deepseek3", "openchat", "vicuna", "granite3", "default", NULL};
    _Static_assert(sizeof names / sizeof *names == NUM_TEMPLATES + 1, "every template has its name");
    return names;
}
