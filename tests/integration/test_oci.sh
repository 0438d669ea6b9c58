#!/usr/bin/env bash
# The container images: packaging/oci/build.sh makes them of this build's packages. What is in the first one classifies a
# photograph, as a user without rights who can write nothing, and is found healthy; the second one is the first one with the CUDA
# module and nvJPEG, which find no driver here, and does the same without them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/packages.sh
. "$(dirname "$0")/packages.sh"

for tool in buildah mmdebstrap cpack dpkg-scanpackages dpkg-shlibdeps; do
  command -v $tool >/dev/null || skip "there is no $tool (Debian packages buildah, mmdebstrap, dpkg-dev)"
done
[ "$(id -u)" = 0 ] || skip "images are built as root"
unshare --mount --pid --fork true 2>/dev/null || skip "this machine cannot unshare what buildah runs images in"
image=$PWD/models/samples/ship.jpg
buildah=(buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs)
container=
# buildah's folders hold mounts of its own until the container is gone.
trap 'status=$?; [ -z "$container" ] || "${buildah[@]}" rm "$container" >/dev/null 2>&1; finish $status' EXIT

echo "It is built, without a registry."
make_packages
images=(cpu)
[ ! -e "$build/bin/convoy-backend-cuda.so" ] || images+=(cuda)
# build_images OPTION...: sets $status.
build_images() {
  status=0
  nice packaging/oci/build.sh --packages "$packages" --storage "$work/store" "$@" "${images[@]}" >"$work/built" 2>&1 || status=$?
}
build_images
nvjpeg=NVIDIA
if [ $status = 75 ] && grep 'libnvjpeg.so.13 cannot be fetched' "$work/built"; then
  nvjpeg=$build/tests/emulation/nvjpeg/libnvjpeg.so.13 # the tests' stand-in
  build_images --nvjpeg "$nvjpeg"
fi
[ $status != 75 ] || skip "$(tail -n 1 "$work/built")"
[ $status = 0 ] || fail "$(cat "$work/built")"
cat "$work/built"
for name in "${images[@]}"; do
  megabytes=$(sed -n "s/^convoyd:$name [^ ]*, \([0-9]*\) MB, sha256:[0-9a-f]*\$/\1/p" "$work/built")
  [ "${megabytes:-1000}" -lt 150 ] || fail "convoyd:$name is not under 150 MB: $(cat "$work/built")"
done

echo "What it says of itself."
"${buildah[@]}" inspect --type image convoyd:cpu >"$work/inspected"
about() { json "$work/inspected" "d['Docker']['config']$1"; }
[ "$(about '["User"]')" = 65532:65532 ] || fail "it runs as $(about '["User"]')"
[ "$(about '["Entrypoint"]')" = "['/usr/bin/convoyd']" ] || fail "it starts $(about '["Entrypoint"]')"
[ "$(about '["Healthcheck"]["Test"]')" = "['CMD', '/usr/bin/convoy', 'health']" ] || fail "no health check: was it built in docker's format?"
[ "$(about '["Labels"]["org.opencontainers.image.version"]')" = "$("$build/bin/convoyd" --version | cut -d' ' -f2)" ] || fail "$(about '["Labels"]')"
[ "$(about '["Labels"]["org.opencontainers.image.licenses"]')" = MIT ] || fail "$(about '["Labels"]')"

"$python" - packaging/oci/compose.yaml "$work/inspected" <<'PYTHON' || fail "compose.yaml does not fit the image"
import json, sys, yaml
services = yaml.safe_load(open(sys.argv[1]))["services"]
config = json.load(open(sys.argv[2]))["Docker"]["config"]
assert [service["image"] for service in services.values()] == ["convoyd:cpu", "convoyd:cuda"], services
for service in services.values():
    assert service["read_only"] and service["cap_drop"] == ["ALL"], service
    (folder, options), = (entry.split(":") for entry in service["tmpfs"])
    assert f"RUNTIME_DIRECTORY={folder}" in config["Env"] and config["User"] == "65532:65532" and "uid=65532,gid=65532" in options
    assert [port.split(":")[-1] + "/tcp" for port in service["ports"]] == list(config["ExposedPorts"]), service
PYTHON
container=$("${buildah[@]}" from convoyd:cpu)
tree=$("${buildah[@]}" mount "$container") # with vfs this is a folder, and nothing is mounted
[ "$(json "$tree/usr/share/convoyd/sbom.spdx.json" 'd["spdxVersion"], len({p["SPDXID"] for p in d["packages"]}) == len(d["packages"]) == len(d["relationships"]) > 30')" = \
  "('SPDX-2.3', True)" ] || fail "the list of what is in it: $(head -c 500 "$tree/usr/share/convoyd/sbom.spdx.json")"
for package in convoyd libc6 libmicrohttpd12; do
  version=$(json "$tree/usr/share/convoyd/sbom.spdx.json" "[p['versionInfo'] for p in d['packages'] if p['name'] == '$package']")
  grep -A 12 "^Package: $package$" "$tree/var/lib/dpkg/status" | grep "^Version: ${version:2:-2}$" >/dev/null || fail "$package: $version, and in dpkg's status another"
  [ -s "$tree/usr/share/doc/$package/copyright" ] || fail "no copyright of $package"
done
needless() {
  local file
  for file in usr/share/man usr/bin/openssl etc/apt var/lib/apt usr/share/perl5 usr/bin/convoy-kernels; do
    [ ! -e "$1/$file" ] || fail "it holds $file"
  done
}
needless "$tree"
find "$tree" -perm /6000 | grep . && fail "the above change who runs them"

echo "It runs as a user who can write nothing."
chmod 755 "$tree/tmp"
chown 0:0 "$tree/run/convoyd" "$tree/var/cache/convoyd"
find "$tree" ! -type l \( -uid 65532 -o -gid 65532 -o -perm -o=w \) | grep . && fail "the above can be written"
# inside COMMAND...: in a container, as the image's user; network and processes are this machine's, rights are not.
inside() { "${buildah[@]}" run --isolation chroot "$container" -- "$@"; }
# On a busy machine buildah has been seen to lose what a program says that ends at once: such programs are asked again.
is_its_user() { [ "$(inside /bin/busybox id -u)" = 65532 ]; }
until_true 20 is_its_user || fail "user $(inside /bin/busybox id)"
serves_four() { inside /usr/bin/convoyd --check-config >"$work/check" && [ "$(grep -c '^model .* version 1: ok' "$work/check")" = 4 ]; }
until_true 20 serves_four || fail "--check-config: $(cat "$work/check")"
# serve: starts convoyd in the container.
serve() {
  local began
  : >"$work/log"
  began=$(date +%s%N)
  inside /usr/bin/convoyd --listen 127.0.0.1:0 2>"$work/log" &
  proxy=$!
  until_true 20 listening || fail "it does not listen"
  url=http://127.0.0.1:$port
  until_true 20 ready || fail "it is not ready"
  echo "  ready $((($(date +%s%N) - began) / 1000000)) ms after buildah was called"
  # The daemon among the children of buildah.
  daemon=$proxy
  until [ "$(cat "/proc/$daemon/comm")" = convoyd ]; do daemon=$(pgrep -P "$daemon" | head -n 1) || fail "no convoyd"; done
}
drain() {
  local status=0
  kill -TERM "$daemon"
  wait "$proxy" || status=$?
  daemon='' proxy=''
  [ $status = 0 ] || fail "status $status"
}
touch "$work/before"
serve
[ "$(stat -c %u "/proc/$daemon")" = 65532 ] || [ "$(awk '/^Uid:/ { print $2 }' "/proc/$daemon/status")" = 65532 ] || fail "it runs as root"
expect 200 --data-binary @"$image" "$url/classify"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
grep -q 'msg="there is no admin socket"' "$work/log" || fail "it wrote an admin socket"
# buildah writes the last three of its own.
find "$tree" -newer "$work/before" ! -type d | grep -vE "^$tree/(etc/hosts|etc/resolv.conf|run/.containerenv)$" && fail "the above was written"

echo "Its health check, and the client."
mapfile -t check < <(json "$work/inspected" '"\n".join(d["Docker"]["config"]["Healthcheck"]["Test"][1:])')
healthy() { "${buildah[@]}" run --isolation chroot --env "CONVOY_URL=$url" "$container" -- "${check[@]}"; }
says_ready() { [ "$(healthy)" = ready ]; }
until_true 20 says_ready || fail "it is not found healthy: $(healthy 2>&1)"
classifies() {
  "${buildah[@]}" run --isolation chroot --volume "$PWD/models/samples:/samples:ro" "$container" -- \
    /usr/bin/convoy classify --top 1 --url "$url" /samples/truck.jpg >"$work/classified" 2>&1 && grep -qw truck "$work/classified"
}
until_true 20 classifies || fail "convoy does not classify: $(cat "$work/classified")"
tar -cf "$work/set.tar" -C models/samples fashion
lacks_archives() {
  ! "${buildah[@]}" run --isolation chroot --volume "$work/set.tar:/set.tar:ro" "$container" -- /usr/bin/convoy eval --url "$url" /set.tar >"$work/said" 2>&1 &&
    grep 'archives need libarchive.so.13, which cannot be opened: install it' "$work/said" >/dev/null
}
until_true 20 lacks_archives || fail "$(cat "$work/said")"

echo "It drains when it is stopped."
drain
if healthy >/dev/null 2>&1; then fail "it is found healthy, and is not there"; fi
sed -n 's/^Package: //p' "$tree/var/lib/dpkg/status" >"$work/packages.cpu"
"${buildah[@]}" rm "$container" >/dev/null
container=

[ ${#images[@]} = 2 ] || { echo "there is no CUDA module here, and no image with it" && exit; }
echo "The image for GPUs: the same, with more in it."
cp "$work/inspected" "$work/inspected.cpu"
"${buildah[@]}" inspect --type image convoyd:cuda >"$work/inspected"
"$python" - "$work/inspected.cpu" "$work/inspected" <<'PYTHON' || fail "see above"
import json, sys
cpu, cuda = ({key: value for key, value in json.load(open(file))["Docker"]["config"].items()} for file in sys.argv[1:])
environment = sorted(set(cuda["Env"]) - set(cpu["Env"]))
# "video" brings libnvcuvid.so.1, without which nvJPEG finds no JPEG engines.
assert environment == ["NVIDIA_DRIVER_CAPABILITIES=compute,utility,video", "NVIDIA_VISIBLE_DEVICES=all"], environment
assert set(cpu["Env"]) < set(cuda["Env"]), cuda["Env"]
differ = {key for key in cpu.keys() | cuda.keys() if cpu.get(key) != cuda.get(key)}
assert differ - {"Hostname", "Image"} == {"Env", "Labels"}, differ
licenses = "org.opencontainers.image.licenses"
assert cuda["Labels"] == cpu["Labels"] | {licenses: "MIT AND LicenseRef-NVIDIA-CUDA-Toolkit"}, cuda["Labels"]
PYTHON
layers() { json "$1" 'd["OCIv1"]["rootfs"]["diff_ids"]'; }
first=$(layers "$work/inspected.cpu")
[[ $(layers "$work/inspected") == "${first%]}, "* ]] || fail "it does not stand on the first image: $(layers "$work/inspected")"
container=$("${buildah[@]}" from convoyd:cuda)
tree=$("${buildah[@]}" mount "$container")
needless "$tree"
sort "$work/packages.cpu" <(echo convoyd-cuda) | diff - <(sed -n 's/^Package: //p' "$tree/var/lib/dpkg/status" | sort) || fail "dpkg's status: see above"
for package in convoyd-cuda nvidia-nvjpeg; do
  [ -s "$tree/usr/share/doc/$package/copyright" ] || fail "no copyright of $package"
done
"$python" - "$tree/usr/share/convoyd/sbom.spdx.json" "$nvjpeg" <<'PYTHON' || fail "the list of what is in it: see above"
import json, sys
packages = {package["name"]: package for package in json.load(open(sys.argv[1]))["packages"]}
assert {"convoyd", "convoyd-cuda", "libc6", "nvidia-nvjpeg"} < packages.keys(), packages.keys()
place = packages["nvidia-nvjpeg"]["externalRefs"][0]["referenceLocator"]
version = packages["nvidia-nvjpeg"].get("versionInfo")
assert place == (f"pkg:pypi/nvidia-nvjpeg@{version}" if sys.argv[2] == "NVIDIA" else "pkg:generic/nvidia-nvjpeg"), place
PYTHON
library=usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)/libnvjpeg.so.13
mapfile -t calls < <(sed -n 's/^ *SYMBOL("\(nvjpeg[A-Za-z0-9]*\)".*/\1/p' engine/cuda/decode/nvjpeg.c)
[ ${#calls[@]} -ge 8 ] || fail "what of nvJPEG is called?"
objdump -T "$tree/$library" >"$work/symbols"
for call in "${calls[@]}"; do
  grep -w "$call" "$work/symbols" >/dev/null || fail "$library has no $call"
done
# What it needs is in the image, too, as the loader there sees it; what the module needs lies beside it.
loaded=(/usr/lib/convoyd/convoy-backend-cuda.so)
[ "$nvjpeg" != NVIDIA ] || loaded+=("/$library") # the stand-in needs other parts of the emulation
for file in "${loaded[@]}"; do
  inside "/$(cd "$tree" && echo lib64/ld-linux-*)" --list "$file" >"$work/list" || fail "$file: $(cat "$work/list")"
  ! grep 'not found' "$work/list" || fail "$file"
done
is_this_build() { [ "$(inside /usr/bin/convoyd --version)" = "$("$build/bin/convoyd" --version)" ]; }
until_true 20 is_this_build || fail "$(inside /usr/bin/convoyd --version)"
until_true 20 serves_four || fail "--check-config: $(cat "$work/check")"
[ "$(grep -c '^model .* version 1: ok' "$work/check")" = 4 ] || fail "$(cat "$work/check")"
serve
expect 200 --data-binary @"$image" "$url/classify"
[ "$(json "$work/body" 'd["device"]')" = cpu ] || fail "$(cat "$work/body")"
grep -q "text=\"no GPU is used: NVIDIA's driver is not installed" "$work/log" || fail "it does not say why it uses no GPU"
drain
echo "passed"
