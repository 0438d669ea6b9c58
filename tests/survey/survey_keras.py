"""Networks of keras.applications, and small ones as tutorials write them, for the survey: channels last, softmax at the end."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import contextlib  # noqa: E402
import re  # noqa: E402

import keras  # noqa: E402
import numpy  # noqa: E402
import tensorflow  # noqa: E402
import tf2onnx  # noqa: E402

OPSET = 17
CALIBRATION_IMAGES = 4
USUAL_SIDE = 224  # where the network leaves it open
SCORE_SCALE = 10  # of the last layer, or softmax would make nearly the same of all images
LARGE = re.compile("ConvNeXt|VGG|NASNetLarge|EfficientNet(B[4-7]|V2[ML])|ResNet152|ResNet101V2")
# These have Rescaling or Normalization inside: they take pixels of 0 to 255.
PIXELS = re.compile("ConvNeXt|EfficientNet|MobileNetV3|Tutorial")


def tutorial_flowers():
    """As TensorFlow's tutorial on image classification: https://www.tensorflow.org/tutorials/images/classification"""
    layers = keras.layers
    augmentation = [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1), layers.RandomZoom(0.1)]
    convolutions = [part for maps in (16, 32, 64) for part in (layers.Conv2D(maps, 3, padding="same", activation="relu"), layers.MaxPooling2D())]
    return keras.Sequential(
        [
            keras.Input((180, 180, 3)),
            keras.Sequential(augmentation),
            layers.Rescaling(1 / 255),
            *convolutions,
            layers.Dropout(0.2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(5),
        ]
    )


def tutorial_digits():
    """As Keras' example of digits: https://keras.io/examples/vision/mnist_convnet/; grey images."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def tutorial_transfer():
    """As TensorFlow's tutorial on transfer learning: a network's own preprocessing, its features, a new last layer."""
    layers = keras.layers
    image = keras.Input((160, 160, 3))
    values = layers.RandomFlip("horizontal")(image)
    values = layers.Rescaling(1 / 127.5, offset=-1)(values)
    values = keras.applications.MobileNetV2((160, 160, 3), include_top=False, weights=None)(values, training=False)
    values = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(values))
    return keras.Model(image, layers.Dense(1, activation="sigmoid")(values))


def tutorial_separable():
    """As Keras' example of cats and dogs: separable convolutions, additions, batch normalisation."""
    layers = keras.layers
    image = keras.Input((180, 180, 3))
    values = layers.Rescaling(1 / 255)(image)
    values = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(128, 3, strides=2, padding="same")(values)))
    before = values
    for size in (256, 512):
        for _ in range(2):
            values = layers.Activation("relu")(values)
            values = layers.BatchNormalization()(layers.SeparableConv2D(size, 3, padding="same")(values))
        values = layers.MaxPooling2D(3, strides=2, padding="same")(values)
        before = values = layers.add([values, layers.Conv2D(size, 1, strides=2, padding="same")(before)])
    values = layers.Activation("relu")(layers.BatchNormalization()(layers.SeparableConv2D(728, 3, padding="same")(values)))
    values = layers.Dropout(0.25)(layers.GlobalAveragePooling2D()(values))
    return keras.Model(image, layers.Dense(2, activation="softmax")(values))


TUTORIALS = {
    "TutorialDigits": tutorial_digits,
    "TutorialFlowers": tutorial_flowers,
    "TutorialTransfer": tutorial_transfer,
    "TutorialSeparable": tutorial_separable,
}


def names():
    """The large ones last."""
    parts = vars(keras.applications).items()
    found = [name for name, part in parts if callable(part) and name[0].isupper()]
    return [*TUTORIALS, *sorted(found, key=lambda name: (bool(LARGE.match(name)), name))]


def images(shape, count, chance, pixels):
    return (chance.uniform(0, 255, (count, *shape)) if pixels else chance.standard_normal((count, *shape))).astype(numpy.float32)


def layers_of(network):
    for layer in network.layers:
        yield layer
        if isinstance(layer, keras.Model):
            yield from layers_of(layer)


def livened(network, chance):
    """As pytorch_networks.livened(): no scale of 1 or 1e-6, no shift of 0."""
    for variable in network.trainable_variables:
        values = numpy.asarray(variable)
        least, most = values.min(), values.max()
        if least == most == 0:
            variable.assign(chance.normal(0, 0.1, values.shape))
        elif least == most:
            typical = abs(least) if abs(least) > 0.1 else 0.2
            variable.assign(chance.uniform(0.7 * typical, 1.3 * typical, values.shape))


def calibrated(network, batch):
    """Statistics as after training: those of random images. What else is random in training stays off."""
    for layer in layers_of(network):
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
        elif isinstance(layer, keras.layers.Normalization):
            # Keras' own constants become inputs of the file (tf2onnx 1.17, Keras 3.15); those of NumPy stay what they are.
            layer.mean, layer.variance = numpy.asarray(layer.mean) + 0.5, numpy.asarray(layer.variance) * 1.5
        for key in ("rate", "drop_path_rate"):
            if hasattr(layer, key):
                setattr(layer, key, 0.0)
    network(batch, training=True)
    last = network.layers[-1] if network.layers[-1].weights else network.layers[-2]
    for variable in last.trainable_variables[:1]:
        variable.assign(SCORE_SCALE * numpy.asarray(variable))
    return network


def write(source, name, exporter, seed, path):
    keras.utils.set_random_seed(seed)
    chance = numpy.random.default_rng(seed)
    network = TUTORIALS[name]() if name in TUTORIALS else getattr(keras.applications, name)(weights=None)
    shape, pixels = [side or USUAL_SIDE for side in network.input_shape[1:]], bool(PIXELS.match(name))
    livened(network, chance)
    calibrated(network, images(shape, CALIBRATION_IMAGES, chance, pixels))
    about = {"parameters": network.count_params(), "image": shape, "open_batch": True, "pixels": pixels}
    with contextlib.redirect_stdout(None):
        if exporter == "keras":
            network.export(str(path), format="onnx", verbose=False)
        else:
            first = exporter == "tf2onnx-nchw"
            described = [tensorflow.TensorSpec((None, *shape), tensorflow.float32, name="image")]
            function = tensorflow.function(lambda image: network(image, training=False), input_signature=described)
            tf2onnx.convert.from_function(
                function, described, opset=OPSET, inputs_as_nchw=["image"] if first else None, output_path=str(path)
            )
            if first:
                about["image"] = [shape[2], *shape[:2]]
    return about
