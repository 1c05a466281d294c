"""Small Jinja texts of known families, in words of our own, each with a fault that a Go template can mend."""

from __future__ import annotations

# ChatML that drops the thinking of earlier turns.
QWEN3 = """\
{%- if tools %}
    {{- '<|im_start|>system\\nYour tools:\\n<tools>' }}
    {%- for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\nCall one with <tool_call>, its answer comes in <tool_response>.<|im_end|>\\n' }}
{%- endif %}
{%- set asked = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{%- set asked.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.role == 'assistant' and loop.index0 > asked.last %}
            {{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>\\n' }}{{ call.function | tojson }}{{ '\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}
"""

_TAGGED = """\
{{ '<function=' + call.function.name + '>\\n' }}
{%- for name, value in call.function.arguments | items %}
    {{- '<parameter=' + name + '>\\n' }}{{ value if value is string else value | tojson }}{{ '\\n</parameter>\\n' }}
{%- endfor %}{{ '</function>' }}"""

# The same, with calls in tags instead of JSON, and prompts that open the thought.
QWEN35 = (
    QWEN3.replace("Call one with <tool_call>", "Call one with <tool_call> and <function=name>")
    .replace("{{ call.function | tojson }}", _TAGGED)
    .replace("'<|im_start|>assistant\\n' }}", "'<|im_start|>assistant\\n<think>\\n' }}")
)

# Tools and system text in front of the last user message.
MISTRAL = """\
{%- set asked = messages | selectattr('role', 'equalto', 'user') | list %}
{%- set told = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- if tools and message == asked[-1] %}{{ '[AVAILABLE_TOOLS]' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {{- '[INST]' + (told if message == asked[-1] else '') + message.content + '[/INST]' }}
    {%- elif message.role == 'system' %}
    {%- elif message.role == 'tool' %}
        {{- '[TOOL_RESULTS]{"content": ' + message.content + '}[/TOOL_RESULTS]' }}
    {%- elif message.tool_calls %}
        {{- message.content + '[TOOL_CALLS][' }}
        {%- for call in message.tool_calls %}{{ ', ' if not loop.first }}{{ call.function | tojson }}{%- endfor %}
        {{- ']</s>' }}
    {%- else %}
        {{- message.content + '</s>' }}
    {%- endif %}
{%- endfor %}
"""

# The same with the blanks of Mistral's earlier layout.
MIXTRAL = (
    MISTRAL.replace("'[INST]'", "'[INST] '")
    .replace("'[AVAILABLE_TOOLS]'", "'[AVAILABLE_TOOLS] '")
    .replace("'[TOOL_RESULTS]{", "'[TOOL_RESULTS] {")
    .replace("'[TOOL_CALLS]['", "'[TOOL_CALLS] ['")
    .replace("{{- message.content + ", "{{- ' ' + message.content + ")
)
