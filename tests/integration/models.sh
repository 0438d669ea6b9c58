# shellcheck shell=bash
# What the tests of the shipped models share, on top of lib.sh.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

models=(cifar10-convnet cifar10-resnet fashion-ece408 fashion-lenet)
# shellcheck disable=SC2034 # the tests use it
fashion=$data/fashion-mnist

# test_images MODEL: the shared test images of its classes, as they came.
test_images() {
  case $1 in
    cifar10-*) echo "$data/cifar10-jpg/test.tar.gz" ;;
    fashion-*) echo "$fashion/test-images-idx3-ubyte.gz" ;;
  esac
}

# needs_test_images: skips the test where they are not.
needs_test_images() {
  local model
  for model in "${models[@]}"; do
    [ -f "$(test_images "$model")" ] || skip "the shared test images are not there: $(test_images "$model")"
  done
}
