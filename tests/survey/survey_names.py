"""Which networks the survey tries: all classifiers of torchvision, and of each family of timm the smallest."""

import json
import pathlib
import re
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import pytorch_networks  # noqa: E402

MOST_PARAMETERS = 350_000_000
SIDE = re.compile(r"_(\d{3})(?:_|$)")


def family(source, name, module):
    """What networks of one design share: timm's source file, and the letters that their names begin with."""
    return f"{source}:{module}/{re.match('[a-z]+', name)[0]}"


def described(source, name):
    """(parameters, pixels of a side), or None where the constructor fails; no weights are made."""
    try:
        weights = pytorch_networks.weights_of(name) if source == "torchvision" else None
        if weights is not None:
            return weights.meta["num_params"], weights.transforms().crop_size[0]
        with torch.device("meta"):
            network, size = pytorch_networks.made(source, name)
        return sum(each.numel() for each in network.parameters()), size[0]
    except Exception as error:  # one that cannot be made like this is made for real if it is named
        print(f"{source}:{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def timm_candidates():
    """(name, module) of timm's networks. For their sides many have further members: the first is enough."""
    import timm

    for module in sorted(timm.list_modules()):
        seen = set()
        for name in sorted(timm.list_models(module=module), key=lambda text: (len(text), text)):
            plain = SIDE.sub("_", name).rstrip("_")
            if name.startswith("test_") or plain in seen:
                continue
            seen.add(plain)
            yield name, module


def catalogue():
    """{"SOURCE:NAME": {"family", "parameters", "side"}}"""
    import torchvision

    found = {}
    for name in torchvision.models.list_models(module=torchvision.models):
        about = described("torchvision", name)
        module = torchvision.models.get_model_builder(name).__module__.rpartition(".")[2]
        if about is not None:
            found[f"torchvision:{name}"] = {"family": f"torchvision:{module}", "parameters": about[0], "side": about[1]}
    for name, module in timm_candidates():
        about = described("timm", name)
        if about is not None:
            found[f"timm:{name}"] = {"family": family("timm", name, module), "parameters": about[0], "side": about[1]}
    return found


def chosen(found):
    """Names in the order in which they are tried: the smallest of each family, small ones first; then what else
    torchvision has."""
    usable = {name: about for name, about in found.items() if about["parameters"] <= MOST_PARAMETERS}
    order = sorted(usable, key=lambda name: (usable[name]["side"] ** 2 * usable[name]["parameters"], name))
    first = {}
    for name in order:
        first.setdefault(usable[name]["family"], name)
    rest = [name for name in order if name.startswith("torchvision:") and name not in first.values()]
    return sorted(first.values(), key=order.index) + rest


def main():
    """Writes the catalogue to the file that is named: it takes minutes, and is kept."""
    path = pathlib.Path(sys.argv[1])
    new = path.with_suffix(".new")
    new.write_text(json.dumps(catalogue(), indent=1) + "\n", encoding="utf-8")
    new.rename(path)


if __name__ == "__main__":
    main()
