"""A small blocking client of the cluster's API server: the handful of calls that running a cluster takes."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iris_devcluster.errors import DevclusterError
from iris_devcluster.pki import Pair


class ApiError(DevclusterError):
    """The API server refused; `status` is the HTTP status, 0 when it could not be reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """One connection per call: calls are rare, and the server may have been restarted in between."""

    def __init__(self, host: str, authority: Path, client: Pair, timeout_seconds: float = 10) -> None:
        self._host, self._authority, self._client = host, authority, client
        self._timeout = timeout_seconds

    def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """The decoded answer; ApiError on any status of 400 and above, and with status 0 on no answer."""
        status, raw = self._exchange(method, path, body, content_type)
        if status >= 400:
            raise ApiError(status, f"{method} {path}: {status} {_message(raw)}")
        return json.loads(raw) if raw.startswith(b"{") else raw.decode()

    def _exchange(self, method: str, path: str, body: object, content_type: str) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self._authority))
        context.load_cert_chain(str(self._client.certificate), str(self._client.key))
        connection = http.client.HTTPSConnection(self._host, 6443, timeout=self._timeout, context=context)
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"the API server at {self._host} does not answer: {error}") from error
        finally:
            connection.close()

    def ready(self) -> bool:
        """Whether /readyz says ok."""
        try:
            self.call("GET", "/readyz")
        except ApiError:
            return False
        return True

    def exists(self, path: str) -> bool:
        """Whether there is an object at its full path."""
        try:
            self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def apply(self, path: str, body: Mapping[str, Any]) -> Any:
        """Server-side apply of one object at its full path; takes over fields that others set."""
        query = "?fieldManager=iris-devcluster&force=true"
        return self.call("PATCH", path + query, body, "application/apply-patch+yaml")

    def delete(self, path: str) -> None:
        """Delete one object; fine when there is none."""
        try:
            self.call("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise


def _message(raw: bytes) -> str:
    try:
        return str(json.loads(raw).get("message", ""))
    except ValueError:
        return raw[:200].decode(errors="replace")
