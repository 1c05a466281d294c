"""TF401."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.chat.serving import Serving
from templatefix.gotemplate.source import Span


class TemplateNotInForce(Rule):
    """TF401 template-not-in-force

    What it does
        Finds a model whose prompts the server makes with something else than the Go template that the tag carries: a
        built-in RENDERER, the harmony format of gpt-oss, or the Jinja text of the GGUF file.

    Why it is bad
        The template is shown and can be changed, and nothing happens: a tag made with another TEMPLATE inherits the
        RENDERER, and a GGUF's Jinja text wins when it can do more. Whatever is measured or mended in the Go template
        is measured and mended in vain.

    Example
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Fix safety
        Nothing is changed. Make the tag FROM the weights, without RENDERER and PARSER, if the template is to count; or
        start the server with OLLAMA_GO_TEMPLATE=1 where a Jinja text wins. The example is the same as what to use
        instead: it is the server that makes the difference.
    """

    CODE = "TF401"
    NAME = "template-not-in-force"
    SEVERITY = "error"
    FIXABLE = False
    REFERENCES = (
        "ollama/ollama#14560 — a TEMPLATE given beside RENDERER and PARSER is ignored",
        "ollama/ollama#17282 — the Jinja template of a GGUF file can win over the Go template",
        "ollama/ollama#17605 — a derived tag inherits RENDERER and PARSER, and its TEMPLATE is ignored without a word",
    )
    EXAMPLES_ON = Serving(not_in_force="the model has RENDERER qwen3-coder")
    VALID = ()
    INVALID = ("{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",)

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Say what is in force instead."""
        reason = evidence.serving.not_in_force
        if reason:
            end = evidence.template.source.data.find(b"\n")
            first_line = Span(0, end if end > 0 else len(evidence.template.source.data))
            yield self.finding(evidence, f"The template is not in force: {reason}.", first_line, evidence.core[0], 0)
