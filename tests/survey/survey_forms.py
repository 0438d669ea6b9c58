"""Further forms in which hubs offer an ONNX file beside the float32 one: in float16, with weights in 8 bits whose products take
activations that are quantised as they come (dynamic quantisation), with weights in 4 bits."""

import numpy
import onnx
from onnxruntime.quantization import QuantType, matmul_nbits_quantizer, quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16

FORMS = ("fp16", "quint8", "qint8", "q4")
BLOCK = 32  # weights that share a scale in 4 bits


def lifted(model):
    """Changes a model with float16 inside to float32 all over, with the same values of weights: what it would say without rounding
    on the way."""
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    for i, tensor in enumerate(model.graph.initializer):
        if tensor.data_type == half:
            values = onnx.numpy_helper.to_array(tensor).astype(numpy.float32)
            model.graph.initializer[i].CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == half:
                attribute.i = single
            if attribute.HasField("t") and attribute.t.data_type == half:
                attribute.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(attribute.t).astype(numpy.float32)))
    del model.graph.value_info[:]
    return model


def write(plain, form, path):
    """Writes the float32 file `plain` in another form to path. Returns what survey_sources.write() does of it."""
    if form == "fp16":
        model = convert_float_to_float16(onnx.load(plain), keep_io_types=True)
        onnx.save(model, path)
        reference = path.parent.parent / "lifted.onnx"
        onnx.save(lifted(model), reference)
        return {"reference": str(reference)}
    if form == "q4":
        quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(plain), block_size=BLOCK, is_symmetric=True)
        quantizer.process()
        onnx.save(quantizer.model.model, path)
        return {}
    # optimum's choice for processors without VNNI, and the hub's for transformers.js
    kind = {"quint8": QuantType.QUInt8, "qint8": QuantType.QInt8}[form]
    quantize_dynamic(plain, path, weight_type=kind, per_channel=form == "qint8", extra_options={"EnableSubgraph": True})
    return {"single": True}
