"""A model registry: manifests and small layers over the distribution API, never weights."""

from __future__ import annotations

import hashlib

from templatefix.servers.errors import BadAnswer, ModelNotFound, ServerRefused
from templatefix.servers.host import is_local
from templatefix.servers.http import http_errors
from templatefix.servers.names import ModelName
from templatefix.servers.store import CONFIG, SMALL, Layer, Manifest

_CHUNK = 64 * 1024
LIMIT = 8 * 1024 * 1024  # bytes of a small layer
_ACCEPT = "application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """The registry that a name says."""

    def __init__(
        self, name: ModelName, *, insecure: bool = False, connect: float = 10.0, silence: float = 60.0
    ) -> None:
        """A registry on loopback, or with `insecure`, is asked without TLS; times are in seconds."""
        plain = insecure or is_local(f"http://{name.host}" + ("" if ":" in name.host else ":80"))
        self.url = f"{'http' if plain else 'https'}://{name.host}"
        self._path = f"/v2/{name.namespace}/{name.model}"
        self._name = name
        self._times = (connect, silence)

    def manifest(self) -> Manifest:
        """The manifest of the name; raises ServerError (ModelNotFound where there is none)."""
        data = self._get(f"{self._path}/manifests/{self._name.tag}", f"{self._name.shortest}", LIMIT)
        try:
            return Manifest.from_bytes(data)
        except ValueError as error:
            raise BadAnswer(f"{self.url} does not answer as a registry does: it sent no manifest") from error

    def small_layer(self, layer: Layer) -> bytes:
        """The bytes of a config, template, params, system or messages layer; raises ServerError if they do not fit."""
        if layer.kind not in SMALL and layer.media_type != CONFIG:
            raise ValueError(f"a {layer.kind} layer is not read")
        if layer.size > LIMIT:
            raise BadAnswer(f"{self.url} has a {layer.kind} layer of {layer.size} bytes, which is none")
        data = self._get(
            f"{self._path}/blobs/{layer.digest}", f"the {layer.kind} layer of {self._name.shortest}", LIMIT
        )
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != layer.digest:
            raise BadAnswer(f"{self.url} sent a {layer.kind} layer that does not fit its digest")
        return data

    def _get(self, path: str, what: str, limit: int) -> bytes:
        import requests

        with http_errors(self.url, "registry", f"send {what}"), requests.Session() as session:
            session.trust_env = not is_local(self.url)
            with session.get(self.url + path, headers={"Accept": _ACCEPT}, timeout=self._times, stream=True) as answer:
                data = b""
                for chunk in answer.iter_content(_CHUNK):
                    data += chunk
                    if len(data) > limit:
                        break
        if answer.status_code == 404:
            raise ModelNotFound(f"there is no {what} on {self.url}")
        if answer.status_code in (401, 403):
            raise ServerRefused(f"{self.url} wants a login for {what}", "login", answer.status_code)
        if answer.status_code != 200:
            sentence = f"status {answer.status_code}"
            raise ServerRefused(f"{self.url} says: {sentence}", sentence, answer.status_code)
        if len(data) > limit:
            raise BadAnswer(f"{self.url} sent more than {limit} bytes for {what}")
        return data
