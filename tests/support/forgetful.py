"""A Jinja template that drops the thinking of earlier turns, in words of our own."""

from __future__ import annotations

FORGETFUL = """\
{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- set seen = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set seen.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<' + message.role + '>' }}
    {%- if message.reasoning_content and loop.index0 > seen.last %}
        {{- '<think>' + message.reasoning_content + '</think>' }}
    {%- endif %}
    {{- message.content }}
    {%- for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}
    {{- '</' + message.role + '>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}
"""
