"""PyTorch networks as ONNX files, by either of PyTorch's exporters."""

import warnings

import torch

EXPORTERS = ("dynamo", "torchscript")
TORCHSCRIPT_OPSET = 17
MOST_INSIDE = 1 << 30  # bytes of weights that are kept inside the file; protobuf ends at 2 GiB


def weight_bytes(network):
    return sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())


def by_torchscript(network, example, path, open_batch, opset=TORCHSCRIPT_OPSET):
    axes = {"image": {0: "n"}, "classes": {0: "n"}} if open_batch else None
    torch.onnx.export(
        network,
        (example,),
        str(path),
        opset_version=opset,
        input_names=["image"],
        output_names=["classes"],
        dynamic_axes=axes,
        dynamo=False,
    )


def by_dynamo(network, example, path, open_batch, opset=None, beside=None):
    """beside: whether weights lie in a file of their own, None: only where they are many."""
    options = {"opset_version": opset} if opset else {}
    torch.onnx.export(
        network,
        (example,),
        str(path),
        input_names=["image"],
        output_names=["classes"],
        dynamic_shapes=({0: torch.export.Dim("n")},) if open_batch else None,
        dynamo=True,
        external_data=weight_bytes(network) > MOST_INSIDE if beside is None else beside,
        verbose=False,
        **options,
    )


def export(network, size, path, exporter="dynamo", opset=None, channels=3, beside=None):
    """Writes network (on the CPU, in eval mode) to path: input "image" float32 batch x channels x height x
    width, output "classes". size: (height, width). The batch is open where the exporter can leave it so.
    Returns whether it is. Raises what the exporter raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for open_batch in (True, False):
            # A batch of 2, because the exporters take a 1 for a constant.
            example = torch.randn(2 if open_batch else 1, channels, *size)
            try:
                if exporter == "torchscript":
                    by_torchscript(network, example, path, open_batch, opset or TORCHSCRIPT_OPSET)
                else:
                    by_dynamo(network, example, path, open_batch, opset, beside)
                return open_batch
            except Exception:  # the exporters raise all kinds
                if not open_batch:
                    raise
    return False
