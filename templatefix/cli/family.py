"""A model whose Jinja text is in force on an Ollama server: a Go template of its family that wins over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, cast

from templatefix.cli.inputs import chat_template_of

if TYPE_CHECKING:
    from templatefix.analysis.analyse import Analysis
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.rewrite.family import Replacement
    from templatefix.rewrite.result import PatchResult
    from templatefix.servers.targets import Target


def in_force(found: Target) -> Target | None:
    """The target with the Jinja text that its server makes prompts with; None where it does not."""
    shown = found.shown
    if shown is None or not shown.renders_jinja:
        return None
    if found.jinja is not None:
        return found
    from templatefix.gotemplate.source import Source
    from templatefix.servers.jinja_source import JinjaSource
    from templatefix.servers.memory import attention_of

    jinja = JinjaSource(shown.template, memory=attention_of(shown.model_info))
    return dataclasses.replace(found, source=Source(shown.template, found.name), jinja=jinja, reason="")


def replaced(found: Target, select: Collection[str], ignore: Collection[str]) -> PatchResult:
    """What becomes of a model whose Jinja text is in force: a Go template in its place with its proof, or why not."""
    from templatefix.analysis.analyse import analyse
    from templatefix.rewrite.family import NoReplacement
    from templatefix.rewrite.result import NO_VERDICT, PatchResult, Refusal
    from templatefix.servers.families import BuiltIn, NoFamily

    target = in_force(found)
    assert target is not None
    jinja = cast("JinjaChatTemplate", chat_template_of(target))
    analysis = analyse(jinja)
    text = jinja.source.text
    errors = [finding.code for finding in analysis.findings if finding.severity == "error"]
    codes = list(dict.fromkeys(code for code in errors if code not in NO_VERDICT))

    def refused(codes: Collection[str], reason: str) -> PatchResult:
        told = tuple([Refusal(code, reason) for code in codes or [""]])
        return PatchResult(text, text, False, refused=told, remaining=analysis.findings)

    if analysis.verdict == "stable":
        if found.reason:
            return refused(["TF401"], found.reason)
        return PatchResult(text, text, False, remaining=analysis.findings)
    if left := [code for code in codes if (select and not _begins(code, select)) or _begins(code, ignore)]:
        return refused(left, "left out by the choice of codes, and the rest is not enough")
    try:
        return replacement(jinja, analysis)
    except (NoFamily, NoReplacement) as error:
        by_file = isinstance(error, BuiltIn) or codes == ["TF203"]
        said = f"{found.reason or _IN_FORCE}, and {error}; {_AS_FILE if by_file else _AS_GGUF}"
        return refused(["TF401"] if found.reason else codes, said)


def parser_of(result: PatchResult) -> str:
    """The PARSER that a tag needs beside the template; empty: none."""
    from templatefix.rewrite.family import Replacement

    return result.parser if isinstance(result, Replacement) else ""


def template_for(text: str) -> str:
    """The Go template that takes the place of a Jinja text; the text itself where none does. Raises RenderError."""
    from templatefix.analysis.analyse import analyse
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.servers.families import NoFamily, family_of

    jinja = JinjaChatTemplate(text)
    try:
        return text if analyse(jinja).verdict == "stable" else family_of(jinja).template
    except NoFamily:
        return text


_IN_FORCE = "the Jinja text in the weights is in force, Ollama takes no other from a client"
_AS_GGUF = "patch the GGUF file itself with --gguf OUT, and make a model of OUT (FROM OUT)"
_AS_FILE = "-o FILE writes a variant of the Jinja text for llama-server"  # Ollama shows past thinking to no Jinja text


def _begins(code: str, beginnings: Collection[str]) -> bool:
    return any(code.startswith(beginning) for beginning in beginnings)


def replacement(jinja: JinjaChatTemplate, analysis: Analysis) -> Replacement:
    """The Go template of a Jinja text's family, proved. Raises NoFamily, NoReplacement."""
    from templatefix.chat.go import GoChatTemplate
    from templatefix.rewrite.family import replace_by
    from templatefix.servers.families import capabilities_of, family_of

    family = family_of(jinja)
    return replace_by(
        jinja,
        analysis,
        GoChatTemplate(family.template),
        family=family.name,
        parser=family.parser,
        capabilities=capabilities_of(jinja.source.text),
    )
