# shellcheck shell=bash
# What the fault tests share, on top of lib.sh.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A worker of a sanitized build starts several times more slowly, so its faults cost more.
slower=1
# shellcheck disable=SC2034 # the tests use it
if [[ $build == *san* ]]; then slower=8; fi

# configure KEY=JSON...: as in lib.sh, for the models that ship.
configure() { write_configuration 'models="models"' 'default_model="cifar10-convnet"' "$@"; }

# load NAME ARGUMENTS...: steady load in the background; its figures land in $work/NAME.json.
load() {
  local name=$1
  shift
  python3 tests/tools/steady_load.py "$url" "$@" >"$work/$name.json" 2>"$work/$name.err" &
  load_pid=$!
}

# loaded NAME: waits for the load to end and shows its figures.
loaded() {
  wait "$load_pid" || fail "the load client: $(cat "$work/$1.err")"
  cat "$work/$1.json"
}

# all_answered NAME LONGEST_MS: every request was answered with 200 and rightly, none later than LONGEST_MS.
all_answered() {
  [ "$(json "$work/$1.json" 'set(d["statuses"]) == {"200"} and d["wrong"] + d["lost"] + d["refused"] == 0')" = True ] ||
    fail "$1: not every request was answered rightly"
  [ "$(json "$work/$1.json" "d['longest_ms'] < $2")" = True ] || fail "$1: an answer took longer than $2 ms"
}

# metric NAME: the sum over its label sets.
metric() { answer_to /metrics | awk -v name="$1" '$1 ~ "^"name"(\\{|$)" { sum += $2 } END { print sum + 0 }'; }

# The one worker's process id, once it runs.
worker() {
  until_true 20 workers || fail "there is no worker"
  workers | tail -n 1
}

# make_tree: from now on $build is $tree, where the test puts the programs of $built, the build before, and replaces them. The module
# for $BACKEND (cpu; cuda with CONVOY_BUILD=PACK and a GPU) lies there, and on_backend is the arguments that choose it.
make_tree() {
  local backend=${BACKEND:-cpu}
  built=$build
  tree=$work/tree
  build=$tree
  # shellcheck disable=SC2034 # the tests use it
  on_backend=(--backend "$backend" --tune off)
  mkdir -p "$tree/bin"
  if [ -d "$built/lib/convoyd" ]; then # an installed tree, with its libraries
    ln -s "$(realpath "$built/lib")" "$tree/lib"
  else
    cp "$built/bin/convoy-backend-$backend.so" "$tree/bin"
  fi
}
