#!/bin/sh
# Installs what is missing of the given sections (build, test, lint) of packaging/packages.txt, and says so.
# Silent when nothing is missing. Where there is no apt, it names what is missing and leaves it to you.
#   install-packages.sh SECTION...           install
#   install-packages.sh --check SECTION...   only say what is missing, and fail when something is
set -eu
list=$(dirname "$0")/packages.txt
check=no
if [ "$1" = --check ]; then
    check=yes
    shift
fi

# Lines "package what-for" of the sections named.
wanted=$(awk -v sections=" $* " '
    /^#/ || NF == 0 { next }
    /^\[/ { taken = index(sections, " " substr($1, 2, length($1) - 2) " ") > 0; next }
    taken { print }' "$list")
names=$(printf '%s\n' "$wanted" | awk '{ print $1 }')

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    missing=
    for tool in gcc make pkg-config python3 curl; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    # The Makefile hands over the libraries that it asks pkg-config for.
    for library in ${LIBRARIES:-}; do
        ! command -v pkg-config >/dev/null || pkg-config --exists "$library" || missing="$missing $library"
    done
    [ -z "$missing" ] && exit 0
    echo "This system has no apt-get. Please install:$missing" >&2
    echo "(packaging/packages.txt has the names that Debian gives them.)" >&2
    exit 1
fi

# shellcheck disable=SC2086 # names are words
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $names 2>/dev/null | awk '$1 == "installed" { print $2 }')
missing=
for name in $names; do
    case "
$installed
" in
    *"
$name
"*) ;;
    *) missing="$missing $name" ;;
    esac
done
[ -z "$missing" ] && exit 0

if [ $check = yes ]; then
    echo "Packages that MegaTrain needs are missing:$missing" >&2
    echo "To install them: packaging/install-packages.sh $*   (make check and make demo do it, too)" >&2
    exit 1
fi

echo "Installing packages that MegaTrain needs (list: packaging/packages.txt):"
for name in $missing; do
    printf '%s\n' "$wanted" | awk -v name="$name" '$1 == name { $1 = ""; printf "  %-20s%s\n", name, $0 }'
done

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Not root, and no sudo here. As root: apt-get install -y --no-install-recommends$missing" >&2
        exit 1
    fi
    as_root="sudo"
    echo "(through sudo, which may ask for your password)"
fi

run() {
    echo "+ $*"
    "$@"
}
run $as_root apt-get update -q
# shellcheck disable=SC2086
run $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
