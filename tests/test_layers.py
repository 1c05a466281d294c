"""Every room imports only from itself and from rooms below it, also for types alone; no library prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("gotemplate", "chat", "analysis", "rules", "rewrite", "servers", "lab", "trace", "report", "cli")
REGISTRY = "templatefix.analysis.registry"  # reaches the rules by importlib, and is alone in doing so


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "templatefix").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
    for path in sorted((ROOT / "rules").glob("*.py")):
        yield f"templatefix.rules.{path.stem}".removesuffix(".__init__"), path


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "templatefix" else ""


def imports(module: str, source: str, is_package: bool = False) -> Iterator[str]:
    """The modules that a module names in import statements, wherever they stand."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                kept = package[: len(package) - node.level + 1]
                base = ".".join([*kept, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def climbs(module: str, source: str, is_package: bool = False) -> list[str]:
    """The imports of a module from rooms above its own."""
    own = room_of(module)
    order = ROOMS.index(own) if own else -1
    return [
        name
        for name in imports(module, source, is_package)
        if room_of(name) in ROOMS and ROOMS.index(room_of(name)) > order
    ]


MODULES = list(modules())


def test_every_folder_is_a_room() -> None:
    found = {room_of(module) for module, _ in MODULES} - {""}
    assert found <= {*ROOMS, "__init__"}
    assert {"gotemplate", "chat", "analysis", "rules", "rewrite", "servers", "lab", "report", "cli"} <= found


@pytest.mark.parametrize(("module", "path"), MODULES, ids=[module for module, _ in MODULES])
def test_imports_go_down(module: str, path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert climbs(module, source, path.name == "__init__.py") == []
    if module != REGISTRY:
        assert not any(name.startswith("templatefix.rules") for name in imports(module, source))


@pytest.mark.parametrize(
    "statement",
    [
        "import templatefix.lab.ab",
        "from templatefix.lab import ab",
        "from templatefix.lab.ab import Arm",
        "from templatefix import lab",
        "from ..lab import ab",
        "from .. import cli",
        "if TYPE_CHECKING:\n    from templatefix.report.style import Style",
        "def late():\n    import templatefix.cli.main",
    ],
)
def test_a_climb_is_seen(statement: str) -> None:
    assert climbs("templatefix.servers.tags", statement)
    assert not climbs("templatefix.cli.check", statement)


def test_libraries_do_not_print() -> None:
    for module, path in MODULES:
        if room_of(module) == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "input", "breakpoint"), f"{module}:{node.lineno}"
