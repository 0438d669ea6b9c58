"""How each network that ships is trained. Every figure was chosen on training images that were kept out
(train.py --holdout); the test images chose nothing. What is recorded of the comparisons stands in the
model cards."""

import dataclasses

from data import DataError


@dataclasses.dataclass(frozen=True)
class Recipe:
    data: str  # the data set, see data.load()
    size: int  # pixels of the network's input
    epochs: int
    batch: int
    rate: float  # the highest learning rate of the cycle
    decay: float  # weight decay
    average: float  # decay of the weights' moving average per step
    optimizer: str = "sgd"  # with Nesterov's momentum 0.9; or "adamw"
    smoothing: float = 0.0  # label smoothing
    dropout: float = 0.0  # before each dense layer, of the networks that have it
    half: bool = False  # compute in bfloat16 where PyTorch holds that to be safe
    # What is done to each training image, at random:
    shift: int = 0  # moved by so many pixels at most each way
    mirror: str = "all"  # which classes are mirrored: all, none, or clothes (shoes all point one way)
    turn: float = 0.0  # turned by so many degrees at most
    zoom: float = 0.0  # made wider and higher by this share at most, each for itself
    slant: float = 0.0  # sheared by this share at most
    light: float = 0.0  # brightness and contrast changed by this share at most
    erase: float = 0.0  # a square of up to this share of the width is made the mean colour
    mix: float = 0.0  # share of batches in which images are blended in pairs (mixup)
    paste: float = 0.0  # share of batches in which a rectangle comes from another image (cutmix)


RECIPES = {
    "fashion-lenet": Recipe(
        data="fashion-mnist",
        size=28,
        epochs=300,
        batch=64,
        rate=1e-3,
        decay=0.05,
        average=0.998,
        optimizer="adamw",
        smoothing=0.1,
        dropout=0.5,
        shift=2,
        mirror="clothes",
        turn=8.0,
        zoom=0.1,
        slant=0.05,
        light=0.15,
        erase=0.4,
    ),
    "fashion-ece408": Recipe(
        data="fashion-mnist",
        size=72,
        epochs=300,
        batch=64,
        rate=3e-4,
        decay=0.05,
        average=0.998,
        optimizer="adamw",
        smoothing=0.1,
        dropout=0.5,
        shift=5,
        mirror="clothes",
        turn=8.0,
        zoom=0.1,
        slant=0.05,
        erase=0.3,
        mix=0.5,
    ),
    "cifar10-convnet": Recipe(
        data="cifar10",
        size=32,
        epochs=800,
        batch=256,
        rate=0.15,
        decay=5e-4,
        average=0.999,
        shift=3,
    ),
    "cifar10-resnet": Recipe(
        data="cifar10",
        size=32,
        epochs=420,
        batch=512,
        rate=0.4,
        decay=5e-4,
        average=0.999,
        smoothing=0.1,
        half=True,
        shift=4,
        erase=0.25,
        paste=0.5,
    ),
}


def changed(recipe, settings):
    """recipe with KEY=VALUE settings; DataError for one that cannot be."""
    types = {field.name: field.type for field in dataclasses.fields(Recipe)}
    values = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key not in types:
            raise DataError(f"A recipe has no '{key}'; it has {', '.join(types)}.")
        try:
            values[key] = {"True": True, "False": False}[text] if types[key] is bool else types[key](text)
        except (KeyError, ValueError) as error:
            raise DataError(f"'{setting}' is no setting: {key} is of type {types[key].__name__}.") from error
    recipe = dataclasses.replace(recipe, **values)
    if recipe.epochs < 1 or recipe.batch < 1 or recipe.shift < 0:
        raise DataError("epochs and batch must be 1 or more, shift 0 or more.")
    if recipe.optimizer not in ("sgd", "adamw") or recipe.mirror not in ("all", "none", "clothes"):
        raise DataError("optimizer is sgd or adamw, mirror is all, none or clothes.")
    return recipe
