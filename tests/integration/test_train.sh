#!/usr/bin/env bash
# models/train.py reads its data before anything else, and says in a sentence what cannot be trained on: which file it
# is, and what to do. (test_train_epoch.sh trains.)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

"$python" -c 'import numpy, PIL' 2>/dev/null || skip "there is no NumPy or Pillow (python3-numpy, python3-pil) to read data with"
export PYTHONDONTWRITEBYTECODE=1
"$python" tests/tools/training_data.py "$work/sound"

# train MODEL ARGUMENT...: reads the data in $work/data; status and output land in $status and $work/out.
train() {
  local model=$1
  shift
  status=0
  "$python" models/train.py "$model" --data "$work/data" --check "$@" >"$work/out" 2>&1 || status=$?
}
# taken MODEL PATTERN: the data are taken.
taken() {
  train "$1"
  [ $status -eq 0 ] || fail "sound data are refused: $(cat "$work/out")"
  grep -q "$2" "$work/out" || fail "not '$2': $(cat "$work/out")"
}
# refused MODEL PATTERN ARGUMENT...: status 1 and one line, a sentence of that pattern.
refused() {
  local model=$1 pattern=$2
  shift 2
  train "$model" "$@"
  [ $status -eq 1 ] || fail "'$pattern': status $status: $(cat "$work/out")"
  [ "$(wc -l <"$work/out")" = 1 ] || fail "more than a sentence: $(cat "$work/out")"
  grep -qE "^train.py: .*$pattern.*[.]\$" "$work/out" || fail "no sentence of '$pattern': $(cat "$work/out")"
}
# afresh: $work/data as they should be.
afresh() {
  rm -rf "$work/data"
  cp -r "$work/sound" "$work/data"
}
# pack: the CIFAR images as an archive in place of the folder.
pack() {
  tar czf "$work/data/cifar10-jpg/train.tar.gz" -C "$work/data/cifar10-jpg" train
  rm -r "$work/data/cifar10-jpg/train"
}
jpegs=$work/data/cifar10-jpg
fashion=$work/data/fashion-mnist

echo "Sound data, as a folder, an archive, IDX files."
afresh
taken cifar10-resnet '^30 training images: airplane 3,.* truck 3$'
pack
taken cifar10-convnet '^30 training images: airplane 3,.* truck 3$'
taken fashion-lenet '^30 training images: T-shirt/top 3,.* Ankle boot 3$'
taken fashion-ece408 '^30 training images: T-shirt/top 3,.* Ankle boot 3$'

echo "Nothing there, or nothing in it."
rm -r "$work/data"
refused cifar10-resnet "no data folder $work/data;.*--data"
mkdir -p "$jpegs"
refused cifar10-resnet "$jpegs/train.tar.gz is missing;.*train/CLASS/NAME.jpg"
refused fashion-lenet "$fashion/train-images-idx3-ubyte.gz is missing"
mkdir "$jpegs/train"
refused cifar10-resnet "$jpegs/train holds no JPEG"
mkdir "$jpegs/train/cat"
touch "$jpegs/train/cat/notes.txt"
refused cifar10-resnet "$jpegs/train holds no JPEG"
pack
refused cifar10-resnet "$jpegs/train.tar.gz holds no JPEG"

echo "Broken images."
afresh
head -c 300 "$work/sound/cifar10-jpg/train/cat/1.jpg" >"$jpegs/train/cat/1.jpg"
refused cifar10-resnet 'cat/1.jpg in .* cannot be decoded \(.*\); replace it'
pack
refused cifar10-resnet 'train/cat/1.jpg in .*train.tar.gz cannot be decoded'
afresh
echo 'no picture' >"$jpegs/train/ship/0.jpg"
refused cifar10-resnet 'ship/0.jpg in .* cannot be decoded'
afresh
cp models/samples/ship.jpg "$jpegs/train/ship/2.jpg"
refused cifar10-resnet 'ship/2.jpg in .* is 128 x 128 pixels; 32 x 32 are expected'
afresh
pack
head -c 9000 "$jpegs/train.tar.gz" >"$work/cut"
mv "$work/cut" "$jpegs/train.tar.gz"
refused cifar10-resnet "$jpegs/train.tar.gz is no readable tar.gz archive"

echo "Wrong classes."
afresh
rm -r "$jpegs/train/deer"
refused cifar10-resnet "holds 9 classes \(airplane,.*\); a folder for each of the 10"
afresh
cp -r "$jpegs/train/deer" "$jpegs/train/elk"
refused cifar10-resnet 'holds 11 classes \(.* elk,'
afresh
mv "$jpegs/train/deer" "$jpegs/train/elk"
refused cifar10-resnet 'holds 10 classes \(.* elk,'
afresh
rm "$jpegs/train/frog/1.jpg" "$jpegs/train/frog/2.jpg"
refused cifar10-resnet "'frog' has 1 train images .*; every class needs 2"

echo "Damaged IDX files."
afresh
head -c 2000 "$work/sound/fashion-mnist/train-images-idx3-ubyte.gz" >"$fashion/train-images-idx3-ubyte.gz"
refused fashion-lenet 'train-images-idx3-ubyte.gz cannot be unpacked'
cp "$fashion/train-labels-idx1-ubyte.gz" "$fashion/train-images-idx3-ubyte.gz"
refused fashion-lenet 'train-images-idx3-ubyte.gz is no IDX file of bytes with 3 dimensions'
afresh
# shellcheck disable=SC2059 # what is written are escapes
labels() { printf "$1" | gzip >"$fashion/train-labels-idx1-ubyte.gz"; }
labels '\0\0\10\1\0\0\0\3\0\1'
refused fashion-lenet 'train-labels-idx1-ubyte.gz holds 2 bytes where its head announces 3'
labels '\0\0\10\1\0\0\0\3\0\1\2'
refused fashion-ece408 'holds 30 train images and 3 labels'
labels "\\0\\0\\10\\1\\0\\0\\0\\36$(printf '\\%o' 10 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9)"
refused fashion-lenet 'train-labels-idx1-ubyte.gz names class 10; there are 10 classes, 0 to 9'
labels "\\0\\0\\10\\1\\0\\0\\0\\36$(printf '\\%o' 0 1 2 3 4 5 6 7 8 0 0 1 2 3 4 5 6 7 8 0 0 1 2 3 4 5 6 7 8 0)"
refused fashion-lenet "'Ankle boot' has 0 train images"

echo "A recipe that cannot be."
afresh
refused cifar10-resnet "has no 'epoch'; it has .*epochs" --set epoch=3
refused cifar10-resnet "'epochs=many' is no setting: epochs is of type int" --set epochs=many
refused cifar10-resnet 'epochs and batch must be 1 or more' --set epochs=0
refused fashion-lenet '--holdout 30 leaves none of 30 images' --holdout 30
refused fashion-lenet '--fold 5 is not there: 30 images have 5 parts of 7' --holdout 7 --fold 5
