#!/usr/bin/env bash
# Installs the library into a folder, builds examples/embed against it in every way a host may (CMake package with the
# shared and the static library, pkg-config with both, as a subdirectory), and runs each program.
# usage: run.sh SOURCE BUILD SCRATCH [SANITIZERS]
set -euo pipefail
source=$1 build=$2 scratch=$3 sanitizers=${4:-}
if [[ -n $sanitizers ]]; then
    echo "skipped: programs without the sanitizers' runtime can't load a library that needs it"
    exit 77
fi
model=$source/tests/data/golden/qwen3moe.gguf
rm -rf "$scratch" "$scratch-subdirectory"
mkdir -p "$scratch"
cd "$scratch"
fail() {
    echo "FAILED: $*"
    exit 1
}

# Runs the three programs of a folder.
try() {
    local name=$1 folder=$2 text
    text=$(timeout 60 "$folder/embed_c" "$model" "Hello" 2>&1) || fail "$name: embed_c: $text"
    grep -q "loading: done" <<<"$text" || fail "$name: embed_c told no progress: $text"
    text=$(timeout 60 "$folder/embed_c" /nowhere.gguf "Hello" 2>&1) && fail "$name: embed_c succeeded without a model"
    grep -q "not found.*/nowhere.gguf" <<<"$text" || fail "$name: embed_c: $text"
    text=$(timeout 60 "$folder/embed_cpp" "$model" 2>&1) || fail "$name: embed_cpp: $text"
    grep -qE "^[0-9]+ tokens" <<<"$text" && grep -q "similarity" <<<"$text" || fail "$name: embed_cpp: $text"
    text=$(printf 'one\ntwo\nthree\n' | timeout 60 "$folder/embed_poll" "$model" 2>&1) || fail "$name: embed_poll: $text"
    [[ $(grep -c ": ended (" <<<"$text") == 3 ]] || fail "$name: embed_poll: $text"
    text=$({ printf 'one\n'; sleep 0.1; printf 'stop\n'; } | timeout 60 "$folder/embed_poll" "$model" 2>&1) || fail "$name: embed_poll: $text"
    echo "$name: ok"
}

for component in library development; do
    cmake --install "$build" --prefix "$scratch/prefix" --component $component >install.log || fail "cmake --install: $(tail -5 install.log)"
done
# A prefix may be moved after the installation.
mv prefix moved
prefix=$scratch/moved
library=$(dirname "$(find "$prefix" -name libcoterie.so)")
[[ $(readelf -d "$library/libcoterie.so" | grep -c 'SONAME.*libcoterie.so.0\]') == 1 ]] || fail "the SONAME is not libcoterie.so.0"
[[ $(readelf --version-info "$library/libcoterie.so") == *COTERIE_0* ]] || fail "the symbols have no version"
[[ $(readelf -d "$library/libcoterie.so") != *libmpi* ]] || fail "the library needs MPI, which is a plug-in's"

for kind in coterie static; do
    cmake -S "$source/examples/embed" -B "package-$kind" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCOTERIE_LIBRARY=$kind \
        -DCMAKE_BUILD_TYPE=Release >cmake.log 2>&1 || fail "find_package ($kind): $(tail -20 cmake.log)"
    cmake --build "package-$kind" >cmake.log 2>&1 || fail "find_package ($kind): $(tail -20 cmake.log)"
    try "find_package, $kind" "package-$kind"
done
[[ $(ldd package-static/embed_c) != *libcoterie* ]] || fail "the static program needs the shared library"

export PKG_CONFIG_PATH=$library/pkgconfig
[[ $(pkg-config --modversion coterie) == 0.1.* ]] || fail "pkg-config knows another version"
for kind in shared static; do
    mkdir "pkgconfig-$kind"
    read -ra flags <<<"$(pkg-config --cflags coterie) -Wall -Wextra -Werror"
    if [[ $kind == shared ]]; then
        read -ra libraries <<<"$(pkg-config --libs coterie) -Wl,-rpath,$library"
    else
        read -ra libraries <<<"$(pkg-config --static --libs coterie | sed "s|-lcoterie|$library/libcoterie.a|")"
    fi
    cc -std=c99 -D_POSIX_C_SOURCE=200809L -pedantic "${flags[@]}" "$source/examples/embed/embed.c" -o "pkgconfig-$kind/embed_c" "${libraries[@]}"
    cc -std=c99 -D_POSIX_C_SOURCE=200809L -pedantic "${flags[@]}" "$source/examples/embed/poll.c" -o "pkgconfig-$kind/embed_poll" "${libraries[@]}"
    c++ -std=c++17 "${flags[@]}" "$source/examples/embed/embed.cpp" -o "pkgconfig-$kind/embed_cpp" "${libraries[@]}"
    try "pkg-config, $kind" "pkgconfig-$kind"
done

# As a subdirectory the whole library is compiled once more. Its folder is beside the other build folders, where all paths
# look the same to ccache, which then has the files.
cmake -S "$source/examples/embed" -B "$scratch-subdirectory" -G Ninja -DCOTERIE_SOURCE="$source" -DCOTERIE_CUDA=off -DCMAKE_BUILD_TYPE=Release \
    >cmake.log 2>&1 || fail "subdirectory: $(tail -20 cmake.log)"
cmake --build "$scratch-subdirectory" >cmake.log 2>&1 || fail "subdirectory: $(tail -20 cmake.log)"
[[ ! -e $scratch-subdirectory/coterie/tests ]] || fail "a subdirectory builds the tests"
try "subdirectory" "$scratch-subdirectory"
