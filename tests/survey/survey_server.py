"""A convoyd of the survey's own: loads one model at a time, is asked for tensors, unloads it again."""

import http.client
import json
import pathlib
import re
import subprocess
import time

import numpy

CONFIGURATION = {
    "model_control": "explicit",
    "batching": {"max_batch": 2},
    "http": {"threads": 1, "max_body_bytes": 64 << 20},
    "worker": {"streams": 1, "slots": 2, "slot_bytes": 32 << 20, "hang_timeout_ms": 120000},
    "timeout_ms": 600000,
    "tune": "off",
}
START_S = 30


class Refused(Exception):
    """The daemon's sentence."""


class Died(Exception):
    """The daemon or its worker ended, or does not answer: never right."""


class Daemon:
    """work: a folder for its configuration, log and models. build: the folder above bin/convoyd."""

    def __init__(self, build, backend, work, limit_s):
        self.program = pathlib.Path(build, "bin", "convoyd")
        self.backend, self.limit_s = backend, limit_s
        self.models, self.log, self.configuration = work / "models", work / "convoyd.log", work / "convoyd.json"
        self.models.mkdir(parents=True, exist_ok=True)
        self.configuration.write_text(json.dumps(CONFIGURATION), encoding="utf-8")
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
        head = {
            "inputs": [
                {
                    "name": input_name,
                    "datatype": "FP32",
                    "shape": list(images.shape),
                    "parameters": {"binary_data_size": len(data)},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
        text = json.dumps(head).encode()
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
