#!/usr/bin/env bash
# Checks shell scripts: tests/style/scripts.sh FILE..., from the root of the sources.
# What the integration tests source is checked once, by itself. In each test, of which there are more than a hundred, an outline
# of it is followed in its place: variables, and functions that take arguments or none. That takes half the time.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }

# Under pipefail a pipe into "grep -q" fails now and then: grep leaves at its first match, and what still writes into the pipe
# dies of SIGPIPE. "grep ... >/dev/null" reads to the end.
if grep -nE '[^|]\| *grep +-[a-zA-Z]*q' "$@"; then exit 1; fi

# outline FILE: every variable that it sets or reads, every function, and what it sources.
outline() {
  awk '
    /^# shellcheck (shell|source)=/ || /^(set|\.) / { print; next }
    match($0, /^[a-z_]+\(\) \{/) { name = substr($0, 1, RLENGTH - 4); arguments = 0 }
    name != "" && /\$[@*1-9#]|\$\{[@*1-9#]|shift/ { arguments = 1 }
    name != "" && (/^\}$/ || /^[a-z_]+\(\) \{.*\}$/) { print name "() { " (arguments ? ": \"$@\"" : ":") "; }"; name = "" }
    match($0, /^ *(local )?[a-z_]+=/) {
      variable = substr($0, 1, RLENGTH)
      sub(/^ *(local )?/, "", variable)
      value = substr($0, RLENGTH + 1)
      print variable (value ~ /^\(/ ? "(\"$0\")" : value ~ /\$/ ? "\"$0\"" : 1)
      read = read " \"$" substr(variable, 1, length(variable) - 1) "\""
    }
    END { print ":" read }' "$1"
}

shared=() tests=() others=()
for file; do
  case $file in
    tests/integration/test_*) tests+=("$file") ;;
    tests/integration/*) shared+=("$file") ;;
    *) others+=("$file") ;;
  esac
done
status=0
[ $# -eq ${#tests[@]} ] || shellcheck -x "${shared[@]}" "${others[@]}" || status=1
[ ${#tests[@]} -gt 0 ] || exit $status
outlines=$(mktemp -d)
trap 'rm -rf "$outlines"' EXIT
cp --parents "$@" "$outlines"
for file in "${shared[@]}"; do
  outline "$file" >"$outlines/$file"
done
(cd "$outlines" && shellcheck -x "${tests[@]}") || status=1
exit $status
