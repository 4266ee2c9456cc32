"""Writes that object stores perform only if the path is free: `If-None-Match: *` and its equivalents.

pyarrow, which does all other I/O, offers none (26.0). So S3 goes through boto3, and the others through the
fsspec file systems that are known to send the condition to the server. fsspec's generic `mode="create"` is
not enough: a file system may ignore it, or look first and write then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from pyarrow import fs

from ...common.errors import CheckpointStorageError
from ...protocol.checkpoints.storage_retries import is_transient_status
from .checkpoint_storage import TransientStorageError

CreateFile = Callable[[str, bytes], bool]
"""Writes the content of a path (without scheme) if there is none; returns whether it did."""

_FSSPEC_PACKAGES = {"gs": ("gcsfs", "gcs"), "gcs": ("gcsfs", "gcs")}
"""By scheme, the package with its file system, and the extra of Tidegate that installs it."""


class NoConditionalWritesError(CheckpointStorageError):
    """A storage, as it is installed here, cannot create a file only if it does not exist."""


def create_file(filesystem: fs.FileSystem, uri: str) -> CreateFile:
    """How to create a file on a remote file system if its path is free.

    Args:
        filesystem: As pyarrow opened it.
        uri: Of a directory in it.

    Raises:
        NoConditionalWritesError: It has no such operation, or its library is not installed.
    """
    parts = urlsplit(uri)
    place = urlunsplit((parts.scheme, parts.netloc, "", parts.query, ""))
    if parts.scheme == "s3":
        return _s3_create(place, filesystem.region)
    if parts.scheme in _FSSPEC_PACKAGES:
        return _fsspec_create(place)
    raise NoConditionalWritesError(
        f"{parts.scheme}:// cannot create a file only if it does not exist; use a directory that all nodes "
        f"mount, s3:// or gs://"
    )


def _not_installed(scheme: str, package: str, extra: str) -> NoConditionalWritesError:
    return NoConditionalWritesError(
        f"{scheme}:// needs the package {package} to create a file only if it does not exist; install "
        f"'tidegate[{extra}]' in every process of the job"
    )


@functools.cache
def _s3_create(uri: str, region: str) -> CreateFile:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from botocore.exceptions import ConnectionError as BotoConnectionError
    except ImportError as error:
        raise _not_installed("s3", "boto3", "s3") from error
    parts = urlsplit(uri)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    endpoint = options.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    client: Any = boto3.client(
        "s3",
        region_name=region or None,
        endpoint_url=endpoint,
        aws_access_key_id=unquote(parts.username) if parts.username else None,
        aws_secret_access_key=unquote(parts.password) if parts.password else None,
        # A repeated request would find the file of the first one, and report it as another caller's.
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=10),
    )

    def create(path: str, data: bytes) -> bool:
        bucket, _, key = path.partition("/")
        try:
            client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if status == 412:
                return False
            kind = TransientStorageError if is_transient_status(status) else CheckpointStorageError
            raise kind(
                f"checkpoint storage failed at {path}: {error}; check the bucket, the permissions, and that "
                f"the store knows conditional writes (If-None-Match)"
            ) from error
        except (HTTPClientError, BotoConnectionError) as error:
            raise TransientStorageError(f"checkpoint storage failed at {path}: {error}") from error
        except BotoCoreError as error:
            raise CheckpointStorageError(
                f"checkpoint storage failed at {path}: {error}; check region and credentials"
            ) from error
        return True

    return create


@functools.cache
def _fsspec_create(uri: str) -> CreateFile:
    import fsspec

    scheme = urlsplit(uri).scheme
    try:
        filesystem, _ = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise _not_installed(scheme, *_FSSPEC_PACKAGES[scheme]) from error

    def create(path: str, data: bytes) -> bool:
        try:
            filesystem.pipe_file(path, data, mode="create")
        except FileExistsError:
            # It repeats requests by itself, so this may be the file of its own first one.
            return bool(data) and bytes(filesystem.cat_file(path)) == data
        except OSError:
            raise
        except Exception as error:
            code = getattr(error, "code", None)
            is_again = isinstance(code, int) and is_transient_status(code)
            kind = TransientStorageError if is_again else CheckpointStorageError
            raise kind(
                f"checkpoint storage failed at {path}: {error}; check the bucket and the permissions"
            ) from error
        return True

    return create
