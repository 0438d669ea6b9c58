#!/usr/bin/env bash
# The examples of the documents are run, and print what the documents show. tests/tools/doc_examples.py says how an example
# looks, and what stands in for times and for what is left out; it names those that are not run.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

[ ! -x build/venv-triton/bin/python ] || PATH=$PWD/build/venv-triton/bin:$PATH # test_triton_client.sh made it
"$python" tests/tools/doc_examples.py "$build" "$work" README.md docs/*.md || fail "see above"
echo "passed"
