"""A convoyd of a survey's own, which loads models and is asked for tensors."""

import http.client
import json
import pathlib
import re
import struct
import subprocess
import time

import numpy

CONFIGURATION = {
    "model_control": "explicit",
    "auth": {"loopback_admin": True},  # models are loaded over HTTP
    "batching": {"max_batch": 2},
    "http": {"threads": 1, "max_body_bytes": 64 << 20},
    "worker": {"streams": 1, "slots": 2, "slot_bytes": 32 << 20, "hang_timeout_ms": 120000},
    "timeout_ms": 600000,
    "tune": "off",
    "images": {"scaled_decoding": "off"},  # as the libraries that it is compared with decode
}
START_S = 120


class Refused(Exception):
    """The daemon's sentence."""


class Died(Exception):
    """The daemon or its worker ended, or does not answer: never right."""


class Daemon:
    """work: a folder for its configuration, log and models. build: the folder above bin/convoyd. settings: of its
    configuration, over CONFIGURATION."""

    def __init__(self, build, backend, work, limit_s, **settings):
        self.program = pathlib.Path(build, "bin", "convoyd")
        self.backend, self.limit_s = backend, limit_s
        self.models, self.log, self.configuration = work / "models", work / "convoyd.log", work / "convoyd.json"
        self.models.mkdir(parents=True, exist_ok=True)
        self.configuration.write_text(json.dumps(CONFIGURATION | settings), encoding="utf-8")
        self.process = self.port = None

    def start(self):
        command = [self.program, "--config", self.configuration, "--models", self.models]
        command += ["--backend", self.backend, "--listen", "127.0.0.1:0"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stderr=log)
        end = time.monotonic() + START_S
        while self.port is None:
            if self.process.poll() is not None or time.monotonic() > end:
                raise Died(f"convoyd did not start: {self.log.read_text(errors='replace')[-500:]}")
            found = re.search(r'msg="convoyd listens".* port=(\d+)', self.log.read_text(errors="replace"))
            if found:
                self.port = int(found[1])
            else:
                time.sleep(0.05)

    def start_ready(self):
        """Starts it and waits until all models of its folder are loaded or failed."""
        self.start()
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.limit_s)
            try:
                connection.request("GET", "/v2/health/ready")
                if connection.getresponse().status == 200:
                    return
            finally:
                connection.close()
            time.sleep(0.05)
        raise Died(f"convoyd was not ready within {START_S} s: {self.log.read_text(errors='replace')[-500:]}")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = self.port = None

    def deaths(self):
        """How often a worker died so far."""
        return self.log.read_text(errors="replace").count('msg="worker died"')

    def post(self, path, body, headers=None):
        """(status, headers, bytes)"""
        if self.process is None or self.process.poll() is not None:
            self.stop()
            self.start()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.limit_s)
        try:
            connection.request("POST", path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except TimeoutError as error:
            self.stop()
            raise Died(f"no answer within {self.limit_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            status = self.process.poll()
            self.stop()
            raise Died(f"the connection broke ({error}); convoyd's status is {status}") from error
        finally:
            connection.close()

    def checked(self, path, body, headers=None):
        deaths = self.deaths() if self.process is not None else 0
        status, headers, content = self.post(path, body, headers)
        if self.deaths() > deaths:
            raise Died(f"the worker died: {content[:300].decode(errors='replace')}")
        if status in (401, 403):
            raise Died(f"the survey may not ask for {path}: {content[:300].decode(errors='replace')}")
        if status != 200:
            try:
                raise Refused(json.loads(content)["error"])
            except (ValueError, KeyError) as error:
                raise Died(f"status {status} without a sentence: {content[:200]!r}") from error
        return headers, content

    def load(self, name):
        self.checked(f"/v2/repository/models/{name}/load", "{}", {"Content-Type": "application/json"})

    def unload(self, name):
        self.checked(f"/v2/repository/models/{name}/unload", "{}", {"Content-Type": "application/json"})

    def infer(self, name, input_name, images):
        """images: float32 N x C x H x W. The outputs by name."""
        data = numpy.ascontiguousarray(images, "<f4").tobytes()
        return self.infer_binary(name, {"name": input_name, "datatype": "FP32", "shape": list(images.shape)}, data)

    def infer_file(self, name, input_name, file):
        """file: bytes of an image. The outputs by name."""
        data = struct.pack("<I", len(file)) + file
        return self.infer_binary(name, {"name": input_name, "datatype": "BYTES", "shape": [1]}, data)

    def infer_binary(self, name, tensor, data):
        tensor["parameters"] = {"binary_data_size": len(data)}
        text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text)), "Content-Type": "application/octet-stream"}
        headers, content = self.checked(f"/v2/models/{name}/infer", text + data, headers)
        length = int(headers["Inference-Header-Content-Length"])
        outputs, place = {}, length
        for output in json.loads(content[:length])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            values = numpy.frombuffer(content[place : place + size], "<f4")
            outputs[output["name"]] = values.reshape(output["shape"])
            place += size
        return outputs
