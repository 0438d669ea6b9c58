#!/usr/bin/env bash
# What the surveys (tests/survey) ask a convoyd of: a model that is loaded over HTTP and asked for tensors and files, one that is
# refused with a sentence, and that what they may not do is no refusal of a model. The surveys themselves need PyTorch and hours.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

"$python" - "$build" "$work" <<'PYTHON' || fail "see above"
import pathlib, shutil, sys

sys.path.insert(0, "tests/survey")
sys.dont_write_bytecode = True
import numpy
import survey_server

build, work = sys.argv[1], pathlib.Path(sys.argv[2])
images = numpy.zeros((2, 3, 32, 32), numpy.float32)
daemon = survey_server.Daemon(build, "cpu", work / "survey", 60)
shutil.copytree("models/cifar10-convnet", daemon.models / "cifar10-convnet")
(daemon.models / "broken" / "1").mkdir(parents=True)
(daemon.models / "broken" / "1" / "model.onnx").write_bytes(b"no model")
try:
    daemon.start()
    daemon.load("cifar10-convnet")
    outputs = daemon.infer("cifar10-convnet", "image", images)
    assert [values.shape for values in outputs.values()] == [(2, 10)], outputs
    file = pathlib.Path("models/samples/ship.jpg").read_bytes()
    assert [values.shape for values in daemon.infer_file("cifar10-convnet", "image", file).values()] == [(1, 10)]
    daemon.unload("cifar10-convnet")
    for ask in lambda: daemon.infer("cifar10-convnet", "image", images), lambda: daemon.load("broken"):
        try:
            ask()
            raise SystemExit("a model that is not loaded answered")
        except survey_server.Refused as error:
            assert str(error), "no sentence"
finally:
    daemon.stop()

daemon = survey_server.Daemon(build, "cpu", work / "closed", 60, auth={})
try:
    daemon.start()
    daemon.load("cifar10-convnet")
    raise SystemExit("who may not load a model loaded one")
except survey_server.Died as error:
    assert "may not ask" in str(error), error
finally:
    daemon.stop()
PYTHON
