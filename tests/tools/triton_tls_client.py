#!/usr/bin/env python3
"""A convoyd with TLS and keys as NVIDIA's own client sees it (tritonclient from PyPI, http and http.aio).

    triton_tls_client.py HOST:PORT AUTHORITY STRANGER INFER_KEY ADMIN_KEY

AUTHORITY signed the daemon's certificate, STRANGER did not; both are files. Every function below is a test; prints a
line for each, exit status 1 when one failed."""

import asyncio
import ssl
import sys
import traceback

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException

SERVER, AUTHORITY, STRANGER, INFER_KEY, ADMIN_KEY = sys.argv[1:]
MODEL, INPUT, OUTPUT = "cifar10-convnet", "image", "logits"
ROWS = np.random.default_rng().standard_normal((3, 3, 32, 32)).astype(np.float32)


def key():
    """New each time: the client writes headers of one request into the dictionary that it is given."""
    return {"Authorization": f"Bearer {INFER_KEY}"}


def connect(authority=AUTHORITY, **options):
    return http.InferenceServerClient(SERVER, concurrency=4, ssl=True, ssl_options={"ca_certs": authority}, **options)


def given(binary=True):
    inputs = [http.InferInput(INPUT, list(ROWS.shape), "FP32")]
    inputs[0].set_data_from_numpy(ROWS, binary_data=binary)
    return inputs


def check(result):
    assert result.as_numpy(OUTPUT).shape == (3, 10), result.get_response()


def refusal(call, status):
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == str(status), error
        return
    raise AssertionError(f"no {status}")


def headers_on_each_call():
    with connect() as client:
        assert client.is_server_ready()  # health needs no key
        assert client.is_model_ready(MODEL, headers=key())
        assert client.get_model_metadata(MODEL, headers=key())["name"] == MODEL
        for binary in (True, False):
            check(client.infer(MODEL, given(binary), headers=key()))
        check(client.infer(MODEL, given(), headers=key(), request_compression_algorithm="gzip"))
        for waiting in [client.async_infer(MODEL, given(), headers=key()) for _ in range(8)]:
            check(waiting.get_result())


def key_by_plugin():
    """The client's own way to send a header with every call."""

    class Bearer(http.InferenceServerClientPlugin):
        def __call__(self, request):
            request.headers.update(key())

    with connect() as client:
        client.register_plugin(Bearer())
        check(client.infer(MODEL, given()))
        assert client.get_inference_statistics(MODEL)["model_stats"][0]["name"] == MODEL


def keys_that_do_not_suffice():
    with connect() as client:
        refusal(lambda: client.infer(MODEL, given()), 401)
        refusal(lambda: client.infer(MODEL, given(), headers={"Authorization": "Bearer guess"}), 401)
        refusal(lambda: client.unload_model(MODEL, headers=key()), 403)
        check(client.infer(MODEL, given(), headers=key()))


def admin_by_key():
    with connect() as client:
        admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
        client.unload_model(MODEL, headers=admin)
        client.load_model(MODEL, headers=admin)
        check(client.infer(MODEL, given(), headers=key()))


def certificate_is_checked():
    with connect(STRANGER) as client:
        try:
            client.is_server_live()
        except ssl.SSLError as error:
            assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
        else:
            raise AssertionError("a certificate that nothing vouches for is trusted")
    plain = http.InferenceServerClient(SERVER)
    try:
        plain.is_server_live()
    except Exception:  # pylint: disable=broad-except
        pass
    else:
        raise AssertionError("plain HTTP is answered")
    plain.close()


def asyncio_client():
    async def run():
        context = ssl.create_default_context(cafile=AUTHORITY)
        async with aio.InferenceServerClient(SERVER, ssl=True, ssl_context=context) as client:
            assert await client.is_server_ready()
            for result in await asyncio.gather(*(client.infer(MODEL, given(), headers=key()) for _ in range(8))):
                check(result)
            try:
                await client.infer(MODEL, given())
            except InferenceServerException as error:
                assert error.status() == "401", error
            else:
                raise AssertionError("no 401")

    asyncio.run(run())


def main():
    failed = 0
    for test in (
        headers_on_each_call,
        key_by_plugin,
        keys_that_do_not_suffice,
        admin_by_key,
        certificate_is_checked,
        asyncio_client,
    ):
        try:
            test()
            print(f"{test.__name__}: passed", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"{test.__name__}: FAILED\n{traceback.format_exc()}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
