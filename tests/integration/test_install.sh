#!/usr/bin/env bash
# An installed tree serves from wherever it was moved to and is started; its manual, completion and pkg-config file are
# found there.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=$PWD/models/samples/truck.jpg
built=$PWD/$build
if grep -q '^CONVOY_UNOPTIMIZED_KERNELS:BOOL=ON' "$build/CMakeCache.txt"; then
  cmake --install "$build" --prefix "$work/first" >"$work/install.log" 2>&1 && fail "slow kernels are installed"
  grep -q "not optimized" "$work/install.log" || fail "$(tail "$work/install.log")"
  export CONVOY_INSTALL_UNOPTIMIZED=1
fi
[ "${build#/}" = "$build" ] || built=$build
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(tail "$work/install.log")"
mv "$work/first" "$work/second"
build=$work/second
cd /
"$build/bin/convoyd" --check-config >"$work/check" || fail "$(cat "$work/check")"
grep -q "^configuration $build/etc/convoyd/convoyd.json: ok" "$work/check" || fail "another file: $(cat "$work/check")"
for model in cifar10-convnet cifar10-resnet fashion-ece408 fashion-lenet; do
  grep -q "^model $model version 1: ok" "$work/check" || fail "no $model: $(cat "$work/check")"
done
for module in cpu null cuda; do
  [ -e "$build/lib/convoyd/convoy-backend-$module.so" ] || [ "$module" = cuda ] || fail "no module $module"
  [ -e "$build/lib/convoyd/convoy-backend-$module.so" ] || continue
  missing=$(ldd "$build/lib/convoyd/convoy-backend-$module.so" | grep 'not found' || true)
  [ -z "$missing" ] || fail "$module: $missing"
done
for library in libjpeg libspng libwebp libgif; do # what decodes images comes along
  ldd "$build/bin/convoyd" | grep "$library.* => $build/.*lib/convoyd/" >/dev/null || fail "no $library: $(ldd "$build/bin/convoyd")"
done
if [ -e "$build/bin/convoy-kernels" ]; then
  "$build/bin/convoy-kernels" --list >"$work/kernels" || fail "convoy-kernels does not start where it was moved to"
  # What is kept for comparison alone is in the program, not in the library that serves.
  grep -q '^channel_split .*(for comparison only)$' "$work/kernels" || fail "$(cat "$work/kernels")"
  grep -q channel_split "$build/lib/convoyd/libconvoy-kernels.so" && fail "libconvoy-kernels.so contains a reference kernel"
  # The kernels and the CUDA runtime are in libconvoy-kernels.so and nowhere else.
  for file in bin/convoy-kernels lib/convoyd/convoy-backend-cuda.so; do
    ldd "$build/$file" | grep "libconvoy-kernels.so => $build/" >/dev/null || fail "$file: $(ldd "$build/$file")"
    [ "$(stat -c %s "$build/$file")" -lt 2000000 ] || fail "$file contains kernels: $(stat -c %s "$build/$file") bytes"
    grep -q cuGetProcAddress "$build/$file" && fail "$file has a CUDA runtime of its own" # which asks the driver by this name
  done
  grep -q cuGetProcAddress "$build/lib/convoyd/libconvoy-kernels.so" || fail "the CUDA runtime is not known by that name any more"
fi
for page in convoyd.8 convoy-worker.8 convoy.1 convoyd.json.5; do
  [ -s "$build/share/man/man${page##*.}/$page" ] || fail "the manual page $page is not installed"
done
for program in convoy convoyd; do
  bash -c '. "$1" && complete -p "$2"' - "$build/share/bash-completion/completions/$program" $program >/dev/null ||
    fail "no completion of $program"
done
# convoy opens libarchive when it is to read an archive: the tree's own.
tar -cf "$work/set.tar" -C "$(dirname "$image")" fashion
LD_DEBUG=files "$build/bin/convoy" eval --url http://127.0.0.1:1 "$work/set.tar" >"$work/loaded" 2>&1 || true
grep -q "calling init: $build/.*lib/convoyd/libarchive.so.13" "$work/loaded" || fail "$(grep archive "$work/loaded")"

# Faults that tests inject are a module, which is built and never installed.
! find "$build" -name '*faults*' | grep . || fail "the above is for tests alone"
grep -q 'stall:%127' "$built/bin/convoy-faults.so" || fail "no text tells code for faults from other code any more"
! grep -rl 'stall:%127' "$build/bin" "$build/lib" || fail "the above has code for faults"

start --backend cpu
expect 200 --data-binary "@$image" "$url/classify"
[ "$(json "$work/body" 'd["model"], d["results"][0]["predictions"][0]["label"]')" = "('cifar10-resnet', 'truck')" ] ||
  fail "$(cat "$work/body")"

# A program of another project, built with what pkg-config says of the moved tree and nothing else.
export PKG_CONFIG_PATH=$build/lib/pkgconfig
[ "$(pkg-config --modversion convoy)" = "$("$build/bin/convoy" --version | cut -d ' ' -f 2)" ] ||
  fail "convoy.pc is of version $(pkg-config --modversion convoy)"
cat >"$work/program.c" <<'PROGRAM'
#include <convoy.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct convoy_client *client;
    struct convoy_failure failure;
    struct convoy_answer *answer;
    if (argc != 3 || convoy_client_open(argv[1], &client, &failure))
        return 2;
    if (convoy_client_classify_files(client, (const char *const *)&argv[2], 1, NULL, &answer, &failure)) {
        puts(failure.message);
        return 3;
    }
    puts(answer->results[0].predictions[0].label);
    convoy_answer_free(answer);
    convoy_client_close(client);
    return 0;
}
PROGRAM
# built NAME FLAG...: compiles with the flags, runs, and must hear of the truck.
built() {
  local name=$1 said
  shift
  cc -Wall -Werror -o "$work/$name" "$work/program.c" "$@" >"$work/cc" 2>&1 || fail "$name does not build: $(cat "$work/cc")"
  said=$("$work/$name" "$url" "$image") || fail "$name: $said"
  [ "$said" = truck ] || fail "$name said $said"
}
read -ra flags < <(pkg-config --cflags --libs convoy)
built shared "${flags[@]}" "-Wl,-rpath,$(pkg-config --variable=libdir convoy)"
readelf -d "$work/shared" | grep 'NEEDED.*libconvoy' >/dev/null || fail "the program does not use the shared library"
read -ra flags < <(pkg-config --cflags --libs --static convoy)
mv "$build"/lib/libconvoy.so* "$work" # what is left is the static library
named=$(nm -g --defined-only "$build/lib/libconvoy.a" | awk 'NF == 3 && $3 !~ /^convoy_/ { print $3 }')
[ -z "$named" ] || fail "libconvoy.a has names that could clash with a program's: $named"
built static "${flags[@]}"
stop
