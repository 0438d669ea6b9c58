#!/usr/bin/env bash
# The container image: packaging/oci/build.sh makes it of this build's packages, and what is in it classifies a photograph, as
# a user without rights who can write nothing, and is found healthy.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

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
export CONVOY_INSTALL_UNOPTIMIZED=1 # what test.sh builds where no GPU is
cpack --config "$build/CPackConfig.cmake" -B "$work/cpack.d" -D CPACK_OUTPUT_FILE_PREFIX="$work/packages" >"$work/cpack" 2>&1 ||
  fail "$(tail -n 30 "$work/cpack")"
status=0
nice packaging/oci/build.sh --packages "$work/packages" --storage "$work/store" cpu >"$work/built" 2>&1 || status=$?
[ $status != 75 ] || skip "$(tail -n 1 "$work/built")"
[ $status = 0 ] || fail "$(cat "$work/built")"
cat "$work/built"
bytes=$(sed -n 's/^convoyd:cpu [^ ]*, \([0-9]*\) MB, sha256:[0-9a-f]*$/\1/p' "$work/built")
[ "${bytes:-1000}" -lt 150 ] || fail "not under 150 MB: $(cat "$work/built")"

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
for needless in usr/share/man usr/bin/openssl etc/apt var/lib/apt usr/share/perl5; do
  [ ! -e "$tree/$needless" ] || fail "it holds $needless"
done
find "$tree" -perm /6000 | grep . && fail "the above change who runs them"

echo "It runs as a user who can write nothing."
chmod 755 "$tree/tmp"
chown 0:0 "$tree/run/convoyd" "$tree/var/cache/convoyd"
find "$tree" ! -type l \( -uid 65532 -o -gid 65532 -o -perm -o=w \) | grep . && fail "the above can be written"
# inside COMMAND...: in a container, as the image's user; network and processes are this machine's, rights are not.
inside() { "${buildah[@]}" run --isolation chroot "$container" -- "$@"; }
[ "$(inside /bin/busybox id -u)" = 65532 ] || fail "user $(inside /bin/busybox id)"
inside /usr/bin/convoyd --check-config >"$work/check" || fail "$(cat "$work/check")"
[ "$(grep -c '^model .* version 1: ok' "$work/check")" = 4 ] || fail "$(cat "$work/check")"
touch "$work/before"
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
[ "$(stat -c %u "/proc/$daemon")" = 65532 ] || [ "$(awk '/^Uid:/ { print $2 }' "/proc/$daemon/status")" = 65532 ] || fail "it runs as root"
expect 200 --data-binary @"$image" "$url/classify"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
grep -q 'msg="there is no admin socket"' "$work/log" || fail "it wrote an admin socket"
# buildah writes the last three of its own.
find "$tree" -newer "$work/before" ! -type d | grep -vE "^$tree/(etc/hosts|etc/resolv.conf|run/.containerenv)$" && fail "the above was written"

echo "Its health check, and the client."
mapfile -t check < <(json "$work/inspected" '"\n".join(d["Docker"]["config"]["Healthcheck"]["Test"][1:])')
healthy() { "${buildah[@]}" run --isolation chroot --env "CONVOY_URL=$url" "$container" -- "${check[@]}"; }
[ "$(healthy)" = ready ] || fail "it is not found healthy"
"${buildah[@]}" run --isolation chroot --volume "$PWD/models/samples:/samples:ro" "$container" -- \
  /usr/bin/convoy classify --top 1 --url "$url" /samples/truck.jpg >"$work/classified" || fail "convoy does not classify"
grep -qw truck "$work/classified" || fail "$(cat "$work/classified")"
tar -cf "$work/set.tar" -C models/samples fashion
status=0
"${buildah[@]}" run --isolation chroot --volume "$work/set.tar:/set.tar:ro" "$container" -- /usr/bin/convoy eval --url "$url" /set.tar >"$work/said" 2>&1 || status=$?
grep -q 'archives need libarchive.so.13, which cannot be opened: install it' "$work/said" || fail "status $status: $(cat "$work/said")"

echo "It drains when it is stopped."
kill -TERM "$daemon"
status=0
wait "$proxy" || status=$?
daemon='' proxy=''
[ $status = 0 ] || fail "status $status"
if healthy >/dev/null 2>&1; then fail "it is found healthy, and is not there"; fi
echo "passed"
