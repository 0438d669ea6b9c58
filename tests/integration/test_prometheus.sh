#!/usr/bin/env bash
# A real Prometheus with the shipped configuration (only targets and intervals changed) scrapes a running convoyd: the
# target is up, the counters rise by exactly what was sent, the rules are healthy, an alert fires when a worker is lost,
# and every panel of the dashboard has something to show.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

command -v prometheus >/dev/null || skip "there is no prometheus (Debian package prometheus)"
image=models/samples/ship.jpg
prometheus=''
worker=''

stop_prometheus() {
  local status=$?
  [ -z "$prometheus" ] || { kill -KILL "$prometheus" && wait "$prometheus"; } 2>/dev/null || true
  [ -z "$worker" ] || kill -KILL "$worker" 2>/dev/null || true # it may stand still
  set +e # what was wrong must not end this
  finish "$status"
}
trap stop_prometheus EXIT

# change FILE FROM TO: fails where FROM is not there, so that the test notices when the shipped file has changed.
change() {
  grep -qF "$2" "$1" || fail "$1 has no line with $2"
  sed -i "s/$2/$3/" "$1"
}

known_port() {
  at=$(sed -n 's/.*msg="Listening on" address=\([0-9.:]*\).*/http:\/\/\1/p' "$work/prometheus.log" | tail -n 1)
  [ -n "$at" ]
}

# ask QUERY: the answer's samples in $work/samples.
ask() {
  curl -fsS -G --data-urlencode "query=$1" "$at/api/v1/query" >"$work/samples" &&
    [ "$(json "$work/samples" 'd["status"]')" = success ]
}
# value QUERY: of a query with one sample; "none" without.
value() { ask "$1" && json "$work/samples" '[float(s["value"][1]) for s in d["data"]["result"]] or "none"'; }
is() { [ "$(value "$1")" = "[$2]" ]; }
shows() { ask "$1" && [ "$(json "$work/samples" 'len(d["data"]["result"]) > 0')" = True ]; }
rules() { curl -fsS "$at/api/v1/rules" >"$work/rules" && [ "$(json "$work/rules" "$1")" = True ]; }
all_rules='[r for g in d["data"]["groups"] for r in g["rules"]]'
in_a_slot() { [ "$(sample convoyd_slots_in_use)" -gt 0 ]; }

start --backend cpu
mkdir "$work/etc"
cp config/prometheus/prometheus.yml config/prometheus/convoyd.rules.yml "$work/etc"
change "$work/etc/prometheus.yml" '"127.0.0.1:8081", "127.0.0.1:8082"' "\"127.0.0.1:$port\""
change "$work/etc/prometheus.yml" '"127.0.0.1:8405"' ''
change "$work/etc/prometheus.yml" 'scrape_interval: 15s' 'scrape_interval: 200ms'
change "$work/etc/prometheus.yml" 'evaluation_interval: 15s' 'evaluation_interval: 200ms'
prometheus --config.file="$work/etc/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address=127.0.0.1:0 \
  2>"$work/prometheus.log" &
prometheus=$!
until_true 30 known_port || fail "prometheus did not listen: $(tail "$work/prometheus.log")"

echo "The target is up."
up="up{job=\"convoyd\", instance=\"127.0.0.1:$port\"}"
until_true 30 is "$up" 1.0 || fail "up is $(value "$up"): $(tail "$work/prometheus.log")"

echo "Counters rise by exactly what was sent."
good='sum(convoyd_requests_total{job="convoyd", route="/classify", status="200"})'
bad='sum(convoyd_requests_total{job="convoyd", route="/classify", status="415"})'
images='sum(convoyd_images_total{job="convoyd"})'
shows "$good" && fail "requests are counted before there were any"
for _ in {1..7}; do expect 200 --data-binary @$image "$url/classify"; done
expect 415 --data-binary text "$url/classify"
until_true 20 is "$bad" 1.0 || fail "415: $(value "$bad"), sent 1"
until_true 20 is "$good" 7.0 || fail "200: $(value "$good"), sent 7"
for _ in {1..5}; do expect 200 -F "a=@$image" -F "b=@$image" "$url/classify"; done
expect 415 --data-binary text "$url/classify" # the last: once it is counted, so is everything before it
until_true 20 is "$bad" 2.0 || fail "415: $(value "$bad"), sent 2"
# Asked again, because a scrape that takes longer than its 200 ms counts as a daemon that is down, until the next one.
until_true 20 is "$good" 12.0 || fail "200: $(value "$good"), sent 12"
until_true 20 is "$images" 17.0 || fail "images: $(value "$images"), sent 17"

echo "The rules are loaded and healthy, nothing fires."
shipped=$(grep -cE '^ +- (alert|record):' config/prometheus/convoyd.rules.yml)
until_true 20 rules "all(r['health'] == 'ok' for r in $all_rules)" || fail "a rule is not healthy: $(cat "$work/rules")"
rules "len($all_rules) == $shipped" || fail "not all $shipped rules are there: $(cat "$work/rules")"
# ConvoydSlow judges the machine: that one of these few answers took 250 ms begins its ten minutes.
until_true 20 rules "{r['name']: r['state'] for r in $all_rules if r.get('state', 'inactive') != 'inactive'} in ({}, {'ConvoydSlow': 'pending'})" ||
  fail "an alert is not inactive: $(cat "$work/rules")"

echo "A worker that is lost under an image: the request is answered, and the alert fires."
worker=$(workers)
stand_still "$worker"
curl -sS -o "$work/answer" -w '%{http_code}' --data-binary @$image "$url/classify" >"$work/status" &
client=$!
until_true 10 in_a_slot || fail "the image does not reach a slot"
kill -KILL "$worker"
worker=
wait $client || fail "the request was lost"
[ "$(cat "$work/status")" = 200 ] || fail "status $(cat "$work/status"): $(cat "$work/answer")"
until_true 20 is 'sum(convoyd_retried_images_total{job="convoyd"})' 1.0 || fail "no image ran again"
firing='ALERTS{alertname="ConvoydImagesRetried", alertstate="firing", model="cifar10-resnet"}'
until_true 20 is "$firing" 1.0 || fail "the alert does not fire: $(curl -sS "$at/api/v1/alerts")"

echo "Every panel of the dashboard has something to show."
for _ in {1..3}; do expect 200 --data-binary @$image "$url/classify"; done
"$python" tests/tools/dashboard.py expressions config/grafana/convoyd.json >"$work/expressions"
panels=0
while IFS=$'\t' read -r title expression; do
  case $expression in *convoyd_cuda_calls_total* | *convoyd_device_memory_bytes* | *convoyd_gpu_*)
    ask "$expression" || fail "$title: $(cat "$work/samples")" # there is nothing to show without a GPU
    continue
    ;;
  esac
  until_true 10 shows "$expression" || fail "$title: nothing to show for $expression: $(cat "$work/samples")"
  panels=$((panels + 1))
done <"$work/expressions"
[ $panels -gt 30 ] || fail "only $panels expressions were asked for"
echo "$panels expressions"

echo "A daemon that is gone is down."
stop
until_true 20 is "$up" 0.0 || fail "up is $(value "$up")"
echo "passed"
