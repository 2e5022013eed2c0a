#!/usr/bin/env python3
"""/openapi.json describes what the server does: every reference resolves, and every call answers as written."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from api import UNKNOWN_ID, Server, case, equal, run_cases  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
server = Server()
document = server.get("/openapi.json").json
schemas = document["components"]["schemas"]


def walk(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


def resolve(schema):
    while "$ref" in schema:
        place = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        schema = place
    return schema


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "number": (int, float),
         "integer": int}


def conforms(value, schema, where="$"):
    """Checks a value against the part of JSON Schema that the document uses; refuses keywords it does not know."""
    schema = resolve(schema)
    known = {"type", "properties", "required", "items", "enum", "anyOf", "pattern", "format", "description", "minimum",
             "maximum", "maxItems", "additionalProperties", "minLength", "maxLength", "default"}
    assert set(schema) <= known, (where, set(schema) - known)
    if "anyOf" in schema:
        faults = []
        for choice in schema["anyOf"]:
            try:
                conforms(value, choice, where)
                break
            except AssertionError as fault:
                faults.append(fault)
        else:
            raise AssertionError(f"{where}: {value!r} fits none: {faults}")
    if "enum" in schema:
        assert value in schema["enum"], (where, value)
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        fits = any(isinstance(value, TYPES[t]) and (t == "boolean" or not isinstance(value, bool)) for t in types)
        assert fits, f"{where}: {value!r} is not {types}"
    if isinstance(value, str) and "pattern" in schema:
        assert re.search(schema["pattern"], value), (where, value)
    if isinstance(value, dict):
        for name in schema.get("required", []):
            assert name in value, f"{where} lacks {name}"
        for name, inner in value.items():
            if name in schema.get("properties", {}):
                conforms(inner, schema["properties"][name], f"{where}.{name}")
            elif isinstance(schema.get("additionalProperties"), dict):
                conforms(inner, schema["additionalProperties"], f"{where}.{name}")
            else:
                assert schema.get("additionalProperties", True), f"{where}: {name} is not in the schema"
    if isinstance(value, list):
        assert len(value) <= schema.get("maxItems", len(value)), where
        for i, inner in enumerate(value):
            conforms(inner, schema.get("items", {}), f"{where}[{i}]")


def check(answer, operation):
    """An answer is one of those that the document lists for the call."""
    listed = operation["responses"].get(str(answer.status))
    assert listed, f"{answer.status} is not documented"
    kind = answer.headers.get("Content-Type", "").split(";")[0]
    if "content" not in listed:
        equal(answer.body, b"")
        return
    assert kind in listed["content"], f"{kind} is not documented for {answer.status}"
    if kind.endswith("json"):
        conforms(answer.json, listed["content"][kind]["schema"])


@case
def the_document_has_the_form_of_openapi_3_1():
    equal(document["openapi"], "3.1.0")
    equal(sorted(document["info"]), ["description", "license", "title", "version"])
    ids = []
    for path, item in document["paths"].items():
        assert path.startswith("/")
        placeholders = set(re.findall(r"{(\w+)}", path))
        for method, operation in item.items():
            assert method in ("get", "post", "put", "delete", "patch"), method
            ids.append(operation["operationId"])
            assert operation["summary"].endswith("."), operation
            equal({p["name"] for p in operation["parameters"] if p["in"] == "path"}, placeholders)
            names = [(p["name"], p["in"]) for p in operation["parameters"]]
            equal(len(names), len(set(names)))
            for parameter in operation["parameters"]:
                assert parameter["in"] in ("path", "query", "header") and "schema" in parameter
                assert parameter["in"] != "path" or parameter["required"] is True
            assert operation["responses"]
            for status, response in operation["responses"].items():
                assert re.fullmatch(r"[1-5]\d\d", status) and response["description"]
                for media in response.get("content", {}).values():
                    assert media["schema"], (path, status)
    equal(len(ids), len(set(ids)))


@case
def every_reference_resolves_and_every_schema_is_used():
    used = {"JobDocument"}
    for value in walk({"paths": document["paths"], "schemas": schemas}):
        if isinstance(value, dict) and isinstance(value.get("$ref"), str):
            resolve(value)
            used.add(value["$ref"].rsplit("/", 1)[1])
    equal(used, set(schemas))
    posted = document["paths"]["/jobs"]["post"]["requestBody"]
    equal((posted["required"], list(posted["content"])), (True, ["application/json"]))
    equal(posted["content"]["application/json"]["schema"], {"$ref": "#/components/schemas/JobDocument"})
    for key in ["model", "dataset", "training", "optimizer", "checkpoint", "device"]:
        assert key in schemas["JobDocument"]["properties"], key


def running_job():
    """A job that runs, and has written something of everything."""
    job = server.submit(state="running", model={"path": "x"})
    folder = server.job_folder(job)
    with open(os.path.join(folder, "metrics.jsonl"), "w") as file:
        for step in (1, 2):
            file.write('{"step": %d, "loss": 2.5, "grad_norm": 1, "time": "2026-01-31T12:00:00Z", "learning_rate": 0.1}\n' % step)
    with open(os.path.join(folder, "log.jsonl"), "w") as file:
        file.write('{"time": "2026-01-31T12:00:00Z", "level": "info", "message": "m", "extra": [1]}\n')
    os.makedirs(os.path.join(folder, "checkpoints", "step-00000001"))
    return job


@case
def every_call_answers_as_documented():
    seen = set()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for job in [running_job(), server.submit(), server.submit(state="paused"), server.submit(state="failed"),
                        UNKNOWN_ID, "nonsense"]:
                where = path.replace("{id}", job)
                bodies = [None]
                if "requestBody" in operation:
                    bodies = [b"", b"{}", b'{"bad": true}', b'{"full": true}', b'{"stopping": true}', b"{", b"[]",
                              b'{"broken": true}', b" " * (1 << 20) + b"{}"]
                for body in bodies:
                    headers = {} if body is None else {"Content-Type": "application/json"}
                    answer = server.ask(method.upper(), where, body, headers)
                    check(answer, operation)
                    seen.add((path, method, answer.status))
                if body is not None:
                    check(server.ask(method.upper(), where, b"{}", {"Content-Type": "text/plain"}), operation)
                for headers in [{"Host": "evil.example"}, {"Origin": "http://evil.example"},
                                {"Accept": "application/json"}, {"Accept": "text/plain"}, {"Accept": "text/html"},
                                {"Accept": "application/openmetrics-text"}]:
                    check(server.ask(method.upper(), where, None, headers), operation)
                for query in ["?limit=0", "?nonsense=1", "?after=nonsense", "?follow=9"]:
                    check(server.ask(method.upper(), where + query, None), operation)
                if "{id}" not in path:
                    break
    # Not a document of errors alone: each call was seen to succeed, and each named conflict was seen.
    for path, item in document["paths"].items():
        for method, operation in item.items():
            first = next(iter(operation["responses"]))
            assert (path, method, int(first)) in seen, (path, method, first)
            if "409" in operation["responses"] and path != "/jobs":
                assert (path, method, 409) in seen, (path, method)


@case
def the_document_names_its_token_only_where_one_is_needed():
    assert "security" not in document
    with Server("--token", "secret") as fresh:
        made = fresh.ask("GET", "/openapi.json", headers={"Authorization": "Bearer secret"}).json
        equal(made["security"], [{"bearer": []}])
        equal(made["paths"]["/healthz"]["get"]["security"], [])
        assert "secret" not in json.dumps(made["components"].get("securitySchemes"))


@case
def the_page_of_the_manual_names_every_call():
    with open(os.path.join(ROOT, "docs/api.md"), encoding="utf-8") as file:
        manual = file.read()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert f"{method.upper()} {path}" in manual, f"{method.upper()} {path} is not in docs/api.md"
            for parameter in operation["parameters"]:
                if parameter["in"] != "path":
                    assert f"`{parameter['name']}" in manual, (path, parameter["name"])


@case
def it_stops_cleanly():
    server.stop()


run_cases()
