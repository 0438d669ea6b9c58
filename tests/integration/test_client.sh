#!/usr/bin/env bash
# The convoy command as people run it: right answers, clear errors, exit statuses; and libconvoy from a program.
# sanitize: yes
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

convoy=$build/bin/convoy
samples=models/samples
unset CONVOY_URL
# run STATUS ARGUMENT...: its output lands in $work/out, what it says of errors in $work/err.
run() {
  local wanted=$1 got=0
  shift
  "$convoy" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "convoy $*: exit status $got, expected $wanted: $(cat "$work/out" "$work/err")"
}
out() { grep -q -e "$1" "$work/out" || fail "the output lacks '$1': $(cat "$work/out")"; }
err() { grep -q -e "$1" "$work/err" || fail "the error lacks '$1': $(cat "$work/err")"; }
holds() { [ "$(json "$work/out" "$1")" = True ] || fail "not so: $1: $(cat "$work/out")"; }

echo "Without a server."
run 0 --version
out '^convoy [0-9]'
run 0 --help
sed -n 's/^  \([a-z]*\)  .*/\1/p' "$work/out" >"$work/commands"
while read -r command; do
  "$convoy" "$command" --help >"$work/help" </dev/null
  grep -q '^Usage: convoy '"$command" "$work/help" || fail "convoy $command --help"
done <"$work/commands"
run 2
run 2 fly
run 2 classify
run 2 classify --top 0 $samples/ship.jpg
run 2 models extra
# A port that was free a moment ago and is not listened on.
closed=$("$python" -S -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
run 3 classify --url "http://127.0.0.1:$closed" $samples/ship.jpg
err 'run.sh'
run 3 models --url "http://127.0.0.1:$closed"
run 2 models --url 'gopher://x'
"$python" -m http.server --bind 127.0.0.1 --directory "$work" 0 >"$work/http" 2>&1 &
other=$!
until_true 20 grep -q 'port [0-9]' "$work/http" || { kill $other; fail "Python's HTTP server did not start"; }
run 4 models --url "http://127.0.0.1:$(sed -n 's/.*port \([0-9]*\) .*/\1/p' "$work/http")"
kill $other
err "not a convoyd's"

configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
export CONVOY_URL=$url

echo "classify"
run 0 classify --top 1 $samples/ship.jpg
out '^  ship '
run 0 classify --json $samples/{ship,truck,airplane,automobile}.jpg
holds "[f['predictions'][0]['label'] for f in d['files']] == ['ship', 'truck', 'airplane', 'automobile']"
holds "[f['file'] for f in d['files']][1] == '$samples/truck.jpg' and d['model'] == 'cifar10-convnet' and d['timing']['total_us'] > 0"
grep -q "$(printf '\033')" "$work/out" && fail "colours off a terminal"
"$convoy" classify --top 2 --json - <$samples/truck.jpg >"$work/out" || fail "standard input"
holds "d['files'][0]['predictions'][0]['label'] == 'truck' and len(d['files'][0]['predictions']) == 2"
run 0 classify --profile --json $samples/ship.jpg
holds "len(d['layers']) > 3 and all(l['us'] >= 0 for l in d['layers'])"
run 0 classify --profile $samples/ship.jpg
out 'layer (kernel)'
run 1 classify --json $samples/ship.jpg README.md "$work/absent.jpg" $samples/truck.jpg
holds "[f['predictions'][0]['label'] if 'predictions' in f else f['status'] for f in d['files']] == ['ship', 415, 0, 'truck']"
holds "'absent.jpg' in d['files'][2]['error']"
run 1 classify README.md
out '^README.md: failed: '
run 1 classify "$work"
run 4 classify --model 'no such/model&top=1' $samples/ship.jpg
err 'no such model'
err 'status 404, request [0-9a-f]'
run 4 classify --version 77 $samples/ship.jpg

echo "models"
run 0 models
out '^cifar10-convnet  1  READY'
run 0 models --json
holds "d['models'][0] == {'name': 'cifar10-convnet', 'version': '1', 'state': 'READY', 'reason': ''}"

echo "bench"
run 0 bench --json --seconds 2 --connections 4 $samples/{ship,truck,airplane,automobile}.jpg
holds "d['loop'] == 'closed' and d['answered'] > 20 and d['statuses'] == {'200': d['answered']} and d['no_answer'] == 0"
holds "0 < d['latency_ms']['p50'] <= d['latency_ms']['p90'] <= d['latency_ms']['p99'] <= d['latency_ms']['p99.9'] <= d['latency_ms']['max']"
holds "2 <= d['seconds'] < 20 and abs(d['requests_per_second'] - d['answered'] / d['seconds']) < 0.01 * d['requests_per_second']"
# Little's law: four connections that are never idle.
holds "0.5 < d['requests_per_second'] * d['latency_ms']['mean'] / 1000 / 4 < 1.01"
mkdir -p "$work/images/deep"
cp $samples/ship.jpg "$work/images/a.jpg"
cp $samples/truck.jpg "$work/images/deep/b.jpg"
run 0 bench --json --seconds 2 --rate 50 --batch 3 "$work/images"
# 100 arrivals by chance: 40 to 160 are six standard deviations.
holds "d['loop'] == 'open' and 40 < d['answered'] < 160 and d['not_sent'] == 0 and d['images_per_request'] == 3"
holds "abs(d['images_per_second'] - 3 * d['requests_per_second']) < 0.01 * d['images_per_second']"
run 0 bench --seconds 0.3 --rate 100 "$work/images"
out 'latency .* 99.9 %'
run 4 bench --json --seconds 0.3 --rate 100 --model absent "$work/images"
holds "d['answered'] == 0 and d['statuses']['404'] > 5 and d['latency_ms']['p50'] is None"
run 2 bench --rate 0 "$work/images"
run 1 bench "$work/nothing"
err 'nothing'
run 3 bench --seconds 1 --url "http://127.0.0.1:$closed" "$work/images"
# A stopped server holds up every request that falls due meanwhile: they count from when they were due.
kill -STOP "$daemon"
(sleep 1; kill -CONT "$daemon") &
run 0 bench --json --seconds 2 --rate 50 --connections 2 "$work/images"
wait $!
holds "d['latency_ms']['max'] > 700 and d['latency_ms']['p90'] > 300"

echo "libconvoy"
cat >"$work/program.c" <<'PROGRAM'
#include <convoy.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    struct convoy_client *client;
    struct convoy_failure failure;
    struct convoy_answer *answer;
    const char *files[] = {argv[2], argv[3]};
    if (argc != 4 || convoy_client_open(argv[1], &client, &failure))
        return 2;
    if (convoy_client_classify_files(client, files, 2, NULL, &answer, &failure)) {
        puts(failure.message);
        return 3;
    }
    printf("%s %s\n", answer->results[0].predictions[0].label, answer->results[1].predictions[0].label);
    convoy_client_close(client);
    convoy_answer_free(answer);
    if (convoy_client_open(argv[1], &client, &failure))
        return 4;
    int status = convoy_client_classify_files(client, (const char *[]){"/no/such/file"}, 1, NULL, &answer, &failure);
    convoy_client_close(client);
    return status < 0 && strstr(failure.message, "/no/such/file") && !answer ? 0 : 5;
}
PROGRAM
flags=()
[[ $build == *asan* ]] && flags=(-fsanitize=address -fsanitize=undefined)
cc -std=c11 -Wall -Wextra -Werror "${flags[@]}" -I client -o "$work/program" "$work/program.c" -L "$build/client" \
  -lconvoy -Wl,-rpath,"$(cd "$build/client" && pwd)" || fail "the program does not build"
answer=$("$work/program" "$url" $samples/ship.jpg $samples/truck.jpg) || fail "the program: $answer"
[ "$answer" = "ship truck" ] || fail "the program said $answer"
stop
