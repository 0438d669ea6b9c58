#!/usr/bin/env bash
# The manual pages: clean roff, and nothing that the programs know is missing in them. What is known is asked of the
# programs themselves: their --help, and what convoyd says of a key that it does not know.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

for tool in groff mandoc; do
  command -v $tool >/dev/null || skip "there is no $tool to check the manual pages with"
done
pages=docs/man
for page in "$pages"/*.[1-8]; do
  said=$(groff -man -ww -z -Tutf8 "$page" 2>&1) || fail "groff: $page: $said"
  [ -z "$said" ] || fail "groff: $page: $said"
  said=$(mandoc -T lint -W warning "$page" 2>&1) || fail "mandoc: $said"
  # A line that begins with an apostrophe or a mistyped macro vanishes without a word.
  grep -nvE "^[^.']|^$|^\.([A-Z]|br$)" "$page" && fail "$page: lines that no formatter shows"
done

# section PAGE HEADING...: the text under these headings, with plain hyphens.
section() {
  local page=$pages/$1 heading
  shift
  for heading; do
    grep -qx "\.SH $heading" "$page" || fail "$page has no section $heading"
    awk -v heading=".SH $heading" '/^\.SH/ { inside = $0 == heading } inside' "$page"
  done | sed 's/\\-/-/g'
}

# documented TEXT PROGRAM ARGUMENT...: every option that the program's --help names is described in TEXT.
documented() {
  local text=$1 option found=0
  shift
  while read -r option; do
    found=$((found + 1))
    grep -qE "^\.B[IR]* (.*[ \"])?$option([^a-z-].*)?$" "$text" || fail "$*: $option is not in its manual page"
  done < <("$@" --help | grep -v '^  curl ' | grep -oE -- '--[a-z][a-z-]*' | sort -u)
  # convoy key has arguments alone.
  [ $found -ge 2 ] || [ "$*" = "$build/bin/convoy key" ] || fail "$*: --help names $found options"
}

section convoyd.8 OPTIONS >"$work/text"
documented "$work/text" "$build/bin/convoyd"
section convoy-worker.8 OPTIONS >"$work/text"
documented "$work/text" "$build/bin/convoy-worker"
commands=$("$build/bin/convoy" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 5 ] || fail "convoy --help names these commands: $commands"
for command in $commands; do
  section convoy.1 'COMMON OPTIONS' "CONVOY ${command^^}" >"$work/text"
  documented "$work/text" "$build/bin/convoy" "$command"
done
for status in 0 1 2 3 4; do
  section convoy.1 'EXIT STATUS' | grep -x "\.B $status" >/dev/null || fail "convoy.1 does not say what exit status $status means"
done

# known_keys FOLDER: the keys that convoyd knows in the file of which it complained last.
known_keys() { sed -n "s/.*unknown key '\([a-z_.]*\.\)\{0,1\}no_such_key'; the keys known here are \(.*\)/\2/p" "$work/said" | tr -d ',"'; }
# ask JSON: has convoyd complain of this configuration.
ask() {
  echo "$1" >"$work/config.json"
  "$build/bin/convoyd" --check-config --config "$work/config.json" >"$work/said" 2>&1 && fail "this is in order: $1"
  return 0
}
# ask_model JSON: the same of a model's.
mkdir -p "$work/models/probe/1"
cp models/cifar10-convnet/1/model.onnx "$work/models/probe/1"
echo '{}' >"$work/empty.json"
ask_model() {
  echo "$1" >"$work/models/probe/config.json"
  "$build/bin/convoyd" --check-config --config "$work/empty.json" --models "$work/models" --backend null >"$work/said" 2>&1 &&
    fail "this is in order: $1"
  return 0
}
# keys ASK: every key, those of objects as OBJECT.KEY.
keys() {
  local key inside
  "$1" '{"no_such_key": 1}'
  for key in $(known_keys); do
    "$1" "{\"$key\": {\"no_such_key\": 1}}"
    inside=$(known_keys)
    if [ -z "$inside" ]; then
      echo "$key"
    else
      # shellcheck disable=SC2086 # words
      printf "$key.%s\n" $inside
    fi
  done
}
keys ask >"$work/keys"
section convoyd.json.5 CONVOYD.JSON >"$work/text"
[ "$(wc -l <"$work/keys")" -ge 25 ] || fail "convoyd knows these keys alone: $(cat "$work/keys")"
while read -r key; do
  grep -q "^\.BR $key " "$work/text" || fail "the key $key is not in convoyd.json.5"
  # The file that ships has the built-in values, but for default_model.
  wanted=$("$python" -S -c '
import functools, json, sys
value = functools.reduce(dict.get, sys.argv[1].split("."), json.load(open("config/convoyd.json")))
print("null" if sys.argv[1] == "default_model" else value if isinstance(value, str) else json.dumps(value).replace("\"", "\\(dq"))' "$key")
  grep -qF ".BR $key \" (default $wanted; " "$work/text" || fail "$key: convoyd.json.5 does not say default $wanted"
done <"$work/keys"
while read -r key; do
  grep -qx "$key" "$work/keys" || fail "convoyd.json.5 has $key, which convoyd does not know"
done < <(sed -n 's/^\.BR \([a-z_.]*\) .*/\1/p' "$work/text")

# Limits, as the daemon has them, are not all of what its users must know.
for said in 'would outlast a request' 'three quarters'; do
  grep -q "$said" "$work/text" || fail "convoyd.json.5 has no word on refusals before the deadline: $said"
done
for page in convoyd.8 convoyd.json.5; do
  grep -qE '^\.IR? /etc/convoyd/convoyd\.json' "$pages/$page" ||
    fail "$page does not say that a convoyd in /usr/bin reads /etc/convoyd/convoyd.json"
done
section convoyd.8 SYSTEMD >"$work/text"
for said in READY=1 WATCHDOG=1 convoyd.socket --listen; do
  grep -qF -e "$said" "$work/text" || fail "convoyd.8 says nothing of systemd and $said"
done

keys ask_model >"$work/keys"
section convoyd.json.5 "A MODEL'S CONFIG.JSON" >"$work/text"
[ "$(wc -l <"$work/keys")" -ge 10 ] || fail "convoyd knows these keys of a model alone: $(cat "$work/keys")"
while read -r key; do
  grep -qE "^\.BR (.* )?${key//./\\.} " "$work/text" || fail "the model's key $key is not in convoyd.json.5"
done <"$work/keys"

version=$("$build/bin/convoyd" --version)
for page in "$pages"/*.[1-8]; do
  grep -q "^\.TH .* \"$version\" " "$page" || fail "$page is not of $version"
done
