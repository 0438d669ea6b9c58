#!/usr/bin/env bash
# What TLS costs: requests a second on kept connections over HTTPS beside plain HTTP (null backend, a JPEG of 32 x 32 pixels);
# full handshakes a second beside those of a bare libmicrohttpd with the same certificate (mhd_least.c), each with one request;
# and resumed ones beside full ones. In turns; median of the ratios. The client, OpenSSL's, shares the machine: it takes
# part of the processor in each of them.
#   tests/bench/tls.sh [ROUNDS [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-7}
seconds=${2:-2}
connections=64

needs wrk wrk
needs openssl openssl
small_jpeg
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/certificate.pem" 2>"$work/openssl" ||
  die "$(cat "$work/openssl")"

# shellcheck disable=SC2034 # lib.sh uses it
least_scheme=https
start_least echo "$work/certificate.pem" "$work/key.pem"
serve null --models "$measured"
plain=$url
printf '{"tls": {"certificate": "%s", "key": "%s"}}' "$work/certificate.pem" "$work/key.pem" >"$work/config.json"
: >"$work/log"
"$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --models "$measured" --config "$work/config.json" 2>"$work/log" &
pids+=($!)
until port=$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log") &&
  curl -fs --cacert "$work/certificate.pem" -o /dev/null "https://127.0.0.1:$port/v2/health/ready"; do
  kill -0 "${pids[-1]}" 2>/dev/null || die "convoyd ended: $(cat "$work/log")"
  sleep 0.05
done

# handshakes PORT KIND: connections a second of two clients, each with one request; KIND is -new or -reuse. TLS 1.2, where
# OpenSSL's measuring client can resume.
handshakes() {
  local client clients=() count=0
  for client in 1 2; do
    openssl s_time -connect "127.0.0.1:$1" "$2" -tls1_2 -time "$seconds" -www /v2 >"$work/client.$client" 2>&1 &
    clients+=($!)
  done
  wait "${clients[@]}" || die "$(cat "$work/client.1")"
  for client in 1 2; do
    count=$((count + $(sed -n 's/^\([0-9]*\) connections in [0-9]* real seconds.*/\1/p' "$work/client.$client")))
  done
  awk -v n="$count" -v s="$seconds" 'BEGIN { print n / (s + 1) }' # s_time ends with the second that follows
}

for ((i = 0; i < rounds; i++)); do
  drive "$plain/classify?top=1" $connections "$seconds" >>"$work/plain"
  drive "https://127.0.0.1:$port/classify?top=1" $connections "$seconds" >>"$work/secure"
  handshakes "$least_port" -new >>"$work/least"
  handshakes "$port" -new >>"$work/full"
  handshakes "$port" -reuse >>"$work/resumed"
done
printf 'requests a second on %d kept connections, plain:  %7d\n' $connections "$(median 1 <"$work/plain")"
printf 'the same over TLS:                                %7d, ratio %s\n' "$(median 1 <"$work/secure")" \
  "$(ratios "$work/secure" "$work/plain")"
printf 'full handshakes a second, bare libmicrohttpd:     %7.0f\n' "$(median 1 <"$work/least")"
printf 'convoyd:                                          %7.0f, ratio %s\n' "$(median 1 <"$work/full")" \
  "$(ratios "$work/full" "$work/least")"
printf 'resumed by a ticket:                              %7.0f, ratio to full %s\n' "$(median 1 <"$work/resumed")" \
  "$(ratios "$work/resumed" "$work/full")"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work/plain" "$work/secure"
