#!/usr/bin/env python3
"""What people would write for photographs on a GPU: FastAPI, torchvision's decode_jpeg on the GPU, torch.compile in fp16, and batches that are
collected while the ones before them run. The peer of photographs.sh.

    python -m uvicorn peer_photographs:app --workers N       serves POST /classify?top=K (a JPEG in the body), and GET /ready
    peer_photographs.py FILE.jpg                             one picture, without a server: exit status 0, or 1 and a line that says what is missing

The environment:
    PEER_NETWORK  a network of torchvision (resnet50), with random weights: nothing is downloaded
    PEER_DEVICE   cuda, or cpu to try the program where there is no GPU: decoded and computed by the processor, in float32
    PEER_COMPILE  the mode of torch.compile (reduce-overhead, with CUDA graphs), or off
    PEER_BATCH    the largest batch (64); PEER_WAIT_MS how long one is waited for when less came (2)

A batch is filled up to one of a few sizes, as torch.compile makes a program for each. One thread decodes and resizes, one computes, so that the
two overlap; each process has both, and a batcher of its own.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import sys
import warnings

try:
    import torch
    import torchvision
    from fastapi import FastAPI, HTTPException, Request
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import functional
except ImportError as missing:
    sys.exit(f"{missing.name} is missing ({missing})")

NETWORK = os.environ.get("PEER_NETWORK", "resnet50")
DEVICE = os.environ.get("PEER_DEVICE", "cuda")
COMPILE = os.environ.get("PEER_COMPILE", "reduce-overhead")
BATCH = int(os.environ.get("PEER_BATCH", "64"))
WAIT_S = float(os.environ.get("PEER_WAIT_MS", "2")) / 1000
AHEAD = 2  # batches under way: one is decoded while the other is computed
RESIZE, CROP = 256, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPE = torch.float16 if DEVICE == "cuda" else torch.float32
SIZES = [size for size in (1, 4, 16, 32, 64, 128, 256) if size < BATCH] + [BATCH]

warnings.filterwarnings("ignore", message="The given buffer is not writable")
decoding, computing = (concurrent.futures.ThreadPoolExecutor(max_workers=1) for _ in range(2))
network = mean = std = None


def make_network():
    """On the thread that computes: CUDA graphs belong to the thread that recorded them."""
    global network, mean, std
    torch.backends.cudnn.benchmark = True
    network = torchvision.models.get_model(NETWORK, weights=None).eval()
    network = network.to(DEVICE, DTYPE, memory_format=torch.channels_last)
    mean, std = (torch.tensor(values, device=DEVICE, dtype=DTYPE).view(1, 3, 1, 1) for values in (MEAN, STD))
    if COMPILE != "off":
        network = torch.compile(network, mode=COMPILE, dynamic=False)
    for size in SIZES:
        for _ in range(3):  # compile, record, replay
            compute(torch.zeros(size, 3, CROP, CROP, dtype=torch.uint8, device=DEVICE), 1)


def decode(files):
    """Bytes to uint8 of N x 3 x CROP x CROP, and which of them are pictures."""
    buffers = [torch.frombuffer(file, dtype=torch.uint8) for file in files]
    try:
        images = decode_jpeg(buffers, mode=ImageReadMode.RGB, device=DEVICE)
    except RuntimeError:  # one of them is none
        images = []
        for buffer in buffers:
            try:
                images.append(decode_jpeg(buffer, mode=ImageReadMode.RGB, device=DEVICE))
            except RuntimeError:
                images.append(None)
    right = [image is not None for image in images]
    fitted = [
        functional.center_crop(functional.resize(image, RESIZE, antialias=True), CROP) for image in images if image is not None
    ]
    return (torch.stack(fitted) if fitted else None), right


def compute(pixels, top):
    """The best classes of each picture, as (probabilities, indices)."""
    count = len(pixels)
    size = next(size for size in SIZES if size >= count)
    if size > count:
        pixels = torch.cat([pixels, pixels.new_zeros(size - count, *pixels.shape[1:])])
    with torch.inference_mode():
        x = ((pixels.to(DTYPE) / 255 - mean) / std).contiguous(memory_format=torch.channels_last)
        best = network(x).float().softmax(1)[:count].topk(top)
    return list(zip(best.values.tolist(), best.indices.tolist()))


class Batcher:
    """Collects requests; each waits for its own result."""

    def __init__(self):
        self.waiting, self.under_way = asyncio.Queue(), asyncio.Semaphore(AHEAD)
        self.tasks = {asyncio.create_task(self.collect())}

    async def ask(self, file, top):
        answer = asyncio.get_running_loop().create_future()
        await self.waiting.put((file, top, answer))
        return await answer

    async def collect(self):
        while True:
            await self.under_way.acquire()
            batch = [await self.waiting.get()]
            end = asyncio.get_running_loop().time() + WAIT_S
            while len(batch) < BATCH:
                if self.waiting.empty():
                    left = end - asyncio.get_running_loop().time()
                    if left <= 0:
                        break
                    try:
                        batch.append(await asyncio.wait_for(self.waiting.get(), left))
                    except asyncio.TimeoutError:
                        break
                else:
                    batch.append(self.waiting.get_nowait())
            task = asyncio.create_task(self.run(batch))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def run(self, batch):
        loop = asyncio.get_running_loop()
        try:
            pixels, right = await loop.run_in_executor(decoding, decode, [file for file, _, _ in batch])
            best = []
            if pixels is not None:
                best = await loop.run_in_executor(computing, compute, pixels, max(top for _, top, _ in batch))
            results = iter(best)
            for (_, top, answer), decoded in zip(batch, right):
                result = next(results) if decoded else None
                if not answer.done():
                    answer.set_result(result and [values[:top] for values in result])
        except Exception as error:  # whatever it is, who waits is told
            for _, _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
        finally:
            self.under_way.release()


@contextlib.asynccontextmanager
async def lifespan(served):
    await asyncio.get_running_loop().run_in_executor(computing, make_network)
    served.state.batcher = Batcher()
    yield


app = FastAPI(lifespan=lifespan)


@app.get("/ready")
async def ready():
    return {"network": NETWORK, "device": DEVICE}


@app.post("/classify")
async def classify(request: Request, top: int = 5):
    best = await app.state.batcher.ask(await request.body(), top)
    if best is None:
        raise HTTPException(422, "this is no JPEG file that can be decoded")
    predictions = [{"label": str(index), "index": index, "probability": value} for value, index in zip(*best)]
    return {"results": [{"predictions": predictions}]}


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU (PEER_DEVICE=cpu tries the program without one)")
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    try:
        decode_jpeg(torch.frombuffer(data, dtype=torch.uint8), mode=ImageReadMode.RGB, device=DEVICE)
    except RuntimeError as error:
        sys.exit(f"torchvision {torchvision.__version__} does not decode JPEG files on {DEVICE}: {str(error).splitlines()[0]}")
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else "the processor"
    print(f"torchvision {torchvision.__version__}, torch {torch.__version__}, {where}")


if __name__ == "__main__":
    main()
