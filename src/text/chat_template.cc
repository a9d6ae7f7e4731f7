// The chat format of the Qwen3.8 family as a template, for files that bring none.
#include "text/chat.h"

namespace evros::text {

namespace {

constexpr std::string_view kTemplate = R"jinja(
{#- Turns of system (first), user, assistant and tool. Options: tools, enable_thinking, preserve_thinking, reasoning_effort. -#}
{%- macro plain(content) -%}
    {%- if content is string -%}
        {{- content | trim -}}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content -%}
            {%- if part is mapping and 'text' in part -%}
                {{- part.text -}}
            {%- elif part is mapping and (part.type == 'image' or part.type == 'image_url') -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- else -%}
                {{- raise_exception('A content part is neither text nor image.') -}}
            {%- endif -%}
        {%- endfor -%}
    {%- elif content is not none and content is defined -%}
        {{- raise_exception('The content of a message is neither text nor a list.') -}}
    {%- endif -%}
{%- endmacro -%}
{%- if not messages -%}{{- raise_exception('The conversation has no messages.') -}}{%- endif -%}
{%- set thinking = enable_thinking is undefined or enable_thinking is not false -%}
{%- set effort = reasoning_effort | default('xhigh', true) -%}
{%- if effort not in ['xhigh', 'medium', 'low'] -%}
    {{- raise_exception('reasoning_effort is ' ~ effort ~ '; known are xhigh, medium and low.') -}}
{%- endif -%}
{%- set guidance = '' -%}
{%- if thinking and effort == 'xhigh' -%}
    {%- set guidance = 'Think as long and as carefully as the problem needs before you answer.' -%}
{%- elif thinking and effort == 'low' -%}
    {%- set guidance = 'Keep your thinking short and come to the answer quickly.' -%}
{%- endif -%}
{%- set system = plain(messages[0].content) if messages[0].role == 'system' else '' -%}
{%- set sections = namespace(text=guidance) -%}
{%- if tools -%}
    {%- set listing -%}
        {{- '# Tools\n\nThese functions can be called:\n\n<tools>' -}}
        {%- for tool in tools -%}{{- '\n' ~ (tool | tojson) -}}{%- endfor -%}
        {{- '\n</tools>\n\nA call has this form, with nothing after it:\n\n<tool_call>\n<function=NAME>\n<parameter=P>\nVALUE\n</parameter>\n</function>\n</tool_call>' -}}
    {%- endset -%}
    {%- set sections.text = sections.text ~ ('\n\n' if sections.text else '') ~ listing -%}
{%- endif -%}
{%- if system -%}
    {%- set sections.text = sections.text ~ ('\n\n' if sections.text else '') ~ system -%}
{%- endif -%}
{%- if sections.text or messages[0].role == 'system' -%}
    {{- '<|im_start|>system\n' ~ sections.text ~ '<|im_end|>\n' -}}
{%- endif -%}
{%- set ns = namespace(last_query=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}{%- set ns.last_query = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- if ns.last_query < 0 -%}{{- raise_exception('The conversation has no user message.') -}}{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}
        {%- if not loop.first -%}{{- raise_exception('A system message must come first.') -}}{%- endif -%}
    {%- elif message.role == 'user' -%}
        {{- '<|im_start|>user\n' ~ plain(message.content) ~ '<|im_end|>\n' -}}
    {%- elif message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\n' -}}
        {%- if preserve_thinking is undefined or preserve_thinking or loop.index0 > ns.last_query -%}
            {{- '<think>\n' ~ plain(message.reasoning_content) ~ '\n</think>\n\n' -}}
        {%- endif -%}
        {%- set answer = plain(message.content) -%}
        {{- answer -}}
        {%- for call in message.tool_calls or [] -%}
            {%- set function = call.function if call.function is defined else call -%}
            {{- ('\n' if not loop.first else '\n\n' if answer else '') ~ '<tool_call>\n<function=' ~ function.name ~ '>\n' -}}
            {%- for key, value in (function.arguments or {}) | items -%}
                {{- '<parameter=' ~ key ~ '>\n' ~ (value if value is string else value | tojson) ~ '\n</parameter>\n' -}}
            {%- endfor -%}
            {{- '</function>\n</tool_call>' -}}
        {%- endfor -%}
        {{- '<|im_end|>\n' -}}
    {%- elif message.role == 'tool' -%}
        {%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
        {{- '\n<tool_response>\n' ~ plain(message.content) ~ '\n</tool_response>' -}}
        {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
    {%- else -%}
        {{- raise_exception('The role ' ~ message.role ~ ' is unknown; known are system, user, assistant and tool.') -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n<think>\n' ~ ('' if thinking else '\n</think>\n\n') -}}
{%- endif -%}
)jinja";

}  // namespace

std::string_view built_in_chat_template() { return kTemplate; }

}  // namespace evros::text
