#!/usr/bin/env bash
# Which classifiers of torchvision and timm a convoyd serves, and whether its answers are ONNX Runtime's:
# tests/survey/run.sh [OPTION...] [PATTERN...]; --help lists the options, README.md tells more. What it needs comes from PyPI
# into build/venv-survey, or is found in the Python that PYTHON names. Exit status 77: something cannot be had.
# shellcheck source=tests/survey/lib.sh
. "$(dirname "$0")/lib.sh"
python_with "the survey" torch torchvision timm onnx onnxscript onnxruntime numpy pillow
exec "$python" tests/survey/survey.py "$@"
