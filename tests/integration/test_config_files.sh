#!/usr/bin/env bash
# What ships in config/ for Prometheus, Grafana and HAProxy, each checked by its own tool; and every metric and label
# that rules and dashboard speak of exists. (test_prometheus, test_haproxy and test_kubernetes go further.)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

rules=config/prometheus/convoyd.rules.yml
tests=config/prometheus/convoyd.rules.test.yml
dashboard=config/grafana/convoyd.json
unchecked=
"$python" -c 'import yaml' 2>/dev/null || skip "there is no python3-yaml to read rule files with"

echo "The dashboard."
"$python" tests/tools/dashboard.py check $dashboard || fail "$dashboard"

echo "Every metric and label exists."
# With all metrics that there are: those of the response cache, of TLS, of keys and of traces.
command -v openssl >/dev/null || skip "there is no openssl (Debian package openssl)"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key.pem" -out "$work/certificate.pem" -subj /CN=localhost 2>"$work/openssl"
(umask 077; "$build/bin/convoy" key one infer >"$work/keys" 2>"$work/one")
configure 'default_model="cifar10-resnet"' 'response_cache={"bytes": 1000000}' "auth={\"keys\": \"$work/keys\"}" \
  "tls={\"certificate\": \"$work/certificate.pem\", \"key\": \"$work/key.pem\"}" 'tracing={"otlp_url": "http://127.0.0.1:9/"}'
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fsk -o /dev/null "$url/v2/health/ready"; }
launch --backend cpu --config "$work/config.json"
url=https://127.0.0.1:$port
until_true 30 ready || fail "convoyd was not ready within 30 s"
expect 200 -k -H "Authorization: Bearer $(tail -n 1 "$work/one")" --data-binary @models/samples/ship.jpg "$url/classify"
expect 200 -k "$url/metrics"
"$python" tests/tools/metric_names.py "$work/body" docs/deploy.md $rules $dashboard || fail "see above"
stop

echo "Every alert has a test that sees it fire and one that sees it silent."
"$python" tests/tools/rule_tests.py $rules $tests || fail "see above"

if command -v promtool >/dev/null; then
  echo "promtool: configuration, rules, the rules' tests, the dashboard's expressions."
  "$python" tests/tools/dashboard.py rules $dashboard >"$work/dashboard.yml" || fail "$dashboard"
  for check in "check config --lint=all --lint-fatal config/prometheus/prometheus.yml" "check rules --lint=all --lint-fatal $rules" \
    "test rules $tests" "check rules $work/dashboard.yml"; do
    # shellcheck disable=SC2086 # several words
    promtool $check >"$work/promtool" 2>&1 || fail "promtool $check: $(cat "$work/promtool")"
  done
else
  unchecked="promtool (package prometheus)"
fi

if haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy); then
  echo "haproxy -c has nothing to say."
  "$haproxy" -c -f config/haproxy/haproxy.cfg >"$work/haproxy" 2>&1 || fail "$(cat "$work/haproxy")"
  grep -iE 'warning|alert' "$work/haproxy" && fail "haproxy -c warns"
else
  unchecked="${unchecked:+$unchecked and }haproxy"
fi
[ -z "$unchecked" ] || skip "there is no $unchecked; the rest passed"
echo "passed"
