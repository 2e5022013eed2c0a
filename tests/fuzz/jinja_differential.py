#!/usr/bin/env python3
"""Random templates, rendered by our engine and by `transformers`' jinja2: run by hand, it needs transformers.

    tests/fuzz/jinja_differential.py [--seed N] [--count N] [--write FILE]

Each template is made of expressions, filters, tests, methods, slices, formats, loops, macros and white space control
over a few variables. Where jinja2 renders, ours must render the same or refuse it as not supported; where jinja2 fails,
ours must fail. What differs is printed. With --write the templates become a file of cases with what jinja2 made of
them, together with the ones that are written out in jinja_cases.txt: tests/golden/jinja/cases.json, which
tests/unit/text/test_jinja_cases.c renders.
"""
import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys

from transformers.utils import chat_template_utils

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RENDER = os.path.join(os.environ.get("MT_BUILD", os.path.join(ROOT, "build")), "tests", "e2e", "render_lines")

VARIABLES = {
    "s": "Hello, World", "t": "  naïve ÉCOLE 日本 \n\tx ", "e": "", "m": "a,b,,c", "h": "<a href=\"x\">&'y'</a>",
    "n": 7, "z": 0, "neg": -3, "f": 2.5, "g": 1e20, "big": 123456789012, "wide": 12345678901234567890, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "w": ["pear", "Apple", "fig", "apple"], "mix": [1, "a", None, 2.5, True, [1, 2], {"k": "v"}],
    "d": {"b": 2, "a": 1, "C": 3}, "o": {"name": "n\"1'", "items": [1, 2], "deep": {"x": [{"y": "é"}]}, "none": None},
    "rows": [{"r": "user", "c": "hi", "n": 1}, {"r": "tool", "c": "T<", "n": 3}, {"r": "user", "c": "bye"}],
    "pairs": [["x", 1], ["y", 2]], "lines": "one\ntwo\n\nthree\n", "html": "&lt;",
}
REFUSALS = ("EOPNOTSUPP", "EOVERFLOW")  # ENOTSUP is another name of the first
TEXTS = ["s", "t", "e", "m", "h", "lines"]
NUMBERS = ["n", "z", "neg", "f", "g", "big", "yes"]
LISTS = ["l", "w", "mix", "rows", "pairs"]
DICTS = ["d", "o"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def one(self, *choices):
        return self.r.choice(choices)

    def string(self):
        return self.one("''", "'a'", "','", "'l'", "' '", "'ab'", "\"it's\"", "'\\n'", "'é'", "'World'", "'%s'", "'<'",
                        "'x{}y'", "'0'", "'-12'", "'3.5'", "'1_0'", "'日本'", "'A b-c'", "'\\u00e9\\x41'")

    def small(self):
        return self.one("0", "1", "2", "3", "-1", "-2", "5", "10", "100")

    def number(self, depth):
        if depth <= 0:
            return self.one(*NUMBERS, self.small(), "1.5", "0.1", "1e3", "-0.0", "loop.index", "2.0")
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.one(f"({a} {self.one('+', '-', '*', '/', '//', '%')} {b})", f"-{self.number(0)}", f"{a}|abs",
                        f"{a}|round({self.one('0', '1', '2', '-1')})", f"{a}|int", f"{a}|float", f"({b} ** 2)",
                        f"{self.text(depth - 1)}|length", f"{self.list(depth - 1)}|length",
                        f"{self.text(depth - 1)}.count({self.string()})", f"{self.text(depth - 1)}.find({self.string()})",
                        f"[{a}, {b}]|max", f"[{a}, {b}]|sum", f"({self.any(depth - 1)})|int(default=5)",
                        f"{self.text(depth - 1)}|wordcount", f"{self.string()}|float")

    def text(self, depth):
        if depth <= 0:
            return self.one(*TEXTS, self.string(), "o.name", "rows[0].c", "w[1]")
        a, b = self.text(depth - 1), self.text(depth - 1)
        s = self.string()
        return self.one(
            f"({a} + {b})", f"({a} ~ {self.any(depth - 1)})", f"({a} * {self.one('0', '2', 'n', '-1')})",
            f"{a}|{self.one('upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'e', 'safe')}",
            f"{a}.{self.one('upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase', 'casefold')}()",
            f"{a}.{self.one('strip', 'lstrip', 'rstrip')}({s})", f"{a}.replace({s}, {b})", f"{a}|replace({s}, {b})",
            f"{a}.replace({s}, {b}, {self.small()})", f"{a}[{self.slice()}]", f"{a}[{self.small()}]",
            f"{s}.join({self.list(depth - 1)}|map('string'))", f"{self.list(depth - 1)}|join({s})",
            f"{self.any(depth - 1)}|tojson", f"{self.any(depth - 1)}|tojson(indent={self.one('0', '2', 'none')})",
            f"{self.any(depth - 1)}|tojson(sort_keys=true, ensure_ascii={self.one('true', 'false')})",
            f"{self.any(depth - 1)}|tojson(separators=(',', ':'))", f"{a}|indent({self.small()})",
            f"{a}|indent(2, true, {self.one('true', 'false')})", f"({self.any(depth - 1)})|string",
            f"'{self.one('{}', '{0}-{0}', '{:>8}', '{:^9}', '{!r}', '{:*<6}', '{:.3}')}'.format({self.any(depth - 1)})",
            f"'{self.one('{:d}', '{:5.2f}', '{:,}', '{:x}', '{:+}', '{:e}', '{:08.3f}', '{:%}', '{:g}')}'.format({self.number(depth - 1)})",
            f"'%{self.one('s', 'r', '5s', '-6s|', '.2s')}' % {self.one('', '(')}{a}{self.one('', ',)') if False else ''}".replace("% (", "% "),
            f"('%{self.one('d', '5d', '05d', 'i', 'x', '.2f', 'e', 'g', '+d', 's')}' % {self.number(depth - 1)})",
            f"'%s-%s'|format({a}, {self.any(depth - 1)})", f"{a}|truncate({self.one('3', '5', '8')}, {self.one('true', 'false')}, '..', 0)",
            f"{a}|center({self.one('5', '20')})", f"{a}.{self.one('ljust', 'rjust', 'center')}({self.one('3', '15')}, '*')",
            f"{a}.zfill({self.one('3', '9')})", f"{a}.removeprefix({s})", f"{a}.removesuffix({s})", f"{a}|default({b}, true)",
            f"({a} if {self.bool(depth - 1)} else {b})", f"{a}.split({s})[0]", f"{a}|urlencode", f"{a}|first", f"{a}|last",
            f"{self.dict(depth - 1)}.get({s}, {b})", f"{a}|forceescape", f"{self.number(depth - 1)}|filesizeformat")

    def slice(self):
        part = lambda: self.one("", "", self.small())
        return f"{part()}:{part()}" + self.one("", "", f":{self.one('', '1', '2', '-1', '-2')}")

    def list(self, depth):
        if depth <= 0:
            return self.one(*LISTS, "[]", "[1, 'x', none]", "range(3)", "range(5, 0, -2)", "()", "(1,)", "(1, 'a')")
        a = self.list(depth - 1)
        return self.one(
            f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", f"({a} + {self.list(depth - 1)})", f"{a}[{self.slice()}]",
            f"{a}|list", f"{a}|reverse|list", f"{a}|sort", f"{a}|sort(reverse=true)", f"{a}|unique|list",
            f"{a}|map('{self.one('string', 'upper', 'length', 'tojson', 'int', 'list')}')|list",
            f"{a}|select('{self.one('string', 'number', 'defined', 'none', 'mapping', 'iterable', 'odd')}')|list",
            f"{a}|reject('{self.one('string', 'number', 'none', 'sequence')}')|list", f"{a}|select|list",
            f"rows|selectattr('r', '{self.one('equalto', '==', 'eq', 'ne', 'in')}', '{self.one('user', 'tool')}')|list",
            f"rows|{self.one('selectattr', 'rejectattr')}('{self.one('n', 'r', 'q')}'{self.one('', chr(44) + chr(39) + 'defined' + chr(39))})|list",
            f"rows|map(attribute='{self.one('r', 'n', 'c')}'{self.one('', ', default=9')})|list", f"({a} * 2)",
            f"{self.dict(depth - 1)}|dictsort", f"{self.dict(depth - 1)}|items|list", f"{self.dict(depth - 1)}.items()|list",
            f"{self.dict(depth - 1)}.keys()|list", f"{self.dict(depth - 1)}.values()|list", f"{self.dict(depth - 1)}|list",
            f"{self.text(depth - 1)}.split({self.one('', self.string(), self.string() + ', 1')})", f"{self.text(depth - 1)}|list",
            f"{self.text(depth - 1)}.{self.one('rsplit', 'split')}({self.one('none, 1', self.string() + ', 2')})",
            f"{self.text(depth - 1)}.splitlines({self.one('', 'true')})", f"{self.text(depth - 1)}.{self.one('partition', 'rpartition')}({self.string()})",
            f"{a}|batch(2{self.one('', ', 0')})|list", f"{a}|slice(2{self.one('', ', 0')})|list",
            f"rows|groupby('{self.one('r', 'c')}')", f"rows|sort(attribute='{self.one('r', 'c', 'r,c')}')", f"dict(x=1)|dictsort(by='value')",
            f"w|{self.one('sort', 'unique')}(case_sensitive=true)|list", f"d|dictsort({self.one('true', 'false')}, '{self.one('key', 'value')}')")

    def dict(self, depth):
        if depth <= 0:
            return self.one(*DICTS, "{}", "{'a': 1, 'b': [1]}", "dict(a=1)", "rows[0]", "{1: 'i', 'k': none, true: 2.0}")
        return self.one(f"{{{self.string()}: {self.any(depth - 1)}}}", f"dict({self.dict(depth - 1)}, q={self.any(depth - 1)})", "o.deep",
                        f"dict({self.dict(depth - 1)}|dictsort)", f"{self.dict(depth - 1)}.copy()")

    def bool(self, depth):
        a = self.any(depth - 1)
        return self.one(
            f"{a} {self.one('==', '!=', '<', '<=', '>', '>=')} {self.any(depth - 1)}", f"{self.number(depth - 1)} < {self.number(depth - 1)}",
            f"{self.text(depth - 1)} {self.one('<', '==', '>=')} {self.text(depth - 1)}", f"{self.string()} {self.one('in', 'not in')} {self.text(depth - 1)}",
            f"{a} {self.one('in', 'not in')} {self.list(depth - 1)}", f"{self.string()} in {self.dict(depth - 1)}", f"not {a}",
            f"{a} is {self.one('', 'not ')}{self.one('defined', 'none', 'string', 'number', 'integer', 'float', 'boolean', 'true', 'false', 'mapping', 'sequence', 'iterable', 'undefined', 'callable', 'escaped')}",
            f"{self.number(depth - 1)} is {self.one('odd', 'even', 'divisibleby 3', 'eq 2', 'ge 3', 'lessthan(4)')}",
            f"{self.text(depth - 1)}.{self.one('startswith', 'endswith')}({self.one(self.string(), '(' + self.string() + ', ' + self.string() + ')')})",
            f"{self.text(depth - 1)} is {self.one('lower', 'upper')}", f"1 < {self.number(depth - 1)} <= 7",
            f"{self.text(depth - 1)}.{self.one('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isascii', 'isprintable')}()",
            f"{a} is sameas {self.one('none', 'true', 'false')}", f"{a} is in {self.list(depth - 1)}", f"'{self.one('upper', 'nope')}' is filter")

    def any(self, depth):
        if self.r.random() < 0.12:
            return self.one("nil", "missing", "o.missing", "rows[2].n", "l[9]", "o['items']", "o.items", "d.get('q')", "true", "none",
                            "(s|safe)", "(h|e)", "namespace(a=1).a", "cycler(1, 2).next()", "m[0:0]", "(1 if no)", "loop.first")
        kind = self.r.randrange(7)
        if kind == 0 and depth > 0:
            return f"({self.any(depth - 1)} {self.one('and', 'or')} {self.any(depth - 1)})"
        if kind == 1 and depth > 0:
            return f"({self.bool(depth)})"
        return [self.text, self.number, self.text, self.list, self.dict, self.number, self.text][kind](depth)

    def blank(self):
        return self.one("", "", "", " ", "\n", "  \n  ", "\n\n", "x", " y\n", "\t")

    def tag(self, inner):
        return "{%" + self.one("", "", "-", "+") + f" {inner} " + self.one("", "", "-", "+") + "%}"

    def output(self, depth):
        return "{{" + self.one("", "", "-") + f" {self.any(depth)} " + self.one("", "", "-") + "}}"

    def body(self, depth):
        return "".join(self.blank() + self.statement(depth) for _ in range(self.r.randrange(1, 3))) + self.blank()

    def statement(self, depth):
        if depth <= 0 or self.r.random() < 0.35:
            return self.output(max(depth, 1))
        b = self.body(depth - 1)
        kind = self.r.randrange(14)
        if kind == 0:
            return self.tag(f"if {self.bool(1)}") + b + self.one("", self.tag("else") + self.body(depth - 1)) + self.tag("endif")
        if kind == 1:
            return self.tag(f"for x in {self.list(1)}{self.one('', ' if x', ' if x is string')}") + b + \
                self.one("{{ x }}", "{{ loop.index0 }}{{ ',' if not loop.last }}", "{{ loop.nextitem }}{{ loop.length }}",
                         "{{ loop.previtem|default('^') }}{{ loop.revindex }}", "{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}",
                         self.tag(f"if x == {self.string()}") + self.tag(self.one("break", "continue")) + self.tag("endif") + "{{ x }}") + \
                self.one("", self.tag("else") + "none") + self.tag("endfor")
        if kind == 2:
            return self.tag(f"for a, b in {self.one('d.items()', 'pairs', 'd|dictsort', 'o|items')}") + b + "{{ a }}={{ b }}" + self.tag("endfor")
        if kind == 3:
            return self.tag(f"set v = {self.any(1)}") + b + "{{ v }}"
        if kind == 4:
            return self.tag(f"set v{self.one('', ' | upper', ' | trim | length')}") + b + self.tag("endset") + "[{{ v }}]"
        if kind == 5:
            return self.tag(f"macro f(p, q={self.any(1)})") + b + "{{ p }}{{ q }}" + self.one("", "{{ kwargs }}{{ varargs }}") + self.tag("endmacro") + \
                "{{ f(" + self.one("1", "s, 2", "q=3", "", "p=l", "1, 2, 3", "1, z=2") + ") }}"
        if kind == 6:
            return self.tag(f"set ns = namespace(v={self.any(1)}, c=0)") + self.tag(f"for x in {self.list(0)}") + \
                self.tag("set ns.v = " + self.one("x", "loop.index", "ns.c")) + self.tag("set ns.c = ns.c + 1") + self.tag("endfor") + "{{ ns.v }}{{ ns.c }}"
        if kind == 7:
            return self.tag(f"with v = {self.any(1)}, u = {self.any(0)}") + b + "{{ v }}{{ u }}" + self.tag("endwith")
        if kind == 8:
            return self.tag(f"filter {self.one('upper', 'trim', 'indent(2)', 'replace(' + self.string() + ', 1)')}") + b + self.tag("endfilter")
        if kind == 9:
            return self.tag("macro g(k='')") + "<{{ k }}{{ caller(" + self.one("", "k", "1, 2") + ") }}>" + self.tag("endmacro") + \
                self.tag(f"call{self.one('', '(y)', '(y=3)')} g({self.any(0)})") + b + "{{ y }}" + self.tag("endcall")
        if kind == 10:
            return "{#" + self.one("", "-", "+") + f" {self.one('a', '%}', chr(10))} " + self.one("", "-", "+") + "#}" + b
        if kind == 11:
            return self.tag("raw") + self.one("{{ x }}", " {% if %} \n") + self.tag("endraw")
        if kind == 12:
            return self.tag("generation") + b + self.tag("endgeneration")
        return self.tag(f"set a, b = {self.one('1, 2', 's, l', 'pairs', '(1,)', 'm.split(' + self.string() + ', 1)')}") + "{{ a }}|{{ b }}" + b


class TooLong(Exception):
    pass


def expected(source):
    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        template = chat_template_utils._cached_compile_jinja_template(source)
        text = template.render(**json.loads(json.dumps(VARIABLES)))
        return {"skip": True} if " object at 0x" in text or "<function" in text else {"text": text}
    except TooLong:
        return {"skip": True}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def written_cases():
    with open(os.path.join(ROOT, "tests", "fuzz", "jinja_cases.txt"), encoding="utf-8", newline="") as file:
        return [case for case in file.read().split("\n----\n") if case]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    maker = Maker(options.seed)
    written = written_cases()
    sources = written + [maker.body(1) if i % 3 else "{{ " + maker.any(maker.one(1, 2, 3)) + " }}" for i in range(options.count)]
    wanted = [expected(source) for source in sources]
    requests = "".join(json.dumps({"template": source, "variables": VARIABLES}) + "\n" for source in sources)
    done = subprocess.run([RENDER], input=requests.encode(), capture_output=True)
    answers = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    if len(answers) != len(sources):
        print(f"the program stopped at {sources[len(answers)]!r}\n{done.stderr.decode()[-3000:]}")
        return 1
    counts = collections.Counter()
    cases = []
    for i, (source, want, got) in enumerate(zip(sources, wanted, answers)):
        if "skip" in want:
            kind = "skipped"
        elif "error" in want:
            kind = "both fail" if "error" in got else "must fail"
        elif "error" in got:
            kind = "refused" if got["code"] in REFUSALS else "fails"
        else:
            kind = "same" if got["text"] == want["text"] else "differs"
        counts[kind] += 1
        if kind in ("must fail", "fails", "differs") or (kind == "refused" and (i < len(written) or options.show > 1000)):
            if counts["shown"] < options.show:
                counts["shown"] += 1
                print(f"{kind}: {source!r}\n    jinja2 {want}\n    ours   {got}")
        if kind == "same" or (kind == "both fail" and (i % 4 == 0 or i < len(written))):
            cases.append({"template": source, **({"text": want["text"]} if "text" in want else {"fails": True})})
    print(dict(counts))
    if options.write:
        with open(options.write, "w", encoding="utf-8") as file:
            file.write('{\n"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ',\n"cases": [\n')
            file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases if len(json.dumps(case)) < 1500))
            file.write("\n]\n}\n")
    return int(any(counts[kind] for kind in ("must fail", "fails", "differs")))


if __name__ == "__main__":
    sys.exit(main())
