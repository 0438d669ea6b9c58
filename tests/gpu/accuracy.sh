#!/usr/bin/env bash
# How often the four models are right on the shared test images on a GPU, through the daemon, and whether every image is
# classified there as on the CPU. From the root of the sources:
#   tests/gpu/accuracy.sh --record FILE BUILD DATA   where the CPU backend is: writes what it answers to each image
#   tests/gpu/accuracy.sh PACK DATA [FILE]           where the GPU is: prints the accuracies, and compares with FILE
# Fails where more than 0.1 % of the CIFAR images, or more than one of the Fashion images, have another first class. DATA is
# laid out as ../shared/data. In the environment: ACCURACY_BELOW=N takes the images numbered below N alone, for a look on
# an emulated GPU; ACCURACY_BACKEND=cpu compares another backend than cuda; ACCURACY_PRECISION=fp16 lets all models
# compute in that, whatever their configurations say (then it prints how many differ, and fails for none);
# ACCURACY_TUNE=on classifies with the kernels that tuning chooses, networks that run whole among them.
record=
if [ "${1:-}" = --record ]; then
  record=${2:-}
  shift 2
fi
[ $# -ge 2 ] || { sed -n '2,11s/^# //p' "$0" >&2; exit 2; }
backend=${ACCURACY_BACKEND:-cuda}
if [ -n "$record" ]; then
  backend=cpu
  record=$(realpath "$record")
fi
reference=${3:+$(realpath "$3")}
CONVOY_BUILD=$(realpath "$1")
CONVOY_DATA=$(realpath "$2")
export CONVOY_BUILD CONVOY_DATA
# shellcheck disable=SC2119 # start takes options of convoyd, which are not this script's
# shellcheck source=tests/integration/models.sh
. "$(dirname "$0")/../integration/models.sh"
below=${ACCURACY_BELOW:-1000000}

"$python" -c 'import PIL' 2>/dev/null || python=$(command -v python3)
needs_pillow
needs_test_images
client=$build/bin/convoy
[ "$backend" != cuda ] || needs_cuda

# archive_of MODEL: its images as a tar, of those numbered below $below. Made once for each set of images.
archive_of() {
  local set=${1%%-*}
  local tar=$work/$set.tar
  if [ ! -e "$tar" ]; then
    case $set in
      cifar10) gzip -dc "$(test_images "$1")" >"$tar.all" ;;
      fashion)
        "$python" tests/tools/idx_archive.py "$(test_images "$1")" "$fashion/test-labels-idx1-ubyte.gz" "$tar.all" ;;
    esac
    "$python" - "$tar.all" "$tar" "$below" <<'PYTHON'
import pathlib, sys, tarfile
with tarfile.open(sys.argv[1]) as whole, tarfile.open(sys.argv[2], "w") as part:
    for member in whole:
        if member.isfile() and int(pathlib.PurePath(member.name).stem) < int(sys.argv[3]):
            part.addfile(member, whole.extractfile(member))
PYTHON
    rm "$tar.all"
  fi
  echo "$tar"
}

repository=models
if [ -n "${ACCURACY_PRECISION:-}" ]; then
  repository=$work/repository
  cp -r models "$repository"
  "$python" - "$ACCURACY_PRECISION" "$repository"/*/config.json <<'PYTHON'
import json, sys
for path in sys.argv[2:]:
    config = json.load(open(path))
    config["precision"] = sys.argv[1]
    json.dump(config, open(path, "w"))
PYTHON
fi
configure tune="\"${ACCURACY_TUNE:-off}\"" timeout_ms=600000 models="\"$repository\""
start --config "$work/config.json" --backend "$backend"
all_tuned() { [ "$(grep -c ' is tuned: ' "$work/log")" -eq "${#models[@]}" ]; }
[ "${ACCURACY_TUNE:-off}" = off ] || until_true 300 all_tuned || fail "not all models are tuned after five minutes"
bad=
for model in "${models[@]}"; do
  archive=$(archive_of "$model")
  "$client" eval --url "$url" --json --model "$model" --profile-images 0 "$archive" >"$work/eval" ||
    fail "convoy eval --model $model: $(cat "$work/eval")"
  "$python" tests/tools/classify_archive.py "$url" "$archive" --model "$model" --batch 50 --out "$work/answers" \
    >"$work/counts" || fail "$model: $(cat "$work/counts")"
  precision=$(curl -fsS "$url/v2/models/$model" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["precision"])')
  accuracy=$(json "$work/eval" '"%s ('"$precision"'): %d of %d images right, %.1f %%" % (
    "'"$model"'", d["overall"]["right"], d["overall"]["images"], 100 * d["overall"]["accuracy"])')
  sed "s/^/$model /" "$work/answers" >>"$work/all"
  if [ -z "$reference" ]; then
    echo "$accuracy"
    continue
  fi
  # What FILE says of the same images, beside it: a list that lacks one is of other images.
  images=$(wc -l <"$work/answers")
  case $model in
    cifar10-*) most=$((images / 1000)) ;;
    fashion-*) most=1 ;;
  esac
  awk -v model="$model" -v file="$reference" '
    BEGIN { while ((getline line < file) > 0) { split(line, f, " "); if (f[1] == model) known[f[2]] = f[3] } }
    !($1 in known) { print "missing", $1; next }
    known[$1] != $2 { print "differs", $1, "is", $2, "and was", known[$1] }' "$work/answers" >"$work/differ"
  ! grep -q '^missing' "$work/differ" || fail "$reference lacks images of $model: $(head -n 3 "$work/differ")"
  differ=$(wc -l <"$work/differ")
  echo "$accuracy; another first class than on the CPU: $differ (at most $most)"
  head -n 10 "$work/differ" | sed 's/^/  /'
  [ -n "${ACCURACY_PRECISION:-}" ] || [ "$differ" -le "$most" ] || bad="$bad $model"
done
stop
[ -z "$record" ] || { cp "$work/all" "$record"; echo "written: $(wc -l <"$record") answers"; }
[ -z "$bad" ] || { echo "FAILED:$bad"; exit 1; }
