#!/usr/bin/env bash
# Installs missing Debian packages, without asking, and builds. run.sh and test.sh source it.
# By hand: ./build.sh [PRESET], one of CMakePresets.json (default user, where a compiler's warning does not end the build).
# CUDA is never installed, only used where nvcc is.
set -euo pipefail
convoy_root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

convoy_packages=(build-essential cmake ninja-build pkg-config curl ca-certificates file
  libmicrohttpd-dev nettle-dev libuv1-dev libcjson-dev libprotobuf-c-dev protobuf-c-compiler libonnx-dev
  libturbojpeg0-dev libjpeg62-turbo-dev libspng-dev libwebp-dev libgif-dev libdnnl-dev ocl-icd-libopencl1
  libcurl4-openssl-dev libarchive-dev zlib1g-dev libsystemd-dev libxxhash-dev libseccomp-dev)
# shellcheck disable=SC2034 # test.sh uses it
convoy_test_packages=(libcriterion-dev libonnx-testdata python3 python3-pil python3-numpy python3-venv
  python3-yaml prometheus haproxy nginx-light libnginx-mod-stream wrk clang clang-format clang-tidy libclang-rt-14-dev shellcheck procps tmux groff-base mandoc
  systemd mmdebstrap buildah)

# convoy_install PACKAGE...: installs those that are not there.
convoy_install() {
  local missing=() package as_root=()
  command -v dpkg-query >/dev/null || {
    echo "build.sh: this is no Debian system; install the equivalents of: $*" >&2
    return 0
  }
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep '^ii' >/dev/null || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "build.sh: as root, run: apt-get install -y ${missing[*]}" >&2
      return 1
    }
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  # Debian starts services on installation (prometheus brings one); a build must not.
  local policy=/usr/sbin/policy-rc.d made_policy=no
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod +x $policy
    made_policy=yes
  fi
  local status=0
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      "${missing[@]}" >/dev/null || status=$?
  [ $made_policy = no ] || "${as_root[@]}" rm -f $policy
  return $status
}

# convoy_build PRESET [OPTION...] [-- TARGET...]: configures, with options for CMake, and builds, without targets what the
# preset names; quiet unless something is wrong.
convoy_build() {
  local preset=$1 options=() targets=() log status=0
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  [ $# -lt 2 ] || targets=(--target "${@:2}")
  log=$(mktemp)
  (
    cd "$convoy_root"
    cmake --preset "$preset" "${options[@]}" && cmake --build --preset "$preset" "${targets[@]}"
  ) >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    tail -n 60 "$log" >&2
    echo "build.sh: the $preset build failed" >&2
  else
    grep -h '^-- CUDA:' "$log" | sed 's/^-- //' || true
  fi
  rm -f "$log"
  return $status
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  convoy_install "${convoy_packages[@]}"
  convoy_build "${1:-user}"
fi
