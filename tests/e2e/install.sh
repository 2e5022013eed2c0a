#!/bin/bash
# make install puts everything where it belongs, and megatraind stands on nothing that computes.
# time limit: 600 s
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=$(mktemp -d "${TMPDIR:-/tmp}/megatrain-test-XXXXXX")
trap 'rm -rf "$folder"' EXIT
failed=0

check() { # name, then a command that must succeed
    local name=$1
    shift
    if "$@" >"$folder/output" 2>&1; then
        echo "ok $name"
    else
        failed=1
        cat "$folder/output"
        echo "not ok $name: $*"
    fi
}

root=$folder/root
before=$(stat -c %y "$MT_BUILD/megatraind")
check installs_into_destdir make install BUILD="$MT_BUILD" DESTDIR="$root" PREFIX=/usr
check what_is_built_is_not_linked_again test "$before" = "$(stat -c %y "$MT_BUILD/megatraind")"
for program in megatraind megatrain-worker megatrain; do
    check "${program}_is_installed_and_runs" "$root/usr/bin/$program" --help
done
finds_presets() { # where it is installed, with no other place named
    env -u MEGATRAIN_PRESETS "$1/megatrain" plan smollm2-135m --json | grep -q '"parameters": *134515008'
}
check presets_are_found_by_what_is_run_in_its_destdir finds_presets "$root/usr/bin"
check documents_are_installed test -s "$root/usr/share/doc/megatrain/LICENSE"

links_without() { # program, pattern
    ldd "$1" && ! ldd "$1" | grep -E "$2"
}
check megatraind_links_no_mathematics links_without "$MT_BUILD/megatraind" 'openblas|lapack|gfortran|cuda|cublas'
check the_worker_links_no_server links_without "$MT_BUILD/megatrain-worker" 'microhttpd|sqlite'
exit $failed
