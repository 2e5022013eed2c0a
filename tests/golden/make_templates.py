#!/usr/bin/env python3
"""Makes tests/golden/templates/golden.json: what `transformers` renders of real chat templates.

The templates are llama.cpp's collection, in the source package of llama-cpp-python that tests/requirements.txt pins;
they are not ours, and stay out of the repository: tests/e2e/templates.py fetches them again and renders them with
our engine. Each is rendered over the conversations below, by transformers' own compiled template (jinja2 as it sets
it up). A result is the text where it is short, else its length and SHA-256; or the failure, with the template's own
words where it raised them.

    tests/golden/make_templates.py FOLDER   # that holds the .jinja files
"""
import argparse
import datetime
import hashlib
import json
import os

import jinja2
from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1754000000  # 2025-07-31 22:13:20 UTC
LONGEST_IN_FULL = 160

WEATHER = {"type": "function", "function": {
    "name": "get_weather",
    "description": "Tells the weather of a place.\nIn °C.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city, e.g. \"Zürich\" <or> 東京"},
        "days": {"type": "integer", "description": "How many days", "minimum": 1, "default": 1},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Searches.",
    "parameters": {"type": "object", "properties": {
        "query": {"type": "string"},
        "filters": {"type": "object", "properties": {"year": {"type": ["integer", "null"]},
                                                     "exact": {"type": "boolean"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "limit": {"type": "number", "nullable": True}},
        "required": ["query", "tags"]}, "strict": True}}
NO_ARGUMENTS = {"type": "function", "function": {
    "name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, identity="call12345"):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(content):
    return {"role": "user", "content": content}


def system(content):
    return {"role": "system", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content, name="get_weather", identity="call12345"):
    return {"role": "tool", "name": name, "tool_call_id": identity, "content": content}


ARGUMENTS = {"city": "Zürich \"HB\" <b>", "days": 2, "wind": 1.5, "detail": {"hourly": True, "list": [1, "a", None]}}
PLAIN = [user("Hello"), assistant("Hi there!"), user("And you?")]
CALLING = [user("Weather?"), assistant("", tool_calls=[call("get_weather", ARGUMENTS)]),
           tool('{"sky": "clear", "t": 21.5}'), assistant("Clear, 21.5 °C.")]


def conversations():
    """Names and variables, beside the special tokens."""
    yield "user", {"messages": [user("Hello, world")], "add_generation_prompt": True}
    yield "turns", {"messages": PLAIN, "add_generation_prompt": True}
    yield "answered", {"messages": PLAIN + [assistant("  Fine, thanks.\n")], "add_generation_prompt": False}
    yield "system", {"messages": [system("You are terse."), *PLAIN], "add_generation_prompt": True}
    yield "unicode", {"messages": [system("Ünïcödé"), user("日本語 🦙👩‍👩‍👧 עברית\u00a0\u2028 naïve"),
                                   assistant("<|im_end|> \"quoted\" & <tag> \\n {{ x }}\r\n\t'"), user("  \n ")],
                      "add_generation_prompt": True}
    yield "reasoning", {"messages": [user("2+2?"), assistant("4", reasoning_content="Two and two.\nFour."),
                                     user("3+3?"), assistant("6", reasoning_content="Six."), user("Sure?")],
                        "add_generation_prompt": True}
    yield "thoughts in content", {"messages": [user("2+2?"), assistant("<think>\nFour.\n</think>\n\n4"), user("Sure?"),
                                               assistant("<think>Yes.</think>Yes")],
                                  "add_generation_prompt": False}
    yield "no thinking", {"messages": [system("Be quick."), user("2+2?")], "add_generation_prompt": True,
                          "enable_thinking": False, "thinking": False}
    yield "thinking", {"messages": [system("Be slow."), user("2+2?")], "add_generation_prompt": True,
                       "enable_thinking": True, "thinking": True, "reasoning_effort": "high"}
    yield "tools", {"messages": [user("Weather?")], "tools": [WEATHER, SEARCH, NO_ARGUMENTS],
                    "add_generation_prompt": True}
    yield "tools and system", {"messages": [system("Use tools."), user("Weather?")], "tools": [WEATHER],
                               "add_generation_prompt": True}
    yield "call", {"messages": CALLING, "tools": [WEATHER], "add_generation_prompt": False}
    yield "call with wide numbers", {
        "messages": [user("Weather?"), assistant("", tool_calls=[call("get_weather", {
            "id": 12345678901234567890, "snowflake": 1234567890123456789, "low": -(10 ** 30), "list": [2 ** 63, 2 ** 63 - 1]})]),
                     tool("clear"), assistant("Clear.")], "tools": [WEATHER], "add_generation_prompt": False}
    yield "call, going on", {"messages": [*CALLING[:3], assistant("Clear."), user("Thanks")], "tools": [WEATHER, SEARCH],
                             "add_generation_prompt": True}
    yield "call with text arguments", {
        "messages": [user("Weather?"), assistant("", tool_calls=[call("get_weather", json.dumps(ARGUMENTS))]),
                     tool("clear")], "tools": [WEATHER], "add_generation_prompt": True}
    yield "call without content", {
        "messages": [user("Weather?"), {"role": "assistant", "tool_calls": [call("now", {})]}, tool("12:00", "now")],
        "tools": [NO_ARGUMENTS], "add_generation_prompt": True}
    yield "call with content and reasoning", {
        "messages": [user("Weather?"), assistant("Let me look.", reasoning_content="I need the tool.",
                                                 tool_calls=[call("get_weather", {"city": "Bern"})]),
                     tool("rain"), assistant("Rain.", reasoning_content="It rains.")],
        "tools": [WEATHER], "add_generation_prompt": False}
    yield "two calls", {
        "messages": [system("Use tools."), user("Weather, and search?"),
                     assistant("", tool_calls=[call("get_weather", {"city": "Bern"}, "aaaaaaaaa"),
                                               call("search", {"query": "x\ny", "tags": ["a", "b"]}, "bbbbbbbbb")]),
                     tool("rain", "get_weather", "aaaaaaaaa"), tool("[1, 2]", "search", "bbbbbbbbb"),
                     assistant("Done."), user("More")],
        "tools": [WEATHER, SEARCH], "add_generation_prompt": True}
    yield "parts", {"messages": [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
                                 user([{"type": "text", "text": "One. "}, {"type": "text", "text": "Two."}]),
                                 assistant([{"type": "text", "text": "Three."}]), user("Four")],
                    "add_generation_prompt": True}
    yield "picture", {"messages": [user([{"type": "image", "image": "x.png"}, {"type": "text", "text": "What?"}])],
                      "add_generation_prompt": True}
    yield "documents", {"messages": [user("Summarise.")], "add_generation_prompt": True,
                        "documents": [{"title": "One", "text": "First text."}, {"title": "Zwei", "text": "Zweiter."}]}
    yield "no user", {"messages": [system("Only me.")], "add_generation_prompt": True}
    yield "two users", {"messages": [user("a"), user("b"), assistant("c")], "add_generation_prompt": False}
    yield "unknown role", {"messages": [user("a"), {"role": "critic", "content": "b"}], "add_generation_prompt": False}
    yield "developer", {"messages": [{"role": "developer", "content": "Rules."}, user("a")],
                        "add_generation_prompt": True}
    yield "empty", {"messages": [], "add_generation_prompt": True}
    yield "numbers", {"messages": [user(42), assistant(None), user(True)], "add_generation_prompt": True}
    yield "long", {"messages": [m for i in range(20) for m in (user(f"Question {i}"), assistant(f"Answer {i} " * i))],
                   "add_generation_prompt": False}


SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class FrozenDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)


def render(source, variables):
    try:
        template = chat_template_utils._compile_jinja_template(source)
        if "generation" not in source:
            return {"text": template.render(**variables), "spans": []}
        variables = dict(variables)
        text, spans = chat_template_utils._render_with_assistant_indices(
            template, variables.pop("messages"), variables.pop("tools"), variables.pop("documents"),
            variables.pop("add_generation_prompt"), **variables)
        return {"text": text, "spans": [[len(text[:at].encode()) for at in span] for span in spans]}
    except jinja2.TemplateError as error:
        raised = type(error) is jinja2.TemplateError
        return {"error": "raised" if raised else "failed", "message": str(error) if raised else "",
                "why": f"{type(error).__name__}: {error}"}
    except Exception as error:  # what Python itself raises
        return {"error": "failed", "message": "", "why": f"{type(error).__name__}: {error}"}


def shorten(result):
    text = result.get("text")
    if text is None:
        return {key: result[key] for key in ("error", "message") if result[key]}
    short = {"text": text} if len(text) <= LONGEST_IN_FULL else {
        "bytes": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return short | ({"spans": result["spans"]} if result["spans"] else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--whole", action="store_true", help="all texts in full, to standard output")
    options = parser.parse_args()
    chat_template_utils.datetime = FrozenDatetime
    cases = {name: {**SPECIAL, "tools": None, "documents": None, **variables} for name, variables in conversations()}
    results = {}
    for name in sorted(os.listdir(options.folder)):
        if not name.endswith(".jinja"):
            continue
        with open(os.path.join(options.folder, name), encoding="utf-8", newline="") as file:
            source = file.read()
        results[name] = {}
        for case, variables in cases.items():
            result = render(source, variables)
            if "from_json" in result.get("why", ""):
                continue  # ours has this filter, transformers has not
            results[name][case] = result if options.whole else shorten(result)
    golden = {"now": NOW, "conversations": cases, "templates": results}
    if options.whole:
        print(json.dumps(golden, ensure_ascii=False))
        return
    with open(os.path.join(HERE, "templates", "golden.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + f'"now": {NOW},\n"conversations": {{\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}"
                              for name, case in cases.items()))
        file.write('\n},\n"templates": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {{\n" + ",\n".join(
            f"{json.dumps(case)}: {json.dumps(result, ensure_ascii=False)}" for case, result in row.items()) + "\n}"
            for name, row in results.items()))
        file.write("\n}\n}\n")


if __name__ == "__main__":
    main()
