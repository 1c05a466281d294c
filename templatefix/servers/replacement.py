"""A model whose Jinja text is in force on an Ollama server: whether a Go template is to replace it, and which."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.gotemplate.source import Source
from templatefix.rewrite.family import NoReplacement, Replacement, replace_by
from templatefix.rewrite.result import NO_VERDICT, PatchResult, Refusal
from templatefix.servers.families import BuiltIn, NoFamily, capabilities_of, family_of
from templatefix.servers.jinja_source import from_shown
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.targets import Target

_IN_FORCE = "the Jinja text in the weights is in force, Ollama takes no other from a client"
_AS_GGUF = "patch the GGUF file itself with --gguf OUT, and make a model of OUT (FROM OUT)"
_AS_FILE = "-o FILE writes a variant of the Jinja text for llama-server"  # Ollama shows past thinking to no Jinja text


def in_force(found: Target) -> Target | None:
    """The target with the Jinja text that its server makes prompts with; None where it does not."""
    shown = found.shown
    if shown is None or not shown.renders_jinja:
        return None
    if found.jinja is not None:
        return found
    jinja = from_shown(OllamaClient(), shown)
    return dataclasses.replace(found, source=Source(shown.template, found.name), jinja=jinja, reason="")


def replaced(
    jinja: JinjaChatTemplate,
    not_in_force: str,
    select: Collection[str],
    ignore: Collection[str],
    keep_thinking: bool = False,
) -> PatchResult:
    """What becomes of a Jinja text in force: a Go template in its place with its proof, or why not.

    `not_in_force` says why the model's own Go template has lost to the text; empty where it has none. `select` and
    `ignore` hold codes or their beginnings. A stable text is replaced only to let past thoughts reach the model, where
    that is asked for by `keep_thinking`.
    """
    analysis = analyse(jinja)
    text = jinja.source.text
    errors = [finding.code for finding in analysis.findings if finding.severity == "error"]
    codes = list(dict.fromkeys(code for code in errors if code not in NO_VERDICT))

    def refused(codes: Collection[str], reason: str) -> PatchResult:
        told = tuple([Refusal(code, reason) for code in codes or [""]])
        return PatchResult(text, text, False, refused=told, remaining=analysis.findings)

    if analysis.verdict == "stable" and not (keep_thinking and "thinking" in capabilities_of(text)):
        if not_in_force:
            return refused(["TF401"], not_in_force)
        return PatchResult(text, text, False, remaining=analysis.findings)
    if left := [code for code in codes if (select and not _begins(code, select)) or _begins(code, ignore)]:
        return refused(left, "left out by the choice of codes, and the rest is not enough")
    try:
        return replacement(jinja, analysis)
    except (NoFamily, NoReplacement) as error:
        by_file = isinstance(error, BuiltIn) or codes == ["TF203"]
        said = f"{not_in_force or _IN_FORCE}, and {error}; {_AS_FILE if by_file else _AS_GGUF}"
        return refused(["TF401"] if not_in_force else codes, said)


def replacement(jinja: JinjaChatTemplate, analysis: Analysis) -> Replacement:
    """The Go template of a Jinja text's family, proved. Raises NoFamily, NoReplacement."""
    family = family_of(jinja)
    return replace_by(
        jinja,
        analysis,
        GoChatTemplate(family.template),
        family=family.name,
        parser=family.parser,
        capabilities=capabilities_of(jinja.source.text),
    )


def template_for(text: str) -> str:
    """The Go template that takes the place of a Jinja text; the text itself where none does. Raises RenderError."""
    jinja = JinjaChatTemplate(text)
    try:
        return text if analyse(jinja).verdict == "stable" else family_of(jinja).template
    except NoFamily:
        return text


def parser_of(result: PatchResult) -> str:
    """The PARSER that a tag needs beside the template; empty: none."""
    return result.parser if isinstance(result, Replacement) else ""


def _begins(code: str, beginnings: Collection[str]) -> bool:
    return any(code.startswith(beginning) for beginning in beginnings)
