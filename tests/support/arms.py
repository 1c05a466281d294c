"""Two small templates, one whose tools move and one whose tools stay, as arms of an A/B."""

from __future__ import annotations

from templatefix.chat.go import GoChatTemplate
from templatefix.lab.ab import Arm
from templatefix.lab.calls import Tags

MOVING = """<|sys|>{{ .System }}<|end|>
{{- range $i, $m := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 }}
{{- if eq .Role "user" }}<|user|>{{ if and $.Tools $last }}These can be called:
{{ range $.Tools }}{{ . }}
{{ end }}{{ end }}{{ .Content }}<|end|>
{{- else if eq .Role "assistant" }}<|bot|>{{ .Content }}{{ range .ToolCalls }}<|call|>{{ .Function }}{{ end }}<|end|>
{{- else if eq .Role "tool" }}<|result|>{{ .Content }}<|end|>
{{- end }}
{{- end }}<|bot|>"""
FIXED = """<|sys|>{{ .System }}{{ if .Tools }}
These can be called:
{{ range .Tools }}{{ . }}
{{ end }}{{ end }}<|end|>
{{- range .Messages }}
{{- if eq .Role "user" }}<|user|>{{ .Content }}<|end|>
{{- else if eq .Role "assistant" }}<|bot|>{{ .Content }}{{ range .ToolCalls }}<|call|>{{ .Function }}{{ end }}<|end|>
{{- else if eq .Role "tool" }}<|result|>{{ .Content }}<|end|>
{{- end }}
{{- end }}<|bot|>"""


def arm(name: str, text: str) -> Arm:
    template = GoChatTemplate(text)
    return Arm(name, template, template.as_served, tags=Tags.of(template.derived))
