g{{- if or .Tools .System }}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>
{{- if .System }}
{{ .System }}
{{- end }}
{{- if .Tools }}

## Available Tools
{{ json .Tools }}
{{- end }}<|END_OF_TURN_TOKEN|>
{{- end }}
{{- range .Messages }}
{{- if eq .Role "system" }}
{{- continue }}
{{- end }}<|START_OF_TURN_TOKEN|>
{{- if eq .Role "user" }}<|USER_TOKEN|>{{ .Content }}
{{- else if eq .Role "assistant" }}<|CHATBOT_TOKEN|>
{{- if .Content }}{{ .Content }}
{{- else if .ToolCalls }}
Action: ```json
[
{{- range $i, $call := .ToolCalls }}{{ if $i }},{{ end }}
    {"tool_name": {{ json $call.Function.Name }}, "parameters": {{ json $call.Function.Arguments }}}
{{- end }}
]```
{{- end }}
{{- else if eq .Role "tool" }}<|SYSTEM_TOKEN|><results>
{{ .Content | printf "%q" }}</results>
{{- end }}<|END_OF_TURN_TOKEN|>
{{- end }}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>