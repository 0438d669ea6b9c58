"""The training loop."""

import math
import sys
import time

import torch
from torch import nn

import batches
import networks
from data import DataError

BAR = 30  # characters


def optimizer_for(net, recipe, steps, fused):
    """The optimizer, and a one-cycle schedule: up over the first tenth of all steps, then down to zero along
    a cosine (Smith and Topin 2018; Loshchilov and Hutter 2017). Weight decay leaves biases and batch norms
    alone."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": recipe.decay},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if recipe.optimizer == "sgd":
        optimizer = torch.optim.SGD(groups, lr=recipe.rate, momentum=0.9, nesterov=True, fused=fused)
    else:
        optimizer = torch.optim.AdamW(groups, lr=recipe.rate, fused=fused)
    rise = max(1, steps // 10)

    def factor(step):
        if step < rise:
            return (step + 1) / rise
        return 0.5 * (1.0 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@torch.no_grad()
def accuracy(net, images, prepare, device):
    """The share of images whose highest logit is their label's."""
    right = 0
    for i in range(0, len(images), 2500):
        pixels = torch.from_numpy(images.pixels[i : i + 2500]).to(device)
        found = net(prepare(pixels)).argmax(1).cpu().numpy()
        right += int((found == images.labels[i : i + 2500]).sum())
    return right / len(images)


def record(net, images, batch, half):
    """Records the forward and backward pass as CUDA graphs, which net then runs by whenever it trains: such
    small networks keep a GPU waiting for launches otherwise (an epoch of cifar10-resnet takes 0.8 s with
    them and 1.3 s without, on one H200)."""
    shape = (batch, *images.pixels.shape[1:])
    example = torch.randn(shape, device="cuda").to(memory_format=torch.channels_last)
    # PyTorch warns of a stream that its own recording chose; nothing here waits on another.
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    with half:
        torch.cuda.make_graphed_callables(net, (example,))


class Progress:
    """A bar on the terminal for the epoch that runs, and nothing where standard error is none."""

    def __init__(self, epoch, epochs, steps):
        self.title, self.steps, self.done = f"epoch {epoch}/{epochs}", steps, 0
        self.shown = sys.stderr.isatty()

    def step(self):
        self.done += 1
        full = BAR * self.done // self.steps
        if self.shown and full > BAR * (self.done - 1) // self.steps:
            print(f"\r{self.title} [{'#' * full}{'.' * (BAR - full)}]", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.shown:
            print(f"\r{' ' * (len(self.title) + BAR + 3)}\r", end="", file=sys.stderr, flush=True)


def train(name, recipe, images, watched, prepare, device, seed, log):
    """Trains the network called name on images and returns its averaged weights' network. log() gets a line
    an epoch, with the accuracy on the watched images, if there are any."""
    torch.manual_seed(seed)
    on_gpu = device.startswith("cuda")
    net = networks.BUILDERS[name](recipe.dropout).to(device, memory_format=torch.channels_last)
    average = networks.Average(net, recipe.average)
    dealt = batches.Batches(images, recipe, prepare, device, seed)
    optimizer, schedule = optimizer_for(net, recipe, recipe.epochs * len(dealt), on_gpu)
    measure = nn.CrossEntropyLoss(label_smoothing=recipe.smoothing)
    half = torch.autocast(
        "cuda" if on_gpu else "cpu", torch.bfloat16, enabled=recipe.half, cache_enabled=not on_gpu
    )
    if on_gpu:
        record(net, images, dealt.batch, half)
    start = time.monotonic()
    for epoch in range(1, recipe.epochs + 1):
        net.train()
        total = torch.zeros((), device=device)
        progress = Progress(epoch, recipe.epochs, len(dealt))
        for pixels, shares in dealt:
            with half:
                output = net(pixels.to(memory_format=torch.channels_last))
            loss = measure(output.float(), shares)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update()
            total += loss.detach()
            progress.step()
        loss = total.item() / len(dealt)
        progress.clear()
        if not math.isfinite(loss):
            raise DataError(f"The loss is {loss} in epoch {epoch}; take a lower rate than {recipe.rate}.")
        line = f"epoch {epoch}/{recipe.epochs} loss {loss:.4f} rate {schedule.get_last_lr()[0]:.5f}"
        if watched:
            line += f" held-out accuracy {accuracy(average.net, watched, prepare, device):.4f}"
        log(f"{line} time {time.monotonic() - start:.1f} s")
    return average.net
