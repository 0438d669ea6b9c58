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
configure 'default_model="cifar10-resnet"' 'response_cache={"bytes": 1000000}' # with all metrics that there are
start --backend cpu --config "$work/config.json"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
expect 200 "$url/metrics"
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
