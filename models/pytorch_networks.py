"""Image classifiers of torchvision and timm by name, as trained or with random weights."""

import torch

SOURCES = ("torchvision", "timm")
# Networks that torchvision's weights give options to.
TRAINED_WITH = {"googlenet": {"transform_input": True}, "inception_v3": {"transform_input": True}}


class NoNetwork(Exception):
    """A sentence: there is no such network, or its source is not installed."""


def find(name):
    """(source, name) of "SOURCE:NAME", or of a bare name: torchvision's where it has it, else timm's."""
    source, colon, rest = name.partition(":")
    if colon and source not in SOURCES:
        raise NoNetwork(f"'{name}': the source is torchvision, timm or transformers, as in timm:resnet50.")
    missing = []
    for candidate in (source,) if colon else SOURCES:
        try:
            if (rest if colon else name) in names(candidate):
                return candidate, rest if colon else name
        except ImportError:
            missing.append(candidate)
    without = f" ({' and '.join(missing)}: not installed)" if missing else ""
    raise NoNetwork(f"'{name}' is neither a file nor a network of {' or '.join((source,) if colon else SOURCES)}{without}.")


def names(source):
    """All names of a source that may be created; timm's with their tags ("resnet50.a1_in1k"), too."""
    if source == "timm":
        import timm

        return set(timm.list_models()) | set(timm.list_pretrained())
    import torchvision

    return set(torchvision.models.list_models(module=torchvision.models))


def weights_of(name):
    """torchvision's weights for the network, which are what it is best with. None where there are none."""
    import torchvision

    return getattr(torchvision.models.get_model_weights(name), "DEFAULT", None)


def made(source, name, trained=False, like_trained=True):
    """The network and (height, width) of its images. With trained its weights are downloaded, or are those of
    the cache; else they are what the constructor draws, and like_trained says whether the network is built as
    for trained weights, or as the constructor builds it by default."""
    if source == "timm":
        import timm

        network = timm.create_model(name, pretrained=trained)
        return network.eval(), tuple(network.default_cfg["input_size"][1:])
    import torchvision

    weights = weights_of(name)
    if trained and weights is None:
        raise NoNetwork(f"torchvision has no weights for {name}.")
    options = {}
    if not trained and name in TRAINED_WITH:
        options = {"init_weights": True, **(TRAINED_WITH[name] if like_trained else {})}
    network = torchvision.models.get_model(name, weights=weights if trained else None, **options)
    crop = weights.transforms().crop_size[0] if weights else 224
    return network.eval(), (crop, crop)


def fan_in(parameter):
    return max(parameter[0].numel(), 1)


def livened(network):
    """Draws again what a constructor sets so that parts of the network do nothing: scales of 1 or 1e-6, shifts
    and last layers of 0, weights so small that attention is uniform. A wrong scale or shift then shows in the
    network's output."""
    with torch.no_grad():
        for parameter in network.parameters():
            least, most = parameter.min().item(), parameter.max().item()
            usual = fan_in(parameter) ** -0.5
            if least == most == 0:
                parameter.normal_(std=usual if parameter.ndim > 1 else 0.1)
            elif least == most:
                typical = abs(least) if abs(least) > 0.1 else 0.2
                parameter.uniform_(0.7 * typical, 1.3 * typical)
            elif parameter.ndim > 1 and parameter.std().item() < usual / 2:
                parameter.mul_(usual / parameter.std())
    return network


def calibrated(network, size, images=16, batches=4):
    """Statistics of batch normalisation as after training: those of random images; what else is random in
    training stays off. size: (height, width)."""
    norms = [part for part in network.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    network.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
        norm.train()
    with torch.no_grad():
        for _ in range(batches if norms else 0):
            network(torch.randn(images, 3, *size))
    return network.eval()
