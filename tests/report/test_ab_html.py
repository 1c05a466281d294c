"""The A/B page: whole in itself, and its bars say what the figures say."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures
from templatefix.lab.parts import Part
from templatefix.report.ab_html import ab_html

VOID = {"meta", "br", "img", "hr", "link", "input"}


class Page(HTMLParser):
    """The elements of a page, in order; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str, name: str) -> list[dict[str, str | None]]:
        return [attrs for found, attrs in self.elements if found == tag and name in (attrs.get("class") or "").split()]


def row(step: int, cached: int, *parts: tuple[str, int], scenario: str = "loop") -> RequestFigures:
    made = tuple(Part(kind, tokens) for kind, tokens in parts)  # type: ignore[arg-type]
    prompt = sum(part.tokens for part in made)
    return RequestFigures(scenario, step, prompt, cached, prompt - cached, 10, 1.0, True, parts=made)


MOVING = ArmFigures(
    "stock",
    (
        row(0, 0, ("system", 100), ("tools", 80), ("user", 18), ("tail", 2)),
        row(1, 120, ("system", 100), ("user", 20), ("assistant", 30), ("tool", 10)),
    ),
)
FIXED = ArmFigures(
    "fixed",
    (
        row(0, 0, ("system", 100), ("tools", 80), ("user", 18), ("tail", 2)),
        row(1, 190, ("system", 100), ("tools", 80), ("user", 20)),
    ),
)


def result(*arms: ArmFigures, reasons: tuple[str, ...] = ()) -> AbResult:
    return AbResult("embedded", "engine", "Llama 3", arms, reasons, attention="full")


def segments(page: Page) -> list[tuple[str, str, str]]:
    found = []
    for tag, attrs in page.elements:
        if tag == "i" and attrs.get("style"):
            tokens = re.search(r"(\d+) tokens (.*)", attrs["title"] or "")
            assert tokens is not None
            found.append((str(attrs["class"]), tokens[1], tokens[2]))
    return found


def test_a_bar_is_cut_where_the_cache_ends() -> None:
    found = segments(Page(ab_html(result(MOVING, FIXED))))
    first = [("system fresh", "100", "read"), ("tools fresh", "80", "read"), ("turns fresh", "20", "read")]
    assert found == [
        *first,
        *first,
        ("system", "100", "from the cache"),
        ("turns", "20", "from the cache"),
        ("turns fresh", "40", "read"),
        ("system", "100", "from the cache"),
        ("tools", "80", "from the cache"),
        ("turns", "10", "from the cache"),
        ("turns fresh", "10", "read"),
    ]


def test_widths_are_shares_of_the_widest_prompt() -> None:
    page = Page(ab_html(result(MOVING, FIXED)))
    widths = [
        float((attrs["style"] or "").removeprefix("width:").rstrip("%"))
        for tag, attrs in page.elements
        if tag == "i" and attrs.get("style")
    ]
    assert sum(widths[:3]) == pytest.approx(100)
    assert widths[6:9] == [50.0, 10.0, 20.0]


def test_the_page_needs_nothing_else() -> None:
    text = ab_html(result(MOVING, FIXED), ("a\nb", "a\nc"))
    page = Page(text)
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?:|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


def test_texts_are_shown_as_they_are() -> None:
    odd = ArmFigures('<b>&amp; "name"', MOVING.requests)
    page = Page(ab_html(result(odd, FIXED), ("{{ .A }}<x>\n", "{{ .B }}<x>\n")))
    assert '<b>&amp; "name"' in page.text
    assert "-{{ .A }}<x>" in page.text
    assert [
        attrs["class"] for tag, attrs in page.elements if tag == "span" and attrs.get("class") in ("add", "del")
    ] == ["del", "add"]


def test_verdict_and_reasons() -> None:
    assert Page(ab_html(result(MOVING, FIXED))).of("p", "better")
    spoiled = Page(ab_html(result(MOVING, FIXED, reasons=("the prompt does not fit",))))
    assert not spoiled.of("p", "better")
    assert spoiled.of("div", "invalid")
    assert "the prompt does not fit" in spoiled.text


def test_prompts_that_nobody_knows_are_bars_of_one_colour() -> None:
    bare = ArmFigures(
        "a", tuple(RequestFigures("loop", step, 100, 60 * step, 100 - 60 * step, 9, 1.0, True) for step in (0, 1))
    )
    page = Page(ab_html(result(bare, bare)))
    assert [found[:2] for found in segments(page)][-2:] == [("turns", "60"), ("turns fresh", "40")]
    assert "system text" not in page.text


def test_long_sessions_are_folded() -> None:
    rows = tuple(row(step, 90, ("system", 100), scenario="long") for step in range(20))
    page = Page(ab_html(result(ArmFigures("a", rows), ArmFigures("b", rows))))
    assert sum(tag == "details" for tag, _ in page.elements) == 2
    assert "20 requests" in page.text


def test_runs_that_came_to_nothing_have_a_page() -> None:
    assert (
        "interrupted" in Page(ab_html(result(ArmFigures("a", ()), ArmFigures("b", ()), reasons=("interrupted",)))).text
    )
