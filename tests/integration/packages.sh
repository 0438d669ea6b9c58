# shellcheck shell=bash
# The Debian packages of this build, which several tests look into, on top of lib.sh.

# make_packages: sets $packages to the folder that has them. They are made if something that is in them changed since they were made
# last; several tests may call it at a time.
make_packages() {
  local from=${build:?} log=${work:?}/cpack sources
  packages=$(realpath "$from")/packages-of-tests
  sources=("$from"/{bin,client,packaging} "$from"/*.cmake LICENSE README.md client config docs models packaging systemd)
  (
    flock 9
    if [ -e "$packages.made" ] && [ -z "$(find "${sources[@]}" -newer "$packages.made" -print -quit)" ]; then exit; fi
    rm -rf "$packages" "$packages.made"
    touch "$packages.began"
    export CONVOY_INSTALL_UNOPTIMIZED=1 # what test.sh builds where no GPU is
    cpack --config "$from/CPackConfig.cmake" -B "$log.d" -D CPACK_OUTPUT_FILE_PREFIX="$packages" >"$log" 2>&1 &&
      mv "$packages.began" "$packages.made"
  ) 9>"$from/one-packs" || fail "$(tail -n 30 "$log")"
}
