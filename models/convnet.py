"""The network cifar10-convnet: three times (convolution 5x5, ReLU, 2x2 max pool) with 16, 20 and 20 maps, and
a dense layer of ten: 22,466 weights."""

import copy

import torch
from torch import nn

MAPS = (16, 20, 20)
CLASSES = 10


class ConvNet(nn.Module):
    """Float32 N x 3 x 32 x 32, normalised, to N x 10 logits.

    While it trains, a batch norm follows every convolution, which lets it train with large steps. folded()
    gives the network without them, which computes the same."""

    def __init__(self, maps=MAPS, batch_norm=True):
        super().__init__()
        layers, channels = [], 3
        for k in maps:
            layers.append(nn.Conv2d(channels, k, 5, padding=2, bias=not batch_norm))
            if batch_norm:
                layers.append(nn.BatchNorm2d(k))
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
            channels = k
        self.features = nn.Sequential(*layers)
        self.dense = nn.Linear(channels * 4 * 4, CLASSES)

    def forward(self, x):
        return self.dense(torch.flatten(self.features(x), 1))

    def folded(self):
        """A copy on the CPU in which each batch norm has become a part of its convolution's weights and bias:
        w' = w g / sqrt(v + e), b' = beta - m g / sqrt(v + e) (Ioffe and Szegedy 2015, at inference)."""
        convolutions = [m for m in self.features if isinstance(m, nn.Conv2d)]
        norms = [m for m in self.features if isinstance(m, nn.BatchNorm2d)]
        plain = ConvNet([c.out_channels for c in convolutions], batch_norm=False)
        targets = [m for m in plain.features if isinstance(m, nn.Conv2d)]
        with torch.no_grad():
            for conv, norm, target in zip(convolutions, norms, targets, strict=True):
                gain = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
                target.weight.copy_(conv.weight.double() * gain.reshape(-1, 1, 1, 1))
                target.bias.copy_(norm.bias.double() - norm.running_mean.double() * gain)
            plain.dense.load_state_dict({k: v.cpu() for k, v in self.dense.state_dict().items()})
        return plain.eval()


def count(net):
    """(weights, multiply-adds of one image) of a folded network on 32 x 32 pixels."""
    weights = sum(p.numel() for p in net.parameters())
    size, adds = 32, 0
    for layer in net.features:
        if isinstance(layer, nn.Conv2d):
            adds += layer.weight.numel() * size * size
        elif isinstance(layer, nn.MaxPool2d):
            size //= 2
    return weights, adds + net.dense.weight.numel()


class Average:
    """An exponential moving average of a network's weights and batch-norm statistics. It ends a training run
    better than the last step does, whose weights still carry the noise of its batch."""

    def __init__(self, net, decay):
        self.net = copy.deepcopy(net).eval()
        self.decay = decay
        self.steps = 0

    @torch.no_grad()
    def update(self, net):
        # The first steps count for less, or the random start would stay in the average of a short run.
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        own, new = self.net.state_dict(), net.state_dict()
        floats = [k for k, v in own.items() if v.is_floating_point()]
        torch._foreach_lerp_([own[k] for k in floats], [new[k] for k in floats], 1.0 - decay)
