#!/usr/bin/env python3
"""Every test that docs/pains.md names exists, and is run; and a published pain that needs a real vocabulary.
time limit: 900 s"""
import ast
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e", "support"))
import consumers  # noqa: E402
from megatraind import Skipped, case, run_cases  # noqa: E402
from training import MEGATRAIN  # noqa: E402


def without_comments_and_texts(source):
    """C as the compiler takes it: no comments, no texts, nothing between #if 0 and #endif."""
    source = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', " ", source, flags=re.S)
    return re.sub(r"^#\s*if 0\b.*?^#\s*endif", "", source, flags=re.S | re.M)


def is_c_test(source, name):
    """Defined, with a body, and an entry of a table of tests: cmocka_unit_test(name), or another macro around it."""
    source = without_comments_and_texts(source)
    if not re.search(rf"\bstatic void {name}\(void \*\*state\)\s*\{{", source) or "cmocka_run_group_tests" not in source:
        return False
    tables = re.findall(r"\bstruct CMUnitTest\s+\w+\[\]\s*=\s*\{(.*?)\};", source, re.S)
    macros = dict(re.findall(r"^#define (\w+)\([^)]*\)((?:.*\\\n)*.*)", source, re.M))  # the file's own, which fill its tables
    tables += [macros[word] for table in tables for word in set(re.findall(r"\w+", table)) if word in macros]
    return any(re.search(rf"\b{name}\b", table) for table in tables)


def is_python_test(source, name):
    """A function of the module with @case before it, in a module that runs its cases."""
    module = ast.parse(source)
    cases = [one.name for one in module.body if isinstance(one, ast.FunctionDef) and any(
        isinstance(part, ast.Name) and part.id == "case" for mark in one.decorator_list for part in ast.walk(mark))]
    runs = any(isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "run_cases"
               for one in module.body if not isinstance(one, ast.FunctionDef) for part in ast.walk(one))
    return name in cases and runs


def is_run(path, name):
    """Whether `make check` runs the test: its file is one of those that the Makefile finds, and has it."""
    is_c = re.fullmatch(r"tests/unit/\w+/test_\w+\.c", path)
    if not is_c and not re.fullmatch(r"tests/e2e/\w+\.py", path):
        return False
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            source = file.read()
    except FileNotFoundError:
        return False
    return (is_c_test if is_c else is_python_test)(source, name)


C_TEST = """
static void runs(void **state) { (void)state; }
static void called(void **state) { runs(state); } /* mt_test_in_folder(commented) */
static void commented(void **state) { }
#if 0
static void left_out(void **state) { }
#endif
int main(void)
{
    // cmocka_unit_test(commented)
    const char *text = "cmocka_unit_test(named)";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs), WITH_QUEUE(left_out), /* cmocka_unit_test(called), */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
"""
PYTHON_TEST = '''
@case
def runs():
    """
@case
def told():
    """

# @case
def plain():
    pass

@Daemon.case(workers=2)
def with_arguments():
    pass

run_cases()
'''


@case
def a_name_that_is_merely_mentioned_is_no_test():
    for name, wanted in (("runs", True), ("called", False), ("commented", False), ("left_out", False), ("named", False)):
        assert is_c_test(C_TEST, name) is wanted, name
    assert not is_c_test(C_TEST.replace("cmocka_run_group_tests", "nothing"), "runs")
    for name, wanted in (("runs", True), ("told", False), ("plain", False)):
        assert is_python_test(PYTHON_TEST, name) is wanted, name
    assert not is_python_test(PYTHON_TEST.replace("run_cases()", "# run_cases()"), "runs")
    assert not is_run("tests/e2e/support/training.py", "tiny")


@case
def every_fault_has_its_tests():
    with open(os.path.join(ROOT, "docs", "pains.md"), encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("|") and not line.startswith(("|---", "| fault"))]
    assert len(rows) >= 30, rows
    for row in rows:
        named = re.findall(r"`([\w./]+): (\w+)`", row)
        assert named, row
        for path, name in named:
            assert is_run(path, name), f"{path}: {name}"


@case
def the_ids_of_llama_2_are_the_published_ones():
    folder, why = consumers.source_files("llama-cpp-python", r"/models/ggml-vocab-[^/]+\.(gguf|inp|out)$", "vocabularies")
    if why:
        raise Skipped(why)
    done = subprocess.run([MEGATRAIN, "tokenize", "--model", os.path.join(folder, "ggml-vocab-llama-spm.gguf")],
                          input="This is \N{LLAMA}.cpp".encode(), capture_output=True, check=True)
    assert done.stdout.split() == b"1 910 338 29871 243 162 169 156 29889 8223".split(), done.stdout


run_cases()
