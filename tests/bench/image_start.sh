#!/usr/bin/env bash
# What starting a container image costs, from exec to the first right answer: tests/bench/image_start.sh IMAGE.tar [RUNS]
# IMAGE.tar is convoyd-cpu.tar or convoyd-cuda.tar as packaging/oci/build.sh --save writes it, RUNS the starts (20), of which the
# median counts. The image is unpacked, and its convoyd runs in there as its user (chroot in a mount namespace of its own, as root,
# with this machine's /proc, /sys and /dev and, where there is a GPU, its driver's libraries). What Docker or another runtime takes
# to make a container comes on top; so does unpacking.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ ! -f "${1:-}" ] || [[ ! ${2:-20} =~ ^[1-9][0-9]*$ ]]; then
  sed -n '2,6s/^# //p' "$0" >&2
  exit 2
fi
[ "$(id -u)" = 0 ] || { echo "image_start.sh: run it as root: it changes the root folder" >&2; exit 2; }
if [ -z "${CONVOY_IN_NAMESPACE:-}" ]; then
  CONVOY_IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi
image=$(realpath "$1")
runs=${2:-20}
work=$(mktemp -d)
root=$work/root
mounted=()
# The folders that are mounted are this machine's: they are detached before anything is removed.
cleanup() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do umount -l "${mounted[i]}" || exit; done
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
bring() { # FOLDER: of this machine, seen at the same place in the image
  mkdir -p "$root$1"
  mount --rbind "$1" "$root$1"
  mounted+=("$root$1")
}

python3 - "$image" "$root" <<'PYTHON'
import json, sys, tarfile
with tarfile.open(sys.argv[1]) as image:
    [manifest] = json.load(image.extractfile("manifest.json"))
    for name in manifest["Layers"]:
        with tarfile.open(fileobj=image.extractfile(name)) as layer:
            members = layer.getmembers()
            assert not any("/.wh." in "/" + member.name for member in members), "a layer removes files of another"
            layer.extractall(sys.argv[2], members)
PYTHON
chmod 755 "$work"
for folder in /proc /sys /dev; do bring "$folder"; done
environment=(RUNTIME_DIRECTORY=/run/convoyd PATH=/usr/bin:/bin)
driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .* => //p' | head -n 1)
[ -n "$driver" ] || driver=$(compgen -G '/usr/local/nvidia/lib*/libcuda.so.1' | head -n 1) || true
if [ -n "$driver" ] && [ -e /dev/nvidiactl ]; then
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  mkdir -p "$root/driver"
  mount --bind "$(dirname "$driver")" "$root/driver"
  mounted+=("$root/driver")
  # Only the driver's own: other libraries that lie beside them are not the image's.
  mkdir "$root/libraries"
  for file in "$(dirname "$driver")"/lib{cuda,nvidia-,nvcuvid,nvidia}*.so*; do ln -sf "/driver/${file##*/}" "$root/libraries/"; done
  environment+=(LD_LIBRARY_PATH=/libraries)
fi
python3 tests/tools/first_answer.py "$runs" /usr/bin/env -i "${environment[@]}" \
  "$(command -v chroot)" --userspec=65532:65532 "$root" /usr/bin/convoyd >"$work/first.json"
python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
print("first right answer: median %.0f ms of %d runs, %.0f to %.0f ms" % (d["median_ms"], len(d["runs_ms"]), min(d["runs_ms"]), max(d["runs_ms"])))' "$work/first.json"
