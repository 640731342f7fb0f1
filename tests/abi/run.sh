#!/usr/bin/env bash
# Compares the binary interface that the headers describe with the committed description, tests/abi/coterie.abi. What was
# added passes and is listed; what was changed or taken away fails. After a deliberate change: run.sh SOURCE SCRATCH --accept
# usage: run.sh SOURCE SCRATCH [--accept]
set -euo pipefail
source=$1 scratch=$2
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: abigail-tools is not installed; ./dev test installs it"; exit 77; }
mkdir -p "$scratch"
baseline=$source/tests/abi/coterie.abi
# A definition for every function, from the headers themselves, in a library of its own: a description made from the real
# one would be full of C++.
{
    echo '#include <coterie/coterie.h>'
    echo '#include <coterie/coterie_experimental.h>'
    printf '#include <coterie/coterie.h>\n#include <coterie/coterie_experimental.h>\n' |
        cc -E -P -DCOTERIE_BUILD -I"$source/include" - | tr '\n' ' ' |
        grep -oE '__attribute__\(\(visibility\("default"\)\)\) [^;]*;' | sed -E 's/^[^ ]* //; s/;$//' |
        while IFS= read -r function; do
            case $function in
                void*) echo "$function {}" ;;
                *) echo "$function { return 0; }" ;;
            esac
        done
} >"$scratch/probe.c"
cc -std=c99 -g -shared -fPIC -w -I"$source/include" "$scratch/probe.c" -o "$scratch/libprobe.so"
exported=$(nm -D --defined-only "$scratch/libprobe.so" | awk '{print $3}' | LC_ALL=C sort)
[[ $exported == "$(cat "$source/capi/exports.txt")" ]] || { echo "FAILED: the headers don't declare what capi/exports.txt lists"; diff <(echo "$exported") "$source/capi/exports.txt"; exit 1; }
abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$scratch/libprobe.so" >"$scratch/coterie.abi"
if [[ ${3:-} == --accept ]]; then
    cp "$scratch/coterie.abi" "$baseline"
    echo "accepted"
    exit 0
fi
status=0
abidiff "$baseline" "$scratch/coterie.abi" || status=$?
# Bits: 1 an error of the tool, 2 wrong use, 4 a difference, 8 an incompatible one.
((status & 3)) && { echo "FAILED: abidiff ended with $status"; exit 1; }
((status & 8)) && { echo "FAILED: the binary interface is broken; before 1.0 that may be, deliberately: see tests/abi/run.sh"; exit 1; }
((status & 4)) && { echo "FAILED: the binary interface has grown or a struct has changed (above). If it is meant: tests/abi/run.sh SOURCE SCRATCH --accept"; exit 1; }
echo "the binary interface is the committed one"
