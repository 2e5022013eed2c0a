#!/bin/sh
# Prints C source that holds the given migration files (migrations/NNNN_name.sql) as strings, in the shape of
# core/queue/migrations.h.
set -eu

echo '/* Made from migrations/ by packaging/embed-migrations.sh. */'
echo '#include "core/queue/migrations.h"'
echo
echo 'const struct mt_migration mt_migrations[] = {'
previous=0
for file in "$@"; do
    name=$(basename "$file" .sql)
    number=$(printf '%s\n' "$name" | sed -n 's/^0*\([1-9][0-9]*\)_.*/\1/p')
    if [ -z "$number" ]; then
        echo "$file: a migration is named NNNN_what_it_does.sql" >&2
        exit 1
    fi
    if [ "$number" -ne $((previous + 1)) ]; then
        echo "$file: migration $((previous + 1)) is missing or there twice" >&2
        exit 1
    fi
    previous=$number
    printf '    {%d, "%s",\n' "$number" "$name"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
    echo '    },'
done
echo '};'
echo "const size_t mt_migrations_count = $#;"
