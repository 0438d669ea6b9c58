#!/usr/bin/env bash
# sanitize: all
# Triton's logging extension: the level of the log as its four switches, asked for and set while serving.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'default_model="cifar10-convnet"' 'auth={"loopback_admin": true}'
start --backend null --config "$work/config.json"
logging=$url/v2/logging

# holds LEVEL: what the last answer says is that level.
holds() {
  local switches
  case $1 in
    debug) switches='True True True 1' ;;
    info) switches='True True True 0' ;;
    warning) switches='False True True 0' ;;
    error) switches='False False True 0' ;;
  esac
  [ "$(json "$work/body" "' '.join(str(d[k]) for k in ('log_info', 'log_warning', 'log_error', 'log_verbose_level'))")" = "$switches" ] ||
    fail "not the level $1: $(cat "$work/body")"
  [ "$(json "$work/body" "len(d) == 6 and d['log_file'] == '' and d['log_format'] == 'ISO8601'")" = True ] || fail "$(cat "$work/body")"
}
# set_to LEVEL JSON
set_to() {
  expect 200 -d "$2" "$logging"
  holds "$1"
  expect 200 "$logging"
  holds "$1"
}
# logs N: so many lines of the last request's id at the level debug.
logs() {
  local id=request-$RANDOM-$RANDOM found
  expect 200 -H "X-Request-Id: $id" --data-binary @models/samples/ship.jpg "$url/classify"
  # The line is written after the answer: the next answer of the same connection comes behind it.
  written() { [ "$(grep -c "request_id=$id" "$work/log")" = "$1" ]; }
  if [ "$1" = 0 ]; then
    found=$(grep -c "request_id=$id" "$work/log" || true)
    [ "$found" = 0 ] || fail "$found lines of $id"
  else
    until_true 10 written "$1" || fail "no line of $id"
  fi
}

echo "One level, four switches."
expect 200 "$logging"
holds info
logs 0
set_to debug '{"log_verbose_level": 1}'
logs 1
set_to debug '{"log_verbose_level": 7}'
set_to debug '{"log_info": true}'
set_to info '{"log_verbose_level": 0}'
logs 0
set_to warning '{"log_info": false}'
set_to warning '{}'
set_to warning '{"log_info": null, "log_warning": null, "log_file": null, "unknown": [1]}'
set_to error '{"log_warning": false}'
set_to error '{"log_error": true}'
set_to warning '{"log_warning": true}'
set_to debug '{"log_verbose_level": 2, "log_error": true}'
set_to warning '{"log_info": false}'
set_to info '{"log_info": true}'
set_to error '{"log_info": false, "log_warning": false, "log_error": true, "log_verbose_level": 0}'
set_to info '{"log_file": "", "log_info": true, "log_warning": true, "log_error": true, "log_verbose_level": 0, "log_format": "ISO8601"}'
[ "$(grep -c 'msg="a client sets the log.s level"' "$work/log")" = 10 ] || fail "not a line for each change"

echo "Refused, and nothing is changed."
refuse() { # PATTERN JSON [STATUS]
  expect "${3:-400}" --data-binary "$2" "$logging"
  # shellcheck disable=SC2053 # the pattern is one
  [[ $(json "$work/body" 'd["error"]') == $1 ]] || fail "the sentence is not $1: $(cat "$work/body")"
  expect 200 "$logging"
  holds info
}
refuse '*one level*' '{"log_error": false}'
refuse '*one level*' '{"log_warning": false, "log_info": true}'
refuse '*one level*' '{"log_verbose_level": 1, "log_info": false}'
refuse '*log_file cannot*' '{"log_file": "/tmp/log", "log_info": false}'
refuse '*log_format cannot*log.format*' '{"log_format": "default"}'
refuse '*log_info must be*' '{"log_info": 1}'
refuse '*log_verbose_level must be*' '{"log_verbose_level": -1}'
refuse '*log_verbose_level must be*' '{"log_verbose_level": 1e10}'
refuse '*log_file must be*' '{"log_file": 5}'
refuse '*JSON object*' '[]'
refuse '*empty*' ''
expect 405 -X DELETE "$logging"
expect 403 -d '{"log_info": false}' -H 'Origin: http://example.org' "$logging"
expect 403 -d '{"log_info": false}' -H 'Host: convoy.example' "$logging"
expect 403 -d '{"log_info": false}' -H 'X-Forwarded-For: 192.0.2.1' "$logging"
expect 200 "$logging"
holds info

echo "SIGHUP sets the configuration's."
configure 'default_model="cifar10-convnet"' 'log={"level": "warning"}'
kill -HUP "$daemon"
warns() { expect 200 "$logging" && [ "$(json "$work/body" 'd["log_info"]')" = False ]; }
until_true 10 warns || fail "$(cat "$work/body")"
stop
echo "passed"
