#!/usr/bin/env bash
# The kernels' library never ends the process. nvcc makes exit(1) of a call of device code from host code where a template
# hides the mistake from it: the program then ends without a word, and on a GPU alone.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

library=$build/bin/libconvoy-kernels.so
[ -e "$library" ] || skip "there is no $library: no nvcc here"
wanted=$(nm -D --undefined-only "$library" | awk '{ print $2 }')
grep -q '^malloc' <<<"$wanted" || fail "nm does not name what $library needs: $wanted"
! grep '^exit\(@\|$\)' <<<"$wanted" || fail "$library calls exit(): host code calls device code"
