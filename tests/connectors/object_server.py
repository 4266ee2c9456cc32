"""A real S3 server (moto's), which fails when it is told to."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

LOST_ANSWER = 0
"""As a status: the store does what it is asked to, but answers with 503."""


@dataclass
class ObjectStore:
    """A bucket of the server; `faults` answer before it does.

    A fault is a method, a part of the path, how often to answer in place of the store, and with which status.
    """

    port: int
    bucket: str
    faults: list[list[Any]]

    def uri(self, path: str) -> str:
        return (
            f"s3://testing:secret@{self.bucket}/{path}?endpoint_override=http%3A%2F%2F127.0.0.1%3A{self.port}"
            f"&scheme=http&region=us-east-1"
        )

    def environment(self) -> dict[str, str]:
        """What lets a process reach the store as `s3://BUCKET/PATH`."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def names(self, path: str) -> list[str]:
        """The objects whose names begin so, hidden ones too."""
        file_system, directory = pyarrow.fs.FileSystem.from_uri(self.uri(path))
        selector = pyarrow.fs.FileSelector(directory, recursive=True, allow_not_found=True)
        found = file_system.get_file_info(selector)
        return sorted(info.path[len(directory) + 1 :] for info in found if info.is_file)


class _Faulty:
    """Answers for the store where a fault says so."""

    def __init__(self, application: Any, faults: list[list[Any]]) -> None:
        self._application = application
        self._faults = faults
        self._conditional = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        for fault in self._faults:
            method, part, _, status = fault
            if fault[2] and method == environ["REQUEST_METHOD"] and part in environ["PATH_INFO"]:
                fault[2] -= 1
                if status == LOST_ANSWER:
                    b"".join(self._application(environ, lambda *_: None))
                    status = 503
                else:
                    # Without a length the read would wait until the client closes the connection.
                    environ["wsgi.input"].read(*map(int, filter(None, [environ.get("CONTENT_LENGTH")])))
                code = "AccessDenied" if status == 403 else "SlowDown"
                body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
                start_response(f"{status} Injected", [("Content-Length", str(len(body)))])
                return [body]
        if "HTTP_IF_NONE_MATCH" in environ:
            # moto looks for the object and stores it in two steps.
            with self._conditional:
                return self._application(environ, start_response)
        return self._application(environ, start_response)


class ObjectServer:
    """The server, in a thread; as a context manager it starts and stops."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self._faults: list[list[Any]] = []
        application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, _Faulty(application, self._faults), threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> ObjectServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def create_store(self, bucket: str) -> ObjectStore:
        """A new bucket, and no faults."""
        self._faults.clear()
        store = ObjectStore(self._server.server_port, bucket, self._faults)
        uri = store.uri("").replace("/?", "?") + "&allow_bucket_creation=true"
        file_system, path = pyarrow.fs.FileSystem.from_uri(uri)
        file_system.create_dir(path)
        return store
