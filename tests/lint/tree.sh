#!/bin/sh
# The checks of `make lint` that look at the whole tree: formatting, layering, unfinished marks, shell syntax.
# (What looks at one C file at a time is a rule of the Makefile, so that it runs again only when that file or a
# header of it changed.)
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0

files() {
    find api core daemon gpu tests -name "$1" -type f 2>/dev/null | sort
}

say() {
    printf '  %-7s %s\n' LINT "$1"
}

say "formatting"
{ files '*.c'; files '*.h'; files '*.cc'; files '*.cu'; } | xargs -r clang-format --dry-run -Werror || failed=1

say "layering of the folders"
python3 tests/lint/floors.py || failed=1

say "unfinished marks"
# The letters are set apart so that this line does not find itself.
if grep -rnwIE 'TO''DO|FIX''ME|X''XX' --exclude-dir=build --exclude-dir=.git --exclude-dir=shared --exclude-dir=runs .; then
    echo "lint: unfinished marks (above): finish the work, or file an issue" >&2
    failed=1
fi

say "functions that have a better one"
# No bound, no error, or no safety between threads: strto*, snprintf, strtok_r, mt_random_*, posix_spawn instead.
if grep -nwE '(atoi|atol|atoll|atof|gets|sprintf|vsprintf|strtok|rand|srand|system|popen|tmpnam|mktemp) ?\(' \
    $(files '*.c') $(files '*.h'); then
    echo "lint: use what the comment in tests/lint/tree.sh names instead of these functions" >&2
    failed=1
fi

say "shell and Python syntax"
for script in $(files '*.sh') packaging/*.sh .ci/run $(find demo -name '*.sh' 2>/dev/null); do
    case $(head -n 1 "$script") in
    *bash*) bash -n "$script" || failed=1 ;;
    *) sh -n "$script" || failed=1 ;;
    esac
done
for script in $(files '*.py'); do
    python3 - "$script" <<'PYTHON' || failed=1
import ast, sys
with open(sys.argv[1], encoding="utf-8") as file:
    ast.parse(file.read(), sys.argv[1])
PYTHON
done

exit $failed
