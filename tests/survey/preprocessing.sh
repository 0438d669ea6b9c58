#!/usr/bin/env bash
# What a convoyd makes of pictures beside the transforms of torchvision and timm: tests/survey/preprocessing.sh [OPTION...]
# [PATTERN...]; --help lists the options, README.md tells more. Exit status 1: a configuration has less than 99.9 % of its values
# within one level of Pillow's; 77: something of PyPI cannot be had.
# shellcheck source=tests/survey/lib.sh
. "$(dirname "$0")/lib.sh"
python_with "the survey of preprocessing" torch torchvision timm transformers onnx numpy pillow
exec nice "$python" tests/survey/survey_preprocessing.py "$@"
