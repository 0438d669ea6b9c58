#!/usr/bin/env bash
# A short check of a running convoyd, wherever it runs; it needs only curl, bash and coreutils.
#   tests/integration/smoke.sh URL [IMAGE]
# IMAGE is an image file (default: a sample that ships with convoyd). Says what it checked; exit status 0 when all
# is as it should be, 1 when something is not, 2 when it was called wrongly.
set -uo pipefail
shopt -s extglob

url=${1:-}
image=${2:-$(dirname "$0")/../../models/samples/ship.jpg}
if [[ ! $url =~ ^https?:// ]]; then
  echo "usage: $0 http://HOST:PORT [IMAGE]" >&2
  exit 2
fi
if [ ! -r "$image" ]; then
  echo "$image cannot be read: name an image file, as in $0 $url cat.jpg" >&2
  exit 2
fi
url=${url%/}
failures=0
headers=$(mktemp)
body=$(mktemp)
trap 'rm -f "$headers" "$body"' EXIT

# check WHAT STATUS PATTERN CURL-ARGUMENTS...: the answer must have the status and its body fit the pattern.
check() {
  local what=$1 wanted=$2 pattern=$3 status text
  shift 3
  status=$(curl -sS --max-time 30 -o "$body" -D "$headers" -w '%{http_code}' -H 'X-Request-Id: smoke-1' "$@")
  text=$(tr -d '\0' <"$body")
  # shellcheck disable=SC2053 # the pattern is one
  if [ "$status" != "$wanted" ]; then
    echo "FAILED  $what: status $status, expected $wanted: ${text:0:300}"
  elif [[ $text != $pattern ]]; then
    echo "FAILED  $what: the answer is not $pattern: ${text:0:300}"
  elif ! header 'X-Request-Id: smoke-1'; then
    echo "FAILED  $what: the request id was not returned"
  else
    echo "ok      $what"
    return
  fi
  failures=$((failures + 1))
}

# header TEXT: the answer has this header.
header() {
  local line
  while IFS= read -r line; do
    line=${line%$'\r'}
    [[ ${line,,} != "${1,,}" ]] || return 0
  done <"$headers"
  return 1
}

check "live" 200 '{"live":true}*' "$url/v2/health/live"
check "ready" 200 '{"ready":true}*' "$url/v2/health/ready"
check "the server says who it is" 200 '{"name":"convoyd",*' "$url/v2"
check "a model is READY" 200 '*"state":"READY"*' "$url/v2/models"

model=
if [[ $(<"$body") =~ \"name\":\"([A-Za-z0-9._-]+)\",\"version\":\"[0-9]+\",\"state\":\"READY\" ]]; then
  model=${BASH_REMATCH[1]}
  classify=$url/v2/models/$model/classify
  check "the model $model describes itself" 200 "*\"name\":\"$model\"*\"inputs\":*" "$url/v2/models/$model"
  check "an image is classified" 200 '*"results":\[{"predictions":\[{"label":*"timing":{"decode_us":*' \
    --data-binary "@$image" "$classify"
  check "top=1 lists one class" 200 '*"predictions":\[{"label":*"index":*"probability":+([0-9.e-])}\],"decoder":"cpu"}\]*' \
    --data-binary "@$image" "$classify?top=1"
  check "a form of two images, the second spoilt, answers in order" 200 \
    '*"results":\[{"predictions":*},{"error":*"status":415}\]*' -F "a=@$image" -F 'b=no image' "$classify?top=1"
  check "text is no image" 415 '{"error":*' --data-binary 'this is text' "$classify"
  check "an empty body is refused" 400 '{"error":*' -X POST "$classify"
  check "top=0 is refused" 400 '{"error":*top*' --data-binary "@$image" "$classify?top=0"
  check "a wrong method is refused" 405 '{"error":*' "$classify"
  header 'Allow: POST' || { echo "FAILED  the 405 does not say what is allowed"; failures=$((failures + 1)); }
fi
check "a model that is not there" 404 '{"error":*' --data-binary "@$image" "$url/v2/models/no-such-model/classify"
check "a path that is not there" 404 '{"error":*' "$url/no-such-path"
check "metrics" 200 '*convoyd_build_info{version=*convoyd_requests_total{*' "$url/metrics"

if [ $failures -gt 0 ]; then
  echo "$failures checks of $url failed"
  exit 1
fi
echo "$url answers as it should"
