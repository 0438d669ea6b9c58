#!/usr/bin/env bash
# Which classifiers of torchvision, timm, transformers and Keras a convoyd serves, and whether its answers are ONNX Runtime's:
# tests/survey/run.sh [OPTION...] [PATTERN...]; --help lists the options, README.md tells more. What it needs comes from PyPI
# into build/venv-survey (Keras' into build/venv-survey-keras), or is found in the Python that PYTHON names. Exit status 77:
# something cannot be had.
# shellcheck source=tests/survey/lib.sh
. "$(dirname "$0")/lib.sh"
sources=" "
for word in "$@"; do
  [[ $word =~ ^(torchvision|timm|transformers|keras): ]] && sources+="${BASH_REMATCH[1]} "
done
packages=(onnx onnxruntime numpy)
if [[ $sources == *" keras "* ]]; then
  if [[ ${sources// keras/} != " " ]]; then
    echo "run.sh: ask for keras: alone; it needs a Python of its own" >&2
    exit 2
  fi
  venv=build/venv-survey-keras
  python=${PYTHON:-$venv/bin/python}
  packages+=(tensorflow-cpu keras tf2onnx)
else
  packages+=(torch torchvision timm onnxscript pillow)
  if [[ $sources == *" transformers "* ]]; then
    packages+=(transformers)
  fi
fi
python_with "the survey" "${packages[@]}"
exec "$python" tests/survey/survey.py "$@"
