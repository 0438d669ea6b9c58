#!/usr/bin/env bash
# What test_confine.sh shows on the CPU, on a GPU, emulated ones included.
BACKEND=cuda exec bash "$(dirname "$0")/test_confine.sh"
