"""The networks that ship, and what all of them need: folding batch norms, counting, averaging weights.

Each takes float32 N x C x H x W, normalised, and gives N x 10 logits."""

import copy

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10


class Convolution(nn.Module):
    """A convolution that keeps the size (unless it strides), with a batch norm while it trains, which lets it
    train with large steps."""

    def __init__(self, channels, maps, size, stride=1, padding=None):
        super().__init__()
        padding = size // 2 if padding is None else padding
        self.conv = nn.Conv2d(channels, maps, size, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(maps)

    def forward(self, x):
        return self.norm(self.conv(x))

    def folded(self):
        """One convolution that computes the same: w' = w g / sqrt(v + e), b' = beta - m g / sqrt(v + e)
        (Ioffe and Szegedy 2015, at inference)."""
        conv, norm = self.conv, self.norm
        plain = nn.Conv2d(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, bias=True
        )
        gain = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        with torch.no_grad():
            plain.weight.copy_(conv.weight.double() * gain.reshape(-1, 1, 1, 1))
            plain.bias.copy_(norm.bias.double() - norm.running_mean.double() * gain)
        return plain


def lenet(dropout):
    """fashion-lenet: 28 x 28 grey; one convolution 5 x 5 of 50 maps, tanh, 2 x 2 max pool, and 500 hidden
    units."""
    return nn.Sequential(
        Convolution(1, 50, 5, padding=0),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(50 * 12 * 12, 500),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(500, CLASSES),
    )


def ece408(dropout):
    """fashion-ece408: 72 x 72 grey; two convolutions 7 x 7 without bias, so there is no batch norm either: it
    would fold into one."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 7, bias=False),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 7, bias=False),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(24 * 27 * 27, 160),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(160, CLASSES),
    )


def convnet(dropout):
    """cifar10-convnet: three times (convolution 5 x 5, ReLU, 2 x 2 max pool) and a dense layer."""
    layers, channels = [], 3
    for maps in (16, 20, 20):
        layers += [Convolution(channels, maps, 5), nn.ReLU(), nn.MaxPool2d(2)]
        channels = maps
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels * 4 * 4, CLASSES))


class Block(nn.Module):
    """Two convolutions 3 x 3 and a way around them (He et al. 2016), which is a convolution 1 x 1 where the
    shape changes."""

    def __init__(self, channels, maps, stride):
        super().__init__()
        self.first = Convolution(channels, maps, 3, stride)
        self.second = Convolution(maps, maps, 3)
        # The block begins as no more than its way around, which steadies the first epochs.
        nn.init.zeros_(self.second.norm.weight)
        same = stride == 1 and channels == maps
        self.around = nn.Identity() if same else Convolution(channels, maps, 1, stride, padding=0)

    def forward(self, x):
        return functional.relu(self.second(functional.relu(self.first(x))) + self.around(x))


def resnet(dropout, blocks=(4, 4, 4), maps=(32, 64, 128)):
    """cifar10-resnet: a convolution 3 x 3, then blocks at 32 x 32, 16 x 16 and 8 x 8, the mean over all
    places, and a dense layer."""
    layers, channels = [Convolution(3, maps[0], 3), nn.ReLU()], maps[0]
    for stage, (count, wide) in enumerate(zip(blocks, maps, strict=True)):
        for i in range(count):
            layers.append(Block(channels, wide, 2 if stage > 0 and i == 0 else 1))
            channels = wide
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*layers)


BUILDERS = {
    "fashion-lenet": lenet,
    "fashion-ece408": ece408,
    "cifar10-convnet": convnet,
    "cifar10-resnet": resnet,
}


def folded(net):
    """A copy on the CPU for inference: batch norms folded into their convolutions, no dropout."""

    def replace(module):
        for name, child in module.named_children():
            if isinstance(child, Convolution):
                setattr(module, name, child.folded())
            elif isinstance(child, nn.Dropout):
                setattr(module, name, nn.Identity())
            else:
                replace(child)

    plain = copy.deepcopy(net).cpu().to(memory_format=torch.contiguous_format).eval()
    replace(plain)
    return plain.eval()


def count(net, channels, size):
    """(weights, multiply-adds of one image) of a folded network on channels x size x size."""
    adds = 0

    def add(module, _, output):
        nonlocal adds
        per_output = module.weight[0].numel()
        adds += per_output * output.numel()

    hooks = [m.register_forward_hook(add) for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    with torch.no_grad():
        net(torch.zeros(1, channels, size, size))
    for hook in hooks:
        hook.remove()
    return sum(p.numel() for p in net.parameters()), adds


class Average:
    """An exponential moving average of a network's weights and batch-norm statistics. It ends a training run
    better than the last step does, whose weights still carry the noise of its batch."""

    def __init__(self, net, decay):
        self.net = copy.deepcopy(net).eval()
        self.decay = decay
        self.steps = 0
        own, new = self.net.state_dict(), net.state_dict()
        self.pairs = [(own[k], new[k]) for k, v in own.items() if v.is_floating_point()]

    @torch.no_grad()
    def update(self):
        # The first steps count for less, or the random start would stay in the average of a short run.
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        torch._foreach_lerp_([own for own, _ in self.pairs], [new for _, new in self.pairs], 1.0 - decay)
