#!/usr/bin/env python3
"""Writes the onnx package's node tests of the operators that image classifiers are made of, as folders:
node_cases.py write FOLDER [OPERATOR...] makes FOLDER/OPERATOR/CASE/model.onnx and test_data_set_0/*.pb, as the ONNX project's
own test data lie; node_cases.py run FOLDER PROGRAM runs the conformance test of PROGRAM (unit_engine_backends) over each
operator's cases and counts. Cases whose tensors are no plain tensors (sequences, optional ones) are left out by name."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

OPERATORS = """
    Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Cast CastLike Ceil
    Celu Clip Concat Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace
    DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand Flatten Floor Gather
    GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization
    HardSigmoid HardSwish Identity If InstanceNormalization LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax LpNormalization LpPool LRN MatMul MatMulInteger Max MaxPool Mean Min Mish Mod Mul Neg Not OneHot Pad Pow
    PRelu QLinearConv QLinearMatMul QuantizeLinear Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize RMSNormalization Round Selu
    Shape Sigmoid Sin Sinh Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh
    ThresholdedRelu Tile TopK Transpose Unsqueeze Upsample Where
""".split()
RESULT = re.compile(r"^case (\S+) (agrees|refused: |WRONG: )(.*)$", re.M)


def tensor_of(value):
    """As onnx.TensorProto, or None: a sequence, an optional tensor."""
    import numpy
    import onnx

    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return onnx.numpy_helper.from_array(numpy.asarray(value))
    return value if isinstance(value, onnx.TensorProto) else None


def write_case(case, folder):
    """Returns whether it could be written."""
    inputs, outputs = [[tensor_of(value) for value in values] for values in case.data_sets[0]]
    if None in inputs + outputs:
        return False
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, tensor in enumerate(values):
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
    return True


def cases_by_operator():
    """An operator that is a function has its cases once more, written out in other operators ("_expanded")."""
    import onnx.backend.test.case.node as node

    found, operator_of = collections.defaultdict(list), {}
    cases = [case for case in node.collect_testcases() if case.data_sets]  # all at once: the package does it once only
    for case in cases:
        if len(case.model.graph.node) == 1:
            operator_of[case.name] = case.model.graph.node[0].op_type
    for case in cases:
        plain = re.sub("_expanded.*", "", case.name)
        found[operator_of.get(plain, operator_of.get(case.name, "others"))].append(case)
    return found


def write(folder, operators):
    warnings.simplefilter("ignore")
    found = cases_by_operator()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    without, left, count = [], [], 0
    for operator in operators:
        if not found[operator]:
            without.append(operator)
        for case in found[operator]:
            if write_case(case, folder / operator / case.name):
                count += 1
            else:
                left.append(case.name)
    print(f"{count} cases of {len(operators) - len(without)} operators; without cases: {', '.join(without) or 'none'}")
    if left:
        print(f"left out, because they have sequences or optional tensors: {', '.join(left)}")


def results_of(folder, program):
    """{case: (result, sentence)} of the cases in folder; a case that ends the program has the result "DIED"."""
    environment = dict(os.environ, CONVOY_CASES=str(folder))
    done = subprocess.run(
        [program, "--filter", "conformance/*", "-j1"], env=environment, capture_output=True, text=True, check=False, errors="replace"
    )
    found = {name: (result.strip(": "), sentence) for name, result, sentence in RESULT.findall(done.stdout)}
    missing = sorted(path.name for path in folder.iterdir() if path.name not in found)
    for i, name in enumerate(missing):
        found[name] = ("DIED" if i == 0 else "not run", done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "")
    return found


def run(folder, program):
    total, bad, everything = collections.Counter(), [], {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        found = results_of(place, program)
        everything[place.name] = found
        counts = collections.Counter(result for result, _ in found.values())
        total.update(counts)
        print(f"{place.name}: " + ", ".join(f"{count} {result}" for result, count in sorted(counts.items())), flush=True)
        for name, (result, sentence) in sorted(found.items()):
            if result != "agrees":
                sentence = sentence.removeprefix(f"{place / name}/model.onnx: ")
                print(f"    {name} {result}: {sentence}", flush=True)
            if result in ("WRONG", "DIED"):
                bad.append(name)
    (folder / "results.json").write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(total.values())} cases: " + ", ".join(f"{count} {result}" for result, count in sorted(total.items())))
    print(f"wrong or died: {', '.join(bad) or 'none'}")
    return int(bool(bad))


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "write":
        return write(pathlib.Path(sys.argv[2]), sys.argv[3:] or OPERATORS)
    if len(sys.argv) == 4 and sys.argv[1] == "run":
        return run(pathlib.Path(sys.argv[2]).resolve(), sys.argv[3])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
